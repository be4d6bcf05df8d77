"""Launches that follow one another on a stream are sent to the pool ahead of their turn."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import numpy as np
import pytest
from executor_kernels import request
from executor_tools import Pending, announced, open_pool, words
from runtime_support import ONE_THREAD, AheadRig, load

import zcuda_async as zc
from zcuda_async.executor.base import LaunchRequest, LaunchResult

pytestmark = pytest.mark.anyio

SAXPY = (Path(__file__).parents[1] / "benchmarks" / "kernels.ptx").read_text()


async def test_launches_are_sent_ahead_as_far_as_the_executor_wants_them() -> None:
    rig = AheadRig()
    async with rig.open() as device:
        kernel, stream = await load(device), device.create_stream()
        ops = [stream.launch(kernel, ONE_THREAD) for _ in range(10)]
        assert len(rig.executor.launches) == 4
        assert [op.has_started for op in ops[:2]] == [True, False]
        rig.executor.end()
        assert len(rig.executor.launches) == 4
        assert [op.is_done for op in ops[:2]] == [True, False]
        assert ops[1].has_started
        rig.executor.open()
        await stream.sync()
        assert [op.exception() for op in ops] == [None] * 10
        assert len(rig.executor.seen) == 10


async def test_only_what_directly_follows_is_sent_ahead() -> None:
    rig = AheadRig()
    async with rig.open() as device:
        kernel, stream, other = await load(device), device.create_stream(), device.create_stream()
        stream.launch(kernel, ONE_THREAD)
        stream.record()
        stream.launch(kernel, ONE_THREAD)
        other.launch(kernel, ONE_THREAD)
        other.wait(stream)
        other.launch(kernel, ONE_THREAD)
        assert len(rig.executor.launches) == 2
        rig.executor.open()
        await device.sync()


async def test_nothing_is_sent_ahead_while_other_launches_are_held_back() -> None:
    rig = AheadRig()
    async with rig.open() as device:
        kernel = await load(device)
        streams = [device.create_stream() for _ in range(5)]
        for stream in streams:
            stream.launch(kernel, ONE_THREAD)
        assert len(rig.executor.launches) == 4
        streams[0].launch(kernel, ONE_THREAD)
        assert len(rig.executor.launches) == 4
        rig.executor.open()
        await device.sync()
        assert len(rig.executor.seen) == 6


async def test_a_fault_ends_what_was_sent_ahead_and_lets_its_buffers_go() -> None:
    rig = AheadRig()
    async with rig.open() as device:
        kernel, stream = await load(device, "saxpy"), device.create_stream()
        buffer = device.allocate(256)
        ops = [stream.launch(kernel, ONE_THREAD, 1, 1.0, buffer, buffer) for _ in range(6)]
        buffer.close()
        await device.reset()
        for op in ops:
            assert isinstance(op.exception(), zc.AbandonedError)
        assert device.memory_info().used_bytes == 256  # the module's variables
        rig.executor.is_open = True
        await stream.launch(await load(device), ONE_THREAD)


@pytest.mark.pool
async def test_launches_sent_ahead_keep_their_order() -> None:
    async with zc.open_device(0, workers=2) as device:
        kernel = await device.load_ptx(SAXPY).get_kernel("saxpy")
        stream, config = device.create_stream(), zc.LaunchConfig(1, 64)
        x, y = device.allocate(256), device.allocate(256)
        a, b = np.ones(64, np.float32), np.full(64, 2, np.float32)
        stream.memcpy(x, a)
        stream.memcpy(y, b)
        for turn in range(300):
            pair = (x, y) if turn % 2 else (y, x)
            stream.launch(kernel, config, 64, 0.5 if turn % 3 else -0.75, *pair)
            factor = np.float32(0.5 if turn % 3 else -0.75)
            if turn % 2:
                b += factor * a
            else:
                a += factor * b
        got_a, got_b = np.empty_like(a), np.empty_like(b)
        stream.memcpy(got_a, x)
        await stream.memcpy(got_b, y)
        np.testing.assert_allclose(got_a, a, rtol=1e-4)
        np.testing.assert_allclose(got_b, b, rtol=1e-4)


@pytest.mark.pool
async def test_events_and_streams_stay_ordered_around_launches_sent_ahead() -> None:
    async with zc.open_device(0, workers=2) as device:
        kernel = await device.load_ptx(SAXPY).get_kernel("saxpy")
        config = zc.LaunchConfig(1, 64)
        streams = [device.create_stream() for _ in range(3)]
        x, y = device.allocate(256), device.allocate(256)
        streams[0].memcpy(x, np.ones(64, np.float32))
        streams[0].memset(y, 0)
        done = streams[0].record()
        for turn in range(60):
            stream = streams[turn % 3]
            stream.wait(done)
            for _ in range(5):
                stream.launch(kernel, config, 64, 1.0, x, y)
            done = stream.record()
        out = np.empty(64, np.float32)
        streams[0].wait(done)
        await streams[0].memcpy(out, y)
        assert (out == 300).all()


@pytest.mark.pool
async def test_the_pool_takes_short_launches_behind_others_of_their_lane() -> None:
    async with open_pool(2) as (pool, arena):
        out = arena.device_heap.allocate(64)

        def make(name: str, lane: int) -> LaunchRequest:
            whole = request(name, out)
            return LaunchRequest(whole.code, whole.grid, whole.params, lane=lane)

        short = make("total", 7)
        taken: list[LaunchResult] = []
        behind, ended = 0, anyio.Event()

        def note(result: LaunchResult) -> None:
            taken.append(result)
            if len(taken) == behind:
                ended.set()

        assert not pool.submit_behind(short, note)  # nothing to follow
        await Pending(pool, short).wait()
        assert not pool.submit_behind(short, note)  # it has ended
        first = Pending(pool, short)
        behind = sum(pool.submit_behind(short, note) for _ in range(100))
        assert 0 < behind < 100
        assert not pool.submit_behind(make("total", 8), note)
        await first.wait()
        await ended.wait()
        assert [result.fault for result in taken] == [None] * behind
        assert words(arena, out, 1) == [2 + behind]


@pytest.mark.pool
async def test_a_worker_killed_with_launches_ahead_answers_them_all() -> None:
    async with open_pool(1) as (pool, arena):
        out = arena.device_heap.allocate(64)
        whole = request("total", out)
        short = LaunchRequest(whole.code, whole.grid, whole.params, lane=3)
        await Pending(pool, short).wait()
        spinning = Pending(pool, request("spin", out + 8))
        await announced(arena, out + 8)
        first = Pending(pool, short)
        taken: list[LaunchResult] = []
        behind = sum(pool.submit_behind(short, taken.append) for _ in range(5))
        os.kill(pool.worker_pids[0], signal.SIGKILL)
        fault = (await spinning.wait()).fault
        assert fault is not None
        assert (await first.wait()).fault == fault
        assert [result.fault for result in taken] == [fault] * behind
        await pool.reset()
        assert (await Pending(pool, short).wait()).fault is None
