"""Carry chains, 128-bit integers, double-precision functions with slow paths, and packing of uniform values."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from jit_harness import Case, kernel, run_interpreter, run_jit

import zcuda_async as zc

pytestmark = pytest.mark.anyio
PTX = Path(__file__).parent / "ptx" / "extended.ptx"
WORD = (1 << 64) - 1


MIXED = """
ld.global.u32 %r10, [%d0]; ld.global.u32 %r11, [%d0+4]; add.s32 %r10, %r10, %r7;
sub.cc.u32 %r12, %r10, %r11; addc.u32 %r13, 0, 0;
add.cc.u32 %r12, %r10, %r11; subc.cc.u32 %r14, %r7, 0; addc.u32 %r15, 0, 0;
add.cc.u32 %r12, 0, 0; subc.u32 %r16, 0, 0;
bfi.b32 %r13, %r15, %r13, 8, 8; bfi.b32 %r13, %r16, %r13, 16, 8; mov.b64 %d10, {%r13, %r14};
"""


@pytest.mark.parametrize("start", [0, 5, 2**32 - 20])
@pytest.mark.parametrize("other", [0, 10, 2**32 - 1])
def test_sums_and_differences_share_one_flag(start: int, other: int) -> None:
    """A difference is a + ~b + 1: nvcc's division of 128-bit integers adds the flag of a difference.  Its operands
    are the same in all lanes or not."""
    case = Case(kernel(MIXED), [np.array([start, other], np.uint32), np.zeros(64, np.uint64)], block=(64, 1, 1))
    want = []
    for lane in range(64):
        a = (start + lane) % 2**32
        total = lane + 2**32 - 1 + (a + other >= 2**32)
        want.append((total % 2**32) << 32 | 0xFF0000 | (total >= 2**32) << 8 | (a >= other))
    assert run_interpreter(case)[1].tolist() == want
    for target in ("host", "avx2", "sse2"):
        assert run_jit(case, target)[1].tolist() == want


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
