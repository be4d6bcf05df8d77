"""A pipeline in plain trio: find the cuts in a film, with the device as the middle stage.

    produce --> frames --> submit, on several streams --> operations --> detect

The first stage makes the frames of a synthetic film.  The second copies each to the device, has it blurred against
noise and counted into a histogram, and asks for the histogram back: all that is only submitted, on the streams by
turns, and the last operation goes down the channel.  The third stage awaits the operations, which keeps the film's
order, and reports a cut where a histogram differs much from the one before.

The channels are bounded, so all stages run at the pace of the slowest and hold a fixed number of frames, however long
the film is.  `trio.move_on_after` ends it all early without leaving anything behind.

    python examples/trio_pipeline.py
    python examples/trio_pipeline.py --frames 5000 --streams 4 --timeout 3
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Final

import numpy as np
import numpy.typing as npt
import trio
from images import HISTOGRAM_CONFIG, ImageKernels, Pixels, grid_over

import zcuda_async as zc

__all__ = ("Film", "Result", "run_pipeline")

Histogram = npt.NDArray[np.uint32]
Counted = tuple[zc.Op[None], Histogram]
"""A histogram, and the operation after which it is there."""

FRAMES_WAITING: Final = 4
"""How many frames may wait for the device; the producer waits when there are so many."""

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
        """One frame; takes about a millisecond, so call it in a thread."""
        shot, time = divmod(number, self.shot_frames)
        x, y = np.arange(self.width), np.arange(self.height)[:, None]
        centre = round(self.width * (0.5 + 0.3 * math.sin(time / 9 + shot)))
        disc = (x - centre) ** 2 + (y - self.height // 2) ** 2 < (self.height // 6) ** 2
        night_or_day = (40 + 110 * (shot % 2) + 40 * x // self.width).astype(np.uint8)
        gray = np.random.default_rng(number).integers(0, 16, disc.shape, np.uint8)
        gray += np.where(disc, night_or_day + np.uint8(30), night_or_day)
        pixels = gray * np.uint32(0x010101) + np.uint32(0xFF000000)  # as red, green, blue, alpha
        return pixels.view(np.uint8).reshape(self.height, self.width, 4)


@dataclass(slots=True)
class Result:
    """What the pipeline has done so far."""

    frames: int = 0
    cuts: list[int] = field(default_factory=list)
    most_waiting: int = 0
    """The most frames at once that were made but not yet submitted; 0 if making them is the slowest stage."""
    seconds: float = 0.0


async def run_pipeline(device: zc.Device, kernels: ImageKernels, film: Film, result: Result, *, streams: int) -> None:
    """Run all stages until the film ends, or one fails: then the nursery ends the others.

    If it is cancelled, every stage ends where it is, and the device finishes what was submitted.
    """
    start = trio.current_time()
    send_frame, receive_frame = trio.open_memory_channel[Pixels](FRAMES_WAITING)
    send_counted, receive_counted = trio.open_memory_channel[Counted](streams)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(produce, film, send_frame, result)
            nursery.start_soon(submit, device, kernels, film, streams, receive_frame, send_counted)
            nursery.start_soon(detect, receive_counted, result)
    finally:
        result.seconds = trio.current_time() - start


async def produce(film: Film, frames: trio.MemorySendChannel[Pixels], result: Result) -> None:
    async with frames:
        for number in range(film.frames):
            frame = await trio.to_thread.run_sync(film.frame, number)
            await frames.send(frame)  # waits while FRAMES_WAITING frames wait: back-pressure
            result.most_waiting = max(result.most_waiting, frames.statistics().current_buffer_used)


class Lane:
    """A stream, and the device memory that its frames use one after another."""

    def __init__(self, device: zc.Device, kernels: ImageKernels, film: Film) -> None:
        self._kernels = kernels
        self._width, self._height = film.width, film.height
        self._stream = device.create_stream()
        self._pixels = device.allocate(film.width * film.height * 4)
        self._blurred = device.allocate(self._pixels.size)
        self._bins = device.allocate(256 * 4)

    def count(self, frame: Pixels) -> Counted:
        """Submit everything that gives a frame's histogram, and wait for nothing.

        The frame is read before this returns or kept until it is read; the stream keeps the order, so that
        the next frame may use the same memory.
        """
        stream, width, height = self._stream, self._width, self._height
        histogram = np.empty(256, np.uint32)
        stream.memcpy(self._pixels, frame)
        stream.memset(self._bins, 0)
        stream.launch(self._kernels.blur, grid_over(width, height), width, height, self._pixels, self._blurred)
        stream.launch(self._kernels.histogram, HISTOGRAM_CONFIG, width * height, self._blurred, self._bins)
        return stream.memcpy(histogram, self._bins), histogram


async def submit(
    device: zc.Device,
    kernels: ImageKernels,
    film: Film,
    streams: int,
    frames: trio.MemoryReceiveChannel[Pixels],
    counted: trio.MemorySendChannel[Counted],
) -> None:
    lanes = cycle([Lane(device, kernels, film) for _ in range(streams)])
    async with frames, counted:
        async for frame in frames:
            await counted.send(next(lanes).count(frame))  # waits while the detector has enough to await


async def detect(counted: trio.MemoryReceiveChannel[Counted], result: Result) -> None:
    last: Histogram | None = None
    async with counted:
        async for operation, histogram in counted:
            await operation
            if last is not None and changed_part(last, histogram) >= CUT_FROM:
                result.cuts.append(result.frames)
            last = histogram
            result.frames += 1


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


async def find_cuts(film: Film, *, streams: int, link: str, timeout: float) -> tuple[Result, bool]:
    """What the pipeline found, and whether the time was enough for the whole film."""
    result = Result()
    async with zc.open_device(link=link) as device:
        kernels = await ImageKernels.load(device)
        with trio.move_on_after(timeout) as scope:
            await run_pipeline(device, kernels, film, result, streams=streams)
    return result, not scope.cancelled_caught


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    film = Film(options.frames)

    async def run() -> tuple[Result, bool]:
        return await find_cuts(film, streams=options.streams, link=options.link, timeout=options.timeout)

    result, is_complete = trio.run(run)
    rate = result.frames / result.seconds
    print(f"{result.frames} of {film.frames} frames in {result.seconds:.2f} s: {rate:.0f} frames/s")
    print(f"cuts before frames {', '.join(map(str, result.cuts)) or 'none'}")
    print(f"frames made but not yet submitted: at most {result.most_waiting} (limit {FRAMES_WAITING})")
    if not is_complete:
        print(f"ended early: --timeout {options.timeout:g} s were over")


if __name__ == "__main__":
    main()
