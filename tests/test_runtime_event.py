"""Events: awaited, recorded again, queried, timed."""

from __future__ import annotations

import anyio
import pytest
from runtime_support import ONE_THREAD, Rig, load

import zcuda_async as zc

pytestmark = pytest.mark.anyio


async def test_never_recorded_event_is_complete() -> None:
    async with Rig().open() as device:
        event = device.create_event()
        assert event.is_done
        await event
        device.create_stream().wait(event)


async def test_event_finishes_with_the_work_before_its_record() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        stream = device.create_stream()
        stream.launch(kernel, ONE_THREAD)
        event = stream.record()
        stream.launch(kernel, ONE_THREAD)
        assert (event.is_done, stream.is_done) == (False, False)
        rig.executor.end()
        assert (event.is_done, stream.is_done) == (True, False)
        await event
        rig.executor.end()


async def test_recording_again_does_not_move_those_who_wait_already() -> None:
    rig = Rig()
    record: list[str] = []
    async with rig.open() as device:
        kernel = await load(device)
        stream = device.create_stream()
        event = device.create_event()
        stream.launch(kernel, ONE_THREAD)
        stream.record(event)

        async def wait() -> None:
            await event
            record.append("first record")

        async with anyio.create_task_group() as task_group:
            task_group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            stream.launch(kernel, ONE_THREAD)
            assert stream.record(event) is event
            rig.executor.end()
            await anyio.wait_all_tasks_blocked()
            assert record == ["first record"]
            assert not event.is_done
            rig.executor.end()
            await event


async def test_a_stream_wait_captures_the_record_of_its_submission() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        first, second = device.create_stream(), device.create_stream()
        event = device.create_event()
        first.launch(kernel, ONE_THREAD)
        first.record(event)
        second.wait(event)
        op = second.memset(device.allocate(4), 0)
        first.launch(kernel, ONE_THREAD)
        first.record(event)
        rig.executor.end()
        assert op.is_done
        assert not event.is_done
        rig.executor.end()


async def test_elapsed_time_is_exact_on_a_virtual_clock() -> None:
    rig = Rig()
    async with rig.open(clock=zc.VirtualClock(kernel_ms=1.5)) as device:
        kernel = await load(device)
        rig.executor.is_open = True
        stream = device.create_stream()
        start = stream.record()
        stream.launch(kernel, ONE_THREAD)
        stream.launch(kernel, ONE_THREAD)
        end = stream.record()
        await end
        assert zc.elapsed_ms(start, end) == 3.0
        assert end - start == 3.0
        assert start - end == -3.0
        assert end.time_ms == 3.0


async def test_elapsed_time_on_the_real_clock_comes_from_the_workers() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        rig.executor.is_open = True
        stream = device.create_stream()
        start = stream.record()
        op = stream.launch(kernel, ONE_THREAD)
        end = stream.record()
        await end
        assert op.finished_ms is not None
        assert end.time_ms == op.finished_ms
        assert end - start == pytest.approx(op.finished_ms - start.time_ms)


async def test_timing_errors_are_cudas() -> None:
    rig = Rig()
    async with rig.open() as device, Rig().open() as other:
        kernel = await load(device)
        stream = device.create_stream()
        done = stream.record(device.create_event(zc.EventOptions(name="done")))
        never = device.create_event(zc.EventOptions(name="never"))
        untimed = stream.record(device.create_event(zc.EventOptions(timing_enabled=False, name="untimed")))
        stream.launch(kernel, ONE_THREAD)
        pending = stream.record()
        with pytest.raises(
            zc.CudaError,
            match=r"^cudaErrorInvalidResourceHandle \(400\): never was never recorded, so it has no time;"
            r" call stream\.record\(event\) first$",
        ):
            zc.elapsed_ms(done, never)
        with pytest.raises(
            zc.CudaError,
            match=r"^cudaErrorInvalidResourceHandle \(400\): untimed was made with timing_enabled=False,"
            r" so it has no time; make it with timing$",
        ):
            zc.elapsed_ms(untimed, done)
        with pytest.raises(
            zc.CudaError,
            match=r"^cudaErrorNotReady \(600\): event was recorded but not reached yet; await it first$",
        ):
            zc.elapsed_ms(done, pending)
        with pytest.raises(zc.CudaError, match=r"^cudaErrorInvalidResourceHandle \(400\): done and event belong"):
            zc.elapsed_ms(done, other.create_event())
        with pytest.raises(zc.CudaError, match=r"^cudaErrorInvalidResourceHandle \(400\): done belongs to ano"):
            other.create_stream().record(done)
        with pytest.raises(TypeError):
            done - 3  # type: ignore[operator]
        rig.executor.end()


async def test_a_stream_of_another_device_can_wait_for_an_event() -> None:
    rig = Rig()
    async with rig.open() as device, Rig().open() as other:
        kernel = await load(device)
        stream, second = device.create_stream(), other.create_stream()
        stream.launch(kernel, ONE_THREAD)
        second.wait(stream.record())
        op = second.memset(other.allocate(4), 0)
        assert not op.is_done
        rig.executor.end()
        assert op.is_done
