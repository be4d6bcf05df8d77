"""Comparison and selection (PTX ISA 9.7.6), and the logic of predicates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Builder, Type, llvm_type
from zcuda_async.jit.lower.floating import flush
from zcuda_async.jit.lower.halfmath import HALF_TYPES, as_halves, flush_bits, layout_of, widen_bits
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
    if source in HALF_TYPES:
        form = layout_of(source)
        if instruction.has("ftz"):
            a, b = (flush_bits(builder, form, kind, value) for value in (a, b))
        (kind, a), (_, b) = widen_bits(builder, form, kind, a), widen_bits(builder, form, kind, b)
    elif "f" in source and instruction.has("ftz"):
        a, b = (flush(builder, kind, value) for value in (a, b))
    return builder.compare(comparison, kind, a, b)


def _carrier(source: str) -> str:
    """The LLVM type that operands of a PTX type are read as: 16-bit floats as bit patterns."""
    return {"f16": "i16", "bf16": "i16"}.get(source) or llvm_type(source)


def _source_type(instruction: Instruction) -> str:
    return instruction.types[-1]


def setp(group: Group, instruction: Instruction) -> None:
    """``setp.cmp{.bool}``: p = (a cmp b) op c, and its second destination q = !(a cmp b) op c.

    Of pairs the low halves give p and the high ones q.
    """
    builder, source = group.builder, _source_type(instruction)
    shape = group.plain(instruction)
    vector = shape.stride is None
    kind = Type(_carrier(source), group.lanes if vector else 0)
    truth = kind.of("i1")
    boolean = next((name for name in ("and", "or", "xor") if instruction.has(name)), None)
    columns: tuple[list[str], list[str]] = ([], [])
    for part in range(group.count(shape)):
        a, b = (group.read(operand, kind.elem, part, vector=vector) for operand in instruction.operands[1:3])
        if source.endswith("x2"):
            pair = [_compared(builder, instruction, source, *_half(builder, kind, which, a, b)) for which in range(2)]
        else:
            value = _compared(builder, instruction, source, kind, a, b)
            pair = [value, builder.binary("xor", truth, value, truth.const(1))]
        if boolean is not None:
            extra = _truth(group, instruction, 3, part, vector=vector)
            pair = [builder.binary(boolean, truth, value, extra) for value in pair]
        for column, value in zip(columns, pair, strict=True):
            column.append(value)
    group.write(instruction.operands[0], columns[0], "i1", shape, instruction.guard)
    group.write(instruction.second_destination, columns[1], "i1", shape, instruction.guard)


def _half(builder: Builder, kind: Type, which: int, a: str, b: str) -> tuple[Type, str, str]:
    """The low (0) or the high halves of two words: (type, a, b)."""
    short = kind.of("i16")
    if which:
        a, b = (builder.binary("lshr", kind, value, kind.const(16)) for value in (a, b))
    return short, builder.cast("trunc", kind, a, short), builder.cast("trunc", kind, b, short)


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
    kind = Type(_carrier(source), group.lanes if vector else 0)
    result = kind.of(_carrier(to))
    values = []
    for part in range(group.count(shape)):
        a, b = (group.read(operand, kind.elem, part, vector=vector) for operand in instruction.operands[1:3])
        extra = None
        if any(instruction.has(name) for name in _BOOLEANS):
            extra = _truth(group, instruction, 3, part, vector=vector)
        values.append((_set_pair if source.endswith("x2") else _set_one)(builder, instruction, kind, a, b, extra))
    group.write(instruction.operands[0], values, result.elem, shape, instruction.guard)


_BOOLEANS: Final = ("and", "or", "xor")
_TRUE: Final = {"f16": 0x3C00, "bf16": 0x3F80}
"""1.0 as a bit pattern."""


def _combined(builder: Builder, instruction: Instruction, truth: Type, value: str, extra: str | None) -> str:
    boolean = next((name for name in _BOOLEANS if instruction.has(name)), None)
    return value if boolean is None or extra is None else builder.binary(boolean, truth, value, extra)


def _set_one(builder: Builder, instruction: Instruction, kind: Type, a: str, b: str, extra: str | None) -> str:
    to, source = instruction.types[0], instruction.types[-1]
    result = kind.of(_carrier(to))
    value = _compared(builder, instruction, source, kind, a, b)
    value = _combined(builder, instruction, kind.of("i1"), value, extra)
    return builder.select(result, value, result.const(_TRUE.get(to, 1.0 if "f" in to else -1)), result.const(0))


def _set_pair(builder: Builder, instruction: Instruction, kind: Type, a: str, b: str, extra: str | None) -> str:
    to, source = instruction.types[0], instruction.types[-1]
    (bits, a), (_, b) = (as_halves(builder, source, kind, value) for value in (a, b))
    value = _compared(builder, instruction, source, bits, a, b)
    if extra is not None:  # the one predicate goes with both halves
        words = kind.of("i32")
        spread = builder.cast("sext", kind.of("i1"), extra, words)
        again = builder.cast("trunc", bits, builder.cast("bitcast", words, spread, bits), bits.of("i1"))
        value = _combined(builder, instruction, bits.of("i1"), value, again)
    true = bits.const(_TRUE.get(to.removesuffix("x2"), -1))
    return builder.cast("bitcast", bits, builder.select(bits, value, true, bits.const(0)), kind)


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
