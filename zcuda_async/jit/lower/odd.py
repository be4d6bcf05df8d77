"""Rounding to odd: results that say in their last bit that something was cut off.

What is rounded to odd can be rounded again, to a narrower type, as if it were the exact value.  The
narrower type must have at least two bits less.
"""

from __future__ import annotations

from typing import Final

from zcuda_async.jit.builder import Builder, Type
from zcuda_async.jit.lower.directed import directed

__all__ = ("fma_to_odd", "halves_of", "truncate_to_odd")

_EMBEDDED: Final = Type("float", 16)


def truncate_to_odd(builder: Builder, kind: Type, value: str) -> str:
    """An f64 as an f32, rounded to odd."""
    narrow = kind.of("float")
    near = builder.cast("fptrunc", kind, value, narrow)
    back = builder.cast("fpext", narrow, near, kind)
    inexact = builder.compare("fcmp one", kind, back, value)
    sizes = [builder.intrinsic("fabs", kind, each) for each in (value, back)]
    return _stepped(builder, narrow, near, inexact, builder.compare("fcmp ogt", kind, *sizes))


def _stepped(builder: Builder, kind: Type, near: str, inexact: str, up: str) -> str:
    """The odd one of the two neighbours that the exact value lies between.

    `near` is the nearer of them; `up` says that the exact value is larger in magnitude.
    """
    bits, truth = kind.of(f"i{kind.bits}"), kind.of("i1")
    whole = builder.cast("bitcast", kind, near, bits)
    even = builder.cast("trunc", bits, builder.binary("xor", bits, whole, bits.const(-1)), truth)
    step = builder.select(bits, up, bits.const(1), bits.const(-1))
    moved = builder.binary("add", bits, whole, step)
    result = builder.select(bits, builder.binary("and", truth, inexact, even), moved, whole)
    return builder.cast("bitcast", bits, result, kind)


def fma_to_odd(builder: Builder, kind: Type, a: str, b: str, c: str, *, wide_range: bool) -> str:
    """The f32 a * b + c rounded to odd, of operands that came from 16-bit floats.

    `wide_range`: products may be beyond what f32 holds (bf16), else they are exact in it (f16).
    """
    if kind == _EMBEDDED and "avx512" in builder.features:
        return _embedded(builder, kind, a, b, c)
    if not wide_range:
        return _sum_to_odd(builder, kind, builder.binary("fmul", kind, a, b), c)
    double = kind.of("double")
    a, b, c = (builder.cast("fpext", kind, value, double) for value in (a, b, c))
    total = _sum_to_odd(builder, double, builder.binary("fmul", double, a, b), c)
    return truncate_to_odd(builder, double, total)


def _embedded(builder: Builder, kind: Type, a: str, b: str, c: str) -> str:
    """Of the result rounded down and the one rounded up, which are neighbours, the odd one; equal ones are exact.

    An exact zero is -0 rounded down and +0 rounded up, and +0 is what rounding to nearest gives.
    """
    low, high = (directed(builder, "fma", mode, kind, [a, b, c]) for mode in ("rm", "rp"))
    bits = kind.of("i32")
    odd = builder.cast("trunc", bits, builder.cast("bitcast", kind, low, bits), kind.of("i1"))
    return builder.select(kind, odd, low, high)


def _sum_to_odd(builder: Builder, kind: Type, a: str, b: str) -> str:
    """The sum rounded to odd: Knuth's exact error of the sum says what was cut off."""
    total = builder.binary("fadd", kind, a, b)
    part = builder.binary("fsub", kind, total, a)
    rest_a = builder.binary("fsub", kind, a, builder.binary("fsub", kind, total, part))
    error = builder.binary("fadd", kind, rest_a, builder.binary("fsub", kind, b, part))
    inexact = builder.compare("fcmp one", kind, error, kind.const(0.0))  # NaN beside infinity: exact
    bits = kind.of(f"i{kind.bits}")
    signs = builder.binary("xor", bits, *(builder.cast("bitcast", kind, value, bits) for value in (error, total)))
    return _stepped(builder, kind, total, inexact, builder.compare("icmp sge", bits, signs, bits.const(0)))


def halves_of(builder: Builder, kind: Type, value: str) -> tuple[Type, list[str]]:
    """A vector of 32 lanes as two of 16, which is what processors with 512-bit vectors work on; others as they are."""
    if kind.lanes != 2 * _EMBEDDED.lanes:
        return kind, [value]
    size = _EMBEDDED.lanes
    return Type(kind.elem, size), [builder.slice(kind, value, start, size) for start in (0, size)]
