"""f16 and bf16 values: to and from f32, in which everything is computed.

LLVM calls run-time functions for some of these conversions, which a kernel's object code does not have,
and uses instructions that flush subnormal numbers for others; so they are made of integer operations.
"""

from __future__ import annotations

from typing import Final

from zcuda_async.jit.builder import Builder, Type
from zcuda_async.jit.lower.directed import directed_cast
from zcuda_async.jit.lower.odd import truncate_to_odd

__all__ = ("NARROW", "narrow", "round_to_odd", "widen")

NARROW: Final = ("half", "bfloat")
"""LLVM's names of the 16-bit floats."""

_SMALLEST_NORMAL: Final = 0x38800000  # 2**-14 as f32
_TOO_LARGE: Final = 0x47800000  # 2**16
_REBIAS: Final = (127 - 15) << 23


def widen(builder: Builder, kind: Type, value: str) -> tuple[Type, str]:
    """A 16-bit float as f32, exactly; other types unchanged: (type, value)."""
    if kind.elem not in NARROW:
        return kind, value
    wide, words = kind.of("float"), kind.of("i32")
    if kind.elem == "half" and _has_f16c(builder):
        return wide, builder.cast("fpext", kind, value, wide)
    bits = builder.cast("zext", kind.of("i16"), builder.cast("bitcast", kind, value, kind.of("i16")), words)
    if kind.elem == "bfloat":
        return wide, builder.cast("bitcast", words, builder.binary("shl", words, bits, words.const(16)), wide)
    magnitude = builder.binary("shl", words, builder.binary("and", words, bits, words.const(0x7FFF)), words.const(13))
    # As an f32 the exponent is too small by 112; the product puts that right, for subnormals too.
    scaled = builder.binary("fmul", wide, builder.cast("bitcast", words, magnitude, wide), wide.const(2.0**112))
    special = builder.compare("icmp uge", words, magnitude, words.const(0x7C00 << 13))
    infinite = builder.binary("or", words, magnitude, words.const(0x7F800000))
    result = builder.select(words, special, infinite, builder.cast("bitcast", wide, scaled, words))
    sign = builder.binary("shl", words, builder.binary("and", words, bits, words.const(0x8000)), words.const(16))
    return wide, builder.cast("bitcast", words, builder.binary("or", words, result, sign), wide)


def _has_f16c(builder: Builder) -> bool:
    return "f16c" in builder.features


def round_to_odd(builder: Builder, opcode: str, source: Type, value: str, to: Type) -> str:
    """A conversion that keeps, in the last bit, the fact that something was cut off.

    What is rounded to odd can be rounded again, to a narrower type, as if it were the exact value.
    """
    if opcode == "fptrunc":
        return truncate_to_odd(builder, source, value)
    cut = directed_cast(builder, opcode, "rz", source, value, to)
    back = {"sitofp": "fptosi", "uitofp": "fptoui"}[opcode]
    again = builder.cast(back, to, cut, source)
    inexact = builder.compare("icmp ne", source, again, value)
    bits = to.of(f"i{to.bits}")
    sticky = builder.cast("zext", to.of("i1"), inexact, bits)
    return builder.cast("bitcast", bits, builder.binary("or", bits, builder.cast("bitcast", to, cut, bits), sticky), to)


def narrow(builder: Builder, kind: Type, value: str, to: Type, mode: str, *, finite: bool) -> str:
    """F32 to a 16-bit float in a rounding mode; `finite` gives the largest number instead of infinity."""
    if to.elem == "half" and mode == "rn" and not finite and _has_f16c(builder):
        return builder.cast("fptrunc", kind, value, to)
    words = kind.of("i32")
    bits = builder.cast("bitcast", kind, value, words)
    if to.elem == "bfloat" and mode == "rn" and not finite:
        return _nearest_bfloat(builder, kind, value, bits, to)
    sign = builder.binary("lshr", words, bits, words.const(31))
    magnitude = builder.binary("and", words, bits, words.const(0x7FFFFFFF))
    make = _to_half if to.elem == "half" else _to_bfloat
    result = make(builder, kind, magnitude, sign, mode)
    infinity = 0x7C00 if to.elem == "half" else 0x7F80
    if finite:
        result = builder.intrinsic("umin", words, result, words.const(infinity - 1))
    number = builder.compare("icmp ule", words, magnitude, words.const(0x7F800000))
    result = builder.select(words, number, result, words.const(0x7FFF))
    result = builder.binary("or", words, result, builder.binary("shl", words, sign, words.const(15)))
    short = kind.of("i16")
    return builder.cast("bitcast", short, builder.cast("trunc", words, result, short), to)


