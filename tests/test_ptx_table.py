"""The instruction table: what it covers, and how spellings are matched."""

from __future__ import annotations

import pytest

from zcuda_async.ptx import TABLE, destinations, parse, row_of
from zcuda_async.ptx.ir import Instruction
from zcuda_async.ptx.table import Form, resolve
from zcuda_async.ptx.table_explain import NOT_SUPPORTED
from zcuda_async.ptx.table_registers import registers_for
from zcuda_async.ptx.table_syntax import TYPE_WIDTHS, Row

ROWS = [row for rows in TABLE.values() for row in rows]


def form(spelling: str) -> Form:
    found = resolve(spelling)
    assert found is not None, spelling
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.syntax)
def test_every_row_is_well_formed(row: Row) -> None:
    assert row.see
    assert row.destinations <= len(row.operands)
    assert TABLE[row.opcode].count(row) == 1
    for slot in row.slots:
        assert slot.options
        assert slot.required or not slot.is_type
        assert slot.is_type or not any(option in TYPE_WIDTHS for option in slot.options), slot
    for operand in row.operands:
        assert not operand.spec.isdigit() or int(operand.spec) < len(row.type_slots)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.syntax)
def test_a_rows_own_spelling_resolves(row: Row) -> None:
    parts = [slot.options[0] for slot in row.slots if slot.required]
    found = form(".".join((row.opcode, *parts)))
    assert found.opcode == row.opcode
    assert len(found.types) == len(row.type_slots)


def test_supported_and_unsupported_opcodes_are_disjoint() -> None:
    assert not NOT_SUPPORTED & set(TABLE)


@pytest.mark.parametrize(
    ("spelling", "modifiers", "types"),
    [
        ("ld.global.nc.v4.f32", ("global", "nc", "v4"), ("f32",)),
        ("ld.acquire.sys.global.u8", ("acquire", "sys", "global"), ("u8",)),
        ("ld.global.L2::128B.v4.u32", ("global", "L2::128B", "v4"), ("u32",)),
        ("vote.ballot.sync.b32", ("sync", "ballot"), ("b32",)),
        ("vote.sync.ballot.b32", ("sync", "ballot"), ("b32",)),
        ("atom.global.gpu.acq_rel.add.u32", ("acq_rel", "gpu", "global", "add"), ("u32",)),
        ("atom.add.release.gpu.u32", ("release", "gpu", "add"), ("u32",)),
        ("atom.relaxed.sys.cas.b32", ("relaxed", "sys", "cas"), ("b32",)),
        ("red.gpu.global.add.noftz.f16x2", ("gpu", "global", "add", "noftz"), ("f16x2",)),
        ("cvt.rn.f32.s32", ("rn",), ("f32", "s32")),
        ("cvt.rzi.ftz.s32.f32", ("rzi", "ftz"), ("s32", "f32")),
        ("setp.lt.and.ftz.f32", ("lt", "and", "ftz"), ("f32",)),
        ("shfl.sync.down.b32", ("sync", "down"), ("b32",)),
        ("st.shared::cta.b32", ("shared",), ("b32",)),
        ("fma.rn.ftz.sat.f32", ("rn", "ftz", "sat"), ("f32",)),
        ("prmt.b32.f4e", ("f4e",), ("b32",)),
        ("bar.warp.sync", ("warp", "sync"), ()),
        ("bra.uni", ("uni",), ()),
        ("mul.wide.s32", ("wide",), ("s32",)),
    ],
)
def test_modifiers_come_out_in_canonical_order(
    spelling: str, modifiers: tuple[str, ...], types: tuple[str, ...]
) -> None:
    found = form(spelling)
    assert (found.modifiers, found.types) == (modifiers, types)


@pytest.mark.parametrize(
    "spelling",
    [
        "add.ftz.s32",
        "add.b32",
        "mul.s32",
        "div.f32",
        "cvt.f32.s32",
        "cvt.rn.s32.f32",
        "cvt.f32.f64",
        "shfl.down.b32",
        "ld.global.v3.u32",
        "ld.acquire.global.u32",
        "setp.lo.s32",
        "setp.lt.b32",
        "atom.global.exch.f32",
        "st.const.u32",
        "add.rn.rz.f32",
        "add",
        "",
        "add.",
        ".add",
        "rcp.f32",
    ],
)
def test_wrong_combinations_do_not_resolve(spelling: str) -> None:
    assert resolve(spelling) is None


@pytest.mark.parametrize(
    ("type_", "relaxed", "expected"),
    [
        ("pred", False, {"pred"}),
        ("u32", False, {"b32", "u32", "s32"}),
        ("f32", False, {"f32", "b32"}),
        ("b16", False, {"b16", "u16", "s16", "f16"}),
        ("f16x2", False, {"b32", "f16x2"}),
        ("bf16", False, {"b16"}),
        ("f32", True, {"f32", "b32", "b64"}),
        ("u32", True, {"b32", "u32", "s32", "b64", "u64", "s64"}),
    ],
)
def test_operands_accept_registers_as_ptxas_does(type_: str, relaxed: bool, expected: set[str]) -> None:
    assert registers_for(type_, relaxed=relaxed) == expected


@pytest.mark.parametrize(
    ("statement", "count", "syntax"),
    [
        ("add.s32 %r1, %r2, 3", 1, "add.type d, a, b"),
        ("setp.eq.s32 %p1, %r1, 0", 1, "setp.test.type p[|q], a, b"),
        ("st.global.u32 [%rd1], %r1", 0, None),
        ("red.global.add.u32 [%rd1], 1", 0, None),
        ("atom.global.add.u32 %r1, [%rd1], 1", 1, None),
        ("bar.sync 0", 0, "bar{.cta}.sync a:u32(0..15){, b:u32}"),
        ("bar.red.popc.u32 %r1, 0, %p1", 1, None),
        ("bra L", 0, "bra{.uni} target:label"),
        ("ret", 0, "ret{.uni}"),
        ("shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1", 1, None),
    ],
)
def test_destinations_are_counted(statement: str, count: int, syntax: str | None) -> None:
    module = parse(
        ".version 8.0 .target sm_80 .entry k() { .reg .b32 %r<3>; .reg .b64 %rd<2>; .reg .pred %p<2>; L: "
        f"{statement}; }}"
    )
    instruction = module.functions[0].body[-1]
    assert isinstance(instruction, Instruction)
    assert destinations(instruction) == count
    assert syntax is None or row_of(instruction).syntax == syntax
