"""The kernel that evaluates a family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from benchmarks.accuracy.formats import Array
from benchmarks.accuracy.functions import Family

__all__ = ("BLOCK", "as_words", "kernel_text", "spellings_of", "word_of")

BLOCK: Final = 256
"""Threads in a block; the kernel does not check its index, so there are as many samples as threads."""

_MODULE: Final = """\
.version 8.6
.target sm_90
.address_size 64
.visible .entry evaluate(.param .u64 in, .param .u64 out, .param .u32 n)
{{
.reg .b16 %h<4>; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .b{width} %x<4>; .reg .b{width} %y<9>;
ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out]; ld.param.u32 %r4, [n];
mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r0, %r2, %r1;
mul.wide.u32 %d2, %r3, {bytes}; mul.wide.u32 %d3, %r4, {bytes}; add.u64 %d0, %d0, %d2; add.u64 %d1, %d1, %d2;
{body}
ret;
}}
"""


def word_of(family: Family) -> np.dtype[np.generic]:
    """What the kernel reads and writes: words of 32 bits, for f64 of 64."""
    return np.dtype(np.uint64 if family.format.width == 64 else np.uint32)


def spellings_of(family: Family) -> list[str]:
    """All that the kernel evaluates, in the order of its results."""
    return [
        name
        for function in family.functions
        for name in (function.spelling, function.flushed, function.pair)
        if name is not None
    ]


def as_words(family: Family, bits: Sequence[Array]) -> Array:
    """The kernel's input for operands' bit patterns; above a half lies its complement, for the packed spellings."""
    words = np.stack([operand.astype(word_of(family)) for operand in bits])
    return words | (~words & np.uint32(0xFFFF)) << np.uint32(16) if family.format.width == 16 else words


def kernel_text(family: Family) -> str:
    """PTX of ``evaluate(in, out, n)``: operand k of sample i is ``in[k * n + i]``, result j ``out[j * n + i]``.

    The result of a packed spelling is where it differs from the plain one, given one half after the other.
    """
    width = max(32, family.format.width)
    lines = [f"ld.global.b{width} %x{k}, [%d0]; add.u64 %d0, %d0, %d3;" for k in range(family.arguments)]
    operands = ", ".join(f"%x{k}" for k in range(family.arguments))
    for function in family.functions:
        for spelling in (function.spelling, function.flushed):
            if spelling is not None:
                lines += [_one(spelling, operands, family.format.width), *_store(width)]
        if function.pair is not None:
            lines += [_packed(function.spelling, function.pair), *_store(width)]
    return _MODULE.format(width=width, bytes=width // 8, body="\n".join(lines))


def _store(width: int) -> list[str]:
    return [f"st.global.b{width} [%d1], %y0; add.u64 %d1, %d1, %d3;"]


def _one(spelling: str, operands: str, width: int) -> str:
    if width >= 32:
        return f"{spelling} %y0, {operands};"
    return f"cvt.u16.u32 %h0, %x0; {spelling} %h1, %h0; cvt.u32.u16 %y0, %h1;"


def _packed(plain: str, pair: str) -> str:
    return (
        f"{pair} %y1, %x0; mov.b32 {{%h0, %h1}}, %x0; {plain} %h2, %h0; {plain} %h3, %h1;"
        " mov.b32 %y2, {%h2, %h3}; xor.b32 %y0, %y1, %y2;"
    )
