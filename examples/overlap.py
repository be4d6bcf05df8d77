"""Transfers and kernels at the same time: what CUDA's streams are for.

A photograph is cut into tiles.  Each tile goes to the device, is blurred, searched for edges and counted into a
histogram, and comes back.  First one stream does this step by step, the host waiting for each.  Then several
streams take turns with the tiles, and nobody waits: while one tile's kernels run, the next tile is on its way to
the device and the one before on its way back.  The link is modelled (see --link), the kernels really run.

    python examples/overlap.py                       # a photograph that comes with matplotlib
    python examples/overlap.py --photo me.jpg --enlarge 1 --link pcie3-x16
    python examples/overlap.py --help

Written to ./out: the picture of the edges, the timeline of both runs as a picture, and as a trace for
https://ui.perfetto.dev.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from pathlib import Path
from typing import Final

import anyio
import numpy as np
import numpy.typing as npt
from images import (
    HISTOGRAM_CONFIG,
    ImageKernels,
    Pixels,
    blur_reference,
    edges_reference,
    grid_over,
    histogram_reference,
    load_photo,
    sample_photo,
)
from PIL import Image

import zcuda_async as zc

BLURS: Final = 3
"""How often a tile is blurred before its edges are sought: noise goes, outlines stay."""
HALO: Final = 2 * BLURS + 1
"""Rows that a tile needs of its neighbours: each blur looks 2 pixels away, the Sobel filter 1 further."""

SLOW_LINK: Final = "pcie1-x1"
"""One lane of first-generation PCIe: moving a pixel takes about as long as computing it does on a small CPU."""

VIRTUAL_KERNEL_NS: Final = 3.0
"""What the virtual clock is told that each kernel takes, in nanoseconds per pixel, however many run at once."""


# -- tiles -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tile:
    """Rows `top` to `bottom` of the result, for which rows `first` to `last` of the photo are needed."""

    first: int
    top: int
    bottom: int
    last: int

    @property
    def rows(self) -> int:
        """How many rows travel to the device."""
        return self.last - self.first


def cut(height: int, count: int) -> list[Tile]:
    """`count` tiles of nearly equal height, with a halo wherever there is a neighbour: so the result has no seams."""
    borders = [height * index // count for index in range(count + 1)]
    return [Tile(max(0, top - HALO), top, bottom, min(height, bottom + HALO)) for top, bottom in pairwise(borders)]


# -- the work on the device ------------------------------------------------------------------------------


class Job:
    """The photo and the result in pinned memory, the histogram on the device, and the tiles."""

    def __init__(self, device: zc.Device, kernels: ImageKernels, photo: Pixels, tiles: Sequence[Tile]) -> None:
        self.device = device
        self.kernels = kernels
        self.tiles = tiles
        # Pinned memory is read and written in stream order, without a detour: numpy and the copies see the same bytes.
        self.photo: Pixels = np.asarray(device.allocate_pinned(photo.nbytes)).reshape(photo.shape)
        self.edges: Pixels = np.asarray(device.allocate_pinned(photo.nbytes)).reshape(photo.shape)
        self.counts = np.asarray(device.allocate_pinned(256 * 4)).view(np.uint32)
        self.bins = device.allocate(self.counts.nbytes)
        self.photo[:] = photo


class Lane:
    """A stream, and device memory for the one tile that it works on."""

    def __init__(self, job: Job, name: str) -> None:
        tile_bytes = max(tile.rows for tile in job.tiles) * job.photo[0].nbytes
        self.stream = job.device.create_stream(zc.StreamOptions(name=name))
        self.pixels, *self.scratch = (job.device.allocate(tile_bytes) for _ in range(3))
        self._job = job

    def steps(self, tile: Tile) -> Iterator[zc.Op[None]]:
        """Submit the steps of a tile, one each time the next is asked for.

        The stream keeps their order, so nothing else has to: the next tile overwrites `pixels` only after the kernels
        that read this one.
        """
        job, stream, kernels = self._job, self.stream, self._job.kernels
        width, row_bytes = job.photo.shape[1], job.photo[0].nbytes
        grid = grid_over(width, tile.rows)
        result = job.edges[tile.top : tile.bottom]
        halo_bytes = (tile.top - tile.first) * row_bytes
        own = slice(halo_bytes, halo_bytes + result.nbytes)  # the tile without what it borrowed from its neighbours

        yield stream.memcpy(self.pixels, job.photo[tile.first : tile.last])
        yield stream.launch(kernels.histogram, HISTOGRAM_CONFIG, result.nbytes // 4, self.pixels[own], job.bins)
        source = self.pixels
        for kernel, target in zip([kernels.blur] * BLURS + [kernels.sobel], cycle(self.scratch), strict=False):
            yield stream.launch(kernel, grid, width, tile.rows, source, target)
            source = target
        yield stream.memcpy(result, source[own])


Interval = tuple[zc.Event, zc.Event]


async def run_serial(job: Job, lane: Lane) -> Interval:
    """One stream, and the host waits for every step; the events at its start and end."""
    stream = lane.stream
    start = stream.record()
    await stream.memset(job.bins, 0)
    for tile in job.tiles:
        for step in lane.steps(tile):
            await step
    await stream.memcpy(job.counts, job.bins)
    end = stream.record()
    await end
    return start, end


async def run_overlapped(job: Job, lanes: Sequence[Lane]) -> Interval:
    """The lanes take turns with the tiles, and everything is submitted before anything is awaited."""
    first, *others = (lane.stream for lane in lanes)
    start = first.record()
    first.memset(job.bins, 0)
    cleared = first.record()
    for stream in others:
        stream.wait(cleared)  # orders that stream's work; the host goes on
    for lane, tile in zip(cycle(lanes), job.tiles, strict=False):
        for _ in lane.steps(tile):
            pass  # submitted, not awaited
    for stream in others:
        first.wait(stream.record())
    first.memcpy(job.counts, job.bins)  # after every lane's last tile
    end = first.record()
    await job.device.sync()  # the only wait; it also raises what failed, if anything did
    return start, end


@dataclass(frozen=True, slots=True)
class Measured:
    """Both runs' times by the device's clock, and what they computed."""

    serial_ms: float
    overlapped_ms: float
    edges: Pixels
    counts: npt.NDArray[np.uint32]

    @property
    def speedup(self) -> float:
        """How many times as fast the overlapped run was."""
        return self.serial_ms / self.overlapped_ms


async def measure(
    photo: Pixels,
    tiles: Sequence[Tile],
    *,
    streams: int,
    link: str,
    clock: zc.Clock | None = None,
    recorder: zc.Recorder | None = None,
) -> Measured:
    """Filter the photo both ways on a device of its own.

    Raises:
        RuntimeError: the two ways differ in what they compute.
    """
    async with zc.open_device(link=link, clock=clock, recorder=recorder) as device:
        job = Job(device, await ImageKernels.load(device), photo, tiles)
        lanes = [Lane(job, f"stream {number}") for number in range(1, streams + 1)]
        await run_overlapped(job, lanes)  # workers load the kernels, memory gets its pages: not what is measured
        if recorder is not None:
            recorder.clear()

        serial = await run_serial(job, lanes[0])
        edges, counts = job.edges.copy(), job.counts.copy()
        job.edges[:] = 0
        overlapped = await run_overlapped(job, lanes)
        if recorder is not None:
            recorder.mark("serial", *serial)
            recorder.mark("overlapped", *overlapped)
        if not (np.array_equal(edges, job.edges) and np.array_equal(counts, job.counts)):
            raise RuntimeError("the serial and the overlapped run differ; a tile used memory that was not its own")
        return Measured(zc.elapsed_ms(*serial), zc.elapsed_ms(*overlapped), edges, counts)


# -- the command -----------------------------------------------------------------------------------------


def virtual_clock(width: int, tiles: Sequence[Tile]) -> zc.VirtualClock:
    """A clock that jumps from completion to completion, so that times depend on nothing but the model."""
    return zc.VirtualClock(kernel_ms=VIRTUAL_KERNEL_NS * width * tiles[0].rows / 1e6)


def check(photo: Pixels, measured: Measured) -> None:
    """Compare with the same filters in numpy, applied to the whole photo at once.

    Raises:
        SystemExit: they differ.
    """
    blurred = photo
    for _ in range(BLURS):
        blurred = blur_reference(blurred)
    if not np.array_equal(measured.edges, edges_reference(blurred)):
        sys.exit("check failed: the edges differ from numpy's")
    if not np.array_equal(measured.counts, histogram_reference(photo)):
        sys.exit("check failed: the histogram differs from numpy's")


def sketch(counts: npt.NDArray[np.uint32], bars: int = 64) -> str:
    """A histogram in one line, dark on the left."""
    sums = counts.reshape(bars, -1).sum(axis=1)
    heights = np.ceil(sums * 8 / max(1, sums.max())).astype(int)
    return "".join(" ▁▂▃▄▅▆▇█"[height] for height in heights)


def report(name: str, measured: Measured) -> None:
    print(f"{name:14}{measured.serial_ms:9.1f} ms{measured.overlapped_ms:10.1f} ms{measured.speedup:9.2f} x")


def write_results(folder: Path, measured: Measured, recorder: zc.Recorder, title: str) -> None:
    """Write the picture, the timeline and the trace."""
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(measured.edges[..., 0]).save(folder / "edges.png")
    recorder.write_timeline(folder / "timeline.png", title=title)
    recorder.write_chrome_trace(folder / "trace.json")
    print(f"written       {', '.join(str(folder / name) for name in ('edges.png', 'timeline.png', 'trace.json'))}")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    summary, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--photo", type=Path, help="a picture to filter (default: one that comes with matplotlib)")
    parser.add_argument("--enlarge", type=int, default=4, help="make each side so many times longer (default: 4)")
    parser.add_argument("--tiles", type=int, default=12, help="how many tiles (default: 12)")
    parser.add_argument("--streams", type=int, default=4, help="how many streams overlap (default: 4)")
    parser.add_argument(
        "--link", choices=zc.LINK_PROFILES, default=SLOW_LINK, help="the modelled link (default: pcie1-x1)"
    )
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio", help="the event loop")
    parser.add_argument("--check", action="store_true", help="compare the results with numpy's")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the files go (default: ./out)")
    options = parser.parse_args(arguments)
    for name in ("enlarge", "tiles", "streams"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(options, name)}")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    try:
        photo = load_photo(options.photo or sample_photo(), options.enlarge)
    except OSError as error:
        sys.exit(f"cannot read the photo: {error}")
    height, width, _ = photo.shape
    tiles = cut(height, min(options.tiles, height))
    link, recorder = zc.LINK_PROFILES[options.link], zc.Recorder()
    print(f"photo         {width} x {height} pixels, {photo.nbytes / 1e6:.1f} MB, in {len(tiles)} tiles")
    print(f"link          {link.name}: {link.h2d_gbps:g} GB/s there, {link.d2h_gbps:g} GB/s back")

    async def both() -> tuple[Measured, Measured]:
        settings = {"streams": options.streams, "link": link.name}
        real = await measure(photo, tiles, **settings, recorder=recorder)
        return real, await measure(photo, tiles, **settings, clock=virtual_clock(width, tiles))

    real, virtual = anyio.run(both, backend=options.backend)
    print(f"\n{'':14}{'serial':>12}{'overlapped':>13}{'faster':>11}")
    report("real clock", real)
    report("virtual clock", virtual)
    print(f"\nhistogram     |{sketch(real.counts)}|")
    if options.check:
        check(photo, real)
        check(photo, virtual)
        print("check         equal to numpy's results")
    title = f"One stream, then {options.streams}: {real.speedup:.1f} times as fast, link {link.name}"
    write_results(options.out, real, recorder, title)


if __name__ == "__main__":
    main()
