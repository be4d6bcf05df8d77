"""Arithmetic of 16-bit floats and of pairs of them: machine code, interpreter and exact rational arithmetic agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from jit_harness import TARGETS, Case, run_jit
from scalar_tools import BF16, F16, Form, Number, check_spelling, kernel_text, product, total

FORMS = {"f16": F16, "bf16": BF16}


def rows_of(form: Form, operands: int, count: int, *, pairs: bool = False) -> list[tuple[int, ...]]:
    """Rows of interesting bit patterns; for pairs, of two each."""
    rng = np.random.default_rng(operands + form.exponent)
    values = np.array([*form.interesting(rng, 60), 0x7FF7, 0xFFF7], np.uint64)
    picked = rng.choice(values, (count, operands))
    if pairs:
        picked |= rng.choice(values, (count, operands)) << np.uint64(16)
    return [tuple(map(int, row)) for row in picked]


def flush(form: Form, bits: int) -> int:
    sign = 1 << (form.width - 1)
    return bits & sign if bits & (sign - 1) < 1 << form.fraction else bits


def exact(form: Form, spelling: str, compute: Callable[..., Number]) -> Callable[..., int]:
    parts = spelling.split(".")

    def run(*operands: int) -> int:
        if "oob" in parts and any(bits & 0x7FFF == 0x7FF7 for bits in operands[:2]):
            return 0
        if "ftz" in parts:
            operands = tuple(flush(form, bits) for bits in operands)
        bits = form.bits(compute(*map(form.value, operands)))
        if "ftz" in parts:
            bits = flush(form, bits)
        value = form.value(bits)
        if "sat" in parts:
            return 0 if value != value or value <= 0 else form.bits(Fraction(1)) if value > 1 else bits
        if "relu" in parts and bits >> (form.width - 1) and value == value:
            return 0
        return bits

    return run


def paired(one: Callable[..., int]) -> Callable[..., int]:
    return lambda *words: one(*(word & 0xFFFF for word in words)) | one(*(word >> 16 for word in words)) << 16


COMPUTE: dict[str, Callable[..., Number]] = {
    "add": total,
    "sub": lambda a, b: total(a, product(b, Fraction(-1))),
    "mul": product,
    "fma": lambda a, b, c: total(product(a, b), c),
}


def spellings_of(opcode: str, kind: str) -> list[str]:
    brain = kind.startswith("b")
    if opcode == "fma":
        tails = ["", ".relu"] if brain else ["", ".ftz", ".sat", ".ftz.sat", ".relu", ".ftz.relu"]
        tails += [".oob", ".oob.relu"]
        return [f"fma.rn{tail}.{kind}" for tail in tails]
    tails = ["", ".rn"] if brain else ["", ".rn", ".ftz", ".sat", ".rn.ftz.sat"]
    return [f"{opcode}{tail}.{kind}" for tail in tails]


@pytest.mark.parametrize("kind", ["f16", "f16x2", "bf16", "bf16x2"])
@pytest.mark.parametrize("opcode", list(COMPUTE))
def test_arithmetic_is_exactly_rounded(opcode: str, kind: str) -> None:
    form, pairs = FORMS[kind.removesuffix("x2")], kind.endswith("x2")
    spellings = spellings_of(opcode, kind)
    wants = [exact(form, spelling, COMPUTE[opcode]) for spelling in spellings]
    rows = rows_of(form, 3 if opcode == "fma" else 2, 300, pairs=pairs)
    check_spelling(spellings, rows, [paired(want) for want in wants] if pairs else wants)


def halfway_rows(form: Form) -> list[tuple[int, ...]]:
    """Products next to the middle between two numbers, and addends too small to show in an f32 beside them."""
    rng = np.random.default_rng(5)
    rows = []
    top = 1 << form.fraction
    products = [
        (a, b)
        for a in range(top, 2 * top)
        for b in range(a, min(2 * top, a + 40))
        if a * b % (2 * top) == top or a * b % top == top // 2
    ]
    for _ in range(1500):
        a, b = products[rng.integers(len(products))]
        bias = (1 << (form.exponent - 1)) - 1
        left, right = (rng.integers(max(1, bias - 9), bias + 6) for _ in range(2))
        small = int(rng.integers(0, 3 * top)) if rng.random() < 0.7 else int(rng.integers(0, form.infinity))
        signs = rng.integers(0, 2, 3) << (form.width - 1)
        sized = ((left << form.fraction) | (a - top), (right << form.fraction) | (b - top), small)
        rows.append(tuple(int(size) | int(sign) for size, sign in zip(sized, signs, strict=True)))
    return rows


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_fma_is_not_rounded_twice(kind: str) -> None:
    form = FORMS[kind]
    check_spelling([f"fma.rn.{kind}"], halfway_rows(form), exact(form, "", COMPUTE["fma"]), interpreter=False)


def test_fma_of_bfloats_beyond_the_range_of_f32() -> None:
    """Products that overflow or vanish in f32, with addends of any size."""
    rng = np.random.default_rng(6)
    big = rng.integers(0x6000, 0x7F80, (400, 2))
    tiny = rng.integers(1, 0x1F00, (400, 2))
    pairs = np.concatenate([big, tiny])
    addends = np.where(rng.random(800) < 0.5, rng.integers(0, 0x0200, 800), rng.integers(0, 0x7F80, 800))
    signs = rng.integers(0, 2, (800, 3)) << 15
    rows = [tuple(map(int, row)) for row in np.column_stack([pairs, addends]) | signs]
    check_spelling(["fma.rn.bf16"], rows, exact(BF16, "", COMPUTE["fma"]), interpreter=False)


def test_all_products_and_sums_of_halves_with_a_few() -> None:
    """Every f16 against some: numpy rounds these once, through f32."""
    every = np.arange(1 << 16, dtype=np.uint16)
    few = np.array([0x0001, 0x03FF, 0x3C01, 0x3555, 0x7BFF, 0x8402, 0xC123, 0x1801], np.uint16)
    rows = np.column_stack([np.tile(every[::7], len(few)), np.repeat(few, len(every[::7]))])
    with np.errstate(all="ignore"):
        for opcode, function in (("add", np.add), ("mul", np.multiply), ("sub", np.subtract)):
            want = function(rows[:, 0].view(np.float16), rows[:, 1].view(np.float16)).view(np.uint16)
            table = {tuple(map(int, row)): int(value) for row, value in zip(rows, want, strict=True)}
            given = list(table)
            check_spelling(
                [f"{opcode}.f16"], given, lambda *row, t=table: t[row], targets=("host", "sse2"), interpreter=False
            )


# ---------------------------------------------------------------------- signs, minimum and maximum


def extreme(form: Form, spelling: str) -> Callable[..., int]:
    parts = spelling.split(".")

    def run(a: int, b: int) -> int:
        sign = 1 << (form.width - 1)
        if "ftz" in parts:
            a, b = flush(form, a), flush(form, b)
        flip = (a ^ b) & sign if "xorsign" in parts else 0
        if "xorsign" in parts:
            a, b = a & ~sign, b & ~sign
        nans = form.is_nan(a), form.is_nan(b)
        if all(nans) or (any(nans) and "NaN" in parts):
            return sign - 1
        if any(nans):
            return (b if nans[0] else a) | flip
        key = lambda bits: -(bits & ~sign) - 1 if bits & sign else bits  # noqa: E731
        return (max if parts[0] == "max" else min)(a, b, key=key) | flip

    return run


@pytest.mark.parametrize("kind", ["f16", "f16x2", "bf16", "bf16x2"])
@pytest.mark.parametrize("opcode", ["min", "max"])
def test_minimum_and_maximum(opcode: str, kind: str) -> None:
    form, pairs = FORMS[kind.removesuffix("x2")], kind.endswith("x2")
    flushes = [""] if kind.startswith("b") else ["", ".ftz"]
    tails = [f"{f}{n}{x}" for f in flushes for n in ("", ".NaN") for x in ("", ".xorsign.abs")]
    spellings = [f"{opcode}{tail}.{kind}" for tail in tails]
    wants = [extreme(form, spelling) for spelling in spellings]
    rows = rows_of(form, 2, 300, pairs=pairs)
    check_spelling(spellings, rows, [paired(want) for want in wants] if pairs else wants)


@pytest.mark.parametrize("kind", ["f16", "f16x2", "bf16", "bf16x2"])
def test_signs(kind: str) -> None:
    form, pairs = FORMS[kind.removesuffix("x2")], kind.endswith("x2")
    wants: list[Callable[..., int]] = [lambda a: a ^ 0x8000, lambda a: a & 0x7FFF]
    spellings = [f"neg.{kind}", f"abs.{kind}"]
    if not kind.startswith("b"):
        spellings += [f"neg.ftz.{kind}", f"abs.ftz.{kind}"]
        wants += [lambda a: flush(form, a) ^ 0x8000, lambda a: flush(form, a) & 0x7FFF]
    check_spelling(spellings, rows_of(form, 1, 200, pairs=pairs), [paired(want) for want in wants] if pairs else wants)


# ---------------------------------------------------------------------- comparison

TESTS: dict[str, Callable[[Number, Number], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def holds(form: Form, name: str, *, ftz: bool) -> Callable[[int, int], bool]:
    def run(a: int, b: int) -> bool:
        if ftz:
            a, b = flush(form, a), flush(form, b)
        x, y = form.value(a), form.value(b)
        unordered = x != x or y != y
        if name in ("num", "nan"):
            return unordered == (name == "nan")
        plain = name.removesuffix("u")
        return name.endswith("u") if unordered else TESTS[plain](x, y)

    return run


NAMES = ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")


@pytest.mark.parametrize("kind", ["f16", "f16x2", "bf16", "bf16x2"])
def test_comparisons(kind: str) -> None:
    form, pairs = FORMS[kind.removesuffix("x2")], kind.endswith("x2")
    rows = rows_of(form, 2, 150, pairs=pairs)
    for ftz in ("",) if kind.startswith("b") else ("", ".ftz"):
        spellings = [f"setp.{name}{ftz}.{kind}" for name in NAMES]
        truths = [holds(form, name, ftz=bool(ftz)) for name in NAMES]
        wants = [lambda a, b, t=truth: int(t(a & 0xFFFF, b & 0xFFFF)) for truth in truths]
        check_spelling(spellings, rows, wants)
        check_results_of_set(form, kind, ftz, truths, rows)


def check_results_of_set(
    form: Form, kind: str, ftz: str, truths: Sequence[Callable[[int, int], bool]], rows: Sequence[Sequence[int]]
) -> None:
    one = form.bits(Fraction(1))
    results = {"u32": 0xFFFFFFFF, kind: one}
    for result, true in results.items():
        spellings = [f"set.{name}{ftz}.{result}.{kind}" for name in NAMES]
        if not kind.endswith("x2"):
            wants = [lambda a, b, t=truth, y=true: y if t(a, b) else 0 for truth in truths]
        else:
            half = one if result == kind else 0xFFFF
            wants = [paired(lambda a, b, t=truth, y=half: y if t(a, b) else 0) for truth in truths]
        check_spelling(spellings, rows, wants, targets=("host",))


@pytest.mark.parametrize("kind", ["f16", "f16x2", "bf16", "bf16x2"])
def test_comparisons_combined_with_a_predicate(kind: str) -> None:
    form, pairs = FORMS[kind.removesuffix("x2")], kind.endswith("x2")
    rows = [(*row, at % 2) for at, row in enumerate(rows_of(form, 2, 120, pairs=pairs))]
    spellings = [f"setp.lt.{op}.{kind}" for op in ("and", "or", "xor")]
    check_spelling(spellings, rows)
    check_spelling([f"set.ge.{op}.{kind}.{kind}" for op in ("and", "or", "xor")], rows)


# ---------------------------------------------------------------------- approximate functions


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("spelling", "function", "relative", "absolute"),
    [
        ("ex2.approx.f16", np.exp2, 2.0**-9.9, 2.0**-24),
        ("ex2.approx.ftz.bf16", np.exp2, 2.0**-7, 0.0),
        ("tanh.approx.f16", np.tanh, 0.0, 2.0**-10.987),
        ("tanh.approx.bf16", np.tanh, 0.0, 2.0**-8),
    ],
)
def test_approximations_of_every_value(
    spelling: str, function: np.ufunc, relative: float, absolute: float, target: str
) -> None:
    every = np.arange(1 << 16, dtype=np.uint64)
    pair = spelling + "x2"
    for name, operands in ((spelling, every), (pair, every | every[::-1] << np.uint64(16))):
        arrays = [operands[None, :].copy(), np.zeros((2, len(every)), np.uint64)]
        text = kernel_text([name], len(every))
        got = run_jit(Case(text, arrays, grid=(256, 1, 1), block=(256, 1, 1)), target)[1][0]
        halves = [(got & np.uint64(0xFFFF), every)]
        if name is pair:
            halves.append((got >> np.uint64(16), every[::-1]))
        for result, argument in halves:
            with np.errstate(all="ignore"):
                x, y = (_as_double(words, brain="bf16" in spelling) for words in (argument, result))
                if "bf16" in spelling:
                    x = np.where(np.abs(x) < 2.0**-126, 0.0, x)
                want = function(x)
                if "ftz" in spelling:
                    want = np.where(want < 2.0**-126, 0.0, want)
                largest = 65504 if "bf16" not in spelling else 3.3895313892515355e38
                bound = np.maximum(np.abs(want) * relative, absolute)
                close = (np.abs(y - want) <= bound) | (np.isinf(y) & (want > largest)) | (y == want)
                close |= np.isnan(y) & np.isnan(want)
            assert close.all(), [(hex(argument[i]), hex(result[i]), want[i]) for i in np.flatnonzero(~close)[:4]]


def _as_double(words: npt.NDArray[np.uint64], *, brain: bool) -> npt.NDArray[np.float64]:
    if brain:
        return (words.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return words.astype(np.uint16).view(np.float16).astype(np.float64)
