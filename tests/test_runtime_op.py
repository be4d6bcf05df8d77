"""Ops: awaited twice, by several tasks, cancelled, failed."""

from __future__ import annotations

import anyio
import pytest
from anyio.lowlevel import checkpoint
from runtime_support import ONE_THREAD, Rig, load

import zcuda_async as zc

pytestmark = pytest.mark.anyio


async def test_op_can_be_awaited_twice_and_after_completion() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        rig.executor.is_open = True
        op = device.create_stream().launch(kernel, ONE_THREAD)
        for _ in range(2):
            await op
        assert op.is_done
        assert op.result() is None
        assert op.exception() is None


async def test_several_tasks_await_one_op() -> None:
    rig = Rig()
    record: list[int] = []
    async with rig.open() as device:
        kernel = await load(device)
        op = device.create_stream().launch(kernel, ONE_THREAD)

        async def wait(number: int) -> None:
            await op
            record.append(number)

        async with anyio.create_task_group() as task_group:
            for number in range(5):
                task_group.start_soon(wait, number)
            await anyio.wait_all_tasks_blocked()
            assert record == []
            rig.executor.end()
    assert sorted(record) == [0, 1, 2, 3, 4]


async def test_cancelling_an_await_leaves_the_operation_running() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        op = device.create_stream().launch(kernel, ONE_THREAD)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await op
        assert scope.cancelled_caught
        assert not op.is_done
        rig.executor.end()
        await op


async def test_awaiting_a_finished_op_is_a_checkpoint() -> None:
    async with Rig().open() as device:
        stream = device.create_stream()
        op = stream.memset(device.allocate(4), 0)
        assert op.is_done
        with anyio.CancelScope() as scope:
            scope.cancel()
            await op
        assert scope.cancelled_caught
        with anyio.CancelScope() as scope:
            scope.cancel()
            await stream.sync()
        assert scope.cancelled_caught
        with anyio.CancelScope() as scope:
            scope.cancel()
            await device.sync()
        assert scope.cancelled_caught
        with anyio.CancelScope() as scope:
            scope.cancel()
            await stream.record()
        assert scope.cancelled_caught


async def test_result_of_a_pending_op_is_not_ready() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        op = device.create_stream().launch(kernel, ONE_THREAD)
        match = r"^cudaErrorNotReady \(600\): <Op empty on stream 1: running> has not finished; await it first$"
        with pytest.raises(zc.CudaError, match=match):
            op.result()
        with pytest.raises(zc.CudaError, match=match):
            op.exception()
        rig.executor.end()


async def test_callback_result_is_the_ops_result() -> None:
    async with Rig().open() as device:
        assert await device.create_stream().host_callback(divmod, 7, 2) == (3, 1)


async def test_failure_nobody_awaited_raises_at_the_next_stream_sync() -> None:
    async with Rig().open() as device:
        stream, other = device.create_stream(), device.create_stream()
        stream.host_callback(int, "x")
        await other.sync()
        with pytest.raises(ValueError, match=r"^invalid literal for int\(\) with base 10: 'x'$"):
            await stream.sync()
        await stream.sync()
        await device.sync()


async def test_failure_nobody_awaited_raises_at_device_exit() -> None:
    with pytest.raises(ValueError, match=r"^invalid literal for int\(\) with base 10: 'x'$"):
        async with Rig().open() as device:
            device.create_stream().host_callback(int, "x")


async def test_several_unheard_failures_become_notes_of_the_first() -> None:
    async with Rig().open() as device:
        stream = device.create_stream()
        stream.host_callback(int, "x")
        stream.host_callback(int, "y")
        with pytest.raises(ValueError, match="'x'") as caught:
            await device.sync()
        assert caught.value.__notes__ == [
            "also failed: <Op callback int on stream 1: failed>: invalid literal for int() with base 10: 'y'"
        ]


async def test_awaited_failure_is_not_raised_again() -> None:
    async with Rig().open() as device:
        stream = device.create_stream()
        op = stream.host_callback(int, "x")
        for _ in range(2):
            with pytest.raises(ValueError, match="'x'"):
                await op
        await stream.sync()


async def test_a_waiter_that_is_cancelled_does_not_swallow_the_failure() -> None:
    async with Rig().open() as device:
        stream = device.create_stream()
        op = stream.host_callback(int, "x")
        with anyio.CancelScope() as scope:
            scope.cancel()
            await op
        with pytest.raises(ValueError, match="'x'"):
            await stream.sync()


async def test_stream_goes_on_after_a_failed_callback() -> None:
    record: list[str] = []
    async with Rig().open() as device:
        stream = device.create_stream()
        failed = stream.host_callback(int, "x")
        await stream.host_callback(record.append, "next")
        with pytest.raises(ValueError, match="'x'"):
            await failed
    assert record == ["next"]


async def test_times_of_an_op() -> None:
    rig = Rig()
    clock = zc.VirtualClock(kernel_ms=2.0)
    async with rig.open(clock=clock) as device:
        kernel = await load(device)
        rig.executor.is_open = True
        stream = device.create_stream()
        first, second = (stream.launch(kernel, ONE_THREAD) for _ in range(2))
        assert second.started_ms is None
        assert second.finished_ms is None
        await second
        assert [first.submitted_ms, first.started_ms, first.finished_ms] == [0, 0, 2]
        assert [second.submitted_ms, second.started_ms, second.finished_ms] == [0, 2, 4]


async def test_every_await_lets_another_task_run() -> None:
    record: list[str] = []
    async with Rig().open() as device, anyio.create_task_group() as task_group:
        stream = device.create_stream()
        op = stream.memset(device.allocate(4), 0)

        async def other() -> None:
            record.append("other")
            await checkpoint()

        task_group.start_soon(other)
        await op
        await op  # trio runs the tasks of one turn in any order
        record.append("op")
    assert record == ["other", "op"]
