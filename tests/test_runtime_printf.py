"""What kernels print, on real workers and in this process: where it goes, and when."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from test_jit_printf import line

import zcuda_async as zc

pytestmark = pytest.mark.anyio
TEXT = (Path(__file__).parent / "ptx" / "printf.ptx").read_text()
HEAD = TEXT.split(".visible")[0]
PRINT = """
{ .param .b64 a; st.param.b64 [a], %d0; .param .b64 b; st.param.b64 [b], %d1; .param .b32 c;
call (c), vprintf, (a, b); }
"""
TRAPS = (
    HEAD
    + f"""
.visible .entry k() {{
.reg .b64 %d<4>;
mov.u64 %d0, $str$3; mov.u64 %d1, 0;
{PRINT}
trap; }}
"""
)


@pytest.mark.parametrize("executor", ["pool", "inline"])
async def test_output_is_there_when_the_launch_is_awaited(executor: str) -> None:
    n = 300
    x = np.arange(n, dtype=np.float32)
    printed: list[str] = []
    workers = 2 if executor == "pool" else 1
    async with (
        zc.open_device(0, workers=workers, executor=executor, printf=printed.append) as device,
        device.create_stream() as stream,
    ):
        kernel = await device.load_ptx(TEXT).get_kernel("k")
        source = device.allocate(x.nbytes)
        stream.memcpy(source, x)
        await stream.launch(kernel, zc.LaunchConfig(grid=10, block=32), n, source)
        lines = "".join(printed).splitlines(keepends=True)
        expected = [line(i, float(x[i])).decode() for i in range(n)]
        assert sorted(lines) == sorted(expected)
        for block in range(10):  # threads of a block print in order
            own = [text for text in lines if int(text.split()[1]) // 32 == block]
            assert own == expected[block * 32 : block * 32 + 32]
        printed.clear()
        for _ in range(3):
            stream.launch(kernel, zc.LaunchConfig(grid=1, block=32), 2, source)
        await stream.sync()
        assert "".join(printed) == "".join(expected[:2]) * 3


async def test_what_a_faulting_kernel_printed_comes_out() -> None:
    target = io.StringIO()
    async with zc.open_device(0, workers=1, printf=target) as device, device.create_stream() as stream:
        kernel = await device.load_ptx(TRAPS).get_kernel("k")
        with pytest.raises(zc.CudaError, match="cudaErrorLaunchFailure"):
            await stream.launch(kernel, zc.LaunchConfig(grid=1, block=2))
        assert target.getvalue() == "no arguments\n" * 2
        await device.reset()
        again = await device.load_ptx(TEXT).get_kernel("results")
        out = device.allocate(4 * 32)
        await stream.launch(again, zc.LaunchConfig(grid=1, block=4), out)
        assert target.getvalue().count("\n") == 6


async def test_the_default_is_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    async with zc.open_device(0, workers=1) as device, device.create_stream() as stream:
        kernel = await device.load_ptx(TEXT).get_kernel("k")
        source = device.allocate(64)
        stream.memset(source, 0, 64)
        stream.launch(kernel, zc.LaunchConfig(grid=1, block=4), 3, source)
    assert capsys.readouterr().out == "".join(line(i, 0).decode() for i in range(3))


async def test_a_full_buffer_warns() -> None:
    printed: list[str] = []
    limits = zc.DeviceLimits(printf_fifo_bytes=4096)
    async with (
        zc.open_device(0, workers=1, printf=printed.append, limits=limits) as device,
        device.create_stream() as stream,
    ):
        kernel = await device.load_ptx(TEXT).get_kernel("k")
        source = device.allocate(4000)
        stream.memset(source, 0, 4000)
        stream.launch(kernel, zc.LaunchConfig(grid=1, block=1000), 1000, source)
        with pytest.warns(RuntimeWarning, match=r"^device 0.*: kernels printed more than the 4096 bytes"):
            await stream.sync()
    assert "".join(printed).endswith(line(999, 0).decode())


async def test_a_failing_target_fails_at_the_next_sync_and_not_the_launch() -> None:
    def refuse(_: str) -> None:
        raise OSError("no room")

    async with zc.open_device(0, workers=1, printf=refuse) as device, device.create_stream() as stream:
        kernel = await device.load_ptx(TEXT).get_kernel("results")
        await stream.launch(kernel, zc.LaunchConfig(grid=1, block=4), device.allocate(64))
        with pytest.raises(OSError, match=r"^no room$"):
            await device.sync()


async def test_a_target_is_a_function_or_a_writer() -> None:
    with pytest.raises(TypeError, match=r"^printf is a function or has a write method, got int$"):
        zc.open_device(0, printf=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^DeviceLimits printf_fifo_bytes must be at least 1, got 0$"):
        zc.DeviceLimits(printf_fifo_bytes=0)
