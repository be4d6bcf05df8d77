"""Extended-precision integer arithmetic (PTX ISA 9.7.2): sums and differences that pass on a carry.

The flag is that of the hardware's adder, which computes a difference as ``a + ~b + 1``: after a ``sub.cc`` it is set
where nothing was borrowed.  The manual calls it a borrow, and sequences of ``sub.cc`` and ``subc`` cannot tell the
two apart; but nvcc's 128-bit division reads the flag of a ``subc.cc`` by ``addc`` and relies on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Builder, Type, llvm_type
from zcuda_async.jit.lower.integer import multiply
from zcuda_async.jit.registers import CARRY, reads_carry, sources
from zcuda_async.ptx.ir import Instruction

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group

__all__ = ("EXTENDED",)


def extended(group: Group, instruction: Instruction) -> None:
    """``add{c}``, ``sub{c}`` and ``mad{c}`` with the carry flag."""
    shape = group.plain(instruction)
    vector = shape.stride is None
    kind = Type(llvm_type(instruction.types[0]), group.lanes if vector else 0)
    step = _subtract if instruction.opcode == "sub" else _add
    results, flags = [], []
    for part in range(group.count(shape)):
        a, b, *rest = [group.read(operand, kind.elem, part, vector=vector) for operand in sources(instruction)]
        if rest:
            a, b = multiply(group.builder, instruction, kind, a, b)[1], rest[0]
        if instruction.opcode == "subc":
            b = group.builder.binary("xor", kind, b, kind.const(-1))
        value, flag = step(group.builder, kind, a, b)
        if reads_carry(instruction):
            carry = group.read(CARRY, "i1", part, vector=vector)
            value, more = _add(group.builder, kind, value, group.builder.cast("zext", kind.of("i1"), carry, kind))
            flag = group.builder.binary("or", kind.of("i1"), flag, more)
        results.append(value)
        flags.append(flag)
    group.write(instruction.operands[0], results, kind.elem, shape, instruction.guard)
    if instruction.has("cc"):
        group.write(CARRY, flags, "i1", shape, instruction.guard)


def _add(builder: Builder, kind: Type, a: str, b: str) -> tuple[str, str]:
    total = builder.binary("add", kind, a, b)
    return total, builder.compare("icmp ult", kind, total, a)


def _subtract(builder: Builder, kind: Type, a: str, b: str) -> tuple[str, str]:
    return builder.binary("sub", kind, a, b), builder.compare("icmp uge", kind, a, b)


EXTENDED: Final[dict[str, Lowering]] = dict.fromkeys(("add", "addc", "sub", "subc", "mad", "madc"), extended)
