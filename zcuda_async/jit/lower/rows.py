"""Addresses that no analysis can tell but that lie in a row all the same: found out at run time.

Where lanes leave a loop at different times, or an index is clamped at a border, addresses are kept
lane by lane although nearly always one follows the other.  A gather costs a multiple of a comparison
and a wide load, so the comparison is made first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from zcuda_async.jit.builder import Type

if TYPE_CHECKING:
    from zcuda_async.jit.lower.group import Group
    from zcuda_async.jit.lower.indexed import Index
    from zcuda_async.jit.lower.memory import Place

__all__ = ("all_of", "first_of_row", "row_or_apart")


def first_of_row(group: Group, where: Place, step: int, mask: str | None) -> tuple[str, str]:
    """(whether every lane of the mask is where a row of steps of `step` bytes from lane 0 has it, lane 0's pointer).

    Lane 0 may be switched off: then its pointer may be anything, but it is one thing (that is why it is frozen),
    and only lanes that are on are read or written relative to it.
    """
    index = where.index
    if index is not None and step % index.scale == 0:
        return _first_by_index(group, index, step // index.scale, mask)
    builder, lanes = group.builder, group.lanes
    address = group.vector("i64")
    pointers = builder.op(f"freeze <{lanes} x ptr> {where.pointer}")
    first = builder.op(f"extractelement <{lanes} x ptr> {pointers}, i32 0")
    ramp = address.vector([step * lane for lane in range(lanes)])
    row = builder.op(f"getelementptr i8, ptr {first}, <{lanes} x i64> {ramp}")
    follows = builder.op(f"icmp eq <{lanes} x ptr> {pointers}, {row}")
    return all_of(group, follows, mask), first


def _first_by_index(group: Group, index: Index, step: int, mask: str | None) -> tuple[str, str]:
    """The same, from indices that grow by `step`; a row in which they wrap around is none."""
    builder, kind = group.builder, index.kind(group)
    values = builder.op(f"freeze {kind} {index.lanes}")
    first = group.lane_of(kind, values, "0")
    row = builder.binary("add", kind, builder.splat(kind, first), kind.vector([step * n for n in range(group.lanes)]))
    follows = all_of(group, builder.compare("icmp eq", kind, values, row), mask)
    if not index.is_wide:
        compare, top = ("sle", 1 << 31) if index.is_signed else ("ule", 1 << 32)
        is_low = builder.op(f"icmp {compare} i32 {first}, {top - 1 - step * (group.lanes - 1)}")
        follows = builder.op(f"and i1 {follows}, {is_low}")
    return follows, index.pointer(group, first)


def all_of(group: Group, truths: str, mask: str | None) -> str:
    """Whether something holds in every lane of the mask."""
    builder, truth = group.builder, group.vector("i1")
    if mask is not None:
        truths = builder.op(f"select {truth} {mask}, {truth} {truths}, {truth} {truth.const(1)}")
    return builder.op(f"icmp eq i{group.lanes} {group.mask_bits(truths)}, -1")


def row_or_apart(
    group: Group, is_row: str, row: Callable[[], Sequence[str]], apart: Callable[[], Sequence[str]], kind: Type
) -> list[str]:
    """What `row` or `apart` gives, as `is_row` says: values of one type."""
    builder = group.builder
    labels = [builder.block_name(hint) for hint in ("row", "apart", "joined")]
    builder.line(f"br i1 {is_row}, label %{labels[0]}, label %{labels[1]}")
    results, ends = [], []
    for label, emit in zip(labels, (row, apart), strict=False):
        builder.label(label)
        results.append(emit())
        end = builder.block_name("end")
        builder.line(f"br label %{end}")
        builder.label(end)
        builder.line(f"br label %{labels[2]}")
        ends.append(end)
    builder.label(labels[2])
    pairs = zip(*results, strict=True)
    return [builder.op(f"phi {kind} [{one}, %{ends[0]}], [{other}, %{ends[1]}]") for one, other in pairs]
