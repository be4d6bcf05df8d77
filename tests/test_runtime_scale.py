"""Many of everything: streams, events, tasks, operations, and what is left of them."""

from __future__ import annotations

import gc
import tracemalloc

import anyio
import pytest
from runtime_support import ONE_THREAD, Rig, load

import zcuda_async as zc

pytestmark = pytest.mark.anyio


async def test_ten_thousand_streams_run_and_leave_nothing() -> None:
    async with zc.open_device(0, executor="stub") as device:
        start = device.memory_info().used_bytes
        buffer = device.allocate(4)
        streams = [device.create_stream() for _ in range(10_000)]
        ops = [stream.memset(buffer, number % 256) for number, stream in enumerate(streams)]
        first = streams[0]
        for stream in streams:
            first.wait(stream)
        await device.sync()
        assert all(op.is_done for op in ops)
        buffer.close()
        assert device.memory_info().used_bytes == start


async def test_ten_thousand_busy_streams_finish() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        ops = [device.create_stream().launch(kernel, ONE_THREAD) for _ in range(10_000)]
        rig.executor.open()
        await device.sync()
        assert all(op.is_done for op in ops)


async def test_idle_streams_cost_only_their_fields() -> None:
    async with Rig().open() as device:
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            streams = [device.create_stream() for _ in range(1000)]
            each = (tracemalloc.get_traced_memory()[0] - before) / len(streams)
        finally:
            tracemalloc.stop()
        assert each < 500  # bytes


async def test_a_hundred_thousand_events() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        stream = device.create_stream()
        stream.launch(kernel, ONE_THREAD)
        events = [stream.record() for _ in range(100_000)]
        assert not any(event.is_done for event in events)
        rig.executor.end()
        await events[-1]
        assert all(event.is_done for event in events)


async def test_a_thousand_tasks_each_await_their_own_stream() -> None:
    rig = Rig()
    finished: list[int] = []
    async with rig.open() as device:
        kernel = await load(device)
        start = device.memory_info().used_bytes

        async def work(number: int) -> None:
            async with device.create_stream() as stream:
                with device.allocate(4) as buffer:
                    out = bytearray(4)
                    stream.memcpy(buffer, number.to_bytes(4, "little"))
                    stream.launch(kernel, ONE_THREAD)
                    await stream.memcpy(out, buffer)
                    assert int.from_bytes(out, "little") == number
            finished.append(number)

        async with anyio.create_task_group() as task_group:
            for number in range(1000):
                task_group.start_soon(work, number)
            await anyio.wait_all_tasks_blocked()
            assert finished == []
            rig.executor.open()
        assert device.memory_info().used_bytes == start
    assert sorted(finished) == list(range(1000))


async def test_finished_operations_leave_nothing_behind() -> None:
    async with zc.open_device(0, executor="stub") as device:
        stream, other = device.create_stream(), device.create_stream()
        buffer = device.allocate(64)

        async def churn() -> None:
            for _ in range(200):
                stream.memcpy(buffer, bytes(64))
                other.wait(stream.record())
                other.memset(buffer, 0)
            await device.sync()

        await churn()
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            await churn()
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert grown < 20_000  # bytes, far less than 800 operations


async def test_reference_cycles_are_not_needed_to_free_a_device() -> None:
    for _ in range(3):
        async with Rig().open() as device:
            arena = device.context.arena
        assert arena.is_closed
