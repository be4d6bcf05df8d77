"""Kernels that call device functions, optimised and built for debugging."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import zcuda_async as zc
from zcuda_async.jit.compile import compile_kernel
from zcuda_async.ptx import PtxError

FOLDER = Path(__file__).parent / "ptx"
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def sum_until(a: np.float32, n: int) -> np.float32:
    s = np.float32(0)
    for i in range(n):
        s = np.float32(np.float64(a) * i + np.float64(s))
        if s > 100:
            return s
    return s


def expected(values: npt.NDArray[np.float32], n: int) -> npt.NDArray[np.float32]:
    result = np.full_like(values, -1)
    for i in range(n):
        x, y, k, tag = values[i], np.float32(values[i] * 2), i % 7, i & 255
        if i & 1:
            x, y, k, tag = np.float32(x + values[0]), sum_until(y, k), k * 2, (tag + 250) & 255
        other = values[i // 64 * 64 + 63 - i % 64]
        total = np.float32(x + sum_until(y, k + 3))
        for more in (np.float32((3, 1, 4, 1, 5)[i % 5]), other, np.float32(tag)):
            total = np.float32(total + more)
        result[i] = total
    return result


@pytest.mark.anyio
@pytest.mark.parametrize("file", ["calls.ptx", "calls_debug.ptx"])
async def test_calls_are_expanded_in_place(file: str) -> None:
    n = 150
    values = np.random.default_rng(3).random(192).astype(np.float32) * 20
    result = np.empty_like(values)
    async with zc.open_device(0, workers=1) as device, device.create_stream() as stream:
        kernel = await device.load_ptx((FOLDER / file).read_text(), file).get_kernel("calls")
        assert kernel.info.static_shared == 256
        source, target = device.allocate(values.nbytes), device.allocate(values.nbytes)
        stream.memcpy(source, values)
        stream.memcpy(target, np.full_like(values, -1))
        stream.launch(kernel, zc.LaunchConfig(grid=3, block=64), n, source, target)
        await stream.memcpy(result, target)
    np.testing.assert_allclose(result, expected(values, n), rtol=1e-6)


def test_a_function_without_a_body_is_refused() -> None:
    text = HEAD + ".extern .func away();\n.visible .entry k() { call away, (); ret; }\n"
    with pytest.raises(PtxError, match=r"^a\.ptx:5:\d+: error: call: the function away has no body here"):
        compile_kernel(text, "a.ptx", "k", (32, 1, 1))


@pytest.mark.anyio
@pytest.mark.parametrize("lowest", [0, -1])
async def test_a_failed_assertion_is_a_sticky_error(lowest: int) -> None:
    """``assertion.ptx``: assert(in[i] >= 0); out[i] = in[i] + 1, built by nvcc."""
    values = np.arange(lowest, lowest + 64, dtype=np.int32)
    result = np.empty_like(values)
    async with zc.open_device(0, workers=1) as device, device.create_stream() as stream:
        kernel = await device.load_ptx((FOLDER / "assertion.ptx").read_text(), "assertion.ptx").get_kernel("check")
        source, target = device.allocate(values.nbytes), device.allocate(values.nbytes)
        stream.memcpy(source, values)
        stream.launch(kernel, zc.LaunchConfig(grid=1, block=64), 64, source, target)
        if lowest < 0:
            with pytest.raises(zc.CudaError, match=r"^cudaErrorAssert \(710\): assertion failed in block 0 of check"):
                await stream.sync()
            await device.reset()
            return
        await stream.memcpy(result, target)
    np.testing.assert_array_equal(result, values + 1)
