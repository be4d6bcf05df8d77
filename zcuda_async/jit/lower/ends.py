"""Comparisons that decide for a whole group by its first and last lane.

A loop's ``i < n`` is true for all lanes if it is for the one with the greatest index, and that is one comparison of
scalars instead of a vector for each part.  Only where it is not so are the lanes compared one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zcuda_async.jit.cfg import EXIT, Block
from zcuda_async.jit.registers import reads, writes
from zcuda_async.ptx.ir import Guard, Instruction, Operand, Register

if TYPE_CHECKING:
    from zcuda_async.jit.lower.group import Group

__all__ = ("comparison_by_ends", "every_lane_takes")

_OPPOSITE: Final = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
_MIRRORED: Final = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_LIMITS: Final = {"s32": (-(1 << 31), (1 << 31) - 1), "u32": (0, (1 << 32) - 1)}
_STEEPEST: Final = 1 << 31
_SYMBOLS: Final = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}


def comparison_by_ends(group: Group, block: Block) -> Instruction | None:
    """The ``setp`` that nothing but the block's branch looks at and that compares an index with a uniform value."""
    guard = block.branch.guard if block.branch is not None else None
    if guard is None or block.fallthrough is None:
        return None
    name = guard.register.name
    if any(name in group.analysis.live[target] for target in (block.taken, block.fallthrough) if target != EXIT):
        return None
    later: set[str] = set()
    for item in reversed(block.instructions):
        written = {register.name for register in writes(item)}
        if name in written:
            is_free = not later & {name, *(register.name for register in reads(item))}
            return item if is_free and _compares_index(group, item) else None
        later |= written | {register.name for register in reads(item) if register.name == name}
    return None


def _compares_index(group: Group, item: Instruction) -> bool:
    if item.opcode != "setp" or item.guard is not None or item.second_destination is not None:
        return False
    if _relation(item) is None or item.types[0] not in _LIMITS or len(item.operands) != 3 or item.has("ftz"):
        return False
    a, b = item.operands[1:]
    return (_is_index(group, a) and group.shape(b).is_uniform) or (_is_index(group, b) and group.shape(a).is_uniform)


def _relation(item: Instruction) -> str | None:
    return next((modifier for modifier in item.modifiers if modifier in _OPPOSITE), None)


def _is_index(group: Group, operand: Operand) -> bool:
    """Whether the group's lanes have base + stride * lane, all of them with one base."""
    shape = group.shape(operand)
    if not isinstance(operand, Register) or not shape.stride or abs(shape.stride) > _STEEPEST:
        return False
    return group.parts == 1 or (group.geometry.is_one_row and shape.is_even)


def every_lane_takes(group: Group, item: Instruction, guard: Guard) -> str:
    """Whether all lanes of a full group take a branch that is guarded by the comparison's result (i1)."""
    builder = group.builder
    index, bound = item.operands[1:]
    relation = _relation(item)
    assert relation is not None
    if not _is_index(group, index):
        index, bound, relation = bound, index, _MIRRORED[relation]
    if guard.negated:
        relation = _OPPOSITE[relation]
    stride, (least, most) = group.shape(index).stride or 0, _LIMITS[item.types[0]]
    wide = "sext" if item.types[0] == "s32" else "zext"
    first, limit = (
        builder.op(f"{wide} i32 {group.read(operand, 'i32', 0, vector=False)} to i64") for operand in (index, bound)
    )
    last = builder.op(f"add i64 {first}, {stride * (group.geometry.width - 1)}")
    low, high = (first, last) if stride > 0 else (last, first)
    compared = builder.op(f"icmp {_SYMBOLS[relation]} i64 {high if relation in ('lt', 'le') else low}, {limit}")
    # Indices that wrap around on their way are in no order.
    fits = f"icmp sle i64 {high}, {most}" if stride > 0 else f"icmp sge i64 {low}, {least}"
    return builder.op(f"and i1 {compared}, {builder.op(fits)}")
