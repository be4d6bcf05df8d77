"""What the measurements look like: tables, JSON, a bar chart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.compile_table import CompileTimes
from benchmarks.kernel_table import KernelTimes
from benchmarks.problems import KERNELS, MORE_KERNELS
from benchmarks.runtime_table import Figure

__all__ = ("as_json", "draw_chart", "format_figures", "format_kernels")

_OURS = "zcuda"
_LIMIT = "gcc"


def format_kernels(times: KernelTimes) -> str:
    """Return the kernels' milliseconds, and this project's time as a multiple of gcc's."""
    peers = list(dict.fromkeys(peer for row in times.values() for peer in row))
    heads = [*peers, f"{_OURS}/{_LIMIT}"] if {_OURS, _LIMIT} <= set(peers) else peers
    lines = [f"{'kernel (ms)':16}" + "".join(f"{head:>11}" for head in heads)]
    for kernel, row in times.items():
        cells = [_number(row[peer]) if peer in row else "" for peer in peers]
        if len(heads) > len(peers):
            ratio = row.get(_OURS, math.nan) / row.get(_LIMIT, math.nan)
            cells.append("" if math.isnan(ratio) else f"{ratio:.2f}x")
        lines.append(f"{kernel:16}" + "".join(f"{cell:>11}" for cell in cells))
    if len(heads) > len(peers):
        lines += [f"{name:16}" + " " * 11 * len(peers) + f"{mean:>10.2f}x" for name, mean in _means(times)]
    return "\n".join(lines)


def _means(times: KernelTimes) -> Iterator[tuple[str, float]]:
    """The geometric mean of each set of kernels that was measured, or of all if there is one set."""
    sets = {
        "mean, first 8": {kernel: row for kernel, row in times.items() if kernel in KERNELS},
        "mean, more 12": {kernel: row for kernel, row in times.items() if kernel in MORE_KERNELS},
    }
    for name, rows in sets.items() if all(sets.values()) else [("geometric mean", times)]:
        mean = _geometric_mean(rows)
        if mean is not None:
            yield name, mean


def _geometric_mean(times: KernelTimes) -> float | None:
    """This project's time as a multiple of gcc's, over the kernels that both have right."""
    ratios = [row[_OURS] / row[_LIMIT] for row in times.values() if {_OURS, _LIMIT} <= set(row)]
    ratios = [ratio for ratio in ratios if not math.isnan(ratio)]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def _number(value: float) -> str:
    return "wrong" if math.isnan(value) else f"{value:.2f}"


def format_figures(figures: Sequence[Figure]) -> str:
    """Return one line per figure."""
    lines = [f"{'runtime':42}{'':>12}"]
    for figure in figures:
        digits = 0 if figure.value >= 1000 else 2
        line = f"{figure.name:42}{figure.value:12,.{digits}f} {figure.unit}"
        if figure.ratio is not None:
            line = f"{line:70}{figure.ratio:.2f} x {figure.against}"
        lines.append(line)
    return "\n".join(lines)


def as_json(
    times: KernelTimes, figures: Sequence[Figure], compiling: CompileTimes, facts: dict[str, Any]
) -> dict[str, Any]:
    """Return everything as plain data; a wrong answer is null."""
    kernels = {
        kernel: {peer: None if math.isnan(ms) else ms for peer, ms in row.items()} for kernel, row in times.items()
    }
    return {
        "machine": facts,
        "kernels_ms": kernels,
        "runtime": [asdict(figure) for figure in figures],
        "compiling_ms": compiling,
    }


def draw_chart(times: KernelTimes, path: Path) -> None:
    """Write a bar chart of time relative to gcc (or the first peer), on a logarithmic scale.

    Raises:
        ImportError: matplotlib is not installed.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    peers = list(dict.fromkeys(peer for row in times.values() for peer in row))
    base = _LIMIT if _LIMIT in peers else peers[0]
    figure, axes = pyplot.subplots(figsize=(11, 5), layout="constrained")
    width = 0.8 / len(peers)
    for index, peer in enumerate(peers):
        heights = [row.get(peer, math.nan) / row.get(base, math.nan) for row in times.values()]
        places = [place + (index - (len(peers) - 1) / 2) * width for place in range(len(times))]
        bars = axes.bar(places, heights, width, label=peer, zorder=3)
        labels = ["" if math.isnan(height) else f"{height:.{1 if height < 10 else 0}f}" for height in heights]
        axes.bar_label(bars, labels, fontsize=6, padding=1)
    axes.set_yscale("log")
    axes.axhline(1, color="black", linewidth=0.8, zorder=4)
    axes.set_xticks(range(len(times)), list(times))
    axes.set_ylabel(f"time relative to {base} (lower is faster)")
    axes.grid(axis="y", alpha=0.3, zorder=0)
    axes.legend(ncols=len(peers), loc="upper center", bbox_to_anchor=(0.5, 1.12), frameon=False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
