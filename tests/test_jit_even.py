"""Parts at equal distances: which values are known to be, and that accesses by the first two parts' addresses are right."""

from __future__ import annotations

import numpy as np
import pytest
from jit_harness import Case, differences, kernel, run_interpreter, run_jit, sweep

from zcuda_async.jit.geometry import Geometry
from zcuda_async.jit.shapes import UNIFORM, Shape, Transfer, _widen, join
from zcuda_async.ptx.ir import Instruction, Register, Span

VALUES = (np.arange(4096, dtype=np.uint64) * 2654435761 % (1 << 32)).astype(np.uint32)
ROW = "mul.lo.s32 %r10, %r1, 37; mul.wide.s32 %d11, %r10, 4; add.s64 %d12, %d0, %d11;"
"""%d12: a place in the input for each row of the block."""

BODIES = {
    "a value for each row": ROW + "ld.global.u32 %r11, [%d12+8]; cvt.u64.u32 %d10, %r11;",
    "a row for each row": ROW + "mad.wide.s32 %d12, %r0, 4, %d12; ld.global.u32 %r11, [%d12]; cvt.u64.u32 %d10, %r11;",
    "upwards": "sub.s32 %r10, 63, %r1; mul.wide.s32 %d11, %r10, 16; add.s64 %d12, %d0, %d11;"
    "ld.global.u32 %r11, [%d12]; cvt.u64.u32 %d10, %r11;",
    "the third axis": "mul.wide.u32 %d11, %r2, 52; add.s64 %d12, %d0, %d11; ld.global.u32 %r11, [%d12+4];"
    "cvt.u64.u32 %d10, %r11;",
    "two axes": "mad.lo.s32 %r10, %r2, 100, %r1; mul.wide.s32 %d11, %r10, 4; add.s64 %d12, %d0, %d11;"
    "ld.global.u32 %r11, [%d12]; cvt.u64.u32 %d10, %r11;",
    "rows squared": "mul.lo.s32 %r10, %r1, %r1; mul.wide.s32 %d11, %r10, 4; add.s64 %d12, %d0, %d11;"
    "ld.global.u32 %r11, [%d12]; cvt.u64.u32 %d10, %r11;",
    "unsigned rows that wrap": "sub.u32 %r10, %r1, 2; setp.ge.u32 %p1, %r1, 2; mul.wide.u32 %d11, %r10, 4;"
    "add.s64 %d12, %d0, %d11; mov.u32 %r11, 9; @%p1 ld.global.u32 %r11, [%d12]; cvt.u64.u32 %d10, %r11;",
    "16-bit rows that wrap": "cvt.u16.u32 %h1, %r1; mul.lo.u16 %h1, %h1, 20000; mul.wide.u16 %r10, %h1, 1; shr.u32 %r10,"
    "%r10, 5; mul.wide.u32 %d11, %r10, 4; add.s64 %d12, %d0, %d11; ld.global.u32 %r11, [%d12]; cvt.u64.u32 %d10, %r11;",
    "rows masked": "and.b32 %r10, %r1, 5; mul.wide.u32 %d11, %r10, 4; add.s64 %d12, %d0, %d11;"
    "ld.global.u32 %r11, [%d12]; cvt.u64.u32 %d10, %r11;",
    "pairs of rows": "shr.u32 %r10, %r1, 1; mul.wide.u32 %d11, %r10, 4; add.s64 %d12, %d0, %d11;"
    "ld.global.u32 %r11, [%d12]; cvt.u64.u32 %d10, %r11;",
    "rows in turn": "and.b32 %r10, %r1, 1; setp.eq.u32 %p1, %r10, 0; selp.b32 %r11, %r1, %r3, %p1; mul.wide.s32 %d11,"
    "%r11, 4; add.s64 %d12, %d0, %d11; ld.global.u32 %r12, [%d12]; cvt.u64.u32 %d10, %r12;",
    "a guarded row": ROW + "setp.gt.u32 %p1, %r1, 1; mov.u32 %r11, 3; @%p1 ld.global.u32 %r11, [%d12];"
    "cvt.u64.u32 %d10, %r11;",
    "moved in some rows": ROW + "and.b32 %r12, %r1, 1; setp.eq.u32 %p1, %r12, 0; @%p1 add.s64 %d12, %d12, 64;"
    "ld.global.u32 %r11, [%d12]; cvt.u64.u32 %d10, %r11;",
    "moved behind a branch": ROW + "and.b32 %r12, %r1, 1; setp.eq.u32 %p1, %r12, 0; @%p1 bra OVER;"
    "add.s64 %d12, %d12, 64; OVER: ld.global.u32 %r11, [%d12]; cvt.u64.u32 %d10, %r11;",
    "read behind a branch": ROW + "setp.lt.u32 %p1, %r1, 2; @%p1 bra END;"
    "ld.global.u32 %r11, [%d12]; cvt.u64.u32 %d10, %r11;",
    "loops of other lengths": ROW + "mov.u32 %r13, %r1; mov.u32 %r11, 0; AGAIN: ld.global.u32 %r12, [%d12];"
    "mad.lo.u32 %r11, %r11, 3, %r12; add.s64 %d12, %d12, 12; sub.s32 %r13, %r13, 1; setp.ge.s32 %p1, %r13, 0;"
    "@%p1 bra AGAIN; ld.global.u32 %r12, [%d12]; add.u32 %r11, %r11, %r12; cvt.u64.u32 %d10, %r11;",
    "loops of one length": ROW + "mov.u32 %r13, 5; mov.u32 %r11, 0; AGAIN: ld.global.u32 %r12, [%d12];"
    "mad.lo.u32 %r11, %r11, 3, %r12; add.s64 %d12, %d12, 12; sub.s32 %r13, %r13, 1; setp.ge.s32 %p1, %r13, 0;"
    "@%p1 bra AGAIN; ld.global.u32 %r12, [%d12]; add.u32 %r11, %r11, %r12; cvt.u64.u32 %d10, %r11;",
    "a value loaded for each row": ROW
    + "ld.global.u32 %r11, [%d12]; and.b32 %r11, %r11, 1023; mul.wide.u32 %d11, %r11, 4;"
    "add.s64 %d12, %d0, %d11; ld.global.u32 %r11, [%d12]; cvt.u64.u32 %d10, %r11;",
    "shared memory": "mul.lo.u32 %r10, %r1, 80; mov.u32 %r11, tile; add.u32 %r10, %r10, %r11; mov.b32 %r12, 1;"
    "mad.lo.u32 %r13, %r1, %r3, %r0; mad.lo.u32 %r12, %r2, 1024, %r13; st.shared.u32 [%r10], %r12; bar.sync 0;"
    "ld.shared.u32 %r13, [%r10]; and.b32 %r13, %r13, 1023; div.u32 %r13, %r13, %r3; cvt.u64.u32 %d10, %r13;",
    "stores for each row": "mul.lo.u32 %r10, %r1, 3; mad.wide.u32 %d12, %r10, 4, %d1; st.global.u32 [%d12], %r1; bra LAST;",
    "stores for some rows": "mul.lo.u32 %r10, %r1, 3; mad.wide.u32 %d12, %r10, 4, %d1; setp.ne.u32 %p1, %r1, 1;"
    "@%p1 st.global.u32 [%d12], %r1; bra LAST;",
}
BLOCKS = (
    (16, 8, 1),
    (8, 16, 1),
    (4, 16, 1),
    (16, 6, 1),
    (16, 3, 4),
    (16, 4, 4),
    (16, 1, 8),
    (32, 8, 1),
    (48, 4, 1),
    (64, 2, 1),
)
GEOMETRIES = (("host", 4), ("host", 8), ("avx2", 8), ("sse2", 4))


