"""``min`` and ``max`` by one instruction: which registers are known to hold no signalling NaN, and what comes out."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from jit_harness import Case, check, kernel

from zcuda_async.jit.cfg import build_control_flow
from zcuda_async.jit.quiet import quiet_registers
from zcuda_async.ptx import parse
from zcuda_async.ptx.ir import Function

NUMBERS = (0, 0x80000000, 1, 0x80000001, 0x3F800000, 0xBF800000, 0x7F7FFFFF, 0x7F800000, 0xFF800000)
NANS = (0x7FC00000, 0xFFC01234, 0x7F800001, 0x7FA00000, 0xFFBFFFFF)
VALUES = np.array(NUMBERS + NANS, np.uint32)
QUIET_IF_NAN = "testp.notanumber.f32 %p9, %f3; selp.f32 %f3, 0f7FC00000, %f3, %p9;"
"""Which NaN comes out where both are is left open."""

BODIES = {
    "of what was loaded": "{op}.f32 %f3, %f1, %f2;",
    "flushed": "{op}.ftz.f32 %f3, %f1, %f2;",
    "of magnitudes": "{op}.xorsign.abs.f32 %f3, %f1, %f2; testp.notanumber.f32 %p1, %f3; @%p1 mov.f32 %f3, 0f7FC00000;",
    "of an extreme": "{op}.f32 %f4, %f1, %f1; {op}.f32 %f3, %f4, %f2;",
    "of a product by one": "mul.f32 %f4, %f1, 0f3F800000; {op}.f32 %f3, %f4, %f2;",
    "of a sum with nothing": "add.f32 %f4, %f1, 0f80000000; {op}.f32 %f3, %f4, %f2;",
    "of a constant that signals": "mov.b32 %f4, 0x7F800001; {op}.f32 %f3, %f4, %f2;",
    "of a register moved": "mov.f32 %f4, %f1; {op}.f32 %f3, %f4, %f2;",
    "of a choice": "setp.lt.u32 %p1, %r6, 50; selp.f32 %f4, %f1, 0f3F800000, %p1; {op}.f32 %f3, %f4, %f2;",
    "of bits": "mov.b32 %r11, %f1; mov.b32 %f4, %r11; {op}.f32 %f3, %f4, %f2;",
    "of another lane's": "mov.b32 %r11, %f1; shfl.sync.idx.b32 %r12, %r11, 3, 31, -1; mov.b32 %f4, %r12; {op}.f32 %f3, %f4, %f2;",
    "of the negative": "neg.f32 %f4, %f1; {op}.f32 %f3, %f4, %f2;",
    "of more": "mov.f32 %f3, 0f00000000; mov.u32 %r11, 4; AGAIN: {op}.f32 %f3, %f3, %f1; {op}.f32 %f3, %f2, %f3;"
    "sub.u32 %r11, %r11, 1; setp.ne.u32 %p1, %r11, 0; @%p1 bra AGAIN;",
}


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("body", BODIES)
def test_extremes(body: str, op: str) -> None:
    pairs = np.array(list(product(VALUES, VALUES)), np.uint32)
    load = "mul.wide.u32 %d11, %r6, 8; add.s64 %d12, %d0, %d11; ld.global.f32 %f1, [%d12]; ld.global.f32 %f2, [%d12+4];"
    text = kernel(load + BODIES[body].format(op=op) + QUIET_IF_NAN + "mov.b32 %r10, %f3; cvt.u64.u32 %d10, %r10;")
    check(Case(text, [pairs.ravel(), np.zeros(len(pairs), np.uint64)], block=(len(pairs), 1, 1)))


@pytest.mark.parametrize(
    ("body", "quiet"),
    [
        ("max.f32 %f1, %f2, %f3;", True),
        ("ld.global.f32 %f1, [%d0];", False),
        ("mov.f32 %f1, 0f7FC00000;", True),
        ("mov.f32 %f1, 0f7F800001;", False),
        ("mov.b32 %f1, 0x7F800000;", True),
        ("mov.b32 %f1, 0x7F800001;", False),
        ("mov.b32 %f1, -1;", True),
        ("mov.f32 %f1, 0f3F800000; mov.f32 %f1, %f2;", True),
        ("mov.f32 %f1, 0f3F800000; ld.global.f32 %f1, [%d0];", False),
        ("ld.global.f32 %f2, [%d0]; mov.f32 %f1, %f2;", False),
        ("ld.global.f32 %f3, [%d0]; mov.f32 %f2, %f3; mov.f32 %f1, %f2;", False),
        ("max.f32 %f2, %f1, %f1; mov.f32 %f1, %f2;", True),
        ("add.f32 %f1, %f2, %f2;", False),
        ("cvt.rn.f32.s32 %f1, %r1;", True),
        ("cvt.f32.f16 %f1, %h1;", True),
        ("cvt.rzi.f32.f32 %f1, %f2;", False),
        ("mov.b64 {%f1, %f2}, %d0;", False),
    ],
)
def test_which_registers_are_quiet(body: str, quiet: bool) -> None:
    text = kernel(body + "mov.b32 %r10, %f1;")
    function = parse(text).functions[0]
    assert isinstance(function, Function)
    assert ("%f1" in quiet_registers(build_control_flow(function))) is quiet
