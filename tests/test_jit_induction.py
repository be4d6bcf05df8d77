"""Pointers that loops move: split into a start and a distance, and what they read is the same."""

from __future__ import annotations

import numpy as np
import pytest
from jit_harness import Case, check, kernel

from zcuda_async.jit.induction import split_pointers
from zcuda_async.ptx import parse
from zcuda_async.ptx.ir import Function, Instruction

VALUES = (np.arange(4096, dtype=np.uint64) * 2654435761 % (1 << 32)).astype(np.uint32)
START = "mul.wide.u32 %d11, %r6, 4; add.s64 %d12, %d0, %d11; and.b32 %r12, %r6, 7; mov.u32 %r10, 0;"
TURN = "sub.s32 %r12, %r12, 1; setp.ge.s32 %p1, %r12, 0; @%p1 bra LOOP;"
LOOPS = {
    "plain": ("LOOP: ld.global.u32 %r11, [%d12]; add.u32 %r10, %r10, %r11; add.s64 %d12, %d12, 256;" + TURN, True),
    "moved twice": (
        "LOOP: ld.global.u32 %r11, [%d12]; add.s64 %d12, %d12, 256; mad.lo.u32 %r10, %r10, 3, %r11;"
        "ld.global.u32 %r11, [%d12+4]; add.s64 %d12, %d12, -128; xor.b32 %r10, %r10, %r11;" + TURN,
        True,
    ),
    "used after it moved": (
        "LOOP: add.s64 %d12, %d12, 256; ld.global.u32 %r11, [%d12]; add.u32 %r10, %r10, %r11;" + TURN,
        True,
    ),
    "needed later": (
        "LOOP: ld.global.u32 %r11, [%d12]; add.u32 %r10, %r10, %r11; add.s64 %d12, %d12, 256;"
        + TURN
        + "ld.global.u32 %r11, [%d12]; mad.lo.u32 %r10, %r10, 5, %r11;",
        False,
    ),
    "moved by some": (
        "LOOP: ld.global.u32 %r11, [%d12]; add.u32 %r10, %r10, %r11; and.b32 %r13, %r12, 1; setp.eq.u32 %p2, %r13, 0;"
        "@%p2 add.s64 %d12, %d12, 256;" + TURN,
        False,
    ),
    "moved in a branch": (
        "LOOP: ld.global.u32 %r11, [%d12]; add.u32 %r10, %r10, %r11; xor.b32 %r13, %r12, %r6; and.b32 %r13, %r13, 1;"
        "setp.eq.u32 %p2, %r13, 0; @%p2 bra OVER; add.s64 %d12, %d12, 256; add.u32 %r10, %r10, 7; OVER:" + TURN,
        True,
    ),
    "entered in two ways": (
        "setp.lt.u32 %p2, %r6, 20; @%p2 bra LOOP; add.u32 %r10, %r10, 5; add.s64 %d12, %d12, 64;"
        "LOOP: ld.global.u32 %r11, [%d12]; add.u32 %r10, %r10, %r11; add.s64 %d12, %d12, 256;" + TURN,
        True,
    ),
    "entered in the middle": (
        "setp.lt.u32 %p2, %r6, 20; @%p2 bra MIDDLE;"
        "LOOP: ld.global.u32 %r11, [%d12]; add.u32 %r10, %r10, %r11; MIDDLE: add.s64 %d12, %d12, 256;" + TURN,
        False,
    ),
    "a loop in a loop": (
        "mov.u32 %r14, 3; OUTER: mov.u32 %r12, %r14; LOOP: ld.global.u32 %r11, [%d12]; add.u32 %r10, %r10, %r11;"
        "add.s64 %d12, %d12, 256;" + TURN + "sub.u32 %r14, %r14, 1; setp.ne.u32 %p2, %r14, 0; @%p2 bra OUTER;",
        True,
    ),
    "left in the middle": (
        "LOOP: ld.global.u32 %r11, [%d12]; add.u32 %r10, %r10, %r11; and.b32 %r13, %r11, 7; setp.eq.u32 %p2, %r13, 3;"
        "@%p2 bra DONE; add.s64 %d12, %d12, 256;" + TURN + "DONE: add.u32 %r10, %r10, %r12;",
        True,
    ),
    "two pointers": (
        "add.s64 %d13, %d12, 1024; LOOP: ld.global.u32 %r11, [%d12]; ld.global.u32 %r13, [%d13];"
        "mad.lo.u32 %r10, %r11, %r13, %r10; add.s64 %d12, %d12, 256; add.u64 %d13, %d13, 512;" + TURN,
        True,
    ),
}


def text_of(name: str) -> str:
    return kernel(f"{START} {LOOPS[name][0]} cvt.u64.u32 %d10, %r10;")


@pytest.mark.parametrize("name", LOOPS)
def test_loops_read_what_they_read(name: str) -> None:
    check(Case(text_of(name), [VALUES, np.zeros(64, np.uint64)], block=(64, 1, 1)))


@pytest.mark.parametrize("name", LOOPS)
def test_what_is_split(name: str) -> None:
    function = parse(text_of(name)).functions[0]
    assert (names(split_pointers(function)) != names(function)) == LOOPS[name][1]


def names(function: Function) -> set[str]:
    """The registers that some instruction of the function writes or reads first."""
    operands = [item.operands[0] for item in function.body if isinstance(item, Instruction) and item.operands]
    return {getattr(operand, "name", "") for operand in operands}


def test_stores_by_a_pointer_that_moves() -> None:
    body = """
        mul.wide.u32 %d11, %r6, 4; add.s64 %d12, %d0, %d11; and.b32 %r12, %r6, 7; mov.u32 %r10, %r6;
        LOOP: st.global.u32 [%d12], %r10; add.u32 %r10, %r10, 1000; add.s64 %d12, %d12, 256;
        sub.s32 %r12, %r12, 1; setp.ge.s32 %p1, %r12, 0; @%p1 bra LOOP;"""
    check(Case(kernel(body), [VALUES, np.zeros(64, np.uint64)], block=(64, 1, 1)))
