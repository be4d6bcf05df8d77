"""The runtime on the real executors: kernels from PTX text, faults, kills and restarts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import anyio
import numpy as np
import pytest

import zcuda_async as zc

pytestmark = [pytest.mark.anyio, pytest.mark.pool]

PTX = """
.version 7.0
.target sm_80
.address_size 64
.global .align 4 .u32 counter = 41;

.visible .entry twice(.param .u32 n, .param .u64 data)
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<5>;
    ld.param.u32 %r1, [n];
    ld.param.u64 %rd1, [data];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.s32 %p1, %r5, %r1;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.s32 %rd3, %r5, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.u32 %r6, [%rd4];
    add.s32 %r7, %r6, %r6;
    st.global.u32 [%rd4], %r7;
DONE:
    ret;
}

.visible .entry count(.param .u64 out)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd2, %rd1;
    ld.global.u32 %r1, [counter];
    add.s32 %r2, %r1, 1;
    st.global.u32 [counter], %r2;
    st.global.u32 [%rd2], %r2;
    ret;
}
"""


@pytest.mark.parametrize("executor", ["pool", "inline"])
async def test_kernel_computes_on_streams_that_overlap(executor: str) -> None:
    count = 1000
    config = zc.LaunchConfig(grid=4, block=256)
    async with zc.open_device(0, executor=executor) as device:
        kernel = await device.load_ptx(PTX, "twice.ptx").get_kernel("twice")
        results = []
        for number in range(4):
            stream = device.create_stream()
            data = np.arange(count, dtype=np.int32) + number
            buffer = device.allocate(data.nbytes)
            out = np.empty_like(data)
            stream.memcpy(buffer, data)
            for _ in range(3):
                stream.launch(kernel, config, count, buffer)
            stream.memcpy(out, buffer)
            results.append((out, data))
        await device.sync()
        for out, data in results:
            assert np.array_equal(out, data * 8)


async def test_module_variables_are_real_memory() -> None:
    async with zc.open_device(0, workers=1) as device, device.create_stream() as stream:
        module = device.load_ptx(PTX, "twice.ptx")
        kernel = await module.get_kernel("count")
        pinned = device.allocate_pinned(4)
        stream.launch(kernel, zc.LaunchConfig(1, 1), pinned)
        await stream.launch(kernel, zc.LaunchConfig(1, 1), pinned)
        assert np.asarray(pinned).view(np.int32)[0] == 43
        out = np.zeros(1, np.int32)
        await stream.memcpy(out, *(await module.get_global("counter")))
        assert out[0] == 43


async def test_wild_pointer_is_a_sticky_error_until_reset_and_others_carry_on() -> None:
    async with zc.open_device(0, workers=1) as device, zc.open_device(0, workers=1) as other:
        kernel = await device.load_ptx(PTX, "twice.ptx").get_kernel("twice")
        other_kernel = await other.load_ptx(PTX, "twice.ptx").get_kernel("twice")
        stream = device.create_stream()
        config = zc.LaunchConfig(1, 32)
        buffer = device.allocate(128)
        launch = stream.launch(kernel, config, 32, 0x10)
        behind = stream.memset(buffer, 0)
        match = r"^cudaErrorIllegalAddress \(700\): illegal address 0x10 in block 0 of twice"
        for op in (launch, behind):
            with pytest.raises(zc.LaunchError, match=match):
                await op
        with pytest.raises(zc.LaunchError, match=match):
            stream.memset(buffer, 0)
        other_buffer = other.allocate(128)
        await other.create_stream().launch(other_kernel, config, 32, other_buffer)
        await device.reset()
        stream.memset(buffer, 1)
        await stream.launch(kernel, config, 32, buffer)
        out = np.zeros(32, np.uint32)
        await stream.memcpy(out, buffer)
        assert (out == 0x02020202).all()


async def test_killed_worker_fails_everything_pending() -> None:
    async with zc.open_device(0, workers=2) as device:
        kernel = await device.load_ptx(PTX, "twice.ptx").get_kernel("twice")
        buffer = device.allocate(4 << 20)
        config = zc.LaunchConfig(1 << 15, 32)
        await device.create_stream().launch(kernel, config, 1 << 20, buffer)
        ops = [device.create_stream().launch(kernel, config, 1 << 20, buffer) for _ in range(50)]
        os.kill(device.context.executor.worker_pids[0], signal.SIGKILL)  # type: ignore[attr-defined]
        with anyio.fail_after(5):
            with pytest.raises(zc.LaunchError, match=r"was killed by signal 9 \(SIGKILL\)"):
                await device.sync()
        assert all(op.is_done for op in ops)
        await device.reset()
        await device.create_stream().launch(kernel, config, 1 << 20, buffer)


async def test_ptx_errors_come_with_file_line_and_column() -> None:
    async with zc.open_device(0, workers=1) as device:
        with pytest.raises(zc.CompileError, match=r"^cudaErrorInvalidPtx \(218\): broken\.ptx:\d+:\d+: error: "):
            await device.load_ptx(PTX.replace("mad.lo", "mad.low"), "broken.ptx").get_kernel("twice")


async def test_cancelled_body_leaves_no_worker() -> None:
    with anyio.CancelScope() as scope:
        async with zc.open_device(0, workers=2) as device:
            kernel = await device.load_ptx(PTX, "twice.ptx").get_kernel("twice")
            pids = device.context.executor.worker_pids  # type: ignore[attr-defined]
            scope.cancel()
            await device.create_stream().launch(kernel, zc.LaunchConfig(1, 1), 0, 0)
    assert scope.cancelled_caught
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


_INTERRUPTED = """
import sys
import anyio
import zcuda_async as zc

async def main():
    async with zc.open_device(0, workers=2) as device:
        kernel = await device.load_ptx(sys.argv[2]).get_kernel("twice")
        buffer = device.allocate(1 << 20)
        stream = device.create_stream()
        await stream.launch(kernel, zc.LaunchConfig(1, 32), 32, buffer)
        print(*device.context.executor.worker_pids, flush=True)
        stream.launch(kernel, zc.LaunchConfig(1, 32), 32, buffer)
        await anyio.sleep_forever()

anyio.run(main, backend=sys.argv[1])
"""


def test_ctrl_c_leaves_no_worker(anyio_backend: str) -> None:
    command = [sys.executable, "-c", _INTERRUPTED, anyio_backend, PTX]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT, errors
    assert errors.strip().endswith("KeyboardInterrupt"), errors
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
