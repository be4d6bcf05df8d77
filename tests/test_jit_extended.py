"""Carry chains, 128-bit integers, double-precision functions with slow paths, and packing of uniform values."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import zcuda_async as zc

pytestmark = pytest.mark.anyio
PTX = Path(__file__).parent / "ptx" / "extended.ptx"
WORD = (1 << 64) - 1


@pytest.mark.parametrize("block", [1, 32, 100])
async def test_128_bit_arithmetic_matches_python(block: int) -> None:
    n = 97
    generator = np.random.default_rng(block)
    a, b = (generator.integers(0, WORD, n, dtype=np.uint64, endpoint=True) for _ in range(2))
    a[:5], b[:5] = (0, WORD, 1, WORD, 1 << 63), (0, WORD, WORD, 1, 1 << 63)
    result = np.empty((n, 6), np.uint64)
    async with zc.open_device(0, workers=1) as device, device.create_stream() as stream:
        kernel = await device.load_ptx(PTX.read_text(), "extended.ptx").get_kernel("wide")
        buffers = [device.allocate(array.nbytes) for array in (a, b, result)]
        stream.memcpy(buffers[0], a)
        stream.memcpy(buffers[1], b)
        stream.launch(kernel, zc.LaunchConfig(grid=-(-n // block), block=block), n, *buffers)
        await stream.memcpy(result, buffers[2])
    for i in range(n):
        x, y = int(a[i]) << 64 | int(b[i]), int(b[i]) << 64 | int(a[i])
        wanted = [value >> shift & WORD for value in (x + y, x - y, x * y) for shift in (0, 64)]
        assert [int(word) for word in result[i]] == wanted


@pytest.mark.parametrize("block", [1, 64])
async def test_double_functions_match_the_c_library(block: int) -> None:
    x = np.concatenate([np.linspace(-20, 20, 40), [0.0, 1e-8, 1e5, -3e8, 1e15, 1e22, 1e300]])
    n = len(x)
    result = np.empty((5, n))
    async with zc.open_device(0, workers=1) as device, device.create_stream() as stream:
        kernel = await device.load_ptx(PTX.read_text(), "extended.ptx").get_kernel("maths")
        source, target = device.allocate(x.nbytes), device.allocate(result.nbytes)
        stream.memcpy(source, x)
        stream.launch(kernel, zc.LaunchConfig(grid=-(-n // block), block=block), n, source, target)
        await stream.memcpy(result, target)
    wanted = np.array(
        [
            [math.sin(v) for v in x],
            [math.pow(abs(v) + 0.5, 1.7) if abs(v) < 1e180 else math.inf for v in x],
            [math.atan2(v, 2.0) for v in x],
            [math.fmod(v, 3.0) for v in x],
            [math.cos(v) + math.hypot(v, 3.0) for v in x],
        ]
    )
    np.testing.assert_allclose(result, wanted, rtol=1e-14, atol=1e-15)
