"""Conversions: machine code, interpreter and exact rational arithmetic agree, whatever the modifiers."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scalar_tools import BF16, E5M2, F16, F32, F64, NAN, TF32, Form, Number, check_spelling

FLOATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
ROUND = ("rn", "rz", "rm", "rp")
INTEGERS = {f"{kind}{bits}": (kind == "s", bits) for kind in "us" for bits in (8, 16, 32, 64)}


def patterns(form: Form, seed: int, count: int, *others: Form) -> list[tuple[int]]:
    """Interesting patterns of a format: its own, and the numbers of narrower formats and their middles."""
    rng = np.random.default_rng(seed)
    found = form.interesting(rng, count)
    for other in others:
        for bits in other.interesting(rng, count // 2):
            value = other.value(bits & ~1)
            if isinstance(value, Fraction):
                middle = form.bits(value + Fraction(other_step(other, bits)) / 2, "rz")
                found += [form.bits(value), middle, middle + 1, max(middle - 1, 0)]
    top = 1 << form.width
    return [(bits % top,) for bits in found]


def other_step(form: Form, bits: int) -> Fraction:
    """The distance from a number to the next larger one."""
    size = bits & ~(1 << (form.width - 1)) & ~1
    a, b = form.value(size), form.value(min(size + 1, form.infinity - 1))
    assert isinstance(a, Fraction | float)
    return Fraction(b) - Fraction(a)


def saturated(form: Form, bits: int) -> int:
    value = form.value(bits)
    return 0 if value != value or value <= 0 else form.bits(Fraction(1)) if value > 1 else bits


def flushed(form: Form, bits: int) -> int:
    sign = 1 << (form.width - 1)
    return bits & sign if bits & (sign - 1) < 1 << form.fraction else bits


def float_to_float(to: Form, source: Form, parts: list[str]) -> Callable[[int], int]:
    mode = next((part for part in parts if part in (*ROUND, "rna")), "rn")

    def run(bits: int) -> int:
        if "ftz" in parts and source is F32:
            bits = flushed(source, bits)
        result = to.bits(source.value(bits), mode)
        if "ftz" in parts and to is F32:
            result = flushed(to, result)
        if "satfinite" in parts and result & ~(1 << (to.width - 1)) == to.infinity:
            result -= 1
        if "relu" in parts and result >> (to.width - 1) and not to.is_nan(result):
            result = 0
        return saturated(to, result) if "sat" in parts else result

    return run


@pytest.mark.parametrize(
    ("to", "source"),
    [("f16", "f32"), ("bf16", "f32"), ("f16", "f64"), ("bf16", "f64"), ("f32", "f64"), ("bf16", "f16")],
)
def test_narrowing_is_rounded_once(to: str, source: str) -> None:
    rows = patterns(FLOATS[source], 1, 40, FLOATS[to])
    tails = [""]
    if source == "f32":
        tails += [".ftz"] if to == "bf16" else [".ftz", ".sat", ".ftz.sat"]
    elif to != "bf16":
        tails += [".sat"]
    spellings = [f"cvt.{mode}{tail}.{to}.{source}" for mode in ROUND for tail in tails]
    if source == "f32":
        spellings += [
            f"cvt.{m}{r}{s}.{to}.f32" for m in ("rn", "rz") for r in ("", ".relu") for s in ("", ".satfinite")
        ]
    wants = [float_to_float(FLOATS[to], FLOATS[source], spelling.split(".")) for spelling in spellings]
    check_spelling(spellings, rows, wants)


@pytest.mark.parametrize(
    "spelling", ["f32.f16", "ftz.f32.f16", "sat.f32.f16", "f64.f16", "f64.f32", "f32.bf16", "f64.bf16"]
)
def test_widening_is_exact(spelling: str) -> None:
    *_, to, source = spelling.split(".")
    want = float_to_float(FLOATS[to], FLOATS[source], spelling.split("."))
    check_spelling([f"cvt.{spelling}"], patterns(FLOATS[source], 2, 80), want)


def pair_of(one: Callable[[int], int], width: int) -> Callable[[int, int], int]:
    return lambda a, b: one(a) << width | one(b)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_pairs_from_two_floats(kind: str) -> None:
    values = [bits for (bits,) in patterns(F32, 3, 40, FLOATS[kind])]
    rows = list(zip(values, values[7:] + values[:7], strict=True))
    spellings = [f"cvt.{m}{r}{s}.{kind}x2.f32" for m in ("rn", "rz") for r in ("", ".relu") for s in ("", ".satfinite")]
    wants = [pair_of(float_to_float(FLOATS[kind], F32, spelling.split(".")), 16) for spelling in spellings]
    check_spelling(spellings, rows, wants)


def test_tf32_keeps_ten_bits_of_the_fraction() -> None:
    rows = patterns(F32, 4, 60, TF32)
    spellings = ["cvt.rna.tf32.f32", "cvt.rna.satfinite.tf32.f32"]
    spellings += [f"cvt.{m}{r}{s}.tf32.f32" for m in ("rn", "rz") for r in ("", ".relu") for s in ("", ".satfinite")]
    rounded = [float_to_float(TF32, F32, spelling.split(".")) for spelling in spellings]
    check_spelling(spellings, rows, [lambda bits, f=function: f(bits) << 13 for function in rounded])


# ---------------------------------------------------------------------- 8-bit floats


def small_value(kind: str, code: int) -> Number:
    """The number of an 8-bit pattern.  E4M3 has no infinities and one NaN of each sign."""
    if kind == "e5m2x2":
        return E5M2.value(code)
    size = code & 0x7F
    if size == 0x7F:
        return NAN
    if size == 0:
        return -0.0 if code else Fraction(0)
    value = (8 + size % 8) * Fraction(2) ** (size // 8 - 10) if size >= 8 else size * Fraction(2) ** -9
    return -value if code & 0x80 else value


def small_code(kind: str, value: Number, *, relu: bool) -> int:
    """By search among all patterns: the nearest, of two equally near ones the even."""
    if value != value:
        return 0x7F
    negative = str(value).startswith("-")
    if relu and negative:
        return 0
    largest = 0x7E if kind == "e4m3x2" else 0x7B
    size = abs(value)
    if size == math.inf:
        return largest | 0x80 * negative
    sizes, wanted = small_sizes(kind, largest), Fraction(size)
    above = bisect_left(sizes, wanted)
    around = range(max(0, above - 1), min(above, largest) + 1)
    return min(around, key=lambda code: (abs(sizes[code] - wanted), code % 2)) | 0x80 * negative


@cache
def small_sizes(kind: str, largest: int) -> list[Fraction]:
    return [Fraction(small_value(kind, code)) for code in range(largest + 1)]


@pytest.mark.parametrize("kind", ["e4m3x2", "e5m2x2"])
def test_8_bit_floats_from_wider_ones(kind: str) -> None:
    exact = [small_value(kind, code) for code in range(0x7C)]
    middles = [(Fraction(a) + Fraction(b)) / 2 for a, b in itertools.pairwise(exact) if abs(b) != math.inf]
    single = [F32.bits(value) + step for value in [*exact, *middles] for step in (0, 1)]
    single += [bits for (bits,) in patterns(F32, 5, 20)] + [F32.bits(Fraction(n)) for n in (432, 448, 464, 465, 61440)]
    single += [bits | 0x80000000 for bits in single[::3]]
    rows = list(zip(single, single[5:] + single[:5], strict=True))
    known = {bits: [small_code(kind, F32.value(bits), relu=relu) for relu in (False, True)] for bits in set(single)}
    wants = [lambda a, b, r=relu: known[a][r] << 8 | known[b][r] for relu in (0, 1)]
    check_spelling([f"cvt.rn.satfinite.{kind}.f32", f"cvt.rn.satfinite.relu.{kind}.f32"], rows, wants)
    halves = list(range(0, 1 << 16, 53)) + [F16.bits(Fraction(value)) for value in middles]
    codes = {bits: [small_code(kind, F16.value(bits), relu=relu) for relu in (False, True)] for bits in set(halves)}
    words = [(a << 16 | b,) for a, b in zip(halves, halves[9:] + halves[:9], strict=True)]
    wants16 = [lambda a, r=relu: codes[a >> 16][r] << 8 | codes[a & 0xFFFF][r] for relu in (0, 1)]
    check_spelling([f"cvt.rn.satfinite.{kind}.f16x2", f"cvt.rn.satfinite.relu.{kind}.f16x2"], words, wants16)


@pytest.mark.parametrize("kind", ["e4m3x2", "e5m2x2"])
def test_8_bit_floats_to_halves(kind: str) -> None:
    def half(code: int, *, relu: bool) -> int:
        value = small_value(kind, code)
        return 0 if relu and str(value).startswith("-") else F16.bits(value)

    rows = [(a << 8 | (a * 7 + 3) % 256,) for a in range(256)]
    wants = [lambda a, r=relu: half(a >> 8, relu=r) << 16 | half(a & 255, relu=r) for relu in (False, True)]
    check_spelling([f"cvt.rn.f16x2.{kind}", f"cvt.rn.relu.f16x2.{kind}"], rows, wants)


# ---------------------------------------------------------------------- integers


def integer(bits: int, kind: str) -> int:
    signed, width = INTEGERS[kind]
    bits &= (1 << width) - 1
    return bits - (1 << width) if signed and bits >> (width - 1) else bits


def limited(value: int, kind: str) -> int:
    signed, width = INTEGERS[kind]
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    return min(max(value, low), high)


def in_register(value: int, kind: str) -> int:
    """As the test's kernel stores it: sign- or zero-extended into the next wider register."""
    _, width = INTEGERS[kind]
    return value & ((1 << {8: 32, 16: 32, 32: 64, 64: 64}[width]) - 1)


