"""Warp-level instructions that compare lanes or pick one: ``match``, ``elect`` (PTX ISA 9.7.13)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Type
from zcuda_async.jit.lower.members import by_members, lane_mask, take_turns
from zcuda_async.jit.lower.warp import warps
from zcuda_async.jit.shapes import VARYING
from zcuda_async.ptx.ir import Instruction

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group

__all__ = ("MATCH",)

_WARP: Final = 32
_WORD: Final = Type("i32", _WARP)
_TRUTH: Final = Type("i1", _WARP)


def _whole(group: Group, instruction: Instruction, parts: range) -> tuple[Type, str]:
    elem = f"i{instruction.types[0][1:]}"
    values = [group.read(instruction.operands[1], elem, part, vector=True) for part in parts]
    return group.builder.concat(group.vector(elem), values)


def _equal(group: Group, kind: Type, values: str, lane: str, present: str) -> str:
    """The present lanes that hold what `lane` holds."""
    builder = group.builder
    own = group.lane_of(kind, values, lane)
    same = builder.compare("icmp eq", kind, values, builder.splat(kind, own))
    return builder.op(f"and i32 {present}, {builder.op(f'bitcast <{_WARP} x i1> {same} to i32')}")


def match(group: Group, instruction: Instruction) -> None:
    """``match.any.sync`` and ``match.all.sync``."""
    lanes = group.lanes
    results: list[str] = []
    truths: list[str] = []
    for parts in warps(group):
        kind, values = _whole(group, instruction, parts)
        compare = partial(_match_all if instruction.has("all") else _match_any, group, kind, values)
        found, truth = by_members(group, instruction, instruction.operands[2], parts, (_WORD, _TRUTH), compare)
        for index in range(len(parts)):
            results.append(group.builder.slice(_WORD, found, index * lanes, lanes))
            truths.append(group.builder.slice(_TRUTH, truth, index * lanes, lanes))
    group.write(instruction.operands[0], results, "i32", VARYING, instruction.guard)
    group.write(instruction.second_destination, truths, "i1", VARYING, instruction.guard)


def _match_all(group: Group, kind: Type, values: str, present: str) -> tuple[str, str]:
    builder = group.builder
    lane = builder.call("i32", "llvm.cttz.i32", [("i32", present), ("i1", "false")])
    lane = builder.op(f"and i32 {lane}, 31")
    same = builder.op(f"icmp eq i32 {_equal(group, kind, values, lane, present)}, {present}")
    return builder.splat(_WORD, builder.op(f"select i1 {same}, i32 {present}, i32 0")), builder.splat(_TRUTH, same)


def _match_any(group: Group, kind: Type, values: str, present: str) -> tuple[str, str]:
    """A turn for each different value among the lanes."""

    def turn(lane: str) -> tuple[str, list[str]]:
        bits = _equal(group, kind, values, lane, present)
        return bits, [group.builder.splat(_WORD, bits)]

    return take_turns(group, present, (_WORD,), turn)[0], _TRUTH.const(0)


def elect(group: Group, instruction: Instruction) -> None:
    """``elect.sync``: the lowest member lane is the leader."""
    builder, lanes = group.builder, group.lanes

    def choose(present: str) -> tuple[str, str]:
        leader = builder.call("i32", "llvm.cttz.i32", [("i32", present), ("i1", "false")])
        first = builder.op(f"and i32 {present}, {builder.op(f'sub i32 0, {present}')}")
        return builder.splat(_WORD, leader), lane_mask(group, first)

    leaders: list[str] = []
    truths: list[str] = []
    for parts in warps(group):
        leader, first = by_members(group, instruction, instruction.operands[1], parts, (_WORD, _TRUTH), choose)
        for index in range(len(parts)):
            leaders.append(builder.slice(_WORD, leader, index * lanes, lanes))
            truths.append(builder.slice(_TRUTH, first, index * lanes, lanes))
    group.write(instruction.operands[0], leaders, "i32", VARYING, instruction.guard)
    group.write(instruction.second_destination, truths, "i1", VARYING, instruction.guard)


MATCH: Final[dict[str, Lowering]] = {"match": match, "elect": elect}
