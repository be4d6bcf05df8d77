"""64-bit ARM hosts: what is compiled for them, and (where there is an emulator) what it computes.

With an emulator on PATH, "arm" is one of `jit_harness.TARGETS`, so all differential tests run for it too.
"""

from __future__ import annotations

import numpy as np
import pytest
from arm_tools import run_arm
from jit_harness import ARM_TOOLS, TARGETS, Case, differences, kernel, run_interpreter, target

from benchmarks.problems import ALL_KERNELS, KERNELS_PTX, MORE_KERNELS, MORE_PTX, make_problem
from zcuda_async.jit.compile import generate_ir
from zcuda_async.jit.pipeline import assemble

_AARCH64 = 183
"""ELF's number of the processor."""

emulated = pytest.mark.skipif("arm" not in TARGETS, reason=f"needs {' and '.join(ARM_TOOLS)} on PATH")


@pytest.mark.parametrize("name", ALL_KERNELS)
def test_benchmark_kernels_compile_for_arm(name: str) -> None:
    block = (*make_problem(name, 0.01).block, 1, 1)[:3]
    text = (MORE_PTX if name in MORE_KERNELS else KERNELS_PTX).read_text()
    ir, suspends, _ = generate_ir(text, "kernels.ptx", name, block, target=target("arm"))
    assert "llvm.x86" not in ir
    code = assemble(ir, target("arm"), suspends=suspends)
    assert code.startswith(b"\x7fELF")
    assert int.from_bytes(code[18:20], "little") == _AARCH64


@emulated
def test_clocks_advance() -> None:
    body = "mov.u64 %d11, %clock64; bar.sync 0; mov.u64 %d12, %clock64; setp.ge.u64 %p1, %d12, %d11; setp.ne.and.u64"
    body += " %p2, %d11, 0, %p1; selp.u64 %d10, 1, 0, %p2;"
    (_, out) = run_arm(Case(kernel(body), [np.zeros(1, np.uint64), np.zeros(32, np.uint64)]))
    assert (out == 1).all()


@emulated
def test_the_emulator_sees_overruns() -> None:
    body = "st.global.u64 [%d1+4096], %d2;"
    with pytest.raises(AssertionError, match="the emulated kernel ended with -11"):
        run_arm(Case(kernel(body), [np.zeros(1, np.uint64), np.zeros(32, np.uint64)]))


@emulated
@pytest.mark.parametrize("parts", [1, 2, 8])
def test_blocks_of_several_groups_meet_at_barriers(parts: int) -> None:
    body = (
        "mov.u32 %r10, tile; mad.lo.u32 %r11, %r6, 4, %r10; st.shared.u32 [%r11], %r7; bar.sync 0; xor.b32 %r12, %r6, 127;"
        "mad.lo.u32 %r11, %r12, 4, %r10; ld.shared.u32 %r13, [%r11]; cvt.u64.u32 %d10, %r13;"
    )
    text = kernel(body, before=".shared .align 4 .b8 tile[512];")
    case = Case(text, [np.zeros(1, np.uint64), np.zeros(384, np.uint64)], grid=(3, 1, 1), block=(128, 1, 1))
    assert not differences(run_arm(case, parts), run_interpreter(case))