INTEGER_ROWS = [
    (value & (1 << 64) - 1,)
    for power in range(0, 65, 1)
    for value in (1 << power, (1 << power) - 1, -(1 << power), (1 << power) + (1 << max(0, power - 24)) + 1)
] + [(int(v),) for v in np.random.default_rng(6).integers(0, 1 << 63, 60)]


@pytest.mark.parametrize("source", list(INTEGERS))
def test_integers_to_floats_in_every_rounding_mode(source: str) -> None:
    kinds = [kind for kind in FLOATS if not (kind == "bf16" and source.endswith("8"))]
    spellings = [f"cvt.{mode}.{kind}.{source}" for kind in kinds for mode in ROUND]
    wants = [
        lambda a, m=mode, f=FLOATS[kind]: f.bits(Fraction(integer(a, source)), m) for kind in kinds for mode in ROUND
    ]
    check_spelling(spellings, INTEGER_ROWS[::2], wants)


TO_INTEGER: dict[str, Callable[[Fraction], int]] = {
    "rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil,
}  # fmt: skip


def to_integer(source: str, to: str, mode: str) -> Callable[[int], int]:
    form, width = FLOATS[source], INTEGERS[to][1]

    def run(bits: int) -> int:
        value = form.value(bits)
        if value != value:
            return integer(1 << (width - 1), to) if source == "f64" or width == 64 else 0
        if abs(value) == math.inf:
            return limited(1 << 70 if value > 0 else -(1 << 70), to)
        return limited(TO_INTEGER[mode](Fraction(value)), to)

    return run


