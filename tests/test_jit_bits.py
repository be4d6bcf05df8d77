"""Instructions on bits and fields, packed integers and carries: machine code, interpreter and plain Python agree."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest
from jit_harness import TARGETS, Case, kernel, run_interpreter, run_jit
from scalar_tools import check_spelling

from zcuda_async.jit.lower.ternary import formulas

ONES = 0xFFFFFFFF
WORDS = [
    0,
    1,
    2,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    ONES,
    0x12345678,
    0xFEDCBA98,
    0x80FF7F01,
]


def rows(columns: int, count: int = 400, *, small: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    """Words worth trying; in the columns `small`, mostly numbers around 0 to 40."""
    rng = random.Random(columns)

    def value(column: int) -> int:
        if column in small and rng.random() < 0.9:
            return rng.randint(-3, 40) & ONES
        return rng.choice(WORDS) if rng.random() < 0.5 else rng.getrandbits(32)

    return [tuple(value(column) for column in range(columns)) for _ in range(count)]


def signed(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def fields(word: int, width: int, kind: str) -> list[int]:
    pieces = [word >> at & ((1 << width) - 1) for at in range(0, 32, width)]
    return [signed(piece, width) if kind[0] == "s" else piece for piece in pieces]


@pytest.mark.parametrize("b", ["u32", "s32"])
@pytest.mark.parametrize("a", ["u32", "s32"])
def test_dot_products(a: str, b: str) -> None:
    def dp4a(x: int, y: int, z: int) -> int:
        return (z + sum(p * q for p, q in zip(fields(x, 8, a), fields(y, 8, b), strict=True))) & ONES

    def dp2a(start: int) -> Callable[..., int]:
        return lambda x, y, z: (
            (z + sum(p * q for p, q in zip(fields(x, 16, a), fields(y, 8, b)[start : start + 2], strict=True))) & ONES
        )

    check_spelling([f"dp4a.{a}.{b}"], rows(3), dp4a)
    check_spelling([f"dp2a.lo.{a}.{b}", f"dp2a.hi.{a}.{b}"], rows(3), [dp2a(0), dp2a(2)])


def test_field_extension() -> None:
    def szext(mode: str, kind: str) -> Callable[[int, int], int]:
        def run(a: int, b: int) -> int:
            length = min(b, 32) if mode == "clamp" else b % 32
            if length in (0, 32):
                return a if length else 0
            field = a & ((1 << length) - 1)
            return (signed(field, length) if kind == "s32" else field) & ONES

        return run

    forms = list(itertools.product(("clamp", "wrap"), ("u32", "s32")))
    check_spelling([f"szext.{m}.{k}" for m, k in forms], rows(2, small=(1,)), [szext(m, k) for m, k in forms])


def test_bit_masks() -> None:
    def clamp(a: int, b: int) -> int:
        return ((1 << min(b, 32)) - 1) << min(a, 32) & ONES

    def wrap(a: int, b: int) -> int:
        return ((1 << b % 32) - 1) << a % 32 & ONES

    check_spelling(["bmsk.clamp.b32", "bmsk.wrap.b32"], rows(2, small=(0, 1)), [clamp, wrap])


def test_finding_the_nth_set_bit() -> None:
    def fns(mask: int, base: int, offset: int) -> int:
        count = signed(offset, 32)
        if base > 31:
            return ONES
        if count == 0:
            return base if mask >> base & 1 else ONES
        places = range(base, 32) if count > 0 else range(base, -1, -1)
        found = [place for place in places if mask >> place & 1]
        return found[abs(count) - 1] if len(found) >= abs(count) else ONES

    rng = random.Random(4)
    near = [
        (rng.getrandbits(32) & rng.getrandbits(32), rng.randint(0, 31), rng.randint(-9, 9) & ONES) for _ in range(600)
    ]
    check_spelling(["fns.b32"], near + rows(3, small=(1, 2)), fns)


def packed(one: Callable[[int, int], int]) -> Callable[[int, int], int]:
    return lambda a, b: one(a & 0xFFFF, b & 0xFFFF) & 0xFFFF | (one(a >> 16, b >> 16) & 0xFFFF) << 16


def test_packed_half_words() -> None:
    def s(value: int) -> int:
        return signed(value, 16)

    table: dict[str, Callable[[int, int], int]] = {
        "add.u16x2": lambda a, b: a + b,
        "add.s16x2": lambda a, b: a + b,
        "min.u16x2": min,
        "max.u16x2": max,
        "min.s16x2": lambda a, b: min(s(a), s(b)),
        "max.s16x2": lambda a, b: max(s(a), s(b)),
        "min.relu.s16x2": lambda a, b: max(min(s(a), s(b)), 0),
        "max.relu.s16x2": lambda a, b: max(s(a), s(b), 0),
    }
    check_spelling(list(table), rows(2), [packed(one) for one in table.values()])


def test_minimum_and_maximum_with_relu() -> None:
    wants = [lambda a, b: max(min(signed(a, 32), signed(b, 32)), 0), lambda a, b: max(signed(a, 32), signed(b, 32), 0)]
    check_spelling(["min.relu.s32", "max.relu.s32"], rows(2), wants)


def test_saturating_sums() -> None:
    def limited(value: int) -> int:
        return min(max(value, -(1 << 31)), (1 << 31) - 1) & ONES

    wants = [
        lambda a, b: limited(signed(a, 32) + signed(b, 32)),
        lambda a, b: limited(signed(a, 32) - signed(b, 32)),
    ]
    check_spelling(["add.sat.s32", "sub.sat.s32"], rows(2), wants)


def test_products_of_24_bits() -> None:
    def product(part: str, kind: str) -> Callable[[int, int], int]:
        def run(a: int, b: int) -> int:
            x, y = (signed(v, 24) if kind == "s32" else v & 0xFFFFFF for v in (a, b))
            return (x * y if part == "lo" else x * y >> 16) & ONES

        return run

    forms = list(itertools.product(("lo", "hi"), ("u32", "s32")))
    check_spelling([f"mul24.{p}.{k}" for p, k in forms], rows(2), [product(p, k) for p, k in forms])
    sums = [lambda a, b, c, f=product(p, k): (f(a, b) + c) & ONES for p, k in forms]  # noqa: B008
    check_spelling([f"mad24.{p}.{k}" for p, k in forms], rows(3), sums)


@pytest.mark.parametrize("direction", ["l", "r"])
@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_funnel_shifts(direction: str, mode: str) -> None:
    def run(a: int, b: int, c: int) -> int:
        by = min(c, 32) if mode == "clamp" else c % 32
        both = b << 32 | a
        return (both << by >> 32 if direction == "l" else both >> by) & ONES

    check_spelling([f"shf.{direction}.{mode}.b32"], rows(3, small=(2,)), run)


def test_byte_permutations() -> None:
    def permute(mode: str) -> Callable[[int, int, int], int]:
        def run(a: int, b: int, c: int) -> int:
            source = [(b << 32 | a) >> 8 * at & 255 for at in range(8)]
            low, pair = c & 3, (c & 1) * 2
            picks = {
                "f4e": [(low + at) % 8 for at in range(4)],
                "b4e": [(low - at) % 8 for at in range(4)],
                "rc8": [low] * 4,
                "ecl": [max(low, at) for at in range(4)],
                "ecr": [min(low, at) for at in range(4)],
                "rc16": [pair, pair + 1, pair, pair + 1],
            }.get(mode, [c >> 4 * at & 15 for at in range(4)])
            values = [source[pick & 7] if pick < 8 else 255 * (source[pick & 7] >> 7) for pick in picks]
            return sum(value << 8 * at for at, value in enumerate(values))

        return run

    modes = ("", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
    check_spelling([f"prmt.b32.{mode}".rstrip(".") for mode in modes], rows(3), [permute(mode) for mode in modes])


@pytest.mark.parametrize("table", [0, 0x80, 0xFE, 0x96, 0xE8, 0xCA, 0x1B, 0xFF])
def test_any_function_of_three_bits(table: int) -> None:
    def run(a: int, b: int, c: int) -> int:
        return sum((table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i for i in range(32))

    check_spelling(["lop3.b32"], rows(3, 96), run, constant=str(table))


@pytest.mark.parametrize("q", ["0", "1", "%p1", "!%p1"])
@pytest.mark.parametrize("boolean", ["or", "and"])
def test_a_function_of_three_bits_with_a_test_for_zero(boolean: str, q: str) -> None:
    """Lane by lane: a & b is zero in some lanes, and so is the predicate."""
    body = f"""
    and.b32 %r10, %r0, 6; setp.gt.u32 %p1, %r0, 20; lop3.{boolean}.b32 %r11|%p2, %r10, %r0, %r0, 0x80, {q};
    selp.u32 %r12, 1, 0, %p2; mov.b64 %d10, {{%r11, %r12}};
    """
    case = Case(kernel(body), [np.zeros(1, np.uint32), np.zeros(32, np.uint64)])
    lanes = np.arange(32)
    other = {"0": lanes < 0, "1": lanes >= 0, "%p1": lanes > 20, "!%p1": lanes <= 20}[q]
    some = (lanes & 6) != 0
    flags = (some | other) if boolean == "or" else (some & other)
    want = (lanes & 6).astype(np.uint64) | flags.astype(np.uint64) << np.uint64(32)
    assert (run_interpreter(case)[1] == want).all()
    for name in TARGETS:
        assert (run_jit(case, name)[1] == want).all(), name


def test_constant_selectors_and_tables() -> None:
    """Constants take code of their own: byte permutations without signs, and functions of up to one operation."""
    selectors = (0x5410, 0x7632, 0x3340, 0x0123, 0x4321, 0x7777, 0x9180, 0x8888, 0x10000)
    tables = (0x00, 0xFF, 0xF0, 0xCC, 0xAA, 0x0F, 0xC0, 0xFC, 0x3C, 0x96, 0x1B, 0x69, 0xE8, 0x81)
    lines = [f"prmt.b32 %r12, %r10, %r11, {selector};" for selector in selectors]
    lines += [f"lop3.b32 %r12, %r10, %r11, %r0, {table};" for table in tables]
    body = "mad.lo.u32 %r10, %r0, 0x9E3779B1, 77; mad.lo.u32 %r11, %r10, 0x85EBCA6B, %r0;\n" + "\n".join(
        f"{line} cvt.u64.u32 %d11, %r12; mad.lo.u64 %d10, %d10, 0x100000001B3, %d11;" for line in lines
    )
    for text in (kernel(body), kernel(body.replace("%r0", "%r5"))):  # %r5 is the block's index, the same in all lanes
        case = Case(text, [np.zeros(1, np.uint32), np.zeros(192, np.uint64)], grid=(3, 1, 1), block=(64, 1, 1))
        want = run_interpreter(case)[1]
        for name in TARGETS:
            assert (run_jit(case, name)[1] == want).all(), name


def evaluated(table: int) -> tuple[int, int]:
    """(table, operations) of a formula, from the tables of its sources."""
    _, formula = formulas()[table]
    if table in (0x00, 0xFF):
        return table, 0
    if isinstance(formula, int):
        return (0xF0, 0xCC, 0xAA)[formula], 0
    opcode, left, right = formula
    (a, one), (b, two) = evaluated(left), evaluated(right)
    return {"and": a & b, "or": a | b, "xor": a ^ b}[opcode], one + two + 1


def test_every_function_of_three_bits_has_a_short_formula() -> None:
    for table in range(256):
        assert evaluated(table) == (table, formulas()[table][0])
    assert max(cost for cost, _ in formulas().values()) <= 5
    assert formulas()[0x96][0] == 2