def _case(body: str, block: tuple[int, int, int]) -> Case:
    text = kernel(body, before=".shared .align 4 .b8 tile[2048];").replace("ret;\n", "LAST: ret;\n")
    return Case(text, [VALUES, np.zeros(1024, np.uint64)], block=block)


def _check(name: str, block: tuple[int, int, int], geometries: tuple[tuple[str, int], ...]) -> None:
    case = _case(BODIES[name], block)
    want = run_interpreter(case)
    for target, parts in geometries:
        text = differences(run_jit(case, target, parts), want)
        assert not text, f"{name} {block}, {target}, {parts} parts: {text}"


@pytest.mark.parametrize("name", BODIES)
def test_accesses_by_rows(name: str) -> None:
    for index, block in enumerate(BLOCKS):
        _check(name, block, GEOMETRIES[index % 2 :: 2] if block[0] > 8 else GEOMETRIES[1:])


@sweep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", BODIES)
def test_accesses_by_rows_for_every_processor(name: str) -> None:
    for block in BLOCKS:
        _check(name, block, GEOMETRIES)


@pytest.mark.parametrize(
    ("block", "parts", "even"),
    [
        ((16, 16, 1), 8, "xy"),
        ((16, 6, 1), 4, "xy"),
        ((16, 8, 2), 4, "xyz"),
        ((16, 6, 2), 4, "x"),
        ((16, 1, 8), 4, "xyz"),
        ((256, 1, 1), 8, "xyz"),
        ((128, 2, 1), 8, "xyz"),
        ((32, 8, 1), 8, "z"),
        ((32, 8, 1), 2, "xyz"),
        ((48, 4, 1), 4, "z"),
        ((8, 8, 1), 4, ""),
    ],
)
def test_thread_indices_of_evenly_spaced_parts(block: tuple[int, int, int], parts: int, even: str) -> None:
    transfer = Transfer(Geometry(block, 16, parts), {})
    shapes = {axis: transfer.special(f"%tid.{axis}") for axis in "xyz"}
    found = {axis for axis in "xyz" if shapes[axis].stride is not None and shapes[axis].is_even}
    assert found - _ones(block) == set(even) - _ones(block)


