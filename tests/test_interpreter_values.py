"""The interpreter's arithmetic against examples of the PTX manual, numpy and the C library."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import numpy as np
import pytest

from zcuda_async.interpreter import Interpreter, RegionMemory
from zcuda_async.interpreter.exact import FORMATS, NAN, add, divide, finite, infinity, multiply, square_root
from zcuda_async.interpreter.warp import source_lane
from zcuda_async.ptx import parse
from zcuda_async.ptx.table import resolve
from zcuda_async.ptx.table_syntax import TYPE_WIDTHS

F32, F64, F16, BF16 = (FORMATS[name] for name in ("f32", "f64", "f16", "bf16"))


def evaluate(spelling: str, *operands: int | str) -> int:
    """One instruction's result, as bits; ``p`` as an operand stands for a true predicate."""
    form = resolve(spelling)
    assert form is not None
    expected = form.by_count[len(operands) + 1]
    lines, names = [], []
    for at, (value, entry) in enumerate(zip(operands, expected[1:], strict=True)):
        if isinstance(value, str):
            lines.append(f".reg .pred %p{at}; setp.eq.u32 %p{at}, 1, {int(value == 'p')};")
            names.append(f"%p{at}")
        elif entry.kind == "constant":
            names.append(str(value))
        else:
            width = max(16, TYPE_WIDTHS[entry.type])
            lines.append(f".reg .b{width} %x{at}; mov.b{width} %x{at}, {value & ((1 << width) - 1)};")
            names.append(f"%x{at}")
    width = max(16, TYPE_WIDTHS[expected[0].type])
    if expected[0].type == "pred":
        tail = f".reg .pred %d; {spelling} %d, {', '.join(names)}; .reg .b32 %y; selp.u32 %y, 1, 0, %d;"
        width = 32
    else:
        tail = f".reg .b{width} %y; {spelling} %y, {', '.join(names)};"
    text = f".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() {{ {' '.join(lines)} {tail} "
    memory = RegionMemory([(0x1000, bytearray(8))])
    Interpreter(parse(text + f"st.global.b{width} [4096], %y; ret; }}")).launch("k", (1, 1, 1), (1, 1, 1), b"", memory)
    return int.from_bytes(memory.load(0x1000, 8), "little")


def f32(value: float) -> int:
    return int.from_bytes(struct.pack("<f", value), "little")


