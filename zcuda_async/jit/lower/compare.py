"""Comparison and selection (PTX ISA 9.7.6), and the logic of predicates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Builder, Type, llvm_type
from zcuda_async.jit.lower.floating import flush
from zcuda_async.jit.lower.half import widen
from zcuda_async.jit.lower.lanewise import lanewise
from zcuda_async.ptx.ir import Instruction

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group

__all__ = ("COMPARE",)

_FLOAT: Final = {
    "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge",
    "equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge",
    "num": "ord", "nan": "uno",
}  # fmt: skip
_SMALLEST_HALF: Final = 2.0**-14
"""The smallest normal f16."""

_SIGNED: Final = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_UNSIGNED: Final = {
    "eq": "eq", "ne": "ne", "lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge",
    "lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge",
}  # fmt: skip


def _comparison(instruction: Instruction, source: str) -> str:
    """The LLVM instruction for a PTX comparison on operands of PTX type `source`."""
    table = _FLOAT if "f" in source else _SIGNED if source[0] == "s" else _UNSIGNED
    for modifier in instruction.modifiers:
        if modifier in table:
            return ("fcmp " if table is _FLOAT else "icmp ") + table[modifier]
    raise LookupError(instruction.opcode)


def _compared(builder: Builder, instruction: Instruction, source: str, kind: Type, a: str, b: str) -> str:
    comparison = _comparison(instruction, source)
    if "f" in source:
        below = _SMALLEST_HALF if kind.elem == "half" else None
        (kind, a), (_, b) = widen(builder, kind, a), widen(builder, kind, b)
        if instruction.has("ftz"):
            a, b = (flush(builder, kind, value, below=below) for value in (a, b))
    return builder.compare(comparison, kind, a, b)


def _source_type(instruction: Instruction) -> str:
    return instruction.types[-1]


def setp(group: Group, instruction: Instruction) -> None:
    """``setp.cmp{.bool}``: p = (a cmp b) op c, and its second destination q = !(a cmp b) op c."""
    builder = group.builder
    shape = group.plain(instruction)
    vector = shape.stride is None
    source = _source_type(instruction)
    elem = llvm_type(source)
    kind = Type(elem, group.lanes if vector else 0)
    truth = kind.of("i1")
    boolean = next((name for name in ("and", "or", "xor") if instruction.has(name)), None)
    first, second = [], []
    for part in range(group.count(shape)):
        a, b = (group.read(operand, elem, part, vector=vector) for operand in instruction.operands[1:3])
        value = _compared(builder, instruction, source, kind, a, b)
        inverse = builder.binary("xor", truth, value, truth.const(1)) if instruction.second_destination else value
        if boolean is not None:
            extra = _truth(group, instruction, 3, part, vector=vector)
            value = builder.binary(boolean, truth, value, extra)
            inverse = builder.binary(boolean, truth, inverse, extra)
        first.append(value)
        second.append(inverse)
    group.write(instruction.operands[0], first, "i1", shape, instruction.guard)
    group.write(instruction.second_destination, second, "i1", shape, instruction.guard)


def _truth(group: Group, instruction: Instruction, index: int, part: int, *, vector: bool) -> str:
    """A predicate operand, negated where it is written ``!p``."""
    value = group.read(instruction.operands[index], "i1", part, vector=vector)
    if index not in instruction.negated_operands:
        return value
    kind = Type("i1", group.lanes if vector else 0)
    return group.builder.binary("xor", kind, value, kind.const(1))


def set_(group: Group, instruction: Instruction) -> None:
    """``set``: all ones (integers) or 1.0 (floats) where the comparison holds."""
    builder = group.builder
    shape = group.plain(instruction)
    vector = shape.stride is None
    to, source = instruction.types[0], instruction.types[-1]
    if source.endswith("x2"):
        raise group.refuse(instruction, f"comparison of .{source} is not supported yet")
    elem = llvm_type(source)
    kind = Type(elem, group.lanes if vector else 0)
    result = kind.of(llvm_type(to))
    boolean = next((name for name in ("and", "or", "xor") if instruction.has(name)), None)
    values = []
    for part in range(group.count(shape)):
        a, b = (group.read(operand, elem, part, vector=vector) for operand in instruction.operands[1:3])
        value = _compared(builder, instruction, source, kind, a, b)
        if boolean is not None:
            value = builder.binary(boolean, kind.of("i1"), value, _truth(group, instruction, 3, part, vector=vector))
        values.append(builder.select(result, value, result.const(1.0 if "f" in to else -1), result.const(0)))
    group.write(instruction.operands[0], values, result.elem, shape, instruction.guard)


def selp(group: Group, instruction: Instruction) -> None:
    """``selp``: a where the predicate holds, else b; a scalar choice keeps affine values affine."""
    shape = group.plain(instruction)
    vector = shape.stride is None
    elem = llvm_type(instruction.types[0])
    kind = Type(elem, group.lanes if vector else 0)
    values = []
    for part in range(group.count(shape)):
        a, b = (group.read(operand, elem, part, vector=vector) for operand in instruction.operands[1:3])
        condition = _truth(group, instruction, 3, part, vector=vector)
        values.append(group.builder.select(kind, condition, a, b))
    group.write(instruction.operands[0], values, elem, shape, instruction.guard)


def _slct(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    source = instruction.types[1]
    control = kind.of(llvm_type(source))
    test = "fcmp oge" if source == "f32" else "icmp sge"
    value = flush(builder, control, args[2]) if instruction.has("ftz") else args[2]
    condition = builder.compare(test, control, value, control.const(0))
    return builder.select(kind, condition, args[0], args[1])


def predicate_logic(opcode: str) -> Lowering:
    """and, or, xor, not, mov on predicates, with ``!p`` sources."""

    def lower(group: Group, instruction: Instruction) -> None:
        shape = group.plain(instruction)
        vector = shape.stride is None
        kind = Type("i1", group.lanes if vector else 0)
        values = []
        for part in range(group.count(shape)):
            args = [
                _truth(group, instruction, index, part, vector=vector) for index in range(1, len(instruction.operands))
            ]
            if opcode == "not":
                values.append(group.builder.binary("xor", kind, args[0], kind.const(1)))
            elif opcode == "mov":
                values.append(args[0])
            else:
                values.append(group.builder.binary(opcode, kind, args[0], args[1]))
        group.write(instruction.operands[0], values, "i1", shape, instruction.guard)

    return lower


COMPARE: Final[dict[str, Lowering]] = {
    "setp": setp,
    "set": set_,
    "selp": selp,
    "slct": lanewise(_slct, source_types=lambda i: [i.types[0], i.types[0], i.types[1]]),
}
