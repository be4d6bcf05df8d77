"""The runtime as a plain asyncio program uses it: no anyio in sight."""

from __future__ import annotations

import asyncio

import pytest
from runtime_support import ONE_THREAD, Rig, load

import zcuda_async as zc


@pytest.mark.asyncio
async def test_ops_and_events_work_with_asyncio_tools() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        rig.executor.is_open = True
        stream = device.create_stream()
        buffer, out = device.allocate(4), bytearray(4)

        async def work() -> bytes:
            stream.memcpy(buffer, b"abcd")
            stream.launch(kernel, ONE_THREAD)
            event = stream.record()
            await asyncio.gather(event.sync(), stream.sync())
            await stream.memcpy(out, buffer)
            return bytes(out)

        assert await asyncio.wait_for(work(), 10) == b"abcd"


@pytest.mark.asyncio
async def test_timeout_stops_the_waiting_only() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        op = device.create_stream().launch(kernel, ONE_THREAD)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await op
        assert not op.is_done
        rig.executor.end()
        await op


@pytest.mark.asyncio
async def test_cancelling_a_task_that_holds_a_device_releases_it() -> None:
    rig = Rig()
    ops: list[zc.Op[None]] = []
    started = asyncio.Event()

    async def hold() -> None:
        async with rig.open() as device:
            kernel = await load(device)
            ops.append(device.create_stream().launch(kernel, ONE_THREAD))
            started.set()
            await ops[0]

    task = asyncio.create_task(hold())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert rig.executor.is_closed
    assert isinstance(ops[0].exception(), zc.AbandonedError)


@pytest.mark.asyncio
async def test_task_group_with_a_stream_per_task() -> None:
    async with zc.open_device(0, executor="stub") as device:
        results: list[int] = []

        async def work(number: int) -> None:
            async with device.create_stream() as stream:
                results.append(await stream.host_callback(lambda: number * 2))

        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(work(number))
    assert sorted(results) == list(range(0, 40, 2))


@pytest.mark.asyncio
async def test_body_exception_comes_out_bare() -> None:
    with pytest.raises(KeyError):
        async with zc.open_device(0, executor="stub"):
            raise KeyError
