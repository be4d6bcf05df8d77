"""Sticky errors, reset, and how a device closes in every state."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from runtime_support import ONE_THREAD, GatedExecutor, Rig, load

import zcuda_async as zc
from zcuda_async.executor.base import Fault
from zcuda_async.memory.arena import Arena

pytestmark = pytest.mark.anyio

FAULT = Fault(719, "trap in block 0 of empty")
MESSAGE = r"^cudaErrorLaunchFailure \(719\): trap in block 0 of empty$"


async def test_a_fault_ends_everything_pending_with_the_same_error() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        first, second = device.create_stream(), device.create_stream()
        buffer = device.allocate(4)
        ops: list[zc.Op[Any]] = [
            first.launch(kernel, ONE_THREAD),
            first.memset(buffer, 1),
            second.launch(kernel, ONE_THREAD),
            second.host_callback(int),
        ]
        event = second.record()
        rig.executor.end(FAULT)
        errors = {id(op.exception()) for op in ops}
        assert len(errors) == 1
        for op in ops:
            with pytest.raises(zc.LaunchError, match=MESSAGE):
                await op
        with pytest.raises(zc.LaunchError, match=MESSAGE):
            await event
        for _ in range(2):
            with pytest.raises(zc.LaunchError, match=MESSAGE):
                await first.sync()
            with pytest.raises(zc.LaunchError, match=MESSAGE):
                await device.sync()
            with pytest.raises(zc.LaunchError, match=MESSAGE):
                second.memset(buffer, 1)
            with pytest.raises(zc.LaunchError, match=MESSAGE):
                device.allocate(1)
        rig.executor.end(FAULT)


async def test_waiters_hear_of_a_fault() -> None:
    rig = Rig()
    record: list[str] = []
    async with rig.open() as device:
        kernel = await load(device)
        stream = device.create_stream()
        op = stream.launch(kernel, ONE_THREAD)
        behind = stream.launch(kernel, ONE_THREAD)

        async def wait(name: str, awaitable: zc.Op[None]) -> None:
            with pytest.raises(zc.LaunchError, match=MESSAGE):
                await awaitable
            record.append(name)

        async with anyio.create_task_group() as task_group:
            task_group.start_soon(wait, "op", op)
            task_group.start_soon(wait, "behind", behind)
            await anyio.wait_all_tasks_blocked()
            rig.executor.end(FAULT)
    assert sorted(record) == ["behind", "op"]


async def test_a_fault_nobody_heard_of_raises_at_exit() -> None:
    rig = Rig()
    with pytest.raises(zc.LaunchError, match=MESSAGE):
        async with rig.open() as device:
            device.create_stream().launch(await load(device), ONE_THREAD)
            rig.executor.end(FAULT)


async def test_reset_makes_the_device_usable_and_keeps_its_objects() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        stream = device.create_stream()
        buffer = device.allocate(4)
        lost = stream.launch(kernel, ONE_THREAD)
        rig.executor.end(FAULT)
        assert str(device.fault) == "cudaErrorLaunchFailure (719): trap in block 0 of empty"
        await device.reset()
        assert device.fault is None
        assert rig.executor.resets == 1
        rig.executor.is_open = True
        await stream.launch(kernel, ONE_THREAD)
        await stream.memset(buffer, 1)
        await device.sync()
        with pytest.raises(zc.LaunchError, match=MESSAGE):
            await lost


async def test_reset_abandons_what_is_pending() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        stream = device.create_stream()
        ops = [stream.launch(kernel, ONE_THREAD) for _ in range(2)]
        await device.reset()
        match = r"^empty on stream 1 was abandoned: device 0 was reset$"
        for op in ops:
            with pytest.raises(zc.AbandonedError, match=match):
                await op
        await stream.sync()
        for _ in range(10):
            stream.launch(kernel, ONE_THREAD)
        rig.executor.open()
        await stream.sync()


async def test_a_fault_leaves_other_devices_alone() -> None:
    rig, other_rig = Rig(), Rig()
    async with rig.open() as device, other_rig.open() as other:
        op = device.create_stream().launch(await load(device), ONE_THREAD)
        other_op = other.create_stream().launch(await load(other), ONE_THREAD)
        rig.executor.end(FAULT)
        with pytest.raises(zc.LaunchError, match=MESSAGE):
            await op
        assert not other_op.is_done
        other_rig.executor.end()
        await other_op
        await other.sync()


async def test_leaving_the_block_drains_the_streams() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        rig.executor.is_open = True
        ops = [device.create_stream().launch(kernel, ONE_THREAD) for _ in range(10)]
    assert all(op.exception() is None for op in ops)
    assert rig.executor.is_closed
    assert device.is_closed


async def test_an_exception_in_the_body_comes_out_bare_and_abandons_the_work() -> None:
    rig = Rig()
    with pytest.raises(KeyError, match=r"^'body'$") as caught:
        async with rig.open() as device:
            kernel = await load(device)
            stream = device.create_stream()
            ops = [stream.launch(kernel, ONE_THREAD) for _ in range(3)]
            raise KeyError("body")
    assert caught.value.__context__ is None
    assert rig.executor.is_closed
    match = r"^empty on stream 1 was abandoned: device 0 was closed by an exception or a cancellation$"
    for op in ops:
        with pytest.raises(anyio.ClosedResourceError, match=match):
            await op


async def test_an_exception_group_in_the_body_comes_out_as_it_was() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with Rig().open(), anyio.create_task_group():
            raise KeyError("body")
    assert [type(error) for error in caught.value.exceptions] == [KeyError]


async def test_cancelling_the_body_abandons_the_work() -> None:
    rig = Rig()
    with anyio.CancelScope() as scope:
        async with rig.open() as device:
            kernel = await load(device)
            op = device.create_stream().launch(kernel, ONE_THREAD)
            scope.cancel()
            await op
    assert scope.cancelled_caught
    assert rig.executor.is_closed
    assert isinstance(op.exception(), zc.AbandonedError)


async def test_cancelling_the_drain_abandons_the_work() -> None:
    rig = Rig()
    with anyio.CancelScope() as scope:
        async with rig.open() as device:
            kernel = await load(device)
            op = device.create_stream().launch(kernel, ONE_THREAD)
            scope.cancel()
    assert scope.cancelled_caught
    assert rig.executor.is_closed
    assert isinstance(op.exception(), zc.AbandonedError)


async def test_cancelling_while_opening_releases_everything() -> None:
    arenas: list[Arena] = []
    executors: list[GatedExecutor] = []

    async def never(arena: Arena, task_group: anyio.abc.TaskGroup, workers: int | None) -> GatedExecutor:
        arenas.append(arena)
        await anyio.sleep_forever()
        raise AssertionError

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as task_group:

            async def cancel() -> None:
                await anyio.wait_all_tasks_blocked()
                scope.cancel()

            task_group.start_soon(cancel)
            async with zc.open_device(0, executor=never):
                raise AssertionError
    assert scope.cancelled_caught
    assert executors == []
    assert [arena.is_closed for arena in arenas] == [True]


async def test_an_executor_that_does_not_start_releases_everything() -> None:
    arenas: list[Arena] = []

    async def broken(arena: Arena, task_group: anyio.abc.TaskGroup, workers: int | None) -> GatedExecutor:
        arenas.append(arena)
        await checkpoint()
        raise OSError("no processes left")

    with pytest.raises(OSError, match=r"^no processes left$"):
        async with zc.open_device(0, executor=broken):
            raise AssertionError
    assert [arena.is_closed for arena in arenas] == [True]


async def test_closing_waits_for_copies_in_threads() -> None:
    size = 64 << 20
    source = bytearray(size)
    with pytest.raises(KeyError):
        async with Rig().open() as device:
            op = device.create_stream().memcpy(device.allocate(size), source)
            await checkpoint()
            raise KeyError
    assert isinstance(op.exception(), zc.AbandonedError)
    source.append(0)  # a copy still under way would hold the bytes in place


async def test_closing_in_a_hurry_leaves_a_stuck_callback_behind() -> None:
    gate = threading.Event()
    try:
        with pytest.raises(KeyError):
            async with Rig().open() as device:
                op = device.create_stream().host_callback(gate.wait, 30)
                await anyio.wait_all_tasks_blocked()
                raise KeyError
        assert isinstance(op.exception(), zc.AbandonedError)
    finally:
        gate.set()


async def test_everything_of_a_closed_device_says_so() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        stream = device.create_stream()
        buffer = device.allocate(4)
        module = kernel.module
    match = r"^device 0 is closed; use it inside its `async with` block$"
    for call in (
        lambda: device.allocate(1),
        lambda: device.allocate_pinned(1),
        device.create_stream,
        device.create_event,
        lambda: device.load_ptx(""),
        lambda: stream.memset(buffer, 0),
        lambda: stream.launch(kernel, ONE_THREAD),
        stream.record,
    ):
        with pytest.raises(anyio.ClosedResourceError, match=match):
            call()
    for wait in (device.sync, device.reset, stream.sync, lambda: module.get_kernel("empty"), lambda: kernel.compile(1)):
        with pytest.raises(anyio.ClosedResourceError, match=match):
            await wait()
    assert buffer.is_closed
    assert stream.is_closed
    assert module.is_closed
    buffer.close()


async def test_a_finished_op_is_kept_by_nobody() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        stream = device.create_stream()
        op = stream.launch(kernel, ONE_THREAD)
        reference = weakref.ref(op)
        rig.executor.end()
        await op
        del op
        gc.collect()
        assert reference() is None


async def test_open_device_checks_its_options() -> None:
    with pytest.raises(zc.CudaError, match=r"^cudaErrorInvalidDevice \(101\): there is no device 7, only 0 to 0; set"):
        zc.open_device(7)
    with pytest.raises(TypeError, match=r"^a device's ordinal is an int, got str$"):
        zc.open_device("cuda")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^workers must be at least 1, got 0$"):
        zc.open_device(workers=0)
    with pytest.raises(ValueError, match=r"^no link profile is named 'isa'; choose one of pcie1-x1, "):
        zc.open_device(link="isa")
    with pytest.raises(ValueError, match=r"^no executor is named 'gpu'; choose one of pool, inline, stub"):
        zc.open_device(executor="gpu")


async def test_a_clock_serves_one_device_at_a_time() -> None:
    clock = zc.VirtualClock()
    async with Rig().open(clock=clock):
        with pytest.raises(
            RuntimeError, match=r"^this clock is in use by device 0; give device 0 \(2\) a clock of its own$"
        ):
            async with Rig().open(clock=clock):
                raise AssertionError
    async with Rig().open(clock=clock):
        await checkpoint()
