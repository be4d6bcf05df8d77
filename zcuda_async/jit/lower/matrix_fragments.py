"""Fragments between registers and memory: arrays ``[register][lane]`` of 32-bit words (64 for f64)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Type
from zcuda_async.jit.lower.members import active_masks, warp_bits
from zcuda_async.jit.lower.warp import warps
from zcuda_async.jit.shapes import VARYING
from zcuda_async.ptx.ir import Instruction, Operand
from zcuda_async.ptx.matrix import elements_of

if TYPE_CHECKING:
    from zcuda_async.jit.lower.group import Group

__all__ = ("array_of", "each_warp", "put_fragment", "whole_register", "write_fragment")

_WARP: Final = 32


def whole_register(group: Group, operand: Operand, elem: str, parts: range) -> str:
    """A register of all lanes of a warp."""
    values = [group.read(operand, elem, part, vector=True) for part in parts]
    return group.builder.concat(group.vector(elem), values)[1]


def put_fragment(group: Group, operand: Operand, elem: str, parts: range, array: str) -> None:
    """Write a fragment's registers to memory, ``[register][lane]``."""
    kind = Type(elem, _WARP)
    for index, register in enumerate(elements_of(operand)):
        at = group.builder.op(f"getelementptr {kind}, ptr {array}, i32 {index}")
        group.builder.line(f"store {kind} {whole_register(group, register, elem, parts)}, ptr {at}, align 64")


def array_of(group: Group, count: int, elem: str) -> str:
    """Memory for `count` registers of a warp."""
    return group.builder.alloca(f"[{count} x {Type(elem, _WARP)}]")


def each_warp(group: Group, instruction: Instruction, body: Callable[[int, range], None]) -> None:
    """Emit `body(number, parts)` for each warp, skipped when none of its lanes is on."""
    builder = group.builder
    for number, parts in enumerate(warps(group)):
        if group.masks is None and instruction.guard is None:
            body(number, parts)
            continue
        bits = warp_bits(group, active_masks(group, instruction, parts))
        then, done = builder.block_name("warp"), builder.block_name("no.warp")
        builder.line(f"br i1 {builder.op(f'icmp ne i32 {bits}, 0')}, label %{then}, label %{done}")
        builder.label(then)
        with group.apart():
            body(number, parts)
        builder.line(f"br label %{done}")
        builder.label(done)


def write_fragment(group: Group, instruction: Instruction, elem: str, arrays: Sequence[str]) -> None:
    """The destination's registers from the warps' arrays."""
    builder, lanes = group.builder, group.lanes
    kind = Type(elem, _WARP)
    for index, register in enumerate(elements_of(instruction.operands[0])):
        values = []
        for array, parts in zip(arrays, warps(group), strict=True):
            at = builder.op(f"getelementptr {kind}, ptr {array}, i32 {index}")
            whole = builder.op(f"load {kind}, ptr {at}, align 64")
            values += [builder.slice(kind, whole, start * lanes, lanes) for start in range(len(parts))]
        group.write(register, values, elem, VARYING, instruction.guard)
