"""Instruction rows: comparison and selection, moves and conversions."""

from __future__ import annotations

from typing import Final

from zcuda_async.ptx.table_syntax import Row, relaxed_row, row

__all__ = ("COMPARE_ROWS",)

# Sections of the PTX ISA manual; by title, because their numbers change between versions.
_COMPARE_SECTION: Final = "Comparison and Selection"
_MOVE_SECTION: Final = "Data Movement and Conversion"

_EQUALITY: Final = "eq ne"
_SIGNED_TESTS: Final = "eq ne lt le gt ge"
_UNSIGNED_TESTS: Final = _SIGNED_TESTS + " lo ls hi hs"
_FLOAT_TESTS: Final = _SIGNED_TESTS + " equ neu ltu leu gtu geu num nan"
_COMBINE: Final = "and or xor"
_BITS: Final = "b16 b32 b64"
_UNSIGNED: Final = "u16 u32 u64"
_SIGNED: Final = "s16 s32 s64"
_INTEGERS: Final = _UNSIGNED + " " + _SIGNED
_BYTES_UP: Final = "u8 s8 " + _INTEGERS
_PLAIN: Final = f"{_BITS} {_INTEGERS} f32 f64"
_ROUND: Final = "rn rz rm rp"
_PACKED_BYTES: Final = "e4m3x2 e5m2x2"

# Source types, the comparisons they allow, whether .ftz is possible, and the results that set can have.
_TESTS: Final = (
    (_BITS, _EQUALITY, "", "u32 s32 f32 f16 bf16"),
    (_SIGNED, _SIGNED_TESTS, "", "u32 s32 f32 f16 bf16"),
    (_UNSIGNED, _UNSIGNED_TESTS, "", "u32 s32 f32 f16 bf16"),
    ("f32", _FLOAT_TESTS, "{.ftz}", "u32 s32 f32 f16"),
    ("f32", _FLOAT_TESTS, "", "bf16"),
    ("f64", _FLOAT_TESTS, "", "u32 s32 f32 f16 bf16"),
    ("f16", _FLOAT_TESTS, "{.ftz}", "u16 s16 u32 s32 f16"),
    ("f16", _FLOAT_TESTS, "", "bf16"),
    ("bf16", _FLOAT_TESTS, "", "u16 s16 u32 s32 bf16"),
    ("f16x2", _FLOAT_TESTS, "{.ftz}", "u32 s32 f16x2"),
    ("bf16x2", _FLOAT_TESTS, "", "u32 s32 bf16x2"),
)

# How many predicates setp writes, by source type; one, or two if wanted, for the others.
_PREDICATES: Final = {"f16": "p", "bf16": "p"}


def _setp() -> tuple[Row, ...]:
    rows: list[Row] = []
    for types, test, flush, _ in _TESTS:
        predicates = _PREDICATES.get(types, "p[|q]")
        rows.append(row(f"setp.test{flush}.type {predicates}, a, b", test=test, type=types, see=_COMPARE_SECTION))
        syntax = f"setp.test.combine{flush}.type {predicates}, a, b, {{!}}c:pred"
        rows.append(row(syntax, test=test, combine=_COMBINE, type=types, see=_COMPARE_SECTION))
    return tuple(dict.fromkeys(rows))


def _set() -> tuple[Row, ...]:
    rows: list[Row] = []
    for types, test, flush, results in _TESTS:
        plain = f"set.test{flush}.dtype.stype d, a, b"
        rows.append(row(plain, test=test, dtype=results, stype=types, see=_COMPARE_SECTION))
        syntax = f"set.test.combine{flush}.dtype.stype d, a, b, {{!}}c:pred"
        rows.append(row(syntax, test=test, combine=_COMBINE, dtype=results, stype=types, see=_COMPARE_SECTION))
    return tuple(rows)


_SELECT: Final = (
    row("selp.type d, a, b, c:pred", type=_PLAIN, see=_COMPARE_SECTION),
    row("slct.type.s32 d, a:0, b:0, c", type=_PLAIN, see=_COMPARE_SECTION),
    row("slct{.ftz}.type.f32 d, a:0, b:0, c", type=_PLAIN, see=_COMPARE_SECTION),
)

_MOVE: Final = (row("mov.type d, a:any", type="pred " + _PLAIN + " b128", see=_MOVE_SECTION),)

_TO_INTEGER: Final = "rni rzi rmi rpi"

