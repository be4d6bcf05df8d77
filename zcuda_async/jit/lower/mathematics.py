"""The approximate functions of PTX (9.7.3): polynomials after range reduction, all lanes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zcuda_async.jit.builder import Builder, Type

__all__ = ("exp2_approx", "log2_approx", "sine_approx", "tanh_approx")

_EXP2: Final = (1.535336188319500e-4, 1.339887440266574e-3, 9.618437357674640e-3, 5.550332471162809e-2,
                2.402264791363012e-1, 6.931472028550421e-1, 1.0)  # fmt: skip


def _horner(builder: Builder, kind: Type, x: str, coefficients: Sequence[float]) -> str:
    value = kind.const(coefficients[0])
    for coefficient in coefficients[1:]:
        value = builder.intrinsic("fma", kind, value, x, kind.const(coefficient))
    return value


def exp2_approx(builder: Builder, kind: Type, x: str) -> str:
    """2**x: the integer part goes to the exponent (in two halves, so subnormals come out right)."""
    # Keeps the conversion below in range; 2**-160 and 2**160 are 0 and infinity all the same.
    low = builder.compare("fcmp olt", kind, x, kind.const(-160.0))
    bounded = builder.select(kind, low, kind.const(-160.0), x)
    high = builder.compare("fcmp ogt", kind, bounded, kind.const(160.0))
    bounded = builder.select(kind, high, kind.const(160.0), bounded)
    whole = builder.intrinsic("roundeven", kind, bounded)
    fraction = builder.binary("fsub", kind, bounded, whole)
    value = _horner(builder, kind, fraction, _EXP2)
    ints = kind.of("i32")
    number = builder.compare("fcmp ord", kind, whole, kind.const(0.0))
    exponent = builder.op(f"fptosi {kind} {builder.select(kind, number, whole, kind.const(0.0))} to {ints}")
    if kind == Type("float", 16) and "avx512" in builder.features:
        arguments: list[tuple[Type | str, str]] = [(kind, value), (kind, whole), (kind, "zeroinitializer")]
        scaled = builder.call(kind, "llvm.x86.avx512.mask.scalef.ps.512", [*arguments, ("i16", "-1"), ("i32", "4")])
        return builder.select(kind, number, scaled, x)
    half = builder.binary("ashr", ints, exponent, ints.const(1))
    other = builder.binary("sub", ints, exponent, half)
    for piece in (half, other):
        bits = builder.binary("shl", ints, builder.binary("add", ints, piece, ints.const(127)), ints.const(23))
        value = builder.binary("fmul", kind, value, builder.cast("bitcast", ints, bits, kind))
    return builder.select(kind, number, value, x)


_LOG2_SERIES: Final = (0.262307997, 0.320598898, 0.412198583, 0.577078016, 0.961796694, 2.88539008)


def log2_approx(builder: Builder, kind: Type, x: str) -> str:
    """log2 x = exponent + 2/ln 2 atanh((m - 1) / (m + 1)) for the mantissa m in [sqrt 1/2, sqrt 2)."""
    ints = kind.of("i32")
    tiny = builder.compare("fcmp olt", kind, builder.intrinsic("fabs", kind, x), kind.const(2.0**-126))
    scaled = builder.select(kind, tiny, builder.binary("fmul", kind, x, kind.const(2.0**24)), x)
    offset = builder.select(kind, tiny, kind.const(-24.0), kind.const(0.0))
    bits = builder.cast("bitcast", kind, scaled, ints)
    # Centre the mantissa on 1: m in [sqrt(1/2), sqrt(2)).
    shifted = builder.binary("sub", ints, bits, ints.const(0x3F3504F3))
    exponent = builder.binary("ashr", ints, shifted, ints.const(23))
    mantissa = builder.binary("sub", ints, bits, builder.binary("shl", ints, exponent, ints.const(23)))
    m = builder.cast("bitcast", ints, mantissa, kind)
    base = builder.binary("fadd", kind, builder.op(f"sitofp {ints} {exponent} to {kind}"), offset)
    s = builder.binary(
        "fdiv", kind, builder.binary("fsub", kind, m, kind.const(1.0)), builder.binary("fadd", kind, m, kind.const(1.0))
    )
    square = builder.binary("fmul", kind, s, s)
    value = builder.intrinsic("fma", kind, _horner(builder, kind, square, _LOG2_SERIES), s, base)
    return _log_edges(builder, kind, x, value)


def _log_edges(builder: Builder, kind: Type, x: str, value: str) -> str:
    infinite = builder.compare("fcmp oeq", kind, x, kind.const(float("inf")))
    value = builder.select(kind, infinite, x, value)
    zero = builder.compare("fcmp oeq", kind, x, kind.const(0.0))
    value = builder.select(kind, zero, kind.const(float("-inf")), value)
    bad = builder.compare("fcmp ult", kind, x, kind.const(0.0))
    return builder.select(kind, bad, kind.const(float("nan")), value)


_SIN: Final = (2.718311493989822e-6, -1.983933333333333e-4, 8.333328889e-3, -1.6666666641626524e-1)
_COS: Final = (2.43904487962774e-5, -1.38867637746099e-3, 4.16666233237390e-2, -4.99999997251031e-1, 1.0)


def sine_approx(builder: Builder, kind: Type, x: str, *, cosine: bool) -> str:
    """Sin or cos: reduction by pi/2 in f64 (good far beyond the range PTX bounds), then polynomials."""
    wide, ints = kind.of("double"), kind.of("i32")
    size = builder.compare("fcmp olt", kind, builder.intrinsic("fabs", kind, x), kind.const(2.0**30))
    safe = builder.select(kind, size, x, kind.const(0.0))
    exact = builder.cast("fpext", kind, safe, wide)
    turns = builder.intrinsic("roundeven", wide, builder.binary("fmul", wide, exact, wide.const(0.6366197723675814)))
    rest = builder.intrinsic("fma", wide, turns, wide.const(-1.5707963267948966), exact)
    quadrant = builder.op(f"fptosi {wide} {turns} to {ints}")
    if cosine:
        quadrant = builder.binary("add", ints, quadrant, ints.const(1))
    r = builder.cast("fptrunc", wide, rest, kind)
    square = builder.binary("fmul", kind, r, r)
    sine = builder.intrinsic(
        "fma", kind, builder.binary("fmul", kind, _horner(builder, kind, square, _SIN), square), r, r
    )
    cos = _horner(builder, kind, square, _COS)
    odd = builder.compare("icmp ne", ints, builder.binary("and", ints, quadrant, ints.const(1)), ints.const(0))
    value = builder.select(kind, odd, cos, sine)
    flip = builder.compare("icmp ne", ints, builder.binary("and", ints, quadrant, ints.const(2)), ints.const(0))
    value = builder.select(kind, flip, builder.op(f"fneg {kind} {value}"), value)
    finite = builder.compare("fcmp olt", kind, builder.intrinsic("fabs", kind, x), kind.const(float("inf")))
    return builder.select(kind, finite, value, kind.const(float("nan")))


_TANH: Final = (62 / 2835, -17 / 315, 2 / 15, -1 / 3)


def tanh_approx(builder: Builder, kind: Type, x: str) -> str:
    """Tanh x = (e - 1) / (e + 1) with e = 2**(2 x log2 e); near zero the odd series, which does not cancel."""
    size = builder.intrinsic("fabs", kind, x)
    e = exp2_approx(builder, kind, builder.binary("fmul", kind, size, kind.const(2.8853900817779268)))
    top = builder.binary("fsub", kind, e, kind.const(1.0))
    large = builder.binary("fdiv", kind, top, builder.binary("fadd", kind, e, kind.const(1.0)))
    square = builder.binary("fmul", kind, size, size)
    odd = _horner(builder, kind, square, _TANH)
    small = builder.intrinsic("fma", kind, builder.binary("fmul", kind, odd, square), size, size)
    near = builder.compare("fcmp olt", kind, size, kind.const(0.3))
    value = builder.select(kind, near, small, large)
    saturated = builder.compare("fcmp ogt", kind, size, kind.const(10.0))
    value = builder.select(kind, saturated, kind.const(1.0), value)
    return builder.intrinsic("copysign", kind, value, x)
