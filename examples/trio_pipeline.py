"""A pipeline in plain trio: find the cuts in a video, with the device as its middle stage.

    frames --> channel --> device stage, on several streams --> channel --> cut detector

The producer makes frames of a synthetic film.  Each worker of the device stage has a stream of its own, on which
a frame is copied to the device, blurred against noise and counted into a histogram; only the histogram comes
back.  The detector puts the histograms in order and reports a cut where one differs much from the one before.

The channels are bounded, so the pipeline runs at the pace of its slowest stage and holds a fixed number of frames,
however long the film is.  `trio.move_on_after` ends it early without leaving anything behind.

    python examples/trio_pipeline.py
    python examples/trio_pipeline.py --frames 2000 --streams 4 --timeout 5
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import trio
from images import HISTOGRAM_CONFIG, ImageKernels, Pixels, grid_over

import zcuda_async as zc

__all__ = ("Film", "Pipeline")

Histogram = npt.NDArray[np.uint32]

CUT_FROM: Final = 0.4
"""Two frames belong to different shots if this part of their pixels changed its luminance class."""


@dataclass(frozen=True, slots=True)
class Film:
    """A synthetic film: noisy shots of `shot_frames` frames, a bright disc wandering before a gradient."""

    frames: int
    width: int = 640
    height: int = 360
    shot_frames: int = 40

    @property
    def cuts(self) -> list[int]:
        """The first frame of each shot but the first: what the pipeline should find."""
        return list(range(self.shot_frames, self.frames, self.shot_frames))

    def frame(self, number: int) -> Pixels:
        """One frame; takes a few milliseconds, so call it in a thread."""
        shot, time = divmod(number, self.shot_frames)
        x, y = np.arange(self.width), np.arange(self.height)[:, None]
        base = 40 + 110 * (shot % 2)  # night and day by turns
        gray = base + 40 * x / self.width + 20 * y / self.height
        centre = self.width * (0.5 + 0.3 * math.sin(time / 9 + shot))
        gray[(x - centre) ** 2 + (y - self.height / 2) ** 2 < (self.height / 6) ** 2] += 30
        noise = np.random.default_rng(number).integers(-12, 13, gray.shape, dtype=np.int8)
        frame = np.full((self.height, self.width, 4), 255, np.uint8)
        frame[..., :3] = (gray + noise).astype(np.uint8)[..., None]
        return frame


@dataclass(slots=True)
class Result:
    """What the pipeline has done so far."""

    frames: int = 0
    cuts: list[int] = field(default_factory=list)
    most_waiting: int = 0
    """The most frames that waited before the device at once."""
    seconds: float = 0.0


class Pipeline:
    """The three stages, connected by bounded channels."""

    def __init__(self, device: zc.Device, kernels: ImageKernels, film: Film, *, streams: int, waiting: int = 4) -> None:
        self.film = film
        self.result = Result()
        self._device = device
        self._kernels = kernels
        self._streams = streams
        self._waiting = waiting

    async def run(self) -> Result:
        """Run until the film ends.

        If it is cancelled, every stage ends where it is, the device finishes what was submitted, and `result` says how
        far the pipeline came.
        """
        start = trio.current_time()
        frame_in, frame_out = trio.open_memory_channel[tuple[int, Pixels]](self._waiting)
        counts_in, counts_out = trio.open_memory_channel[tuple[int, Histogram]](self._waiting)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._produce, frame_in)
                async with counts_in, frame_out:
                    for number in range(1, self._streams + 1):
                        nursery.start_soon(self._count, f"stream {number}", frame_out.clone(), counts_in.clone())
                nursery.start_soon(self._detect, counts_out)
        finally:
            self.result.seconds = trio.current_time() - start
        return self.result

    async def _produce(self, frames: trio.MemorySendChannel[tuple[int, Pixels]]) -> None:
        async with frames:
            for number in range(self.film.frames):
                frame = await trio.to_thread.run_sync(self.film.frame, number)
                await frames.send((number, frame))  # waits while the device is behind
                waiting = frames.statistics().current_buffer_used
                self.result.most_waiting = max(self.result.most_waiting, waiting)

    async def _count(
        self,
        name: str,
        frames: trio.MemoryReceiveChannel[tuple[int, Pixels]],
        counts: trio.MemorySendChannel[tuple[int, Histogram]],
    ) -> None:
        """Frames in, histograms out.  Of several workers on one channel, the first that is free takes the next frame."""
        film, kernels, device = self.film, self._kernels, self._device
        frame_bytes = film.width * film.height * 4
        grid = grid_over(film.width, film.height)
        stream = device.create_stream(zc.StreamOptions(name=name))
        with (
            device.allocate(frame_bytes) as pixels,
            device.allocate(frame_bytes) as blurred,
            device.allocate(256 * 4) as bins,
        ):
            async with frames, counts:
                async for number, frame in frames:
                    histogram = np.empty(256, np.uint32)
                    stream.memcpy(pixels, frame)
                    stream.memset(bins, 0)
                    stream.launch(kernels.blur, grid, film.width, film.height, pixels, blurred)
                    stream.launch(kernels.histogram, HISTOGRAM_CONFIG, frame_bytes // 4, blurred, bins)
                    await stream.memcpy(histogram, bins)  # all five have run, in this order
                    await counts.send((number, histogram))

    async def _detect(self, counts: trio.MemoryReceiveChannel[tuple[int, Histogram]]) -> None:
        """Put the histograms in order (there are never more early ones than streams) and compare neighbours."""
        early: dict[int, Histogram] = {}
        last: Histogram | None = None
        async with counts:
            async for number, histogram in counts:
                early[number] = histogram
                while (current := early.pop(self.result.frames, None)) is not None:
                    if last is not None and changed_part(last, current) >= CUT_FROM:
                        self.result.cuts.append(self.result.frames)
                    last = current
                    self.result.frames += 1


def changed_part(before: Histogram, after: Histogram) -> float:
    """The part of the pixels, 0 to 1, that changed between 16 classes of luminance."""
    classes = [counts.reshape(16, 16).sum(axis=1).astype(np.int64) for counts in (before, after)]
    return float(np.abs(classes[1] - classes[0]).sum() / (2 * classes[0].sum()))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=200, help="how long the film is (default: 200)")
    parser.add_argument("--streams", type=int, default=3, help="how many frames are on the device at once (default: 3)")
    parser.add_argument("--link", choices=zc.LINK_PROFILES, default="pcie3-x16", help="the modelled link")
    parser.add_argument("--timeout", type=float, default=math.inf, help="end after so many seconds (default: never)")
    options = parser.parse_args(arguments)
    for name in ("frames", "streams"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(options, name)}")
    return options


async def detect_cuts(film: Film, *, streams: int, link: str, timeout: float) -> tuple[Result, bool]:
    """The pipeline's result, and whether the time was enough."""
    async with zc.open_device(link=link) as device:
        pipeline = Pipeline(device, await ImageKernels.load(device), film, streams=streams)
        with trio.move_on_after(timeout) as scope:
            await pipeline.run()
        return pipeline.result, not scope.cancelled_caught


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    film = Film(options.frames)

    async def run() -> tuple[Result, bool]:
        return await detect_cuts(film, streams=options.streams, link=options.link, timeout=options.timeout)

    result, is_complete = trio.run(run)
    rate = result.frames / result.seconds
    print(f"{result.frames} of {film.frames} frames in {result.seconds:.2f} s: {rate:.0f} frames/s")
    print(f"cuts before frames {', '.join(map(str, result.cuts)) or 'none'}")
    print(f"at most {result.most_waiting} frames waited for {options.streams} streams")
    if not is_complete:
        print(f"ended early: --timeout {options.timeout:g} s were over")


if __name__ == "__main__":
    main()
