"""Dot products of bytes in a row, where a constant in view once kept LLVM's instruction selection from ending."""

from __future__ import annotations

import numpy as np
import pytest
from jit_harness import TARGETS, Case, differences, kernel, run_interpreter, run_jit


@pytest.mark.parametrize("kinds", ["s32.s32", "u32.u32", "s32.u32", "u32.s32"])
def test_a_chain_of_dot_products_with_one_uniform_factor(kinds: str) -> None:
    steps = "\n".join(
        f"ld.global.b32 %r10, [%d0+{4 * i}]; ld.global.b32 %r11, [%d11+{4 * i}]; dp4a.{kinds} %r12, %r10, %r11, %r12;"
        for i in range(8)
    )
    body = f"mov.u32 %r12, 5; mul.wide.u32 %d11, %r7, 4; add.s64 %d11, %d0, %d11; {steps} cvt.u64.u32 %d10, %r12;"
    data = np.random.default_rng(1).integers(0, 1 << 32, 80, dtype=np.uint32)
    case = Case(kernel(body), [data, np.zeros(64, np.uint64)], block=(64, 1, 1))
    want = run_interpreter(case)
    for target in TARGETS:
        assert not differences(run_jit(case, target), want)
