"""Moves and conversions (PTX ISA 9.7.9): mov with packing, cvt, cvta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Builder, Type, llvm_type
from zcuda_async.jit.lower.floating import flush, saturate
from zcuda_async.jit.lower.lanewise import lanewise
from zcuda_async.jit.lower.special import worker_field
from zcuda_async.jit.shapes import Shape
from zcuda_async.ptx.ir import TYPE_BITS, Instruction, VectorOperand

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group

__all__ = ("CONVERT",)

_ROUND_TO_INT: Final = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_HALVES: Final = {"f16", "bf16"}


def mov(group: Group, instruction: Instruction) -> None:
    """``mov``: a copy, or packing and unpacking of vectors."""
    destination, source = instruction.operands
    if isinstance(source, VectorOperand):
        _pack(group, instruction, source)
    elif isinstance(destination, VectorOperand):
        _unpack(group, instruction, destination)
    else:
        _copy(group, instruction)


def _copy(group: Group, instruction: Instruction) -> None:
    shape = group.plain(instruction)
    elem = llvm_type(instruction.types[0])
    values = [
        group.read(instruction.operands[1], elem, part, vector=shape.stride is None)
        for part in range(group.count(shape))
    ]
    group.write(instruction.operands[0], values, elem, shape, instruction.guard)


def _pack(group: Group, instruction: Instruction, source: VectorOperand) -> None:
    """The elements side by side, the first in the low bits."""
    builder = group.builder
    shape = Shape(None, False)
    whole = group.vector(llvm_type(instruction.types[0]))
    width = whole.bits // len(source.elements)
    values = []
    for part in range(group.parts):
        total = whole.const(0)
        for index, element in enumerate(source.elements):
            piece = group.read(element, f"i{width}", part, vector=True)
            wide = builder.cast("zext", group.vector(f"i{width}"), piece, whole)
            total = builder.binary("or", whole, total, builder.binary("shl", whole, wide, whole.const(width * index)))
        values.append(total)
    group.write(instruction.operands[0], values, whole.elem, shape, instruction.guard)


def _unpack(group: Group, instruction: Instruction, destination: VectorOperand) -> None:
    builder = group.builder
    shape = Shape(None, False)
    whole = group.vector(llvm_type(instruction.types[0]))
    width = whole.bits // len(destination.elements)
    narrow = group.vector(f"i{width}")
    sources = [group.read(instruction.operands[1], whole.elem, part, vector=True) for part in range(group.parts)]
    for index, element in enumerate(destination.elements):
        values = [
            builder.cast("trunc", whole, builder.binary("lshr", whole, value, whole.const(width * index)), narrow)
            for value in sources
        ]
        group.write(element, values, narrow.elem, shape, instruction.guard)


def _convert(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    to, source = instruction.types[0], instruction.types[1]
    result = kind.of(llvm_type(to))
    value = args[0]
    if "f" in source:
        if instruction.has("ftz") and source == "f32":
            value = flush(builder, kind, value)
        return (_float_to_float if "f" in to else _float_to_int)(builder, instruction, kind, result, value)
    if "f" in to:
        return _int_to_float(builder, instruction, kind, result, value)
    return _int_to_int(builder, instruction, kind, result, value)


def _int_to_int(builder: Builder, instruction: Instruction, kind: Type, result: Type, value: str) -> str:
    to, source = instruction.types[0], instruction.types[1]
    if instruction.has("sat"):
        value = _clamp(builder, kind, value, to, source)
    if result.bits < kind.bits:
        return builder.cast("trunc", kind, value, result)
    return builder.cast("sext" if source[0] == "s" else "zext", kind, value, result)


def _clamp(builder: Builder, kind: Type, value: str, to: str, source: str) -> str:
    """Into the range of `to`, computed in the source's type."""
    bits = TYPE_BITS[to]
    low = -(1 << (bits - 1)) if to[0] == "s" else 0
    high = (1 << (bits - 1)) - 1 if to[0] == "s" else (1 << bits) - 1
    if source[0] == "s":
        top = (1 << (kind.bits - 1)) - 1
        value = builder.intrinsic("smin", kind, value, kind.const(min(high, top)))
        return builder.intrinsic("smax", kind, value, kind.const(max(low, -top - 1)))
    return builder.intrinsic("umin", kind, value, kind.const(min(high, (1 << kind.bits) - 1)))


