"""Questions about addresses, and advice about caches that has no meaning here.

Generic addresses are absolute.  A worker's shared window, its scratch memory (where local variables and
stack frames lie), the parameters and the module's constants are the windows in them; the rest is global.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zcuda_async.jit.abi import SHARED_WINDOW_SIZE
from zcuda_async.jit.builder import Type
from zcuda_async.jit.lower.special import launch_field, worker_field
from zcuda_async.ptx.ir import Instruction

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group

__all__ = ("ADDRESS",)


def _windows(group: Group, space: str) -> list[tuple[str, str]]:
    """(start, size) of the windows of a state space, as 64-bit values."""
    if space == "shared":
        return [(worker_field(group, "shared"), str(SHARED_WINDOW_SIZE))]
    if space == "local":
        return [(worker_field(group, "scratch"), worker_field(group, "scratch_size"))]
    if space == "param":
        return [(launch_field(group, "params"), str(group.layout.param_bytes))]
    image = launch_field(group, "globals")
    return [
        (group.builder.op(f"add i64 {image}, {start}"), str(size)) for start, size in group.layout.constants if size
    ]


def _inside(group: Group, kind: Type, address: str, space: str) -> str:
    """Whether an address lies in one of a space's windows."""
    builder, truth = group.builder, kind.of("i1")
    result = truth.const(0)
    for start, size in _windows(group, space):
        first, count = (builder.splat(kind, value) if kind.lanes else value for value in (start, size))
        offset = builder.binary("sub", kind, address, first)
        result = builder.binary("or", truth, result, builder.compare("icmp ult", kind, offset, count))
    return result


def isspacep(group: Group, instruction: Instruction) -> None:
    """``isspacep``.  Global is what is in no other window; the kernel's parameters count as global too."""
    space = next(name.partition("::")[0] for name in instruction.modifiers)
    shape = group.plain(instruction)
    kind = Type("i64", group.lanes if shape.stride is None else 0)
    truth = kind.of("i1")
    values = []
    for part in range(group.count(shape)):
        address = group.read(instruction.operands[1], "i64", part, vector=shape.stride is None)
        if space != "global":
            values.append(_inside(group, kind, address, space))
            continue
        others = [_inside(group, kind, address, other) for other in ("shared", "local", "const")]
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
