"""The timeline as a picture: a lane per stream, and one per copy engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from zcuda_async.timing.lanes import ENGINE_NAMES, KIND_NAMES, MARKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from os import PathLike

    from zcuda_async.timing.recorder import Phase, Record

__all__ = ("draw_timeline", "write_timeline")

COLOURS: Final = {
    "h2d": "#4c8bc0",
    "d2h": "#7a6fb5",
    "d2d": "#3fa7a0",
    "h2h": "#9aa5b1",
    "memset": "#7d9a5b",
    "launch": "#e07b4f",
    "callback": "#c65b7c",
}
KERNEL_COLOURS: Final = ("#e07b4f", "#d8a13c", "#b4503a", "#8d6a45")
"""One for each kernel, while there are so few of them."""
_INK: Final = "#2b2f36"
_GRID: Final = "#d9dce1"
_WIDTH: Final = 12.0  # inches
_LANE: Final = 0.42  # inches
_DPI: Final = 150
_PIXELS: Final = _WIDTH * _DPI * 0.88
"""About as wide is the part of the picture that has the bars."""
_EDGE_FROM: Final = 3.0
"""A bar has a white edge if it is at least so many pixels wide."""
_BANDS: Final = ("#eaf1f8", "#fbf0e6")
"""The shades of phases, by turns."""
_LABEL_FROM: Final = 0.055
"""A bar carries its label if it is at least this part of the width."""
_MOST_LANES: Final = 64


def write_timeline(
    records: Iterable[Record], path: str | PathLike[str], *, phases: Iterable[Phase] = (), title: str | None = None
) -> None:
    """Draw the timeline into a file; see `Recorder.write_timeline`."""
    draw_timeline(records, phases=phases, title=title).savefig(path)


def draw_timeline(records: Iterable[Record], *, phases: Iterable[Phase] = (), title: str | None = None) -> Any:
    """A matplotlib figure of the records that take time, over the phases."""
    bars = [record for record in records if record.kind not in MARKS]
    if not bars:
        raise ValueError("nothing that takes time was recorded; open the device with recorder=... and run something")
    figure_class = _figure_class()
    lanes, bands = _lanes(bars), sorted(phases, key=lambda phase: phase.started_ms)
    spans: list[Record | Phase] = [*bars, *bands]
    start = min(each.started_ms for each in spans)
    span = max(max(each.finished_ms for each in spans) - start, 1e-6)
    height = 1.35 + _LANE * (len(lanes) + bool(bands))
    figure = figure_class(figsize=(_WIDTH, height), dpi=_DPI, facecolor="white", layout="constrained")
    axes = figure.add_subplot()
    palette = _palette(bars)
    _draw_bars(axes, lanes, start, span, palette)
    _style(axes, lanes, span, title or f"{span:.4g} ms on {bars[0].device}")
    if bands:
        _draw_bands(axes, bands, start, span)
    _legend(axes, palette)
    return figure


def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "the timeline picture needs matplotlib, which is missing; pip install 'zcuda-async[timeline]'"
        ) from error
    return Figure


def _lanes(bars: Sequence[Record]) -> list[tuple[str, list[Record]]]:
    """The lanes from top to bottom: streams as they appear, then engines."""
    several = len({bar.device for bar in bars}) > 1
    streams: dict[str, list[Record]] = {}
    engines: dict[str, list[Record]] = {}
    for bar in sorted(bars, key=lambda bar: bar.started_ms):
        prefix = f"{bar.device}: " if several else ""
        streams.setdefault(prefix + bar.stream, []).append(bar)
        if bar.engine is not None:
            engines.setdefault(prefix + ENGINE_NAMES[bar.engine], []).append(bar)
    lanes = [*streams.items(), *engines.items()]
    if len(lanes) > _MOST_LANES:
        hidden = len(streams) - (_MOST_LANES - len(engines))
        kept = list(streams.items())[: len(streams) - hidden]
        lanes = [*kept, (f"({hidden} more streams)", []), *engines.items()]
    return lanes


def _palette(bars: Sequence[Record]) -> dict[str, str]:
    """Colours by what the legend calls a bar: each kernel for itself if there are few, else all kernels as one."""
    kernels = list(dict.fromkeys(bar.label for bar in bars if bar.kind == "launch"))
    kinds = {bar.kind for bar in bars}
    palette = {name: COLOURS[kind] for kind, name in KIND_NAMES.items() if kind in kinds and kind != "launch"}
    if len(kernels) > len(KERNEL_COLOURS):
        return palette | {KIND_NAMES["launch"]: COLOURS["launch"]}
    return palette | dict(zip(map(_kernel_name, kernels), KERNEL_COLOURS, strict=False))


def _kernel_name(label: str) -> str:
    return f"kernel {label}"


def _colour(bar: Record, palette: dict[str, str]) -> str:
    own = palette.get(_kernel_name(bar.label)) if bar.kind == "launch" else None
    return own or palette[KIND_NAMES[bar.kind]]


def _draw_bars(
    axes: Any, lanes: Sequence[tuple[str, list[Record]]], start: float, span: float, palette: dict[str, str]
) -> None:
    for row, (_, bars) in enumerate(lanes):
        intervals = [(bar.started_ms - start, max(bar.duration_ms, span * 5e-4)) for bar in bars]
        colours = [_colour(bar, palette) for bar in bars]
        edges = [_edge_points(width / span * _PIXELS) for _, width in intervals]
        axes.broken_barh(intervals, (row - 0.36, 0.72), facecolors=colours, edgecolor="white", linewidths=edges)
        for bar, (left, width) in zip(bars, intervals, strict=True):
            _label(axes, bar, left + width / 2, row, width / span)


def _edge_points(pixels: float) -> float:
    """How thick the white edge of a bar of this width is, in points: on narrow bars thin, or nothing would be left."""
    return 0.0 if pixels < _EDGE_FROM else min(0.6, pixels * 0.08)


def _draw_bands(axes: Any, bands: Sequence[Phase], start: float, span: float) -> None:
    """Shade the phases from top to bottom, and name them in a row of their own above the lanes."""
    bottom, _ = axes.get_ylim()
    axes.set_ylim(bottom, -1.35)
    for index, band in enumerate(bands):
        left, right = band.started_ms - start, band.finished_ms - start
        axes.axvspan(left, right, facecolor=_BANDS[index % len(_BANDS)], edgecolor="none", zorder=0)
        text = f"{band.label}  {band.duration_ms:.4g} ms"
        if len(text) <= (right - left) / span * 150:
            axes.text((left + right) / 2, -0.95, text, ha="center", va="center", fontsize=9, color=_INK, clip_on=True)


def _label(axes: Any, bar: Record, centre: float, row: int, share: float) -> None:
    if share < _LABEL_FROM:
        return
    fits = int(share * 150)
    text = bar.label if len(bar.label) <= fits else bar.label[: fits - 1] + "…"
    axes.text(centre, row, text, ha="center", va="center", fontsize=7.5, color="white", clip_on=True)


def _style(axes: Any, lanes: Sequence[tuple[str, list[Record]]], span: float, title: str) -> None:
    axes.set_xlim(-span * 0.005, span * 1.005)
    axes.set_ylim(len(lanes) - 0.4, -0.6)
    axes.set_yticks(range(len(lanes)), [name for name, _ in lanes], fontsize=8.5, color=_INK)
    axes.set_xlabel("milliseconds", fontsize=9, color=_INK)
    axes.set_title(title, fontsize=11, color=_INK, loc="left", pad=26, fontweight="bold")
    axes.grid(axis="x", color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(axis="both", length=0, colors=_INK, labelsize=8.5)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_GRID)
    streams = sum(name not in ENGINE_NAMES.values() for name, _ in lanes)
    if 0 < streams < len(lanes):
        axes.axhline(streams - 0.5, color=_INK, linewidth=0.8, alpha=0.5)


def _legend(axes: Any, palette: dict[str, str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=colour, label=name) for name, colour in palette.items()]
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=min(len(handles), 7),
        frameon=False,
        fontsize=8.5,
        handlelength=1.1,
        handleheight=1.0,
        borderaxespad=0.1,
        labelcolor=_INK,
    )