@pytest.mark.parametrize("source", list(FLOATS))
def test_floats_to_integers_in_every_rounding_mode(source: str) -> None:
    kinds = [kind for kind in INTEGERS if not (source == "bf16" and kind.endswith("8"))]
    form = FLOATS[source]
    rows = [bits for (bits,) in patterns(form, 7, 40)]
    edges = [Fraction(sign * ((1 << power) + step)) / 2 for power in (1, 2, 8, 9, 16, 17, 32, 33, 64, 65)
             for step in (-1, 0, 1) for sign in (1, -1)]  # fmt: skip
    rows += [form.bits(value, mode) for value in edges for mode in ("rn", "rz")]
    for kind in kinds:
        whole = [to_integer(source, kind, mode) for mode in TO_INTEGER]
        wants = [lambda a, k=kind, f=function: in_register(f(a), k) for function in whole]
        targets = () if kind.endswith(("s32", "u64")) else ("host",)
        check_spelling(
            [f"cvt.{mode}.{kind}.{source}" for mode in TO_INTEGER], [(b,) for b in rows], wants, targets=targets
        )


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_rounding_to_integral_floats(kind: str) -> None:
    form = FLOATS[kind]

    def want(mode: str) -> Callable[[int], int]:
        def run(bits: int) -> int:
            value = form.value(bits)
            if isinstance(value, float):
                return form.bits(value)
            result = Fraction(TO_INTEGER[mode](value))
            return form.bits(result if result or value >= 0 else -0.0)

        return run

    rows = patterns(form, 8, 60) + [(form.bits(Fraction(n, 4)),) for n in range(-40, 40)]
    check_spelling([f"cvt.{mode}.{kind}.{kind}" for mode in TO_INTEGER], rows, [want(mode) for mode in TO_INTEGER])


@pytest.mark.parametrize("source", list(INTEGERS))
def test_integers_to_integers(source: str) -> None:
    spellings, wants = [], []
    for to in INTEGERS:
        spellings += [f"cvt.{to}.{source}", f"cvt.sat.{to}.{source}"]
        wants += [
            lambda a, t=to: in_register(integer(integer(a, source), t), t),
            lambda a, t=to: in_register(limited(integer(a, source), t), t),
        ]
    check_spelling(spellings, INTEGER_ROWS, wants)


def test_packing_integers_with_saturation() -> None:
    rng = np.random.default_rng(9)
    small = [0, 1, 2, 3, 7, 8, 15, 16, 127, 128, 255, 256, 32767, 32768, 65535, 65536, (1 << 31) - 1]
    values = np.array([value & 0xFFFFFFFF for number in small for value in (number, -number, -number - 1)], np.uint64)
    rows = [tuple(map(int, row)) for row in rng.choice(values, (300, 3))]

    def want(kind: str) -> Callable[..., int]:
        signed, width = kind[0] == "s", int(kind[1:])
        low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)

        def run(a: int, b: int, c: int = 0) -> int:
            fields = [min(max(integer(value, "s32"), low), high) & ((1 << width) - 1) for value in (b, a)]
            return (fields[0] | fields[1] << width | c << 2 * width) & 0xFFFFFFFF

        return run

    check_spelling(
        [f"cvt.pack.sat.{k}.s32" for k in ("u16", "s16")], [row[:2] for row in rows], list(map(want, ("u16", "s16")))
    )
    kinds = ("u8", "s8", "u4", "s4", "u2", "s2")
    check_spelling([f"cvt.pack.sat.{k}.s32.b32" for k in kinds], rows, list(map(want, kinds)))
