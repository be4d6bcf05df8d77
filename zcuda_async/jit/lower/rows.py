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

__all__ = ("first_of_row", "row_or_apart")


def first_of_row(group: Group, pointers: str, step: int, mask: str | None) -> tuple[str, str]:
    """(whether every lane of the mask is where a row of steps of `step` bytes from lane 0 has it, lane 0's pointer).

    Lane 0 may be switched off: then its pointer may be anything, but it is one thing (that is why it is frozen),
    and only lanes that are on are read or written relative to it.
    """
    builder, lanes = group.builder, group.lanes
    address, truth = group.vector("i64"), group.vector("i1")
    pointers = builder.op(f"freeze <{lanes} x ptr> {pointers}")
    first = builder.op(f"extractelement <{lanes} x ptr> {pointers}, i32 0")
    ramp = address.vector([step * lane for lane in range(lanes)])
    row = builder.op(f"getelementptr i8, ptr {first}, <{lanes} x i64> {ramp}")
    follows = builder.op(f"icmp eq <{lanes} x ptr> {pointers}, {row}")
    if mask is not None:
        follows = builder.op(f"select {truth} {mask}, {truth} {follows}, {truth} {truth.const(1)}")
    return builder.op(f"icmp eq i{lanes} {group.mask_bits(follows)}, -1"), first


def row_or_apart(
    group: Group, is_row: str, row: Callable[[], Sequence[str]], apart: Callable[[], Sequence[str]], kind: Type
) -> list[str]:
    """What `row` or `apart` gives, as `is_row` says; both emit straight-line code for values of one type."""
    builder = group.builder
    labels = [builder.block_name(hint) for hint in ("row", "apart", "joined")]
    builder.line(f"br i1 {is_row}, label %{labels[0]}, label %{labels[1]}")
    results = []
    for label, emit in zip(labels, (row, apart), strict=False):
        builder.label(label)
        results.append(emit())
        builder.line(f"br label %{labels[2]}")
    builder.label(labels[2])
    pairs = zip(*results, strict=True)
    return [builder.op(f"phi {kind} [{one}, %{labels[0]}], [{other}, %{labels[1]}]") for one, other in pairs]