def _int_to_float(builder: Builder, instruction: Instruction, kind: Type, result: Type, value: str) -> str:
    opcode = "sitofp" if instruction.types[1][0] == "s" else "uitofp"
    converted = builder.cast(opcode, kind, value, result)
    return saturate(builder, result, converted) if instruction.has("sat") else converted


def _float_to_int(builder: Builder, instruction: Instruction, kind: Type, result: Type, value: str) -> str:
    """Rounded as asked, then clamped to the type's range; NaN gives 0."""
    rounding = next((name for name in _ROUND_TO_INT if instruction.has(name)), "rzi")
    if kind.elem in ("half", "bfloat"):
        wide = kind.of("float")
        value, kind = builder.cast("fpext", kind, value, wide), wide
    if rounding != "rzi":
        value = builder.intrinsic(_ROUND_TO_INT[rounding], kind, value)
    name = "fptosi" if instruction.types[0][0] == "s" else "fptoui"
    return builder.call(result, f"llvm.{name}.sat.{result.suffix}.{kind.suffix}", [(kind, value)])


def _float_to_float(builder: Builder, instruction: Instruction, kind: Type, result: Type, value: str) -> str:
    if result.bits > kind.bits:
        value = builder.cast("fpext", kind, value, result)
    elif result.bits < kind.bits:
        value = builder.cast("fptrunc", kind, value, result)
    else:
        rounding = next((name for name in _ROUND_TO_INT if instruction.has(name)), None)
        if rounding is not None:
            value = builder.intrinsic(_ROUND_TO_INT[rounding], result, value)
    if instruction.has("ftz") and result.elem == "float":
        value = flush(builder, result, value)
    if instruction.has("sat"):
        value = saturate(builder, result, value)
    if instruction.has("relu"):
        above = builder.compare("fcmp ogt", result, value, result.const(0.0))
        value = builder.select(result, above, value, result.const(0.0))
    return value


_convert_lanes = lanewise(
    _convert, source_types=lambda i: [i.types[1]] * (len(i.operands) - 1), result_type=lambda i: i.types[0]
)


def cvt(group: Group, instruction: Instruction) -> None:
    """``cvt``; a narrow result is extended to the width of its register."""
    to, source = instruction.types[0], instruction.types[1]
    directed = [name for name in ("rz", "rm", "rp", "rna", "rs") if instruction.has(name)]
    narrowing = "f" in to and ("f" not in source or TYPE_BITS[to] < TYPE_BITS[source])
    if directed and narrowing:
        raise group.refuse(instruction, f"conversion with rounding mode .{directed[0]} is not supported yet")
    if len(instruction.operands) != 2 or not {to, source} <= _SUPPORTED:
        raise group.refuse(instruction, f"conversion from .{source} to .{to} is not supported yet")
    _convert_lanes(group, instruction)


_SUPPORTED: Final = frozenset(
    {f"{kind}{bits}" for kind in "su" for bits in (8, 16, 32, 64)} | {"f16", "f32", "f64", "bf16"}
)


def cvta(group: Group, instruction: Instruction) -> None:
    """``cvta``: shared-window offsets become absolute addresses and back; other spaces are absolute."""
    shape = group.plain(instruction)
    elem = llvm_type(instruction.types[0])
    vector = shape.stride is None
    kind = Type(elem, group.lanes if vector else 0)
    builder = group.builder
    values = []
    for part in range(group.count(shape)):
        value = group.read(instruction.operands[1], elem, part, vector=vector)
        if instruction.has("shared") or instruction.has("shared::cta"):
            base = worker_field(group, "shared")
            base = builder.splat(kind, base) if vector else base
            value = builder.binary("sub" if instruction.has("to") else "add", kind, value, base)
        values.append(value)
    group.write(instruction.operands[0], values, elem, shape, instruction.guard)


CONVERT: Final[dict[str, Lowering]] = {"mov": mov, "cvt": cvt, "cvta": cvta}
