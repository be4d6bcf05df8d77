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
_FAR: Final = 2.0**26
_TURNS: Final = (0x145F306D, 0x19391054, 0x14FE13AB, 0x1D1F534D, 0x1B81B6C5, 0x5664F10)
"""1 / (2 pi) = the sum of n / 2**(31 + 29 k): 29 bits each, so the product with an f32 is exact in f64."""


def sine_approx(builder: Builder, kind: Type, x: str, *, cosine: bool) -> str:
    """Sin or cos: reduction to a quarter turn in f64, then polynomials; the sine takes the sign of x last."""
    wide, ints = kind.of("double"), kind.of("i32")
    size = builder.intrinsic("fabs", kind, x)
    quarters, rest = _reduced(builder, kind, size)
    quadrant = builder.op(f"fptosi {wide} {quarters} to {ints}")
    if cosine:
        quadrant = builder.binary("add", ints, quadrant, ints.const(1))
    r = builder.cast("fptrunc", wide, rest, kind)
    square = builder.binary("fmul", kind, r, r)
    sine = builder.intrinsic(
        "fma", kind, builder.binary("fmul", kind, _horner(builder, kind, square, _SIN), square), r, r
    )
    cos = _horner(builder, kind, square, _COS)
    odd = builder.compare("icmp ne", ints, builder.binary("and", ints, quadrant, ints.const(1)), ints.const(0))
    value = builder.cast("bitcast", kind, builder.select(kind, odd, cos, sine), ints)
    flip = builder.binary("shl", ints, builder.binary("and", ints, quadrant, ints.const(2)), ints.const(30))
    if not cosine:
        sign = builder.binary("and", ints, builder.cast("bitcast", kind, x, ints), ints.const(-(1 << 31)))
        flip = builder.binary("xor", ints, flip, sign)
    value = builder.cast("bitcast", ints, builder.binary("xor", ints, value, flip), kind)
    finite = builder.compare("fcmp olt", kind, size, kind.const(float("inf")))
    return builder.select(kind, finite, value, kind.const(float("nan")))


def _reduced(builder: Builder, kind: Type, size: str) -> tuple[str, str]:
    """(q, r) in f64 with size = q pi/2 + r and r within pi/4; q modulo 4 where size is large."""
    wide = kind.of("double")
    large = builder.compare("fcmp uge", kind, size, kind.const(_FAR))
    safe = builder.cast("fpext", kind, builder.select(kind, large, kind.const(0.0), size), wide)
    quarters = builder.intrinsic("roundeven", wide, builder.binary("fmul", wide, safe, wide.const(0.6366197723675814)))
    rest = builder.intrinsic("fma", wide, quarters, wide.const(-1.5707963267948966), safe)
    start, far, done = (builder.block_name(name) for name in ("near", "far", "reduced"))
    builder.line(f"br label %{start}")
    builder.label(start)
    truth = kind.of("i1")
    some = builder.call("i1", f"llvm.vector.reduce.or.{truth.suffix}", [(truth, large)]) if kind.lanes else large
    builder.line(f"br i1 {some}, label %{far}, label %{done}, !prof !10")
    builder.label(far)
    far_quarters, far_rest = _reduced_far(builder, wide, builder.cast("fpext", kind, size, wide))
    chosen = [builder.select(wide, large, *pair) for pair in ((far_quarters, quarters), (far_rest, rest))]
    builder.line(f"br label %{done}")
    builder.label(done)
    pairs = zip((quarters, rest), chosen, strict=True)
    quarters, rest = (builder.op(f"phi {wide} [ {one}, %{start} ], [ {two}, %{far} ]") for one, two in pairs)
    return quarters, rest


def _reduced_far(builder: Builder, wide: Type, size: str) -> tuple[str, str]:
    """The same for any finite size: whole turns fall away product by product, each of them exact."""
    fraction = wide.const(0.0)
    for k, number in enumerate(_TURNS):
        turns = builder.binary("fmul", wide, size, wide.const(number * 2.0 ** -(31 + 29 * k)))
        part = builder.binary("fsub", wide, turns, builder.intrinsic("roundeven", wide, turns))
        fraction = builder.binary("fadd", wide, fraction, part)
    fraction = builder.binary("fsub", wide, fraction, builder.intrinsic("roundeven", wide, fraction))
    quarters = builder.intrinsic("roundeven", wide, builder.binary("fmul", wide, fraction, wide.const(4.0)))
    rest = builder.intrinsic("fma", wide, quarters, wide.const(-0.25), fraction)
    finite = builder.compare("fcmp ord", wide, rest, wide.const(0.0))  # an infinite size is no number by now
    quarters = builder.select(wide, finite, quarters, wide.const(0.0))
    return quarters, builder.binary("fmul", wide, rest, wide.const(6.283185307179586))


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
