"""The virtual clock: modelled transfers and kernels overlap exactly as they should."""

from __future__ import annotations

import threading

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint
from runtime_support import ONE_THREAD, Rig, load

import zcuda_async as zc

pytestmark = pytest.mark.anyio

MB = 1_000_000
LINK = zc.LinkProfile(name="test", h2d_gbps=1.0, d2h_gbps=2.0, latency_us=0.0)
"""A megabyte takes 1 ms to the device and 0.5 ms back."""


async def test_serial_work_adds_up() -> None:
    rig = Rig()
    async with rig.open(clock=zc.VirtualClock(kernel_ms=2.0), link=LINK) as device:
        kernel = await load(device)
        rig.executor.is_open = True
        stream = device.create_stream()
        buffer, data = device.allocate(MB), bytearray(MB)
        start = stream.record()
        ops = [stream.memcpy(buffer, data), stream.launch(kernel, ONE_THREAD), stream.memcpy(data, buffer)]
        end = stream.record()
        await end
        assert end - start == 3.5
        assert [(op.started_ms, op.finished_ms) for op in ops] == [(0, 1), (1, 3), (3, 3.5)]
        assert [op.engine for op in ops] == ["h2d", None, "d2h"]


async def test_three_streams_pipeline() -> None:
    rig = Rig()
    async with rig.open(clock=zc.VirtualClock(kernel_ms=1.0), link=LINK) as device:
        kernel = await load(device)
        rig.executor.is_open = True
        buffers = [device.allocate(MB) for _ in range(3)]
        data = bytearray(MB)
        lanes = []
        for buffer in buffers:
            stream = device.create_stream()
            lanes.append((stream.memcpy(buffer, data), stream.launch(kernel, ONE_THREAD), stream.memcpy(data, buffer)))
        await device.sync()
        times = [[(op.started_ms, op.finished_ms) for op in lane] for lane in lanes]
        assert times == [
            [(0, 1), (1, 2), (2, 2.5)],
            [(1, 2), (2, 3), (3, 3.5)],
            [(2, 3), (3, 4), (4, 4.5)],
        ]


async def test_directions_have_engines_of_their_own() -> None:
    async with Rig().open(clock=zc.VirtualClock(), link=LINK) as device:
        first, second = device.create_stream(), device.create_stream()
        data = bytearray(MB)
        up = first.memcpy(device.allocate(MB), bytes(MB))
        down = second.memcpy(data, device.allocate(MB))
        await device.sync()
        assert (up.started_ms, up.finished_ms) == (0, 1)
        assert (down.started_ms, down.finished_ms) == (0, 0.5)


async def test_latency_counts_for_every_copy_and_device_copies_are_free_unless_modelled() -> None:
    slow = zc.LinkProfile(name="slow", h2d_gbps=1.0, d2h_gbps=1.0, latency_us=500.0)
    async with Rig().open(clock=zc.VirtualClock(), link=slow) as device:
        stream = device.create_stream()
        buffer = device.allocate(MB)
        ops = [stream.memcpy(buffer, b"a"), stream.memcpy(buffer, b""), stream.memcpy(buffer, buffer)]
        await stream.sync()
        assert ops[0].finished_ms == pytest.approx(0.500001)
        assert ops[1].finished_ms == pytest.approx(1.000001)
        assert ops[2].finished_ms == ops[2].started_ms == ops[1].finished_ms
    inside = zc.LinkProfile(name="inside", h2d_gbps=1.0, d2h_gbps=1.0, d2d_gbps=1.0, latency_us=0.0)
    async with Rig().open(clock=zc.VirtualClock(), link=inside) as device:
        buffer = device.allocate(MB)
        op = device.create_stream().memcpy(buffer, buffer)
        await op
        assert (op.finished_ms, op.engine) == (1, "d2d")


async def test_time_stands_still_while_real_work_runs() -> None:
    rig = Rig()
    async with rig.open(clock=zc.VirtualClock(kernel_ms=0.25), link=LINK) as device:
        kernel = await load(device)
        first, second = device.create_stream(), device.create_stream()
        launch = first.launch(kernel, ONE_THREAD)
        copy = second.memcpy(device.allocate(MB), bytes(MB))
        await anyio.wait_all_tasks_blocked()
        assert not copy.is_done
        rig.executor.end()
        await device.sync()
        assert launch.finished_ms == 0.25
        assert copy.finished_ms == 1


