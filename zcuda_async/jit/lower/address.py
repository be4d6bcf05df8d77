"""Questions about addresses, and advice about caches that has no meaning here.

Generic addresses are absolute.  A worker's shared window, its scratch memory (where local variables and
stack frames lie), the parameters and the module's constants are the windows in them; the rest is global.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zcuda_async.jit.abi import SHARED_WINDOW_SIZE
from zcuda_async.jit.builder import Type
from zcuda_async.jit.lower.special import cluster_register, launch_field, own_window, state_value, worker_field
from zcuda_async.ptx.ir import Instruction

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group

__all__ = ("ADDRESS",)


def _windows(group: Group, space: str) -> list[tuple[str, str]]:
    """(start, size) of the windows of a state space, as 64-bit values."""
    if space.startswith("shared"):
        return [_shared_window(group, space)]
    if space == "local":
        return [(worker_field(group, "scratch"), worker_field(group, "scratch_size"))]
    if space == "param":
        return [(launch_field(group, "params"), str(group.layout.param_bytes))]
    image = launch_field(group, "globals")
    return [
        (group.builder.op(f"add i64 {image}, {start}"), str(size)) for start, size in group.layout.constants if size
    ]


def _shared_window(group: Group, space: str) -> tuple[str, str]:
    """The block's own shared memory; for ``shared::cluster`` that of all blocks of its cluster."""
    builder, base = group.builder, worker_field(group, "shared")
    if not group.has_block_state:
        return base, str(SHARED_WINDOW_SIZE)
    if space == "shared::cluster" and group.in_cluster:
        blocks, _ = cluster_register(group, "%cluster_nctarank")
        window = builder.op(f"mul i32 {blocks}, {state_value(group, 'stride')}")
        return base, builder.op(f"zext i32 {window} to i64")
    dynamic = builder.op(f"zext i32 {launch_field(group, 'dynamic_shared')} to i64")
    own = own_window(group)
    start = builder.op(f"add i64 {base}, {own}") if own else base
    return start, builder.op(f"add i64 {dynamic}, {group.layout.static_shared}")


def _inside(group: Group, kind: Type, address: str, space: str) -> str:
    """Whether an address lies in one of a space's windows."""
    builder, truth = group.builder, kind.of("i1")
    result = truth.const(0)
    for start, size in _windows(group, space):
        first, count = (builder.splat(kind, value) if kind.lanes else value for value in (start, size))
        offset = builder.binary("sub", kind, address, first)
        result = builder.binary("or", truth, result, builder.compare("icmp ult", kind, offset, count))
    if space == "local" and group.has_block_state:  # scratch memory has the shared memory of resident blocks too
        shared = _inside(group, kind, address, "shared::cluster")
        result = builder.binary("and", truth, result, builder.binary("xor", truth, shared, truth.const(1)))
    return result


def isspacep(group: Group, instruction: Instruction) -> None:
    """``isspacep``.  Global is what is in no other window; the kernel's parameters count as global too."""
    name = instruction.modifiers[0]
    space = name if name == "shared::cluster" else name.partition("::")[0]
    shape = group.plain(instruction)
    kind = Type("i64", group.lanes if shape.stride is None else 0)
    truth = kind.of("i1")
    values = []
    for part in range(group.count(shape)):
        address = group.read(instruction.operands[1], "i64", part, vector=shape.stride is None)
        if space != "global":
            values.append(_inside(group, kind, address, space))
            continue
        others = [_inside(group, kind, address, other) for other in ("shared::cluster", "local", "const")]
        anywhere = others[0]
        for other in others[1:]:
            anywhere = group.builder.binary("or", truth, anywhere, other)
        values.append(group.builder.binary("xor", truth, anywhere, truth.const(1)))
    group.write(instruction.operands[0], values, "i1", shape, instruction.guard)


_POLICY: Final = 0x12F0000000000000
"""What every cache policy is: opaque, and never looked at."""


def createpolicy(group: Group, instruction: Instruction) -> None:
    """``createpolicy``: advice for caches that a CPU does not take."""
    shape = group.plain(instruction)
    value = group.type_for("i64", shape).const(_POLICY)
    group.write(instruction.operands[0], [value] * group.count(shape), "i64", shape, instruction.guard)


def advice(_: Group, __: Instruction) -> None:
    """``discard`` and ``applypriority``: the data of a discarded line may be anything, also what it was."""


ADDRESS: Final[dict[str, Lowering]] = {
    "isspacep": isspacep,
    "createpolicy": createpolicy,
    "discard": advice,
    "applypriority": advice,
}
