"""Which lanes take part in a warp-level instruction: those that execute it with one membermask (PTX ISA 9.7.13).

Lanes that meet with different masks are different exchanges.  Tiles of a warp do that
(``cooperative_groups::tiled_partition<16>``): each half has its own mask, and both execute one instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Type
from zcuda_async.ptx.ir import Instruction, Operand

if TYPE_CHECKING:
    from zcuda_async.jit.lower.group import Group

__all__ = ("active_masks", "by_members", "lane_mask", "take_turns", "warp_bits")

_WARP: Final = 32
_WORD: Final = Type("i32", _WARP)


def warp_bits(group: Group, masks: Sequence[str]) -> str:
    """The masks of a warp's parts as one i32, lane 0 in bit 0."""
    builder = group.builder
    total = "0"
    for index, mask in enumerate(masks):
        bits = builder.op(f"zext i{group.lanes} {group.mask_bits(mask)} to i32")
        bits = builder.op(f"shl i32 {bits}, {index * group.lanes}")
        total = builder.op(f"or i32 {total}, {bits}")
    return total


def active_masks(group: Group, instruction: Instruction, parts: range) -> list[str]:
    """The lanes of some parts that execute an instruction."""
    return [group.active(instruction, part) or group.vector("i1").const(1) for part in parts]


def lane_mask(group: Group, bits: str) -> str:
    """An i32 as the truths of a warp's lanes."""
    return group.builder.op(f"bitcast i32 {bits} to {_WORD.of('i1')}")


def by_members(
    group: Group,
    instruction: Instruction,
    operand: Operand,
    parts: range,
    kinds: Sequence[Type],
    exchange: Callable[[str], Sequence[str]],
) -> Sequence[str]:
    """What `exchange` computes, given the lanes that take part; where masks differ, for one set of members at a time.

    Args:
        group: where code goes.
        instruction: the warp-level instruction.
        operand: its membermask.
        parts: the parts of one warp.
        kinds: the types of the results, vectors of the warp's lanes.
        exchange: makes code that computes results from the lanes (an i32) that take part.
    """
    builder = group.builder
    active = warp_bits(group, active_masks(group, instruction, parts))
    if group.shape(operand).is_uniform:
        members = group.read(operand, "i32", parts[0], vector=False)
        return exchange(builder.op(f"and i32 {active}, {members}"))
    masks = [group.read(operand, "i32", part, vector=True) for part in parts]
    wide, whole = builder.concat(group.vector("i32"), masks)

    def turn(lane: str) -> tuple[str, Sequence[str]]:
        own = group.lane_of(wide, whole, lane)
        alike = builder.compare("icmp eq", wide, whole, builder.splat(wide, own))
        bits = builder.op(f"bitcast {wide.of('i1')} {alike} to i32")
        together = builder.op(f"and i32 {active}, {bits}")
        return together, exchange(builder.op(f"and i32 {together}, {own}"))

    return take_turns(group, active, kinds, turn)


def take_turns(
    group: Group, lanes: str, kinds: Sequence[Type], turn: Callable[[str], tuple[str, Sequence[str]]]
) -> list[str]:
    """A loop until each of `lanes` had a turn.

    `turn` gets the lowest lane that had none and gives the lanes that this turn serves, itself among them, and what
    they get.
    """
    builder = group.builder
    left = builder.alloca("i32", 4)
    slots = [builder.alloca(str(kind)) for kind in kinds]
    builder.line(f"store i32 {lanes}, ptr {left}")
    for kind, slot in zip(kinds, slots, strict=True):
        builder.line(f"store {kind} zeroinitializer, ptr {slot}")
    head, body, done = (builder.block_name(hint) for hint in ("turns", "turn", "turned"))
    builder.line(f"br label %{head}")
    builder.label(head)
    rest = builder.op(f"load i32, ptr {left}")
    builder.line(f"br i1 {builder.op(f'icmp eq i32 {rest}, 0')}, label %{done}, label %{body}")
    builder.label(body)
    lane = builder.call("i32", "llvm.cttz.i32", [("i32", rest), ("i1", "true")])
    served, results = turn(lane)
    chosen = lane_mask(group, served)
    for kind, slot, result in zip(kinds, slots, results, strict=True):
        old = builder.op(f"load {kind}, ptr {slot}")
        builder.line(f"store {kind} {builder.select(kind, chosen, result, old)}, ptr {slot}")
    others = builder.op(f"xor i32 {served}, -1")
    builder.line(f"store i32 {builder.op(f'and i32 {rest}, {others}')}, ptr {left}")
    builder.line(f"br label %{head}")
    builder.label(done)
    return [builder.op(f"load {kind}, ptr {slot}") for kind, slot in zip(kinds, slots, strict=True)]
