"""Video instructions: machine code against the interpreter for every operation and selector, and worked examples."""

from __future__ import annotations

import random

import numpy as np
import pytest
from jit_harness import Case, differences, kernel, run_interpreter, run_jit

from zcuda_async.ptx import PtxError, parse

VALUES = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x01020304, 0xFEDCBA98,
          0x80FF7F01, 0x00FF00FF, 0x12348765]  # fmt: skip
SCALAR = ("vadd", "vsub", "vabsdiff", "vmin", "vmax")
PARTS = ("", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1")
TYPES = ("u32", "s32")
TESTS = ("eq", "ne", "lt", "le", "gt", "ge")


def run(statements: list[str], *, targets: tuple[str, ...] = ("host", "sse2")) -> None:
    """Each statement reads %r10, %r11, %r12 and writes %r13; machine code and interpreter agree on all of them."""
    rng = random.Random(len(statements))
    rows = [(a, b, c) for a in VALUES for b in VALUES for c in (rng.choice(VALUES),)]
    rows += [tuple(rng.getrandbits(32) for _ in range(3)) for _ in range(64)]
    operands = np.array(rows, np.uint32).T.copy()
    count = len(rows)
    body = f"""
    mul.wide.u32 %d4, %r7, 4; add.s64 %d5, %d0, %d4; add.s64 %d6, %d1, %d4;
    ld.global.u32 %r10, [%d5]; ld.global.u32 %r11, [%d5+{4 * count}]; ld.global.u32 %r12, [%d5+{8 * count}];
    """
    body += "\n".join(
        f"mov.u32 %r13, 0; {line} st.global.u32 [%d6+{4 * count * at}], %r13;" for at, line in enumerate(statements)
    )
    text = kernel(body + "\nret;")
    case = Case(text, [operands, np.zeros((len(statements), count), np.uint32)], grid=(count // 32, 1, 1))
    want = run_interpreter(case)
    for name in targets:
        got = run_jit(case, name)
        wrong = [statements[at] for at in range(len(statements)) if (got[1][at] != want[1][at]).any()]
        assert not wrong, f"{name}: {wrong[:5]}\n{differences(got, want)}"


def three(rng: random.Random) -> tuple[str, str, str]:
    return rng.choice(TYPES), rng.choice(TYPES), rng.choice(TYPES)


@pytest.mark.parametrize("opcode", SCALAR)
def test_scalar_operations(opcode: str) -> None:
    rng = random.Random(opcode)
    lines = []
    for sat in ("", ".sat"):
        for second in ("", ".add", ".min", ".max"):
            for _ in range(3):
                d, a, b = three(rng)
                sources = f"%r10{rng.choice(PARTS)}, %r11{rng.choice(PARTS)}" + (", %r12" if second else "")
                lines.append(f"{opcode}.{d}.{a}.{b}{sat}{second} %r13, {sources};")
        for part in PARTS[1:]:
            d, a, b = three(rng)
            sources = f"%r10{rng.choice(PARTS)}, %r11{rng.choice(PARTS)}, %r12"
            lines.append(f"{opcode}.{d}.{a}.{b}{sat} %r13{part}, {sources};")
    run(lines)


@pytest.mark.parametrize("opcode", ["vshl", "vshr"])
def test_scalar_shifts(opcode: str) -> None:
    rng = random.Random(opcode)
    lines = []
    for sat in ("", ".sat"):
        for mode in (".clamp", ".wrap"):
            for second in ("", ".add", ".min", ".max"):
                d, a, _ = three(rng)
                sources = f"%r10{rng.choice(PARTS)}, %r11{rng.choice(PARTS)}" + (", %r12" if second else "")
                lines.append(f"{opcode}.{d}.{a}.u32{sat}{mode}{second} %r13, {sources};")
            lines += [f"{opcode}.{d}.{a}.u32{sat}{mode} %r13, %r10, %r11.b0;" for d in TYPES for a in TYPES]
            lines.append(f"{opcode}.u32.s32.u32{sat}{mode} %r13{rng.choice(PARTS[1:])}, %r10, %r11.b1, %r12;")
    run(lines)


def test_multiplication_and_addition_with_signs_and_scaling() -> None:
    rng = random.Random(3)
    lines = []
    for sat in ("", ".sat"):
        for scale in ("", ".shr7", ".shr15"):
            for signs in (("", "", ""), ("-", "", ""), ("", "-", ""), ("", "", "-")):
                d, a, b = three(rng)
                sources = f"{signs[0]}%r10{rng.choice(PARTS)}, {signs[1]}%r11{rng.choice(PARTS)}, {signs[2]}%r12"
                lines.append(f"vmad.{d}.{a}.{b}{sat}{scale} %r13, {sources};")
            lines += [f"vmad.{d}.{a}.{b}.po{sat}{scale} %r13, %r10, %r11, %r12;" for d, a, b in [three(rng)]]
            lines.append(f"vmad.u32.u32.u32{sat}{scale} %r13, %r10, %r11, %r12;")
    run(lines)


@pytest.mark.parametrize("opcode", ["vset", "vset2", "vset4"])
def test_comparisons(opcode: str) -> None:
    rng = random.Random(opcode)
    lines = []
    for test in TESTS:
        a, b = rng.choice(TYPES), rng.choice(TYPES)
        if opcode == "vset":
            lines.append(f"vset.{a}.{b}.{test} %r13, %r10{rng.choice(PARTS)}, %r11{rng.choice(PARTS)};")
            lines.append(f"vset.{a}.{b}.{test}.{rng.choice(['add', 'min', 'max'])} %r13, %r10, %r11, %r12;")
            lines.append(f"vset.{a}.{b}.{test} %r13{rng.choice(PARTS[1:])}, %r10, %r11, %r12;")
        else:
            for tail in ("", ".add"):
                lines.append(f"{opcode}.{a}.{b}.{test}{tail} %r13, %r10, %r11, %r12;")
                lines.append(f"{opcode}.{a}.{b}.{test}{tail} {selected(opcode, rng)};")
    run(lines)


def selected(opcode: str, rng: random.Random) -> str:
    """Operands with random masks and selectors."""
    if opcode.endswith("2"):
        mask = rng.choice(["", ".h0", ".h1", ".h10"])
        picks = [".h" + "".join(rng.choices("0123", k=2)) for _ in range(2)]
    else:
        mask = "." + "b" + "".join(digit for digit in "3210" if rng.random() < 0.6)
        mask = "" if mask == ".b" else mask
        picks = [".b" + "".join(rng.choices("01234567", k=4)) for _ in range(2)]
    return f"%r13{mask}, %r10{picks[0]}, %r11{picks[1]}, %r12"


@pytest.mark.parametrize("opcode", [name + size for name in (*SCALAR, "vavrg") for size in "24"])
def test_simd_operations(opcode: str) -> None:
    rng = random.Random(opcode)
    lines = []
    for tail in ("", ".sat", ".add"):
        for _ in range(4):
            d, a, b = three(rng)
            lines.append(f"{opcode}.{d}.{a}.{b}{tail} %r13, %r10, %r11, %r12;")
            lines.append(f"{opcode}.{d}.{a}.{b}{tail} {selected(opcode, rng)};")
    run(lines)


@pytest.mark.parametrize(
    ("statement", "a", "b", "c", "want"),
    [
        ("vabsdiff4.u32.u32.u32.add %r13, %r10, %r11, %r12;", 0x01FF7F00, 0xFF01807F, 5, 5 + 254 + 254 + 1 + 127),
        ("vabsdiff4.u32.u32.u32 %r13, %r10, %r11, %r12;", 0x01FF7F00, 0xFF01807F, 5, 0xFEFE017F),
        ("vabsdiff2.u32.u32.u32.add %r13, %r10, %r11, %r12;", 0x00010005, 0x00030002, 10, 15),
        ("vadd4.u32.u32.u32.sat %r13, %r10, %r11, %r12;", 0xFF800110, 0x01800220, 0, 0xFFFF0330),
        ("vadd2.s32.s32.s32.sat %r13, %r10, %r11, %r12;", 0x7FFF8000, 0x0001FFFF, 0, 0x7FFF8000),
        ("vavrg4.u32.u32.u32 %r13, %r10, %r11, %r12;", 0x01020304, 0x02020202, 0, 0x02020303),
        ("vset4.u32.u32.eq %r13, %r10, %r11, %r12;", 0x01020304, 0x01000300, 0, 0x01000100),
        ("vset4.u32.u32.eq.add %r13, %r10, %r11, %r12;", 0x01020304, 0x01000300, 7, 9),
        ("vadd.s32.u32.s32.sat %r13, %r10.b0, %r11.h0;", 0x000000FF, 0x0000FFFF, 0, 254),
        ("vsub.s32.s32.u32.sat %r13, %r10.h1, %r11.h1;", 0x80000000, 0x00010000, 0, 0xFFFF7FFF),
        ("vsub.u32.s32.u32.sat %r13, %r10.h1, %r11.h1;", 0x80000000, 0x00010000, 0, 0),
        ("vmax.s32.s32.s32.sat %r13.b2, %r10, %r11, %r12;", 300, 5, 0x11223344, 0x117F3344),
        ("vmad.s32.s32.u32.sat %r13, %r10, %r11, -%r12;", 0xFFFFFFFE, 3, 4, 0xFFFFFFF6),
        ("vmad.u32.u32.u32.po.shr7 %r13, %r10, %r11, %r12;", 16, 16, 127, 3),
        ("vshr.u32.u32.u32.wrap %r13, %r10, %r11.h1;", 0x80000000, 0x00210000, 0, 0x40000000),
        ("vshl.s32.s32.u32.sat.clamp %r13, %r10, %r11;", 0x40000000, 1, 0, 0x7FFFFFFF),
        ("vadd4.u32.u32.u32 %r13.b20, %r10.b0123, %r11.b7777, %r12;", 0x01020304, 0x10000000, 0xAABBCCDD, 0xAA12CC11),
    ],
)  # fmt: skip
def test_worked_examples(statement: str, a: int, b: int, c: int, want: int) -> None:
    """By hand, from the manual's definitions; the last: bytes 2 and 0 are a's bytes 1 and 3 plus b's byte 3."""
    if statement.startswith("vadd4.u32.u32.u32 %r13.b20"):
        want = 0xAA000000 | (a >> 8 & 255) + 0x10 << 16 | 0xCC00 | (a >> 24) + 0x10
    body = f"mov.u32 %r10, {a}; mov.u32 %r11, {b}; mov.u32 %r12, {c}; {statement} cvt.u64.u32 %d10, %r13;"
    case = Case(kernel(body), [np.zeros(1, np.uint32), np.zeros(32, np.uint64)])
    assert run_interpreter(case)[1][0] == want
    for name in ("host", "avx2", "sse2"):
        assert (run_jit(case, name)[1] == want).all(), name


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("vadd.u32.u32.u32 %r1.b4, %r2, %r3, %r4;", "selector '.b4'"),
        ("vadd.u32.u32.u32 %r1.b1, %r2, %r3;", "takes the operand c"),
        ("vadd.u32.u32.u32.add %r1, %r2, %r3;", "takes the operand c"),
        ("vadd.u32.u32.u32 %r1, %r2, %r3, %r4;", "takes the operand c"),
        ("vadd.u32.u32.u32.add %r1.b0, %r2, %r3, %r4;", "not both"),
        ("vadd4.u32.u32.u32 %r1.b02, %r2, %r3, %r4;", "selector '.b02'"),
        ("vadd2.u32.u32.u32 %r1, %r2.h04, %r3, %r4;", "selector '.h04'"),
        ("vadd4.u32.u32.u32 %r1, %r2, %r3;", "takes 4 operands"),
        ("vmad.u32.u32.u32.po %r1, -%r2, %r3, %r4;", "can be negated"),
        ("vadd.u32.u32.u32 %r1, -%r2, %r3;", "can be negated"),
        ("add.u32 %r1, %r2.b0, %r3;", "unknown special register"),
    ],
)
def test_what_a_video_instruction_cannot_have_is_refused(statement: str, message: str) -> None:
    with pytest.raises(PtxError, match=message):
        parse(kernel(statement), "<test>")
