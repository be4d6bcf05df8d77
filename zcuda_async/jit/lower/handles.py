"""Handles of textures and surfaces: what an instruction does with one header, for each header that lanes name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from zcuda_async.jit.builder import Type
from zcuda_async.ptx.ir import Address, Instruction, Operand

if TYPE_CHECKING:
    from zcuda_async.jit.lower.group import Group

__all__ = ("by_handle",)


def by_handle(
    group: Group,
    instruction: Instruction,
    operand: Operand,
    part: int,
    kinds: Sequence[Type],
    make: Callable[[str, str], Sequence[str]],
) -> list[str]:
    """Vectors of `kinds` that `make` computes from a header and the lanes (a mask) whose handle leads to it.

    That is done once for each handle among the lanes that are on; the others get anything.
    """
    builder, lanes, truth = group.builder, group.lanes, group.vector("i1")
    handle = operand.base if isinstance(operand, Address) else operand
    mask = group.active(instruction, part)
    if mask is None and group.shape(handle).is_uniform:
        value = group.read(handle, "i64", part, vector=False)
        return list(make(builder.op(f"inttoptr i64 {value} to ptr"), truth.const(1)))
    longs = group.vector("i64")
    values = group.read(handle, "i64", part, vector=True)
    slots = [builder.alloca(str(kind)) for kind in kinds]
    for kind, slot in zip(kinds, slots, strict=True):
        builder.line(f"store {kind} zeroinitializer, ptr {slot}")
    left = builder.alloca(f"i{lanes}", 8)
    builder.line(f"store i{lanes} {group.mask_bits(mask or truth.const(1))}, ptr {left}")
    head, body, done = (builder.block_name(hint) for hint in ("handles", "handle", "handled"))
    builder.line(f"br label %{head}")
    builder.label(head)
    bits = builder.op(f"load i{lanes}, ptr {left}")
    builder.line(f"br i1 {builder.op(f'icmp eq i{lanes} {bits}, 0')}, label %{done}, label %{body}")
    builder.label(body)
    wide = builder.op(f"zext i{lanes} {bits} to i32")
    own = group.lane_of(longs, values, builder.call("i32", "llvm.cttz.i32", [("i32", wide), ("i1", "true")]))
    same = builder.compare("icmp eq", longs, values, builder.splat(longs, own))
    served = builder.op(f"and i{lanes} {bits}, {group.mask_bits(same)}")
    builder.line(f"store i{lanes} {builder.op(f'xor i{lanes} {bits}, {served}')}, ptr {left}")
    chosen = builder.op(f"bitcast i{lanes} {served} to {truth}")
    results = make(builder.op(f"inttoptr i64 {own} to ptr"), chosen)
    for kind, slot, result in zip(kinds, slots, results, strict=True):
        old = builder.op(f"load {kind}, ptr {slot}")
        builder.line(f"store {kind} {builder.select(kind, chosen, result, old)}, ptr {slot}")
    builder.line(f"br label %{head}")
    builder.label(done)
    return [builder.op(f"load {kind}, ptr {slot}") for kind, slot in zip(kinds, slots, strict=True)]