def f64(value: float) -> int:
    return int.from_bytes(struct.pack("<d", value), "little")


ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("spelling", "operands", "result"),
    [
        ("add.sat.s32", (0x7FFFFFFF, 1), 0x7FFFFFFF),
        ("sub.sat.s32", (0x80000000, 1), 0x80000000),
        ("mul.hi.s32", (ONES, ONES), 0),
        ("mul.hi.u32", (ONES, ONES), 0xFFFFFFFE),
        ("mul.wide.s16", (0xFFFF, 2), 0xFFFFFFFE),
        ("mad.hi.sat.s32", (0x7FFFFFFF, 0x7FFFFFFF, 0x7FFFFFFF), 0x7FFFFFFF),
        ("mul24.lo.s32", (0xFFFFFF, 5), 0xFFFFFFFB),
        ("mul24.hi.u32", (0xFFFFFF, 0xFFFFFF), 0xFFFFFE00),
        ("div.s32", (-7, 2), -3 & ONES),
        ("rem.s32", (-7, 2), ONES),
        ("div.s32", (0x80000000, -1), 0x80000000),
        ("abs.s32", (0x80000000,), 0x80000000),
        ("sad.u32", (3, 10, 100), 107),
        ("min.relu.s32", (-5, 3), 0),
        ("popc.b64", (0xF0F0,), 8),
        ("clz.b32", (1,), 31),
        ("bfind.s32", (-1,), ONES),
        ("bfind.shiftamt.u32", (0x00010000,), 15),
        ("brev.b32", (1,), 0x80000000),
        ("bfe.s32", (0x000000F0, 4, 4), ONES),
        ("bfe.u32", (0x12345678, 8, 12), 0x456),
        ("bfe.s32", (0x80000000, 40, 8), ONES),
        ("bfi.b32", (0xF, 0, 28, 8), 0xF0000000),
        ("bfi.b32", (0xF, 7, 32, 8), 7),
        ("fns.b32", (0xAAAAAAAA, 3, 1), 3),
        ("fns.b32", (0xAAAAAAAA, 3, -1), 3),
        ("fns.b32", (0xAAAAAAAA, 2, 1), 3),
        ("fns.b32", (0xAAAAAAAA, 2, -1), 1),
        ("bmsk.wrap.b32", (1, 2), 6),
        ("bmsk.clamp.b32", (40, 2), 0),
        ("szext.wrap.u32", (ONES, 0), 0),
        ("szext.clamp.s32", (0x80, 8), 0xFFFFFF80),
        ("dp4a.u32.u32", (0x01020304, 0x01010101, 5), 15),
        ("dp4a.s32.u32", (0xFF, 0xFF, 0), -255 & ONES),
        ("dp2a.lo.u32.u32", (0x00030002, 0x04030201, 1), 9),
        ("dp2a.hi.u32.u32", (0x00030002, 0x04030201, 1), 19),
        ("lop3.b32", (0xF0, 0xCC, 0xAA, 0x80), 0x80),
        ("lop3.b32", (0xF0, 0xCC, 0xAA, 0x1A), 0x1A),
        ("shf.l.wrap.b32", (0x80000001, 0x12345678, 4), 0x23456788),
        ("shf.r.clamp.b32", (1, 2, 40), 2),
        ("shl.b32", (1, 32), 0),
        ("shr.s32", (0x80000000, 40), ONES),
        ("cnot.b32", (0,), 1),
        ("prmt.b32", (0x33221100, 0x77665544, 0x7531), 0x77553311),
        ("prmt.b32", (0x00000080, 0, 0x8888), ONES),
        ("prmt.b32.f4e", (0x33221100, 0x77665544, 2), 0x55443322),
        ("prmt.b32.b4e", (0x33221100, 0x77665544, 1), 0x66770011),
        ("prmt.b32.rc8", (0x33221100, 0, 3), 0x33333333),
        ("prmt.b32.ecl", (0x33221100, 0, 2), 0x33222222),
        ("prmt.b32.ecr", (0x33221100, 0, 1), 0x11111100),
        ("prmt.b32.rc16", (0x33221100, 0, 1), 0x33223322),
        ("add.u16x2", (0xFFFF0001, 0x0001FFFF), 0),
        ("slct.u32.s32", (5, 6, -1), 6),
        ("slct.ftz.u32.f32", (5, 6, 0x80000001), 5),
        ("selp.u32", (5, 6, "p"), 5),
        ("set.lt.u32.s32", (-1, 0), ONES),
        ("set.lt.f32.s32", (-1, 0), f32(1.0)),
        ("setp.lt.or.u32", (5, 1, "p"), 1),
        ("setp.nan.f32", (0x7FC00000, 0), 1),
        ("setp.ltu.f32", (0x7FC00000, 0), 1),
        ("setp.eq.f32", (0x80000000, 0), 1),
    ],
)  # fmt: skip
def test_instructions_give_what_the_manual_says(spelling: str, operands: tuple[int | str, ...], result: int) -> None:
    assert evaluate(spelling, *operands) == result


@pytest.mark.parametrize(
    ("spelling", "operands", "result"),
    [
        ("add.rz.f32", (f32(1), f32(2.0**-30)), f32(1)),
        ("add.rp.f32", (f32(1), f32(2.0**-30)), f32(1) + 1),
        ("add.rm.f32", (f32(1), f32(-1)), f32(-0.0)),
        ("add.ftz.f32", (1, 0x80000002), 0),
        ("add.sat.f32", (f32(3), f32(4)), f32(1)),
        ("add.sat.f32", (0x7FC00000, f32(4)), 0),
        ("mul.rz.f32", (f32(3e38), f32(3e38)), 0x7F7FFFFF),
        ("mul.f32", (f32(3e38), f32(3e38)), 0x7F800000),
        ("fma.rn.f32", (f32(1 + 2.0**-23), f32(1 - 2.0**-23), f32(-1)), f32(-(2.0**-46))),
        ("min.f32", (f32(0.0), f32(-0.0)), f32(-0.0)),
        ("max.f32", (0x7FC00000, f32(2)), f32(2)),
        ("max.NaN.f32", (0x7FC00000, f32(2)), 0x7FFFFFFF),
        ("min.xorsign.abs.f32", (f32(-3), f32(2)), f32(-2)),
        ("copysign.f32", (f32(-1), f32(5)), f32(-5)),
        ("neg.ftz.f32", (1,), f32(-0.0)),
        ("sqrt.rn.f32", (f32(-0.0),), f32(-0.0)),
        ("rcp.rn.f64", (f64(0.0),), f64(math.inf)),
        ("div.rp.f64", (f64(1), f64(3)), f64(1 / 3) + 1),
        ("testp.normal.f32", (0,), 1),
        ("testp.subnormal.f32", (1,), 1),
        ("testp.finite.f64", (f64(math.inf),), 0),
        ("cvt.rni.s32.f32", (f32(2.5),), 2),
        ("cvt.rzi.u8.f32", (f32(300),), 255),
        ("cvt.rzi.s32.f32", (0x7FC00000,), 0),
        ("cvt.rzi.s64.f32", (0x7FC00000,), 1 << 63),
        ("cvt.rzi.u32.f64", (f64(math.nan),), 1 << 31),
        ("cvt.sat.s8.s32", (300,), 127),
        ("cvt.s8.s32", (300,), 44),
        ("cvt.rn.f16.f32", (f32(65520),), 0x7C00),
        ("cvt.rn.satfinite.f16.f32", (f32(1e9),), 0x7BFF),
        ("cvt.rz.bf16.f32", (0x3F80FFFF,), 0x3F80),
        ("cvt.rn.relu.bf16.f32", (f32(-1),), 0),
        ("cvt.rna.tf32.f32", (0x3F801000,), 0x3F802000),
        ("cvt.rn.f16x2.f32", (f32(1), f32(2)), 0x3C004000),
        ("cvt.pack.sat.u8.s32.b32", (300, -1, 0x1234), 0x1234FF00),
        ("cvt.rmi.f32.f32", (f32(-0.5),), f32(-1)),
        ("add.f16x2", (0x3C003C00, 0x3C004000), 0x40004200),
        ("fma.rn.relu.bf16", (0x3F80, 0xBF80, 0), 0),
    ],
)  # fmt: skip
def test_floating_point_gives_what_the_manual_says(spelling: str, operands: tuple[int, ...], result: int) -> None:
    assert evaluate(spelling, *operands) == result


