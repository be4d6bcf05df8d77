"""``dp4a``: the processor's own dot products of bytes, or of half-words, where it has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zcuda_async.jit.builder import Builder, Type
from zcuda_async.ptx.ir import Instruction

__all__ = ("dot_bytes",)

_HIGH_BITS: Final = 0x80808080 - (1 << 32)
_ONES: Final = 0x01010101
_PAIRS: Final = {16: ("avx512", "llvm.x86.avx512.pmaddw.d.512"), 8: ("f16c", "llvm.x86.avx2.pmadd.wd")}
"""Lanes → the feature that brings it, and the product of pairs of half-words, added in pairs."""


def dot_bytes(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    """C plus the products of the bytes of a and b."""
    a, b, c = args
    signed = [ptx_type[0] == "s" for ptx_type in instruction.types]
    if kind.lanes == 16 and "vnni" in builder.features:
        return _mixed_signs(builder, kind, a, b, c, signed)
    feature, function = _PAIRS.get(kind.lanes, ("none", ""))
    if feature in builder.features:
        return _pairs(builder, function, kind, (a, b), c, signed)
    return _one_by_one(builder, kind, (a, b), c, signed)


def _dpbusd(builder: Builder, kind: Type, total: str, unsigned: str, signed: str) -> str:
    return builder.call(kind, "llvm.x86.avx512.vpdpbusd.512", [(kind, total), (kind, unsigned), (kind, signed)])


def _opaque(builder: Builder, kind: Type, value: int) -> str:
    """A constant that LLVM does not see through: selecting a flip of sign bits in a dot product may never end."""
    return builder.hoist(f'call {kind} asm "", "=v,0"({kind} {kind.const(value)})')


def _mixed_signs(builder: Builder, kind: Type, a: str, b: str, c: str, signed: Sequence[bool]) -> str:
    """The instruction takes unsigned bytes on one side and signed ones on the other; 128 makes one of the other."""
    if signed[0] != signed[1]:
        return _dpbusd(builder, kind, c, b if signed[0] else a, a if signed[0] else b)
    if signed[0]:  # (a + 128) b - 128 b
        moved = builder.binary("xor", kind, a, _opaque(builder, kind, _HIGH_BITS))
        total = _dpbusd(builder, kind, c, moved, b)
        return builder.binary("sub", kind, total, _dpbusd(builder, kind, kind.const(0), kind.const(_HIGH_BITS), b))
    moved = builder.binary("xor", kind, b, _opaque(builder, kind, _HIGH_BITS))  # a (b - 128) + 128 a
    total = _dpbusd(builder, kind, c, a, moved)
    whole = _dpbusd(builder, kind, kind.const(0), a, kind.const(_ONES))
    return builder.binary("add", kind, total, builder.binary("shl", kind, whole, kind.const(7)))


def _pairs(builder: Builder, function: str, kind: Type, args: Sequence[str], c: str, signed: Sequence[bool]) -> str:
    """Even and odd bytes as half-words, two products of which the instruction adds."""
    words = Type("i16", 2 * kind.lanes)
    eight = words.const(8)
    columns: list[list[str]] = [[], []]
    for value, is_signed in zip(args, signed, strict=True):
        whole = builder.cast("bitcast", kind, value, words)
        down = "ashr" if is_signed else "lshr"
        columns[0].append(builder.binary(down, words, builder.binary("shl", words, whole, eight), eight))
        columns[1].append(builder.binary(down, words, whole, eight))
    for column in columns:
        c = builder.binary("add", kind, c, builder.call(kind, function, [(words, value) for value in column]))
    return c


def _one_by_one(builder: Builder, kind: Type, args: Sequence[str], c: str, signed: Sequence[bool]) -> str:
    for index in range(4):
        pair = []
        for value, is_signed in zip(args, signed, strict=True):
            up = builder.binary("shl", kind, value, kind.const(24 - 8 * index))
            pair.append(builder.binary("ashr" if is_signed else "lshr", kind, up, kind.const(24)))
        c = builder.binary("add", kind, c, builder.binary("mul", kind, pair[0], pair[1]))
    return c
