"""Video instructions (PTX ISA "Video Instructions"): arithmetic on bytes and half-words.

Scalar ones compute in 64 bits, which hold every intermediate result; SIMD ones part by part in 32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Builder, Type
from zcuda_async.jit.lower.lanewise import lanewise
from zcuda_async.ptx.ir import Instruction

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering

__all__ = ("VIDEO",)

_SIGNED_TEST: Final = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_BEYOND: Final = 1 << 40
"""Larger than what any saturation keeps."""


def _part(selector: str, size: int = 4) -> tuple[int, int]:
    """(first bit, bits) of a scalar selector such as ``h1``; all `size` bytes without one."""
    if not selector:
        return 0, 8 * size
    width = 8 if selector[0] == "b" else 16
    return width * int(selector[1]), width


def _field(builder: Builder, kind: Type, value: str, first: int, width: int, *, signed: bool) -> str:
    """Bits of a 32-bit value, sign- or zero-extended to 32 bits."""
    if width == 32:
        return value
    up = builder.binary("shl", kind, value, kind.const(32 - first - width))
    return builder.binary("ashr" if signed else "lshr", kind, up, kind.const(32 - width))


def _wide(builder: Builder, kind: Type, value: str, selector: str, ptx_type: str) -> str:
    """A source as a 64-bit integer."""
    signed = ptx_type[0] == "s"
    first, width = _part(selector.removeprefix("-"))
    part = _field(builder, kind, value, first, width, signed=signed)
    return builder.cast("sext" if signed else "zext", kind, part, kind.of("i64"))


def _types(instruction: Instruction) -> tuple[str, str, str]:
    """(d, a, b) types; ``vset`` has none for its result."""
    types = instruction.types
    return ("u32", types[0], types[1]) if instruction.opcode.startswith("vset") else (types[0], types[1], types[2])


def _clamped(builder: Builder, kind: Type, value: str, ptx_type: str, width: int) -> str:
    signed = ptx_type[0] == "s"
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    value = builder.intrinsic("smin", kind, value, kind.const(high))
    return builder.intrinsic("smax", kind, value, kind.const(low))


_Combine = Callable[[Builder, Instruction, Type, str, str], str]


def _absolute_difference(builder: Builder, _: Instruction, kind: Type, a: str, b: str) -> str:
    difference = builder.binary("sub", kind, a, b)
    return builder.call(kind, f"llvm.abs.{kind.suffix}", [(kind, difference), ("i1", "false")])


def _average(builder: Builder, _: Instruction, kind: Type, a: str, b: str) -> str:
    """Half of the sum, rounded away from zero where it is not negative, else down."""
    total = builder.binary("add", kind, a, b)
    positive = builder.compare("icmp sge", kind, total, kind.const(0))
    more = builder.binary("add", kind, total, builder.cast("zext", kind.of("i1"), positive, kind))
    return builder.binary("ashr", kind, more, kind.const(1))


def _comparison(builder: Builder, instruction: Instruction, kind: Type, a: str, b: str) -> str:
    name = next(name for name in _SIGNED_TEST if instruction.has(name))
    truth = builder.compare(f"icmp {_SIGNED_TEST[name]}", kind, a, b)
    return builder.cast("zext", kind.of("i1"), truth, kind)


def _shift(builder: Builder, instruction: Instruction, kind: Type, a: str, by: str) -> str:
    if instruction.has("wrap"):
        by = builder.binary("and", kind, by, kind.const(31))
    else:
        by = builder.intrinsic("umin", kind, by, kind.const(32))
    if instruction.opcode == "vshr":
        return builder.binary("ashr", kind, a, by)
    value = builder.binary("shl", kind, a, by)
    if not instruction.has("sat"):  # what is shifted out is lost before a second operation
        word = builder.cast("trunc", kind, value, kind.of("i32"))
        return builder.cast("sext" if instruction.types[0] == "s32" else "zext", kind.of("i32"), word, kind)
    if instruction.types[1] == "u32":  # up to 64 bits, which are no signed number
        return builder.intrinsic("umin", kind, value, kind.const(_BEYOND))
    return value


_COMBINE: Final[dict[str, _Combine]] = {
    "vadd": lambda builder, _, kind, a, b: builder.binary("add", kind, a, b),
    "vsub": lambda builder, _, kind, a, b: builder.binary("sub", kind, a, b),
    "vabsdiff": _absolute_difference,
    "vmin": lambda builder, _, kind, a, b: builder.intrinsic("smin", kind, a, b),
    "vmax": lambda builder, _, kind, a, b: builder.intrinsic("smax", kind, a, b),
    "vavrg": _average,
    "vset": _comparison,
    "vshl": _shift,
    "vshr": _shift,
}


def _scalar(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    dtype, *types = _types(instruction)
    wide = kind.of("i64")
    selectors = instruction.selectors
    a, b = (_wide(builder, kind, *each) for each in zip(args[:2], selectors[1:3], types, strict=True))
    value = _COMBINE[instruction.opcode](builder, instruction, wide, a, b)
    first, width = _part(selectors[0])
    if instruction.has("sat"):
        value = _clamped(builder, wide, value, dtype, width)
    result = builder.cast("trunc", wide, value, kind)
    if selectors[0]:
        return _merged(builder, kind, result, args[2], first, width)
    if instruction.has("add"):
        return builder.binary("add", kind, result, args[2])
    extreme = next((name for name in ("min", "max") if instruction.has(name)), None)
    if extreme is None:
        return result
    c = _wide(builder, kind, args[2], "", dtype)
    return builder.cast("trunc", wide, builder.intrinsic("s" + extreme, wide, value, c), kind)


def _merged(builder: Builder, kind: Type, value: str, into: str, first: int, width: int) -> str:
    """The low `width` bits of `value` in the place of those of `into` from bit `first` on."""
    ones = ((1 << width) - 1) << first
    kept = builder.binary("and", kind, into, kind.const(~ones))
    moved = builder.binary("and", kind, builder.binary("shl", kind, value, kind.const(first)), kind.const(ones))
    return builder.binary("or", kind, kept, moved)


def _multiply_add(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    """``vmad``: up to 65 bits before scaling, so in 128."""
    _, *types = _types(instruction)
    long, huge = kind.of("i64"), kind.of("i128")
    minus = [selector.startswith("-") for selector in instruction.selectors]
    a, b = (_wide(builder, kind, *each) for each in zip(args[:2], instruction.selectors[1:3], types, strict=True))
    a, b = (builder.cast("sext", long, value, huge) for value in (a, b))
    product = builder.binary("mul", huge, a, b)
    negated = minus[1] != minus[2]
    signed = "s32" in types or negated
    c = builder.cast("sext" if signed else "zext", kind, args[2], huge)
    if negated:
        product = builder.binary("sub", huge, huge.const(0), product)
    total = builder.binary("sub" if minus[3] else "add", huge, product, c)
    if instruction.has("po"):
        total = builder.binary("add", huge, total, huge.const(1))
    scale = next((bits for name, bits in (("shr7", 7), ("shr15", 15)) if instruction.has(name)), 0)
    total = builder.binary("ashr", huge, total, huge.const(scale))
    if instruction.has("sat"):
        total = _clamped(builder, huge, total, "s32" if signed or minus[3] else "u32", 32)
    return builder.cast("trunc", huge, total, kind)


def _picks(selector: str, size: int, default: Sequence[int]) -> Sequence[int]:
    """For each part, lowest first, which part of {b, a} it is."""
    return [int(digit) for digit in reversed(selector[1:])] if selector else default


def _parts(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    """SIMD instructions."""
    name, size = instruction.opcode[:-1], int(instruction.opcode[-1])
    width = 32 // size
    dtype, *types = _types(instruction)
    mask = instruction.selectors[0]
    wanted = {int(digit) for digit in mask[1:]} if mask else set(range(size))
    defaults = (range(size), range(size, 2 * size))
    sources = []
    for selector, ptx_type, default in zip(instruction.selectors[1:3], types, defaults, strict=True):
        signed = ptx_type[0] == "s"
        picks = _picks(selector, size, default)
        sources.append(
            [_field(builder, kind, args[pick // size], pick % size * width, width, signed=signed) for pick in picks]
        )
    total = args[2]
    for index in sorted(wanted):
        value = _COMBINE[name](builder, instruction, kind, sources[0][index], sources[1][index])
        if instruction.has("add"):
            total = builder.binary("add", kind, total, value)
            continue
        if instruction.has("sat"):
            value = _clamped(builder, kind, value, dtype, width)
        total = _merged(builder, kind, value, total, index * width, width)
    return total


def _lowering(opcode: str) -> Lowering:
    compute = _multiply_add if opcode == "vmad" else _parts if opcode[-1].isdigit() else _scalar
    return lanewise(compute, source_types=lambda i: ["u32"] * (len(i.operands) - 1), result_type=lambda _: "u32")


_SIMD: Final = ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset")
_OPCODES: Final = (
    *("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vmad", "vset"),
    *(f"{name}{size}" for name in _SIMD for size in (2, 4)),
)

VIDEO: Final[dict[str, Lowering]] = {opcode: _lowering(opcode) for opcode in _OPCODES}
