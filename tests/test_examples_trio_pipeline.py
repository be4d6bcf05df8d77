"""examples/trio_pipeline.py: finds the cuts, holds few frames, can be cancelled anywhere, runs as a command."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import trio
from examples_tools import images, run_example, trio_pipeline

import zcuda_async as zc

pytestmark = [pytest.mark.anyio, pytest.mark.pool]

FILM = trio_pipeline.Film(frames=30, width=64, height=36, shot_frames=8)


@pytest.fixture
def anyio_backend() -> str:
    """The pipeline is written in plain trio."""
    return "trio"


async def test_it_finds_the_cuts_of_the_film() -> None:
    result, is_complete = await trio_pipeline.find_cuts(FILM, streams=3, link="pcie3-x16", timeout=30)
    assert is_complete
    assert result.frames == 30
    assert result.cuts == FILM.cuts == [8, 16, 24]


async def test_a_lane_counts_the_blurred_frame() -> None:
    async with zc.open_device() as device:
        lane = trio_pipeline.Lane(device, await images.ImageKernels.load(device), FILM)
        frames = [FILM.frame(number) for number in range(4)]
        counted = [lane.count(frame) for frame in frames]  # all submitted before the first is awaited
        for frame, (operation, histogram) in zip(frames, counted, strict=True):
            await operation
            expected = images.histogram_reference(images.blur_reference(frame))
            np.testing.assert_array_equal(histogram, expected)


async def test_the_producer_waits_while_nobody_takes_frames() -> None:
    send, receive = trio.open_memory_channel[images.Pixels](trio_pipeline.FRAMES_WAITING)
    result = trio_pipeline.Result()
    async with receive, trio.open_nursery() as nursery:
        nursery.start_soon(trio_pipeline.produce, FILM, send, result)
        while not send.statistics().tasks_waiting_send:
            await trio.lowlevel.checkpoint()
        assert send.statistics().current_buffer_used == trio_pipeline.FRAMES_WAITING == result.most_waiting
        nursery.cancel_scope.cancel()


async def test_cancelling_leaves_the_device_usable_and_empty() -> None:
    endless = trio_pipeline.Film(frames=10**9, width=64, height=36)
    result = trio_pipeline.Result()
    async with zc.open_device() as device:
        kernels = await images.ImageKernels.load(device)
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                await trio_pipeline.run_pipeline(device, kernels, endless, result, streams=2)

            nursery.start_soon(run)
            while result.frames < 5:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        assert result.frames >= 5
        await device.sync()
        assert device.memory_info().used_bytes == 0


async def test_a_fault_on_the_device_ends_the_pipeline_with_its_error() -> None:
    endless = trio_pipeline.Film(frames=10**9, width=64, height=36)
    result = trio_pipeline.Result()
    async with zc.open_device() as device:
        kernels = await images.ImageKernels.load(device)

        async def spoil() -> None:
            while result.frames < 5:
                await trio.lowlevel.checkpoint()
            device.create_stream().launch(kernels.blur, images.grid_over(8, 8), 8, 8, 0, 0)

        fault = pytest.RaisesExc(zc.CudaError, match=r"^cudaErrorIllegalAddress ")
        with pytest.RaisesGroup(fault, flatten_subgroups=True):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(spoil)
                await trio_pipeline.run_pipeline(device, kernels, endless, result, streams=2)
        await device.reset()


@pytest.mark.slow
def test_the_command_prints_throughput_and_cuts(tmp_path: Path) -> None:
    done = run_example("trio_pipeline.py", "--frames", "90", "--streams", "2", cwd=tmp_path)
    first, second, third = done.stdout.splitlines()
    assert first.startswith("90 of 90 frames in ")
    assert first.endswith(" frames/s")
    assert second == "cuts before frames 40, 80"
    assert re.fullmatch(r"frames made but not yet submitted: at most [0-4] \(limit 4\)", third)


@pytest.mark.slow
def test_the_command_ends_when_its_time_is_over(tmp_path: Path) -> None:
    done = run_example("trio_pipeline.py", "--frames", "1000000", "--timeout", "0.2", cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "ended early: --timeout 0.2 s were over"
