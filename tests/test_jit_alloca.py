"""``alloca`` (``alloca.ptx``): arrays on the stack whose size is known only when the program runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from jit_harness import TARGETS, Case, check, kernel, run_interpreter, run_jit

import zcuda_async as zc

TEXT = (Path(__file__).parent / "ptx" / "alloca.ptx").read_text()


def expected(t: int, n: int) -> int:
    sizes = [t % 60 + i % 7 for i in range(n)]
    return sum(size * size * (size - 1) // 2 for size in sizes) + sum(t + i for i in range(t % 5 + 1))


@pytest.mark.parametrize("target", TARGETS)
def test_each_lane_takes_its_own_and_gives_it_back(target: str) -> None:
    case = Case(TEXT, [300, np.zeros(90, np.int32)], block=(90, 1, 1))
    assert run_jit(case, target)[0].tolist() == [expected(t, 300) for t in range(90)]


def test_the_interpreter_agrees() -> None:
    case = Case(TEXT, [3, np.zeros(40, np.int32)], block=(40, 1, 1))
    assert run_interpreter(case, strict=False)[0].tolist() == run_jit(case)[0].tolist()


def test_saving_and_restoring_the_stack() -> None:
    body = """
and.b32 %r20, %r6, 3; cvt.u64.u32 %d20, %r20; add.u64 %d21, %d20, 40;
mov.u64 %d25, 0;
LOOP:
stacksave.u64 %d22;
setp.ne.u32 %p2, %r20, 1;
mov.u64 %d23, %d22;
@%p2 alloca.u64 %d23, %d21, 32;
@%p2 st.local.u64 [%d23+8], %d20;
@%p2 ld.local.u64 %d24, [%d23+8];
@%p2 add.u64 %d10, %d10, %d24;
stackrestore.u64 %d22;
add.u64 %d25, %d25, 1;
setp.lt.u64 %p1, %d25, 2000;
@%p1 bra LOOP;
and.b64 %d26, %d23, 7; add.u64 %d10, %d10, %d26;
"""
    check(Case(kernel(body), [np.zeros(1, np.uint64), np.zeros(40, np.uint64)], block=(40, 1, 1)))


def test_saving_the_stack_where_nothing_is_taken() -> None:
    body = "stacksave.u64 %d22; stackrestore.u64 %d22; stacksave.u64 %d23; sub.u64 %d10, %d23, %d22; add.u64 %d10, %d10, %d2;"
    check(Case(kernel(body), [np.zeros(1, np.uint64), np.zeros(40, np.uint64)], block=(40, 1, 1)))


@pytest.mark.anyio
async def test_too_much_is_the_stack_error() -> None:
    async with zc.open_device(0, workers=1) as device, device.create_stream() as stream:
        body = "mov.u64 %d20, 100000; alloca.u64 %d21, %d20; st.local.u64 [%d21], %d20; mov.u64 %d10, %d21;"
        function = await device.load_ptx(kernel(body)).get_kernel("k")
        out = device.allocate(8 * 32)
        with pytest.raises(zc.CudaError, match=r"^cudaErrorHardwareStackError \(714\): "):
            await stream.launch(function, zc.LaunchConfig(grid=1, block=32), out, out)
        await device.reset()
