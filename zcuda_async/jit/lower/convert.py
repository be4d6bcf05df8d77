"""Moves and conversions (PTX ISA 9.7.9): mov with packing, cvt, cvta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Builder, Type, llvm_type
from zcuda_async.jit.lower.convert_packed import PACKED_TYPES, convert_packed
from zcuda_async.jit.lower.directed import directed_cast
from zcuda_async.jit.lower.floating import flush, saturate
from zcuda_async.jit.lower.half import NARROW, narrow, round_to_odd, widen
from zcuda_async.jit.lower.lanewise import lanewise
from zcuda_async.jit.lower.special import worker_field
from zcuda_async.ptx.ir import TYPE_BITS, Instruction, VectorOperand

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group

__all__ = ("CONVERT",)

_ROUND_TO_INT: Final = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_ROUNDING: Final = ("rz", "rm", "rp")


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
    shape = group.plain(instruction)
    whole = group.type_for(llvm_type(instruction.types[0]), shape)
    width = whole.bits // len(source.elements)
    values = []
    for part in range(group.count(shape)):
        total = whole.const(0)
        for index, element in enumerate(source.elements):
            piece = group.read(element, f"i{width}", part, vector=shape.stride is None)
            wide = builder.cast("zext", whole.of(f"i{width}"), piece, whole)
            total = builder.binary("or", whole, total, builder.binary("shl", whole, wide, whole.const(width * index)))
        values.append(total)
    group.write(instruction.operands[0], values, whole.elem, shape, instruction.guard)


def _unpack(group: Group, instruction: Instruction, destination: VectorOperand) -> None:
    builder = group.builder
    shape = group.plain(instruction)
    whole = group.type_for(llvm_type(instruction.types[0]), shape)
    width = whole.bits // len(destination.elements)
    narrow = whole.of(f"i{width}")
    sources = [
        group.read(instruction.operands[1], whole.elem, part, vector=shape.stride is None)
        for part in range(group.count(shape))
    ]
    for index, element in enumerate(destination.elements):
        values = [
            builder.cast("trunc", whole, builder.binary("lshr", whole, value, whole.const(width * index)), narrow)
            for value in sources
        ]
        group.write(element, values, narrow.elem, shape, instruction.guard)


def _convert(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    to, source = instruction.types[0], instruction.types[1]
    result = kind.of(llvm_type(to))
    if "f" not in source:
        convert = _int_to_float if "f" in to else _int_to_int
        return convert(builder, instruction, kind, result, args[0])
    kind, value = widen(builder, kind, args[0])
    if instruction.has("ftz") and source == "f32":
        value = flush(builder, kind, value)
    return (_float_to_float if "f" in to else _float_to_int)(builder, instruction, kind, result, value)


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


def _mode(instruction: Instruction) -> str:
    return next((mode for mode in _ROUNDING if instruction.has(mode)), "rn")


def _int_to_float(builder: Builder, instruction: Instruction, kind: Type, result: Type, value: str) -> str:
    opcode = "sitofp" if instruction.types[1][0] == "s" else "uitofp"
    mode = _mode(instruction)
    if result.elem == "half":
        return _finished(builder, instruction, kind.of("float"), result, _small_float(builder, opcode, kind, value))
    if result.elem in NARROW:
        wide = kind.of("double")
        exact = kind.bits <= 32
        value = builder.cast(opcode, kind, value, wide) if exact else round_to_odd(builder, opcode, kind, value, wide)
        return _finished(builder, instruction, wide, result, value)
    if mode == "rn" or kind.bits < 32:
        value = builder.cast(opcode, kind, value, result)
    else:
        if kind.bits == 32:  # from unsigned words LLVM's own sequence can give -0
            kind, value = (
                kind.of("i64"),
                builder.cast("sext" if opcode == "sitofp" else "zext", kind, value, kind.of("i64")),
            )
            opcode = "sitofp"
        value = directed_cast(builder, opcode, mode, kind, value, result)
    return saturate(builder, result, value) if instruction.has("sat") else value


_BEYOND_HALF: Final = 1 << 17
"""Integers of this size and more are infinite, or the largest number, as f16 in every rounding mode."""


def _small_float(builder: Builder, opcode: str, kind: Type, value: str) -> str:
    """An integer as an f32 that stands for it in the eyes of f16: exact, or beyond its range."""
    if kind.bits > 16:
        value = builder.intrinsic("smin" if opcode == "sitofp" else "umin", kind, value, kind.const(_BEYOND_HALF))
        if opcode == "sitofp":
            value = builder.intrinsic("smax", kind, value, kind.const(-_BEYOND_HALF))
    if kind.bits == 64:
        kind, value = kind.of("i32"), builder.cast("trunc", kind, value, kind.of("i32"))
    # After the limit even an unsigned word is not negative as a signed one.
    opcode = "sitofp" if kind.bits == 32 else opcode
    return builder.cast(opcode, kind, value, kind.of("float"))


def _float_to_int(builder: Builder, instruction: Instruction, kind: Type, result: Type, value: str) -> str:
    """Rounded as asked, then clamped to the type's range.

    NaN gives 0, or the top bit where the source is f64 or the result has 64 bits.
    """
    rounding = next((name for name in _ROUND_TO_INT if instruction.has(name)), "rzi")
    if rounding != "rzi":
        value = builder.intrinsic(_ROUND_TO_INT[rounding], kind, value)
    name = "fptosi" if instruction.types[0][0] == "s" else "fptoui"
    whole = builder.call(result, f"llvm.{name}.sat.{result.suffix}.{kind.suffix}", [(kind, value)])
    if result.bits < 64 and instruction.types[1] != "f64":
        return whole
    number = builder.compare("fcmp ord", kind, value, kind.const(0.0))
    return builder.select(result, number, whole, result.const(1 << (result.bits - 1)))


def _float_to_float(builder: Builder, instruction: Instruction, kind: Type, result: Type, value: str) -> str:
    rounding = next((name for name in _ROUND_TO_INT if instruction.has(name)), None)
    if rounding is not None:
        value = builder.intrinsic(_ROUND_TO_INT[rounding], kind, value)
    return _finished(builder, instruction, kind, result, value)


def _finished(builder: Builder, instruction: Instruction, kind: Type, result: Type, value: str) -> str:
    """An f32 or f64 brought into the result's type, with what the modifiers ask for."""
    mode = _mode(instruction)
    if instruction.has("sat"):  # before or after rounding is the same: 0 and 1 are numbers of every type
        value = saturate(builder, kind, value)
    if instruction.has("relu"):
        above = builder.compare("fcmp ugt", kind, value, kind.const(0.0))
        value = builder.select(kind, above, value, kind.const(0.0))
    if result.elem in NARROW:
        if kind.elem == "double":
            kind, value = kind.of("float"), round_to_odd(builder, "fptrunc", kind, value, kind.of("float"))
        return narrow(builder, kind, value, result, mode, finite=instruction.has("satfinite"))
    if result.bits > kind.bits:
        value = builder.cast("fpext", kind, value, result)
    elif result.bits < kind.bits:
        plain = mode == "rn"
        cast = builder.cast("fptrunc", kind, value, result) if plain else ""
        value = cast or directed_cast(builder, "fptrunc", mode, kind, value, result)
    return flush(builder, result, value) if instruction.has("ftz") and result.elem == "float" else value


_convert_lanes = lanewise(
    _convert, source_types=lambda i: [i.types[1]] * (len(i.operands) - 1), result_type=lambda i: i.types[0]
)


def cvt(group: Group, instruction: Instruction) -> None:
    """``cvt``; a narrow result is extended to the width of its register."""
    if instruction.has("pack") or not PACKED_TYPES.isdisjoint(instruction.types):
        convert_packed(group, instruction)
    else:
        _convert_lanes(group, instruction)


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
        if any(map(instruction.has, ("shared", "shared::cta", "shared::cluster"))):
            base = worker_field(group, "shared")
            base = builder.splat(kind, base) if vector else base
            value = builder.binary("sub" if instruction.has("to") else "add", kind, value, base)
        values.append(value)
    group.write(instruction.operands[0], values, elem, shape, instruction.guard)


CONVERT: Final[dict[str, Lowering]] = {"mov": mov, "cvt": cvt, "cvta": cvta}
