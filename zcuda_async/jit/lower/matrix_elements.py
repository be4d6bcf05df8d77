"""What registers of matrices hold, as vectors of numbers (PTX ISA 9.7.14)."""

from __future__ import annotations

from typing import Final

from zcuda_async.jit.builder import Builder, Type
from zcuda_async.jit.lower.half import widen
from zcuda_async.ptx.matrix import Fragment

__all__ = ("INTEGERS", "element", "word")

INTEGERS: Final = frozenset({"s8", "u8", "s4", "u4"})
"""Types of factors that are whole numbers."""

_WARP: Final = 32
_WORDS: Final = Type("i32", _WARP)


def word(b: Builder, pointer: str, fragment: Fragment, register: int) -> str:
    """One register of all lanes."""
    kind = Type("i64" if fragment.type == "f64" else "i32", _WARP)
    at = b.op(f"getelementptr {kind}, ptr {pointer}, i32 {register}")
    return b.op(f"load {kind}, ptr {at}, align 64")


def element(b: Builder, fragment: Fragment, words: str, index: int, elem: str) -> str:
    """The elements of place `index` in each lane's register, as the type of the sum."""
    to = Type(elem, _WARP)
    kind = fragment.type
    if kind == "f64":
        return b.cast("bitcast", Type("i64", _WARP), words, to)
    if kind in ("f32", "tf32"):
        masked = b.binary("and", _WORDS, words, _WORDS.const(-(1 << 13))) if kind == "tf32" else words
        return b.cast("bitcast", _WORDS, masked, to)
    bits = 32 // fragment.per_register
    if kind == "bf16":  # the upper half of an f32
        moved = b.binary("shl", _WORDS, words, _WORDS.const(16)) if index == 0 else words
        return b.cast("bitcast", _WORDS, b.binary("and", _WORDS, moved, _WORDS.const(-(1 << 16))), to)
    shifted = b.binary("shl", _WORDS, words, _WORDS.const(32 - bits * (index + 1)))
    if kind in INTEGERS:
        signed = kind[0] == "s"
        small = b.binary("ashr" if signed else "lshr", _WORDS, shifted, _WORDS.const(32 - bits))
        return b.cast("sitofp", _WORDS, small, to)
    return _small_float(b, fragment.type, b.binary("lshr", _WORDS, shifted, _WORDS.const(32 - bits)), to)


def _small_float(b: Builder, kind: str, bits: str, to: Type) -> str:
    """f16 and the 8-bit floats, from the low bits of words."""
    half, short = Type("half", _WARP), Type("i16", _WARP)
    if kind == "e4m3":
        # Seven bits as the top of a half's exponent and fraction are the value divided by 256.
        sign = b.binary("shl", _WORDS, b.binary("and", _WORDS, bits, _WORDS.const(0x80)), _WORDS.const(8))
        rest = b.binary("shl", _WORDS, b.binary("and", _WORDS, bits, _WORDS.const(0x7F)), _WORDS.const(7))
        joined = b.cast("trunc", _WORDS, b.binary("or", _WORDS, sign, rest), short)
        _, value = widen(b, half, b.cast("bitcast", short, joined, half))
        value = b.binary("fmul", to, value, to.const(256.0))
        low = b.binary("and", _WORDS, bits, _WORDS.const(0x7F))
        is_nan = b.compare("icmp eq", _WORDS, low, _WORDS.const(0x7F))
        return b.select(to, is_nan, f"splat ({to.elem} 0x7FF8000000000000)", value)
    if kind == "e5m2":
        bits = b.binary("shl", _WORDS, bits, _WORDS.const(8))
    return widen(b, half, b.cast("bitcast", short, b.cast("trunc", _WORDS, bits, short), half))[1]