def _addend(builder: Builder, words: Type, magnitude: str, sign: str, mode: str, shift: int) -> str:
    """What to add before the low `shift` bits are cut off, to round by `mode`."""
    if mode == "rz":
        return words.const(0)
    if mode == "rn":
        last = builder.binary(
            "and", words, builder.binary("lshr", words, magnitude, words.const(shift)), words.const(1)
        )
        return builder.binary("add", words, last, words.const((1 << (shift - 1)) - 1))
    away = builder.compare("icmp ne", words, sign, words.const(0 if mode == "rm" else 1))
    return builder.select(words, away, words.const((1 << shift) - 1), words.const(0))


def _cut(builder: Builder, words: Type, magnitude: str, sign: str, mode: str, shift: int) -> str:
    rounded = builder.binary("add", words, magnitude, _addend(builder, words, magnitude, sign, mode, shift))
    return builder.binary("lshr", words, rounded, words.const(shift))


def _nearest_bfloat(builder: Builder, kind: Type, value: str, bits: str, to: Type) -> str:
    """The upper half, rounded to nearest even; the sign takes no part, and a carry may reach infinity."""
    words, short = kind.of("i32"), kind.of("i16")
    last = builder.binary("and", words, builder.binary("lshr", words, bits, words.const(16)), words.const(1))
    rounded = builder.binary("add", words, bits, builder.binary("add", words, last, words.const(0x7FFF)))
    number = builder.compare("fcmp ord", kind, value, kind.const(0.0))
    rounded = builder.select(words, number, rounded, words.const(0x7FFF0000))
    upper = builder.cast("trunc", words, builder.binary("lshr", words, rounded, words.const(16)), short)
    return builder.cast("bitcast", short, upper, to)


def _to_bfloat(builder: Builder, kind: Type, magnitude: str, sign: str, mode: str) -> str:
    """The upper half of the f32: the formats have the same exponents."""
    return _cut(builder, kind.of("i32"), magnitude, sign, mode, 16)


def _to_half(builder: Builder, kind: Type, magnitude: str, sign: str, mode: str) -> str:
    words = kind.of("i32")
    rebiased = builder.binary("sub", words, magnitude, words.const(_REBIAS))
    normal = _cut(builder, words, rebiased, sign, mode, 13)
    tiny = _subnormal(builder, kind, magnitude, sign, mode)
    result = builder.select(words, _small(builder, words, magnitude), tiny, normal)
    # Beyond the largest number: infinity, or the largest number where rounding goes that way.
    large = builder.compare("icmp uge", words, magnitude, words.const(_TOO_LARGE))
    limit = words.const(0x7C00)
    if mode != "rn":
        outward = builder.compare("icmp ne", words, sign, words.const({"rm": 0, "rp": 1, "rz": 2}[mode]))
        if mode == "rz":
            outward = kind.of("i1").const(0)
        infinite = builder.compare("icmp eq", words, magnitude, words.const(0x7F800000))
        outward = builder.binary("or", kind.of("i1"), outward, infinite)
        limit = builder.select(words, outward, limit, words.const(0x7BFF))
    return builder.select(words, large, limit, result)


def _small(builder: Builder, words: Type, magnitude: str) -> str:
    return builder.compare("icmp ult", words, magnitude, words.const(_SMALLEST_NORMAL))


def _subnormal(builder: Builder, kind: Type, magnitude: str, sign: str, mode: str) -> str:
    """The number of 2**-24 in a magnitude below 2**-14 (garbage, but defined, for larger ones)."""
    words = kind.of("i32")
    safe = builder.select(words, _small(builder, words, magnitude), magnitude, words.const(0))
    scaled = builder.binary("fmul", kind, builder.cast("bitcast", words, safe, kind), kind.const(2.0**24))
    if mode == "rn":
        return builder.cast("fptosi", kind, builder.intrinsic("roundeven", kind, scaled), words)
    whole = builder.intrinsic("trunc", kind, scaled)
    count = builder.cast("fptosi", kind, whole, words)
    if mode == "rz":
        return count
    more = builder.compare("fcmp one", kind, whole, scaled)
    away = builder.compare("icmp ne", words, sign, words.const(0 if mode == "rm" else 1))
    up = builder.binary("and", kind.of("i1"), more, away)
    return builder.binary("add", words, count, builder.cast("zext", kind.of("i1"), up, words))
