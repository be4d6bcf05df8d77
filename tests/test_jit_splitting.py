"""Registers that nvcc uses for several values: each value that has readers of its own gets a name of its own."""

from __future__ import annotations

import numpy as np
import pytest
from jit_harness import Case, check, kernel

from zcuda_async.jit.splitting import split_definitions
from zcuda_async.ptx import parse
from zcuda_async.ptx.ir import Instruction

VALUES = (np.arange(4096, dtype=np.uint64) * 2654435761 % (1 << 32)).astype(np.uint32)

LOOP = """
mov.u32 %r10, %r0; mov.u32 %r11, 0;
mul.wide.u32 %d11, %r10, 4; add.s64 %d12, %d0, %d11; ld.global.u32 %r12, [%d12];
AGAIN: add.u32 %r11, %r11, %r10; mad.lo.u32 %r10, %r10, 3, 1; setp.lt.u32 %p0, %r11, 900; @%p0 bra AGAIN;
add.u32 %r12, %r12, %r11; cvt.u64.u32 %d10, %r12;
"""


def text_of(body: str) -> list[str]:
    """The split function's instructions, as opcode and operands' names."""
    function = split_definitions(parse(kernel(body)).functions[0])
    return [
        f"{item.opcode} {' '.join(str(getattr(operand, 'name', operand)) for operand in item.operands)}"
        for item in function.body
        if isinstance(item, Instruction)
    ]


def test_what_a_loop_starts_from_gets_a_register_of_its_own() -> None:
    lines = text_of(LOOP)
    (start,) = (line for line in lines if line.startswith("mov %r10~"))
    own = start.split()[1]
    assert start == f"mov {own} %r0"
    assert lines[lines.index(start) + 1] == f"mov %r10 {own}"
    assert any(line.startswith(f"mul %d11 {own} ") for line in lines)
    assert any(line.startswith("add %r11") and line.endswith(" %r11 %r10") for line in lines)


def test_values_without_readers_in_common_are_renamed_without_a_copy() -> None:
    lines = text_of("mov.u32 %r10, 5; add.u32 %r11, %r10, %r0; mov.u32 %r10, 7; add.u32 %r11, %r11, %r10;")
    assert not any(line.startswith("mov %r10 ") for line in lines)
    assert sum(line.startswith("mov %r10~") for line in lines) == 2


@pytest.mark.parametrize(
    "body",
    [
        "mov.u32 %r10, 5; add.u32 %r11, %r10, %r10;",
        "setp.lt.u32 %p0, %r0, 9; mov.u32 %r10, 5; @%p0 mov.u32 %r10, 6; cvt.u64.u32 %d10, %r10;",
    ],
    ids=["one definition", "a guarded definition beside another"],
)
def test_what_cannot_be_told_apart_stays(body: str) -> None:
    assert not any("%r10~" in line for line in text_of(body))


@pytest.mark.parametrize(
    "body",
    [
        LOOP,
        # A guarded definition between two readers.
        "mov.u32 %r10, %r0; cvt.u64.u32 %d11, %r10; setp.lt.u32 %p0, %r0, 9; @%p0 mov.u32 %r10, 1000;"
        "cvt.u64.u32 %d12, %r10; mad.lo.u64 %d10, %d12, 7, %d11;",
        # One branch redefines; readers before, inside and after it.
        "mov.u32 %r10, %r0; add.u32 %r11, %r10, 1; setp.lt.u32 %p0, %r0, 21; @%p0 bra PAST;"
        "mul.lo.u32 %r10, %r10, 5; add.u32 %r11, %r11, %r10; PAST: mad.lo.u32 %r11, %r11, 3, %r10;"
        "cvt.u64.u32 %d10, %r11;",
        # Two registers swap their values round after round; a reader after the loop sees only some of them.
        "mov.u32 %r10, %r0; mov.u32 %r11, 3; mov.u32 %r12, 0; add.u32 %r14, %r10, %r11;"
        "AGAIN: mov.u32 %r13, %r10; mov.u32 %r10, %r11; mov.u32 %r11, %r13; add.u32 %r12, %r12, 1;"
        "setp.lt.u32 %p0, %r12, %r0; @%p0 bra AGAIN; mad.lo.u32 %r10, %r10, 100, %r11; mad.lo.u32 %r10, %r14, 7, %r10;"
        "cvt.u64.u32 %d10, %r10;",
        # A value of a loop's last round, read after the loop and in the next round.
        "mov.u32 %r10, 1; mov.u32 %r12, 0; AGAIN: add.u32 %r12, %r12, %r10; mad.lo.u32 %r10, %r12, 5, %r0;"
        "xor.b32 %r11, %r10, 77; setp.lt.u32 %p0, %r12, 500; @%p0 bra AGAIN; add.u32 %r11, %r11, %r10;"
        "cvt.u64.u32 %d10, %r11;",
        # Addresses and vectors.
        "mul.wide.u32 %d11, %r0, 4; add.s64 %d12, %d0, %d11; ld.global.u32 %r10, [%d12+256]; add.u32 %r14, %r10, 1;"
        "and.b64 %d12, %d12, -16; ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%d12]; add.u32 %r10, %r10, %r13;"
        "add.u32 %r10, %r10, %r14; cvt.u64.u32 %d10, %r10;",
    ],
    ids=["loop", "guard", "branch", "swap", "last round", "addresses"],
)
def test_split_registers_compute_the_same(body: str) -> None:
    check(Case(kernel(body), [VALUES, np.zeros(64, np.uint64)], block=(64, 1, 1)))
