"""The runtime as a plain asyncio program uses it: no anyio in sight."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import anyio
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


NOP = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nop() { ret; }\n"
LARGE = 4 << 20


async def use_after_launches() -> None:
    """Everything that needs a task and starts when a worker's answer is read: in a callback, where no task runs."""
    async with zc.open_device(0, workers=1) as device:
        kernel = await device.load_ptx(NOP).get_kernel("nop")
        stream = device.create_stream()
        await stream.launch(kernel, ONE_THREAD)
        stream.launch(kernel, ONE_THREAD)
        assert await stream.host_callback(lambda: 5) == 5
        buffer, out = device.allocate(LARGE), bytearray(LARGE)
        stream.launch(kernel, ONE_THREAD)
        stream.memset(buffer, 7)
        stream.launch(kernel, ONE_THREAD)
        await stream.memcpy(out, buffer)
        assert out == bytes([7]) * LARGE
        stream.launch(kernel, ONE_THREAD)
        await stream.launch(kernel, zc.LaunchConfig(grid=1, block=2))  # compiled for these blocks first
        await submit_in_callback(stream, buffer, out)


async def submit_in_callback(stream: zc.Stream, buffer: zc.Buffer, out: bytearray) -> None:
    loop = asyncio.get_running_loop()
    submitted: asyncio.Future[zc.Op[int]] = loop.create_future()

    def submit() -> None:
        stream.memset(buffer, 8)
        stream.memcpy(out, buffer)
        submitted.set_result(stream.host_callback(lambda: out[-1]))

    loop.call_soon(submit)
    assert await (await submitted) == 8


@pytest.mark.pool
@pytest.mark.asyncio
async def test_what_needs_a_task_starts_after_a_launch() -> None:
    await asyncio.wait_for(use_after_launches(), 30)


@pytest.mark.pool
@pytest.mark.slow
def test_what_needs_a_task_starts_after_a_launch_in_a_plain_program() -> None:
    script = "import asyncio, test_runtime_asyncio_user as user; asyncio.run(user.use_after_launches())"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.pool
@pytest.mark.asyncio
async def test_done_callbacks_may_use_anyio_after_a_launch() -> None:
    async with zc.open_device(0, workers=1) as device, anyio.create_task_group() as group:
        kernel = await device.load_ptx(NOP).get_kernel("nop")
        called = anyio.Event()

        async def note() -> None:
            called.set()

        def start() -> None:
            group.start_soon(note)

        op = device.create_stream().launch(kernel, ONE_THREAD)
        op.add_done_callback(start)
        with anyio.fail_after(10):
            await called.wait()


@pytest.mark.pool
@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("kernels/saxpy.ptx", "'kernels/saxpy.ptx' looks like a path: load_ptx takes the text, so pass "),
        ('extern "C" __global__ void nop() {\n}\n', "the text looks like CUDA C\\+\\+: compile it with `nvcc -ptx` "),
    ],
)
async def test_text_that_is_no_ptx_is_told_what_it_looks_like(text: str, hint: str) -> None:
    async with zc.open_device(0, workers=1) as device:
        with pytest.raises(
            zc.CompileError, match=rf"^cudaErrorInvalidPtx \(218\): <ptx>:1:\d+: error: [^$]*\nhint: {hint}"
        ):
            await device.load_ptx(text).get_kernel("nop")
