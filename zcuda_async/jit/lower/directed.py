"""Arithmetic rounded toward zero, minus or plus infinity.

AVX-512 instructions carry their rounding mode.  Elsewhere the nearest result is corrected: its exact
error tells whether it lies on the wrong side of the true value, and then it moves by one unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zcuda_async.jit.builder import Builder, Type

__all__ = ("DIRECTED", "directed")

DIRECTED: Final = {"rm": 9, "rp": 10, "rz": 11}
"""Modifier → AVX-512 embedded-rounding operand."""


def directed(builder: Builder, name: str, mode: str, kind: Type, args: Sequence[str]) -> str:
    """`name` (add, sub, mul or fma) of `args` in rounding mode `mode`."""
    if kind == Type("float", 16) and "avx512" in builder.features:
        return _embedded(builder, name, mode, kind, args)
    if kind.elem == "float":
        return _through_double(builder, name, mode, kind, args)
    return _corrected(builder, name, mode, kind, args)


def _embedded(builder: Builder, name: str, mode: str, kind: Type, args: Sequence[str]) -> str:
    function = "llvm.x86.avx512." + ("vfmadd" if name == "fma" else name) + ".ps.512"
    pairs: list[tuple[Type | str, str]] = [(kind, value) for value in args]
    return builder.call(kind, function, [*pairs, ("i32", str(DIRECTED[mode]))])


def _two_sum(builder: Builder, kind: Type, a: str, b: str) -> tuple[str, str]:
    """(rounded sum, exact error), Knuth's."""
    total = builder.binary("fadd", kind, a, b)
    back = builder.binary("fsub", kind, total, a)
    other = builder.binary("fsub", kind, total, back)
    error = builder.binary("fadd", kind, builder.binary("fsub", kind, a, other), builder.binary("fsub", kind, b, back))
    return total, error


def _through_double(builder: Builder, name: str, mode: str, kind: Type, args: Sequence[str]) -> str:
    """f32 in f64: products are exact there, and sums have an exact error."""
    wide = kind.of("double")
    values = [builder.cast("fpext", kind, value, wide) for value in args]
    if name == "sub":
        values[1] = builder.op(f"fneg {wide} {values[1]}")
    zero = wide.const(0.0)
    if name == "mul":
        total, error = builder.binary("fmul", wide, values[0], values[1]), zero
    elif name == "fma":
        product = builder.binary("fmul", wide, values[0], values[1])
        total, error = _two_sum(builder, wide, product, values[2])
    else:
        total, error = _two_sum(builder, wide, values[0], values[1])
    near = builder.cast("fptrunc", wide, total, kind)
    back = builder.cast("fpext", kind, near, wide)
    # true - near has the sign of (total - back), or of the error where those are equal.
    gap = builder.binary("fsub", wide, total, back)
    level = builder.compare("fcmp oeq", wide, gap, zero)
    gap = builder.select(wide, level, error, gap)
    return _step(builder, mode, kind, near, wide, gap)


def _corrected(builder: Builder, name: str, mode: str, kind: Type, args: Sequence[str]) -> str:
    """f64 add, sub and mul by their exact errors; fma by those of product and sum together."""
    a, b = args[0], args[1]
    if name == "mul":
        near = builder.binary("fmul", kind, a, b)
        gap = builder.intrinsic("fma", kind, a, b, builder.op(f"fneg {kind} {near}"))
    elif name == "fma":
        near = builder.intrinsic("fma", kind, *args)
        product = builder.binary("fmul", kind, a, b)
        low = builder.intrinsic("fma", kind, a, b, builder.op(f"fneg {kind} {product}"))
        # a b + c - near, exactly: the nearest result makes the leading terms cancel.
        high, first = _two_sum(builder, kind, product, args[2])
        rest = builder.binary("fsub", kind, high, near)
        sum_low, second = _two_sum(builder, kind, first, low)
        gap, third = _two_sum(builder, kind, rest, sum_low)
        gap = builder.binary("fadd", kind, gap, builder.binary("fadd", kind, third, second))
    else:
        if name == "sub":
            b = builder.op(f"fneg {kind} {b}")
        near, gap = _two_sum(builder, kind, a, b)
    return _step(builder, mode, kind, near, kind, gap)


def _step(builder: Builder, mode: str, kind: Type, near: str, gap_kind: Type, gap: str) -> str:
    """Move `near` one unit toward where `mode` wants it, if the true value lies beyond it."""
    whole = kind.of(f"i{kind.bits}")
    bits = builder.cast("bitcast", kind, near, whole)
    negative = builder.compare("icmp slt", whole, bits, whole.const(0))
    truth = kind.of("i1")
    below = builder.compare("fcmp olt", gap_kind, gap, gap_kind.const(0.0))
    above = builder.compare("fcmp ogt", gap_kind, gap, gap_kind.const(0.0))
    if mode == "rm":
        wrong = below
    elif mode == "rp":
        wrong = above
    else:  # toward zero: down where near is positive, up where it is negative
        wrong = builder.op(f"select {truth} {negative}, {truth} {above}, {truth} {below}")
    if mode == "rz":
        step = whole.const(-1)
    else:
        down = mode == "rm"
        step = builder.select(whole, negative, whole.const(1 if down else -1), whole.const(-1 if down else 1))
    moved = builder.binary("add", whole, bits, step)
    zero = builder.compare("icmp eq", whole, builder.binary("shl", whole, bits, whole.const(1)), whole.const(0))
    smallest = whole.const(1 if mode == "rp" else (1 << (kind.bits - 1)) + 1 if mode == "rm" else 0)
    moved = builder.select(whole, zero, smallest, moved)
    return builder.cast("bitcast", whole, builder.select(whole, wrong, moved, bits), kind)
