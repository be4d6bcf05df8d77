"""Instruction rows: integer arithmetic, bit fields, logic and shifts."""

from __future__ import annotations

from typing import Final

from zcuda_async.ptx.table_syntax import Row, row

__all__ = ("INTEGER_ROWS",)

# Sections of the PTX ISA manual; by title, because their numbers change between versions.
_ARITHMETIC_SECTION: Final = "Integer Arithmetic"
_CARRY_SECTION: Final = "Extended-Precision Integer Arithmetic"
_LOGIC_SECTION: Final = "Logic and Shift"
_MOVE_SECTION: Final = "Data Movement and Conversion"

_SIGNED: Final = "s16 s32 s64"
_INTEGERS: Final = "u16 u32 u64 s16 s32 s64"
_WORDS: Final = "u32 s32"
_LONGS: Final = "u32 u64 s32 s64"
_BITS: Final = "b16 b32 b64"
_PERMUTES: Final = "f4e b4e rc8 ecl ecr rc16"

_ARITHMETIC: Final = (
    row("add.type d, a, b", type=_INTEGERS + " u16x2 s16x2", see=_ARITHMETIC_SECTION),
    row("add.sat.s32 d, a, b", see=_ARITHMETIC_SECTION),
    row("sub.type d, a, b", type=_INTEGERS, see=_ARITHMETIC_SECTION),
    row("sub.sat.s32 d, a, b", see=_ARITHMETIC_SECTION),
    row("mul.half.type d, a, b", half="lo hi", type=_INTEGERS, see=_ARITHMETIC_SECTION),
    row("mul.wide.type d:wide, a, b", type="u16 s16 u32 s32", see=_ARITHMETIC_SECTION),
    row("mad.half.type d, a, b, c", half="lo hi", type=_INTEGERS, see=_ARITHMETIC_SECTION),
    row("mad.hi.sat.s32 d, a, b, c", see=_ARITHMETIC_SECTION),
    row("mad.wide.type d:wide, a, b, c:wide", type="u16 s16 u32 s32", see=_ARITHMETIC_SECTION),
    row("mul24.half.type d, a, b", half="lo hi", type=_WORDS, see=_ARITHMETIC_SECTION),
    row("mad24.half.type d, a, b, c", half="lo hi", type=_WORDS, see=_ARITHMETIC_SECTION),
    row("mad24.hi.sat.s32 d, a, b, c", see=_ARITHMETIC_SECTION),
    row("sad.type d, a, b, c", type=_INTEGERS, see=_ARITHMETIC_SECTION),
    row("div.type d, a, b", type=_INTEGERS, see=_ARITHMETIC_SECTION),
    row("rem.type d, a, b", type=_INTEGERS, see=_ARITHMETIC_SECTION),
    row("abs.type d, a", type=_SIGNED, see=_ARITHMETIC_SECTION),
    row("neg.type d, a", type=_SIGNED, see=_ARITHMETIC_SECTION),
    row("min.type d, a, b", type=_INTEGERS + " u16x2", see=_ARITHMETIC_SECTION),
    row("min{.relu}.type d, a, b", type="s16x2 s32", see=_ARITHMETIC_SECTION),
    row("max.type d, a, b", type=_INTEGERS + " u16x2", see=_ARITHMETIC_SECTION),
    row("max{.relu}.type d, a, b", type="s16x2 s32", see=_ARITHMETIC_SECTION),
)

_CARRY: Final = (
    row("add.cc.type d, a, b", type=_LONGS, see=_CARRY_SECTION),
    row("addc{.cc}.type d, a, b", type=_LONGS, see=_CARRY_SECTION),
    row("sub.cc.type d, a, b", type=_LONGS, see=_CARRY_SECTION),
    row("subc{.cc}.type d, a, b", type=_LONGS, see=_CARRY_SECTION),
    row("mad.half.cc.type d, a, b, c", half="lo hi", type=_LONGS, see=_CARRY_SECTION),
    row("madc.half{.cc}.type d, a, b, c", half="lo hi", type=_LONGS, see=_CARRY_SECTION),
)

_BIT_FIELDS: Final = (
    row("popc.type d:u32, a", type="b32 b64", see=_ARITHMETIC_SECTION),
    row("clz.type d:u32, a", type="b32 b64", see=_ARITHMETIC_SECTION),
    row("bfind{.shiftamt}.type d:u32, a", type=_LONGS, see=_ARITHMETIC_SECTION),
    row("fns.b32 d:u32, mask:u32, base:u32, offset:s32", see=_ARITHMETIC_SECTION),
    row("brev.type d, a", type="b32 b64", see=_ARITHMETIC_SECTION),
    row("bfe.type d, a, b:u32(0..255), c:u32(0..255)", type=_LONGS, see=_ARITHMETIC_SECTION),
    row("bfi.type d, a, b, start:u32(0..255), length:u32(0..255)", type="b32 b64", see=_ARITHMETIC_SECTION),
    row("szext.mode.type d, a, b:u32", mode="clamp wrap", type=_WORDS, see=_ARITHMETIC_SECTION),
    row("bmsk.mode.b32 d:u32, a:u32, b:u32", mode="clamp wrap", see=_ARITHMETIC_SECTION),
    row("dp4a.atype.btype d:u32, a:u32, b:u32, c:u32", atype=_WORDS, btype=_WORDS, see=_ARITHMETIC_SECTION),
    row(
        "dp2a.half.atype.btype d:u32, a:u32, b:u32, c:u32",
        half="lo hi",
        atype=_WORDS,
        btype=_WORDS,
        see=_ARITHMETIC_SECTION,
    ),
)

_LOGIC: Final = (
    row("and.type d, a, b", type="pred " + _BITS, see=_LOGIC_SECTION),
    row("or.type d, a, b", type="pred " + _BITS, see=_LOGIC_SECTION),
    row("xor.type d, a, b", type="pred " + _BITS, see=_LOGIC_SECTION),
    row("not.type d, a", type="pred " + _BITS, see=_LOGIC_SECTION),
    row("cnot.type d, a", type=_BITS, see=_LOGIC_SECTION),
    row("lop3.b32 d, a, b, c, table:0..255", see=_LOGIC_SECTION),
    row("lop3.combine.b32 d|p, a, b, c, table:0..255, {!}q", combine="or and", see=_LOGIC_SECTION),
    row("shf.direction.mode.b32 d, a, b, c:u32", direction="l r", mode="clamp wrap", see=_LOGIC_SECTION),
    row("shl.type d, a, b:u32", type=_BITS, see=_LOGIC_SECTION),
    row("shr.type d, a, b:u32", type=_INTEGERS + " " + _BITS, see=_LOGIC_SECTION),
    row("prmt.b32{.mode} d, a, b, c", mode=_PERMUTES, see=_MOVE_SECTION),
)

INTEGER_ROWS: Final[tuple[Row, ...]] = _ARITHMETIC + _CARRY + _BIT_FIELDS + _LOGIC