_CONVERT_INTEGERS: Final = (
    relaxed_row("cvt{.sat}.dtype.stype d, a", dtype=_BYTES_UP, stype=_BYTES_UP, see=_MOVE_SECTION),
    relaxed_row("cvt.rnd{.ftz}{.sat}.dtype.f32 d, a", rnd=_TO_INTEGER, dtype=_BYTES_UP, see=_MOVE_SECTION),
    relaxed_row("cvt.rnd{.sat}.dtype.stype d, a", rnd=_TO_INTEGER, dtype=_BYTES_UP, stype="f16 f64", see=_MOVE_SECTION),
    relaxed_row("cvt.rnd.dtype.bf16 d, a", rnd=_TO_INTEGER, dtype=_INTEGERS, see=_MOVE_SECTION),
    relaxed_row("cvt.rnd{.ftz}{.sat}.f32.stype d, a", rnd=_ROUND, stype=_BYTES_UP, see=_MOVE_SECTION),
    relaxed_row("cvt.rnd{.sat}.dtype.stype d, a", rnd=_ROUND, dtype="f16 f64", stype=_BYTES_UP, see=_MOVE_SECTION),
    relaxed_row("cvt.rnd.bf16.stype d, a", rnd=_ROUND, stype=_INTEGERS, see=_MOVE_SECTION),
)

_CONVERT_FLOATS: Final = (
    # to the same width: rounding to an integral value is optional
    relaxed_row("cvt{.rnd}{.ftz}{.sat}.f32.f32 d, a", rnd=_TO_INTEGER, see=_MOVE_SECTION),
    relaxed_row("cvt{.rnd}{.sat}.f64.f64 d, a", rnd=_TO_INTEGER, see=_MOVE_SECTION),
    relaxed_row("cvt{.rnd}{.sat}.f16.f16 d, a", rnd=_TO_INTEGER, see=_MOVE_SECTION),
    relaxed_row("cvt{.rnd}.bf16.bf16 d, a", rnd=_TO_INTEGER, see=_MOVE_SECTION),
    # wider: exact
    relaxed_row("cvt{.ftz}{.sat}.f32.f16 d, a", see=_MOVE_SECTION),
    relaxed_row("cvt{.ftz}{.sat}.f64.f32 d, a", see=_MOVE_SECTION),
    relaxed_row("cvt{.sat}.f64.f16 d, a", see=_MOVE_SECTION),
    relaxed_row("cvt{.rnd}{.ftz}.f32.bf16 d, a", rnd=_ROUND, see=_MOVE_SECTION),
    relaxed_row("cvt{.rnd}.f64.bf16 d, a", rnd=_ROUND, see=_MOVE_SECTION),
    relaxed_row("cvt{.rnd}.dtype.stype d, a", rnd=_ROUND, dtype="f16", stype="bf16", see=_MOVE_SECTION),
    relaxed_row("cvt{.rnd}.dtype.stype d, a", rnd=_ROUND, dtype="bf16", stype="f16", see=_MOVE_SECTION),
    # narrower: rounding is required
    relaxed_row("cvt.rnd{.ftz}{.sat}.f32.f64 d, a", rnd=_ROUND, see=_MOVE_SECTION),
    relaxed_row("cvt.rnd{.ftz}{.sat}.f16.f32 d, a", rnd=_ROUND, see=_MOVE_SECTION),
    relaxed_row("cvt.rnd{.sat}.f16.f64 d, a", rnd=_ROUND, see=_MOVE_SECTION),
    relaxed_row("cvt.rnd{.ftz}.bf16.f32 d, a", rnd=_ROUND, see=_MOVE_SECTION),
    relaxed_row("cvt.rnd.bf16.f64 d, a", rnd=_ROUND, see=_MOVE_SECTION),
    relaxed_row("cvt.rnd{.relu}{.satfinite}.dtype.f32 d, a", rnd="rn rz", dtype="f16 bf16", see=_MOVE_SECTION),
)

_CONVERT_PACKED: Final = (
    relaxed_row("cvt.rnd{.relu}{.satfinite}.dtype.f32 d, a, b", rnd="rn rz", dtype="f16x2 bf16x2", see=_MOVE_SECTION),
    relaxed_row("cvt.rna{.satfinite}.tf32.f32 d, a", see=_MOVE_SECTION),
    relaxed_row("cvt.rnd{.relu}{.satfinite}.tf32.f32 d, a", rnd="rn rz", see=_MOVE_SECTION),
    relaxed_row("cvt.rn.satfinite{.relu}.dtype.f32 d, a, b", dtype=_PACKED_BYTES, see=_MOVE_SECTION),
    relaxed_row("cvt.rn.satfinite{.relu}.dtype.f16x2 d, a", dtype=_PACKED_BYTES, see=_MOVE_SECTION),
    relaxed_row("cvt.rn{.relu}.f16x2.stype d, a", stype=_PACKED_BYTES, see=_MOVE_SECTION),
    row("cvt.pack.sat.dtype.stype d:b32, a, b", dtype="u16 s16", stype="s32", see=_MOVE_SECTION),
    row(
        "cvt.pack.sat.dtype.stype.b32 d:b32, a:1, b:1, c",
        dtype="u8 s8 u4 s4 u2 s2",
        stype="s32",
        see=_MOVE_SECTION,
    ),
)

_CONVERT: Final = _CONVERT_INTEGERS + _CONVERT_FLOATS + _CONVERT_PACKED

COMPARE_ROWS: Final[tuple[Row, ...]] = (*_setp(), *_set(), *_SELECT, *_MOVE, *_CONVERT)
