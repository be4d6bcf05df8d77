"""Shared memory of the other blocks of a cluster (PTX ISA 9.7.9: mapa, getctarank).

The blocks of a cluster run in one worker, and their shared memory lies at a fixed distance from one
to the next, so an address of another block's is an address of one's own plus a multiple of that.
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


def _constants(group: Group, kind: Type) -> tuple[str, str]:
    """(own rank, distance between ranks) in every lane."""
    values = []
    for name in ("rank", "stride"):
        value = state_value(group, name)
        value = group.builder.cast("zext", Type("i32"), value, Type(kind.elem))
        values.append(group.builder.splat(kind, value))
    return values[0], values[1]


def mapa(group: Group, instruction: Instruction) -> None:
    """``mapa``: the address of the same place in the shared memory of block b of the cluster."""
    builder, elem = group.builder, f"i{instruction.types[0][1:]}"
    kind = group.vector(elem)
    own, stride = _constants(group, kind)
    values = []
    for part in range(group.parts):
        address = group.read(instruction.operands[1], elem, part, vector=True)
        rank = group.read(instruction.operands[2], "i32", part, vector=True)
        rank = builder.cast("zext", group.vector("i32"), rank, kind)
        away = builder.binary("mul", kind, builder.binary("sub", kind, rank, own), stride)
        values.append(builder.binary("add", kind, address, away))
    group.write(instruction.operands[0], values, elem, VARYING, instruction.guard)


def getctarank(group: Group, instruction: Instruction) -> None:
    """``getctarank``: whose shared memory an address lies in."""
    builder, elem = group.builder, f"i{instruction.types[0][1:]}"
    kind = group.vector(elem)
    own, stride = _constants(group, kind)
    base = kind.const(0)
    if not instruction.has("shared::cluster"):
        base = builder.splat(kind, worker_field(group, "shared"))
    values = []
    for part in range(group.parts):
        address = group.read(instruction.operands[1], elem, part, vector=True)
        offset = builder.binary("sub", kind, address, base)
        from_first = builder.binary("add", kind, offset, builder.binary("mul", kind, own, stride))
        rank = builder.binary("udiv", kind, from_first, stride)
        values.append(builder.cast("trunc", kind, rank, group.vector("i32")))
    group.write(instruction.operands[0], values, "i32", VARYING, instruction.guard)


CLUSTER: Final[dict[str, Lowering]] = {"mapa": mapa, "getctarank": getctarank}