def _ones(block: tuple[int, int, int]) -> set[str]:
    return {axis for axis, size in zip("xyz", block, strict=True) if size == 1}


EVEN = Shape(0, False, even=True)
UNEVEN = Shape(0, False)


@pytest.mark.parametrize(
    ("opcode", "types", "operands", "even"),
    [
        ("add", "s32", (EVEN, EVEN), True),
        ("add", "s32", (EVEN, UNIFORM), True),
        ("add", "s32", (EVEN, UNEVEN), False),
        ("sub", "s32", (UNIFORM, EVEN), True),
        ("mul", "s32", (EVEN, UNIFORM), True),
        ("mul", "s32", (EVEN, EVEN), False),
        ("mad", "s32", (EVEN, UNIFORM, EVEN), True),
        ("mad", "s32", (EVEN, EVEN, EVEN), False),
        ("and", "b32", (EVEN, UNIFORM), False),
        ("min", "s32", (EVEN, UNIFORM), False),
        ("selp", "b32", (EVEN, UNIFORM, UNIFORM), True),
        ("selp", "b32", (EVEN, UNIFORM, UNEVEN), False),
        ("cvt", "s64.s32", (EVEN,), True),
        ("cvt", "u64.u32", (EVEN,), False),
        ("cvt", "u32.u64", (EVEN,), True),
    ],
)
def test_what_keeps_parts_evenly_spaced(opcode: str, types: str, operands: tuple[Shape, ...], even: bool) -> None:
    names = [Register(f"%s{index}", "b32") for index in range(len(operands))]
    shapes = {name.name: shape for name, shape in zip(names, operands, strict=True)}
    modifiers = ("lo",) if opcode in ("mul", "mad") else ()
    item = Instruction(opcode, modifiers, tuple(types.split(".")), (Register("%to", "b32"), *names), Span(1, 1, 1))
    assert Transfer(Geometry((16, 16, 1), 16, 4), shapes).result(item).is_even is even


def test_parts_stay_evenly_spaced_where_both_definitions_are() -> None:
    assert join(EVEN, UNIFORM).is_even
    assert not join(EVEN, UNEVEN).is_even
    assert _widen(Shape(0, False, None, 1, 64, True), False, 16).is_even
    assert not _widen(EVEN, True, 16, 16).is_even