def test_every_f16_survives_decoding_and_encoding() -> None:
    for bits in range(1 << 16):
        if not F16.is_nan(bits):
            assert F16.encode(F16.decode(bits)) == bits


def test_rounding_to_nearest_agrees_with_numpy() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 1 << 32, 2000, dtype=np.uint64).astype(np.uint32).view(np.float32) for _ in range(2))
    with np.errstate(all="ignore"):
        results = {add: a + b, multiply: a * b, divide: a / b}
    for operation, wanted in results.items():
        for x, y, want in zip(a.view(np.uint32), b.view(np.uint32), wanted.view(np.uint32), strict=True):
            got = F32.encode(operation(F32.decode(int(x)), F32.decode(int(y))))
            assert got == int(want) or (F32.is_nan(got) and F32.is_nan(int(want)))


def test_square_roots_agree_with_the_c_library() -> None:
    rng = np.random.default_rng(2)
    for bits in rng.integers(0, 0x7FF << 52, 2000, dtype=np.int64):
        value = struct.unpack("<d", struct.pack("<q", int(bits)))[0]
        assert F64.encode(square_root(F64.decode(int(bits)))) == f64(math.sqrt(value))


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_directed_results_surround_the_exact_one(mode: str) -> None:
    rng = np.random.default_rng(3)
    for numerator, denominator in rng.integers(-10000, 10000, (500, 2)):
        if not denominator:
            continue
        exact = Fraction(int(numerator), int(denominator))
        got = F32.decode(F32.encode(finite(exact), mode)).signed
        near = F32.decode(F32.encode(finite(exact))).signed
        assert abs(got - exact) <= 2 * abs(near - exact) or abs(got - near) <= abs(near) * Fraction(1, 1 << 22)
        assert got <= exact if mode == "rm" else got >= exact if mode == "rp" else abs(got) <= abs(exact)


def test_special_values_combine_as_ieee_754_says() -> None:
    zero, one = finite(0), finite(1)
    assert add(infinity(), infinity(negative=True)) is NAN
    assert multiply(zero, infinity()) is NAN
    assert divide(zero, zero) is NAN
    assert divide(one, zero.negated()) == infinity(negative=True)
    assert add(zero, zero.negated(), "rm").negative
    assert not add(zero, zero.negated()).negative
    assert F32.encode(finite(Fraction(1, 1 << 150))) == 0
    assert F32.encode(finite(Fraction(1, 1 << 150)), "rp") == 1
    assert BF16.encode(finite(Fraction(257, 256))) == 0x3F80


@pytest.mark.parametrize(
    ("mode", "lane", "b", "c", "result"),
    [
        ("down", 30, 1, 31, (31, True)),
        ("down", 31, 1, 31, (31, False)),
        ("up", 0, 1, 0, (0, False)),
        ("up", 5, 1, 0, (4, True)),
        ("bfly", 5, 1, 31, (4, True)),
        ("idx", 9, 3, 0x181F, (11, True)),
        ("down", 7, 1, 0x181F, (7, False)),
    ],
)
def test_shuffles_read_the_lane_of_the_manual(mode: str, lane: int, b: int, c: int, result: tuple[int, bool]) -> None:
    assert source_lane(mode, lane, b, c) == result
