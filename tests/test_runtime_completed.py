"""`as_completed`: everything comes once, in the order in which it ends."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_support import ONE_THREAD, Rig, load

import zcuda_async as zc
from zcuda_async.executor.base import Fault, LaunchResult

pytestmark = pytest.mark.anyio


async def order(awaited: Any) -> list[Any]:
    return [thing async for thing in zc.as_completed(awaited)]


async def test_operations_come_in_the_order_of_their_ends() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        streams = [device.create_stream() for _ in range(3)]
        ops = [stream.launch(kernel, ONE_THREAD) for stream in streams]
        seen: list[Any] = []

        async def watch() -> None:
            seen.extend(await order(reversed(ops)))

        async with anyio.create_task_group() as task_group:
            task_group.start_soon(watch)
            await anyio.wait_all_tasks_blocked()
            assert seen == []
            for _ in ops:
                rig.executor.end()
                await anyio.wait_all_tasks_blocked()
        assert seen == ops


async def test_each_is_there_as_soon_as_it_ends() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        ops = [device.create_stream().launch(kernel, ONE_THREAD) for _ in range(3)]
        completed = zc.as_completed(ops)
        for op in ops:
            assert len(completed) == 3 - ops.index(op)
            rig.executor.end()
            assert await anext(completed) is op
        with pytest.raises(StopAsyncIteration):
            await anext(completed)
        with pytest.raises(StopAsyncIteration):
            await anext(completed)


async def test_what_has_finished_comes_first_in_the_order_given() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        rig.executor.is_open = True
        done = [device.create_stream().launch(kernel, ONE_THREAD) for _ in range(3)]
        await device.sync()
        rig.executor.is_open = False
        waiting = device.create_stream().launch(kernel, ONE_THREAD)
        given_now = [waiting, done[2], done[0], done[1]]
        completed = zc.as_completed(given_now)
        assert [await anext(completed) for _ in done] == [done[2], done[0], done[1]]
        rig.executor.end()
        assert await anext(completed) is waiting


async def test_events_and_streams_stand_for_what_they_stand_for_now() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        stream, other, idle = (device.create_stream() for _ in range(3))
        never = device.create_event()
        first = stream.launch(kernel, ONE_THREAD)
        event = stream.record()
        other.launch(kernel, ONE_THREAD)
        completed = zc.as_completed([event, other, never, idle, first])
        stream.launch(kernel, ONE_THREAD)
        other.launch(kernel, ONE_THREAD)
        assert [await anext(completed), await anext(completed)] == [never, idle]
        rig.executor.end()
        assert {await anext(completed), await anext(completed)} == {first, event}
        rig.executor.end()
        assert await anext(completed) is other
        assert not stream.is_done
        assert not other.is_done
        rig.executor.is_open = True
        for _ in range(2):
            rig.executor.end()


async def test_the_same_thing_twice_comes_twice() -> None:
    rig = Rig()
    async with rig.open() as device:
        rig.executor.is_open = True
        kernel = await load(device)
        op = device.create_stream().launch(kernel, ONE_THREAD)
        assert await order([op, op]) == [op, op]


async def test_nothing_at_all() -> None:
    assert await order([]) == []


async def test_a_failure_comes_like_any_other_and_raises_when_awaited() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        op = device.create_stream().launch(kernel, ONE_THREAD)
        rig.executor.end(Fault(zc.Status.cudaErrorIllegalAddress, "illegal address"))
        async for ended in zc.as_completed([op]):
            assert ended is op
            with pytest.raises(zc.CudaError, match="illegal address"):
                await ended
        await device.reset()


async def test_leaving_early_leaves_the_operations_alone() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        ops = [device.create_stream().launch(kernel, ONE_THREAD) for _ in range(2)]
        rig.executor.end()
        async for op in zc.as_completed(ops):
            assert op is ops[0]
            break
        with anyio.move_on_after(0) as scope:
            await anext(zc.as_completed(ops[1:]))
        assert scope.cancelled_caught
        assert not ops[1].is_done
        rig.executor.end()
        await ops[1]


async def test_an_operation_of_a_device_that_is_reset_comes_too() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        op = device.create_stream().launch(kernel, ONE_THREAD)
        completed = zc.as_completed([op])
        await device.reset()
        assert await anext(completed) is op
        with pytest.raises(zc.AbandonedError):
            await op


async def test_operations_of_another_thread_are_refused() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        op = device.create_stream().launch(kernel, ONE_THREAD)
        with pytest.raises(RuntimeError, match="belongs to the event loop of thread"):
            await anyio.to_thread.run_sync(lambda: zc.as_completed([op]))
        rig.executor.end()


@pytest.mark.parametrize("bad", [3, None, "op", object()])
async def test_other_things_are_refused_before_anything_is_waited_for(bad: object) -> None:
    with pytest.raises(
        TypeError, match=rf"^as_completed takes operations, events and streams, got {type(bad).__name__}$"
    ):
        zc.as_completed([bad])  # type: ignore[list-item]


@settings(deadline=None, max_examples=30)
@given(st.permutations(range(5)), st.integers(0, 5))
async def test_any_order_of_ends(ends: list[int], before: int) -> None:
    rig = Rig()
    async with rig.open(workers=5) as device:
        kernel = await load(device)
        ops = [device.create_stream().launch(kernel, ONE_THREAD) for _ in range(5)]
        launches = list(rig.executor.launches)
        rig.executor.launches.clear()

        def end(number: int) -> None:
            _, on_done = launches[number]
            on_done(LaunchResult(0, 0, None))

        for number in ends[:before]:
            end(number)
        completed = zc.as_completed(ops)
        first = [await anext(completed) for _ in range(before)]
        assert first == [ops[number] for number in sorted(ends[:before])]
        for number in ends[before:]:
            end(number)
            assert await anext(completed) is ops[number]