async def test_time_stands_still_while_a_callback_runs() -> None:
    gate = threading.Event()
    async with Rig().open(clock=zc.VirtualClock(), link=LINK) as device:
        first, second = device.create_stream(), device.create_stream()
        callback = first.host_callback(gate.wait, 10)
        copy = second.memcpy(device.allocate(MB), bytes(MB))
        await anyio.wait_all_tasks_blocked()
        assert not copy.is_done
        gate.set()
        await device.sync()
        assert callback.finished_ms == 0
        assert copy.finished_ms == 1


async def test_large_copies_in_threads_are_exact_too() -> None:
    size = 8 * MB
    async with Rig().open(clock=zc.VirtualClock(), link=LINK) as device:
        streams = [device.create_stream() for _ in range(3)]
        ops = [stream.memcpy(device.allocate(size), bytes(size)) for stream in streams]
        await device.sync()
        assert [op.finished_ms for op in ops] == [8, 16, 24]


async def test_tasks_that_react_to_completions_overlap() -> None:
    """Each task submits its next copy when the one before is done; none may miss its turn."""
    ends: list[float | None] = []
    async with Rig().open(clock=zc.VirtualClock(), link=LINK) as device:

        async def ping_pong() -> None:
            stream = device.create_stream()
            buffer, data = device.allocate(MB), bytearray(MB)
            for _ in range(3):
                await stream.memcpy(buffer, data)
                op = stream.memcpy(data, buffer)
                await op
            ends.append(op.finished_ms)

        async with anyio.create_task_group() as task_group:
            task_group.start_soon(ping_pong)
            task_group.start_soon(ping_pong)
    assert set(ends) == {5.5, 6.5}


async def test_sleeping_on_the_clock_stands_for_host_work() -> None:
    clock = zc.VirtualClock()
    async with Rig().open(clock=clock, link=LINK) as device:
        stream = device.create_stream()
        op = stream.memcpy(device.allocate(MB), bytes(MB))
        await clock.sleep_ms(0.75)
        assert clock.now_ms == 0.75
        assert not op.is_done
        await clock.sleep_ms(10)
        assert clock.now_ms == 10.75
        assert op.finished_ms == 1


async def test_hold_keeps_the_clock_from_jumping() -> None:
    clock = zc.VirtualClock()
    async with Rig().open(clock=clock, link=LINK) as device:
        stream = device.create_stream()
        with clock.hold():
            first = stream.memcpy(device.allocate(MB), bytes(MB))
            for _ in range(100):
                await checkpoint()
            await anyio.to_thread.run_sync(int)
            assert not first.is_done
            second = device.create_stream().memcpy(device.allocate(MB), bytes(MB))
        await device.sync()
        assert [first.finished_ms, second.finished_ms] == [1, 2]


async def test_kernel_model_sees_the_kernel_and_its_shape() -> None:
    rig = Rig()

    def model(kernel: zc.Kernel, config: zc.LaunchConfig) -> float:
        assert kernel.name == "empty"
        return config.grid_shape[0] * 0.5

    async with rig.open(clock=zc.VirtualClock(kernel_ms=model)) as device:
        kernel = await load(device)
        rig.executor.is_open = True
        op = device.create_stream().launch(kernel, zc.LaunchConfig(grid=3, block=1))
        await op
        assert op.finished_ms == 1.5


async def test_a_device_closed_in_a_hurry_forgets_its_deadlines() -> None:
    clock = zc.VirtualClock()
    with pytest.raises(KeyError):
        async with Rig().open(clock=clock, link=LINK) as device:
            op = device.create_stream().memcpy(device.allocate(MB), bytes(MB))
            raise KeyError
    assert isinstance(op.exception(), zc.AbandonedError)
    async with Rig().open(clock=clock):
        await clock.sleep_ms(5)
    assert clock.now_ms == 5


async def test_a_reset_device_ignores_old_deadlines() -> None:
    async with Rig().open(clock=zc.VirtualClock(), link=LINK) as device:
        stream = device.create_stream()
        old = stream.memcpy(device.allocate(MB), bytes(MB))
        await device.reset()
        op = stream.memcpy(device.allocate(MB), bytes(MB))
        await op
        assert op.finished_ms == 1  # the engine is free again
        assert isinstance(old.exception(), zc.AbandonedError)


def test_settle_turns_are_checked() -> None:
    with pytest.raises(ValueError, match=r"^settle_turns must be at least 1, got 0$"):
        zc.VirtualClock(settle_turns=0)
