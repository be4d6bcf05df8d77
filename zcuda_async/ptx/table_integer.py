"""Instruction rows: integer arithmetic, bit fields, logic and shifts (PTX ISA 9.7.1, 9.7.2, 9.7.8)."""

from __future__ import annotations

from typing import Final

from zcuda_async.ptx.table_syntax import Row, row

__all__ = ("INTEGER_ROWS",)

_SIGNED: Final = "s16 s32 s64"
_INTEGERS: Final = "u16 u32 u64 s16 s32 s64"
_WORDS: Final = "u32 s32"
_LONGS: Final = "u32 u64 s32 s64"
_BITS: Final = "b16 b32 b64"
_PERMUTES: Final = "f4e b4e rc8 ecl ecr rc16"

_ARITHMETIC: Final = (
    row("add.type d, a, b", type=_INTEGERS + " u16x2 s16x2", see="9.7.1.1"),
    row("add.sat.s32 d, a, b", see="9.7.1.1"),
    row("sub.type d, a, b", type=_INTEGERS, see="9.7.1.2"),
    row("sub.sat.s32 d, a, b", see="9.7.1.2"),
    row("mul.half.type d, a, b", half="lo hi", type=_INTEGERS, see="9.7.1.3"),
    row("mul.wide.type d:wide, a, b", type="u16 s16 u32 s32", see="9.7.1.3"),
    row("mad.half.type d, a, b, c", half="lo hi", type=_INTEGERS, see="9.7.1.4"),
    row("mad.hi.sat.s32 d, a, b, c", see="9.7.1.4"),
    row("mad.wide.type d:wide, a, b, c:wide", type="u16 s16 u32 s32", see="9.7.1.4"),
    row("mul24.half.type d, a, b", half="lo hi", type=_WORDS, see="9.7.1.5"),
    row("mad24.half.type d, a, b, c", half="lo hi", type=_WORDS, see="9.7.1.6"),
    row("mad24.hi.sat.s32 d, a, b, c", see="9.7.1.6"),
    row("sad.type d, a, b, c", type=_INTEGERS, see="9.7.1.7"),
    row("div.type d, a, b", type=_INTEGERS, see="9.7.1.8"),
    row("rem.type d, a, b", type=_INTEGERS, see="9.7.1.9"),
    row("abs.type d, a", type=_SIGNED, see="9.7.1.10"),
    row("neg.type d, a", type=_SIGNED, see="9.7.1.11"),
    row("min.type d, a, b", type=_INTEGERS + " u16x2", see="9.7.1.12"),
    row("min{.relu}.type d, a, b", type="s16x2 s32", see="9.7.1.12"),
    row("max.type d, a, b", type=_INTEGERS + " u16x2", see="9.7.1.13"),
    row("max{.relu}.type d, a, b", type="s16x2 s32", see="9.7.1.13"),
)

_CARRY: Final = (
    row("add.cc.type d, a, b", type=_LONGS, see="9.7.2.1"),
    row("addc{.cc}.type d, a, b", type=_LONGS, see="9.7.2.2"),
    row("sub.cc.type d, a, b", type=_LONGS, see="9.7.2.3"),
    row("subc{.cc}.type d, a, b", type=_LONGS, see="9.7.2.4"),
    row("mad.half.cc.type d, a, b, c", half="lo hi", type=_LONGS, see="9.7.2.5"),
    row("madc.half{.cc}.type d, a, b, c", half="lo hi", type=_LONGS, see="9.7.2.6"),
)

_BIT_FIELDS: Final = (
    row("popc.type d:u32, a", type="b32 b64", see="9.7.1.14"),
    row("clz.type d:u32, a", type="b32 b64", see="9.7.1.15"),
    row("bfind{.shiftamt}.type d:u32, a", type=_LONGS, see="9.7.1.16"),
    row("fns.b32 d, mask:b32, base:b32, offset:s32", see="9.7.1.17"),
    row("brev.type d, a", type="b32 b64", see="9.7.1.18"),
    row("bfe.type d, a, b:u32(0..255), c:u32(0..255)", type=_LONGS, see="9.7.1.19"),
    row("bfi.type d, a, b, start:u32(0..255), length:u32(0..255)", type="b32 b64", see="9.7.1.20"),
    row("szext.mode.type d, a, b:u32", mode="clamp wrap", type=_WORDS, see="9.7.1.21"),
    row("bmsk.mode.b32 d, a:u32, b:u32", mode="clamp wrap", see="9.7.1.22"),
    row("dp4a.atype.btype d:b32, a:b32, b:b32, c:b32", atype=_WORDS, btype=_WORDS, see="9.7.1.23"),
    row("dp2a.half.atype.btype d:b32, a:b32, b:b32, c:b32", half="lo hi", atype=_WORDS, btype=_WORDS, see="9.7.1.24"),
)

_LOGIC: Final = (
    row("and.type d, a, b", type="pred " + _BITS, see="9.7.8.1"),
    row("or.type d, a, b", type="pred " + _BITS, see="9.7.8.2"),
    row("xor.type d, a, b", type="pred " + _BITS, see="9.7.8.3"),
    row("not.type d, a", type="pred " + _BITS, see="9.7.8.4"),
    row("cnot.type d, a", type=_BITS, see="9.7.8.5"),
    row("lop3.b32 d, a, b, c, table:0..255", see="9.7.8.6"),
    row("lop3.combine.b32 d|p, a, b, c, table:0..255, {!}q", combine="or and", see="9.7.8.6"),
    row("shf.direction.mode.b32 d, a, b, c:u32", direction="l r", mode="clamp wrap", see="9.7.8.7"),
    row("shl.type d, a, b:u32", type=_BITS, see="9.7.8.8"),
    row("shr.type d, a, b:u32", type=_INTEGERS + " " + _BITS, see="9.7.8.9"),
    row("prmt.b32{.mode} d, a, b, c", mode=_PERMUTES, see="9.7.9.7"),
)

INTEGER_ROWS: Final[tuple[Row, ...]] = _ARITHMETIC + _CARRY + _BIT_FIELDS + _LOGIC
