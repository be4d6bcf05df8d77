"""Shared memory of the other blocks of a cluster (PTX ISA 9.7.9: mapa, getctarank).

The blocks of a cluster run in one worker.  Their shared memory is one window of addresses, in which each block's
begins at its rank times a fixed distance: an address of another block's is one's own plus a multiple of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Type
from zcuda_async.jit.lower.special import state_value, worker_field
from zcuda_async.jit.shapes import VARYING
from zcuda_async.ptx.ir import Instruction

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group

__all__ = ("CLUSTER",)


def _constant(group: Group, kind: Type, name: str) -> str:
    """A field of the block's state in every lane."""
    value = group.builder.cast("zext", Type("i32"), state_value(group, name), Type(kind.elem))
    return group.builder.splat(kind, value)


def _offset(group: Group, instruction: Instruction, kind: Type, part: int) -> tuple[str, str]:
    """(where in the cluster's window operand a points, where the window begins in its addresses)."""
    address = group.read(instruction.operands[1], kind.elem, part, vector=True)
    if instruction.has("shared::cluster"):
        return address, ""
    start = worker_field(group, "shared")
    base = group.builder.splat(kind, start)
    return group.builder.binary("sub", kind, address, base), base


def mapa(group: Group, instruction: Instruction) -> None:
    """``mapa``: the address of the same place in the shared memory of block b of the cluster."""
    builder, elem = group.builder, f"i{instruction.types[0][1:]}"
    kind = group.vector(elem)
    stride = _constant(group, kind, "stride")
    values = []
    for part in range(group.parts):
        offset, base = _offset(group, instruction, kind, part)
        rank = group.read(instruction.operands[2], "i32", part, vector=True)
        rank = builder.cast("zext", group.vector("i32"), rank, kind)
        inside = builder.binary("urem", kind, offset, stride)
        value = builder.binary("add", kind, inside, builder.binary("mul", kind, rank, stride))
        values.append(builder.binary("add", kind, value, base) if base else value)
    group.write(instruction.operands[0], values, elem, VARYING, instruction.guard)


def getctarank(group: Group, instruction: Instruction) -> None:
    """``getctarank``: whose shared memory an address lies in."""
    builder, elem = group.builder, f"i{instruction.types[0][1:]}"
    kind = group.vector(elem)
    stride = _constant(group, kind, "stride")
    values = []
    for part in range(group.parts):
        offset, _ = _offset(group, instruction, kind, part)
        rank = builder.binary("udiv", kind, offset, stride)
        values.append(builder.cast("trunc", kind, rank, group.vector("i32")))
    group.write(instruction.operands[0], values, "i32", VARYING, instruction.guard)


CLUSTER: Final[dict[str, Lowering]] = {"mapa": mapa, "getctarank": getctarank}
