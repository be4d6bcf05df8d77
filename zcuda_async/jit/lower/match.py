"""Warp-level instructions that compare lanes or pick one: ``match``, ``elect`` (PTX ISA 9.7.13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Type
from zcuda_async.jit.lower.warp import active_masks, members_of, warp_bits, warps
from zcuda_async.jit.shapes import VARYING
from zcuda_async.ptx.ir import Instruction

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group

__all__ = ("MATCH",)

_WARP: Final = 32


def _present(group: Group, instruction: Instruction, mask_operand: int, parts: range) -> str:
    """The lanes of a warp that take part, as an i32."""
    active = warp_bits(group, active_masks(group, instruction, parts))
    members = members_of(group, instruction.operands[mask_operand], parts[0])
    return group.builder.op(f"and i32 {active}, {members}")


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


def _lane_mask(group: Group, bits: str) -> str:
    return group.builder.op(f"bitcast i32 {bits} to <{_WARP} x i1>")


def match(group: Group, instruction: Instruction) -> None:
    """``match.any.sync`` and ``match.all.sync``."""
    builder, lanes = group.builder, group.lanes
    word = Type("i32", _WARP)
    results: list[str] = []
    truths: list[str] = []
    for parts in warps(group):
        present = _present(group, instruction, 2, parts)
        kind, values = _whole(group, instruction, parts)
        if instruction.has("all"):
            lane = builder.call("i32", "llvm.cttz.i32", [("i32", present), ("i1", "false")])
            lane = builder.op(f"and i32 {lane}, 31")
            same = builder.op(f"icmp eq i32 {_equal(group, kind, values, lane, present)}, {present}")
            found = builder.splat(word, builder.op(f"select i1 {same}, i32 {present}, i32 0"))
            truth = builder.splat(word.of("i1"), same)
        else:
            found = _match_any(group, kind, values, present)
            truth = word.of("i1").const(0)
        for index in range(len(parts)):
            results.append(builder.slice(word, found, index * lanes, lanes))
            truths.append(builder.slice(word.of("i1"), truth, index * lanes, lanes))
    group.write(instruction.operands[0], results, "i32", VARYING, instruction.guard)
    group.write(instruction.second_destination, truths, "i1", VARYING, instruction.guard)


def _match_any(group: Group, kind: Type, values: str, present: str) -> str:
    """A turn for each different value among the lanes."""
    builder, word = group.builder, Type("i32", _WARP)
    left, result = builder.alloca("i32", 4), builder.alloca(str(word))
    builder.line(f"store i32 {present}, ptr {left}")
    builder.line(f"store {word} zeroinitializer, ptr {result}")
    head, turn, done = (builder.block_name(hint) for hint in ("values", "value", "matched"))
    builder.line(f"br label %{head}")
    builder.label(head)
    rest = builder.op(f"load i32, ptr {left}")
    builder.line(f"br i1 {builder.op(f'icmp eq i32 {rest}, 0')}, label %{done}, label %{turn}")
    builder.label(turn)
    lane = builder.call("i32", "llvm.cttz.i32", [("i32", rest), ("i1", "true")])
    bits = _equal(group, kind, values, lane, present)
    old = builder.op(f"load {word}, ptr {result}")
    new = builder.select(word, _lane_mask(group, bits), builder.splat(word, bits), old)
    builder.line(f"store {word} {new}, ptr {result}")
    builder.line(f"store i32 {builder.op(f'xor i32 {rest}, {bits}')}, ptr {left}")
    builder.line(f"br label %{head}")
    builder.label(done)
    return builder.op(f"load {word}, ptr {result}")


def elect(group: Group, instruction: Instruction) -> None:
    """``elect.sync``: the lowest member lane is the leader."""
    builder, lanes = group.builder, group.lanes
    leaders: list[str] = []
    truths: list[str] = []
    for parts in warps(group):
        present = _present(group, instruction, 1, parts)
        leader = builder.call("i32", "llvm.cttz.i32", [("i32", present), ("i1", "false")])
        first = _lane_mask(group, builder.op(f"and i32 {present}, {builder.op(f'sub i32 0, {present}')}"))
        for index in range(len(parts)):
            leaders.append(builder.splat(group.vector("i32"), leader))
            truths.append(builder.slice(Type("i1", _WARP), first, index * lanes, lanes))
    group.write(instruction.operands[0], leaders, "i32", VARYING, instruction.guard)
    group.write(instruction.second_destination, truths, "i1", VARYING, instruction.guard)


MATCH: Final[dict[str, Lowering]] = {"match": match, "elect": elect}
