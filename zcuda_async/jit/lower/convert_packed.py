"""Conversions to and from packed, 8-bit and 19-bit floats, and ``cvt.pack``.

Of two sources the first goes to the high half of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Builder, Type
from zcuda_async.jit.lower.half import narrow
from zcuda_async.jit.lower.halfmath import layout_of, widen_bits
from zcuda_async.jit.lower.lanewise import lanewise
from zcuda_async.ptx.ir import Instruction
from zcuda_async.ptx.table_syntax import TYPE_WIDTHS

if TYPE_CHECKING:
    from zcuda_async.jit.lower.group import Group

__all__ = ("PACKED_TYPES", "convert_packed")

PACKED_TYPES: Final = frozenset({"f16x2", "bf16x2", "e4m3x2", "e5m2x2", "tf32"})


@dataclass(frozen=True, slots=True)
class _Small:
    """An 8-bit float: exponent bias, bits of the fraction, and the pattern of the largest number."""

    bias: int
    fraction: int
    largest: int


_SMALL: Final = {"e4m3x2": _Small(7, 3, 0x7E), "e5m2x2": _Small(15, 2, 0x7B)}
_NAN8: Final = 0x7F


def convert_packed(group: Group, instruction: Instruction) -> None:
    """The forms of ``cvt`` with a packed type, ``.tf32`` or ``.pack``."""
    to = instruction.types[0]
    if instruction.has("pack"):
        _pack(group, instruction)
    elif to == "tf32":
        _to_tf32(group, instruction)
    elif to in _SMALL:
        _to_small(group, instruction)
    elif instruction.types[1] in _SMALL:
        _from_small(group, instruction)
    else:
        _to_pair(group, instruction)


def _mode(instruction: Instruction) -> str:
    return "rz" if instruction.has("rz") else "rna" if instruction.has("rna") else "rn"


def _relu(builder: Builder, instruction: Instruction, kind: Type, value: str) -> str:
    if not instruction.has("relu"):
        return value
    above = builder.compare("fcmp ugt", kind, value, kind.const(0.0))
    return builder.select(kind, above, value, kind.const(0.0))


def _joined(builder: Builder, words: Type, high: str, low: str, width: int) -> str:
    return builder.binary("or", words, builder.binary("shl", words, high, words.const(width)), low)


def _pair(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    """Two f32 to a pair of 16-bit floats."""
    form, words = layout_of(instruction.types[0]), kind.of("i32")
    halves = []
    for arg in args:
        value = _relu(builder, instruction, kind, arg)
        own = kind.of(form.elem)
        half = narrow(builder, kind, value, own, _mode(instruction), finite=instruction.has("satfinite"))
        short = builder.cast("bitcast", own, half, kind.of("i16"))
        halves.append(builder.cast("zext", kind.of("i16"), short, words))
    return _joined(builder, words, halves[0], halves[1], 16)


_to_pair = lanewise(_pair, source_types=lambda i: ["f32"] * (len(i.operands) - 1), result_type=lambda _: "b32")


def _tf32(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    """An f32 of which 13 bits are rounded off; a carry may reach infinity."""
    words = kind.of("i32")
    value = _relu(builder, instruction, kind, args[0])
    bits = builder.cast("bitcast", kind, value, words)
    magnitude = builder.binary("and", words, bits, words.const(0x7FFFFFFF))
    more = {"rz": words.const(0), "rna": words.const(0x1000)}.get(_mode(instruction))
    if more is None:
        last = builder.binary("and", words, builder.binary("lshr", words, bits, words.const(13)), words.const(1))
        more = builder.binary("add", words, last, words.const(0xFFF))
    rounded = builder.binary("and", words, builder.binary("add", words, magnitude, more), words.const(-0x2000))
    if instruction.has("satfinite"):
        rounded = builder.intrinsic("umin", words, rounded, words.const(0x7F7FE000))
    number = builder.compare("fcmp ord", kind, value, kind.const(0.0))
    sign = builder.binary("and", words, bits, words.const(-0x80000000))
    return builder.select(words, number, builder.binary("or", words, rounded, sign), words.const(0x7FFFE000))


_to_tf32 = lanewise(_tf32, source_types=lambda _: ["f32"], result_type=lambda _: "b32")


def _small(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    """Two f32, or the halves of an f16x2, to a pair of 8-bit floats in 16 bits."""
    form = _SMALL[instruction.types[0]]
    if instruction.types[1] == "f16x2":
        args = _halves_as_f32(builder, kind, args[0])
        kind = kind.of("float")
    codes = [_byte(builder, kind, _relu(builder, instruction, kind, arg), form) for arg in args]
    words = kind.of("i32")
    return builder.cast("trunc", words, _joined(builder, words, codes[0], codes[1], 8), kind.of("i16"))


def _halves_as_f32(builder: Builder, words: Type, value: str) -> list[str]:
    """The high and the low half of each word."""
    short, layout = words.of("i16"), layout_of("f16")
    pieces = [builder.binary("lshr", words, value, words.const(16)), value]
    return [widen_bits(builder, layout, short, builder.cast("trunc", words, piece, short))[1] for piece in pieces]


def _byte(builder: Builder, kind: Type, value: str, form: _Small) -> str:
    """An f32 as the pattern of an 8-bit float, rounded to nearest even, at most the largest number."""
    words = kind.of("i32")
    bits = builder.cast("bitcast", kind, value, words)
    magnitude = builder.binary("and", words, bits, words.const(0x7FFFFFFF))
    shift = 23 - form.fraction
    rebiased = builder.binary("sub", words, magnitude, words.const((127 - form.bias) << 23))
    last = builder.binary("and", words, builder.binary("lshr", words, rebiased, words.const(shift)), words.const(1))
    more = builder.binary("add", words, last, words.const((1 << (shift - 1)) - 1))
    normal = builder.binary("lshr", words, builder.binary("add", words, rebiased, more), words.const(shift))
    # Subnormal numbers count the smallest one.
    small = builder.compare("icmp ult", words, magnitude, words.const((128 - form.bias) << 23))
    safe = builder.select(words, small, magnitude, words.const(0))
    scale = kind.const(2.0 ** (form.bias - 1 + form.fraction))
    counted = builder.binary("fmul", kind, builder.cast("bitcast", words, safe, kind), scale)
    subnormal = builder.cast("fptosi", kind, builder.intrinsic("roundeven", kind, counted), words)
    code = builder.select(words, small, subnormal, normal)
    code = builder.intrinsic("umin", words, code, words.const(form.largest))
    number = builder.compare("fcmp ord", kind, value, kind.const(0.0))
    sign = builder.binary("and", words, builder.binary("lshr", words, bits, words.const(24)), words.const(0x80))
    return builder.select(words, number, builder.binary("or", words, code, sign), words.const(_NAN8))


_to_small = lanewise(
    _small,
    source_types=lambda i: ["b32" if i.types[1] == "f16x2" else "f32"] * (len(i.operands) - 1),
    result_type=lambda _: "b16",
)


def _unpacked(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    """A pair of 8-bit floats to an f16x2."""
    words = kind.of("i32")
    pair = builder.cast("zext", kind, args[0], words)
    codes = [
        builder.binary("lshr", words, pair, words.const(8)),
        builder.binary("and", words, pair, words.const(0xFF)),
    ]
    widen = _from_e4m3 if instruction.types[1] == "e4m3x2" else _from_e5m2
    halves = [widen(builder, words, code) for code in codes]
    if instruction.has("relu"):
        halves = [_relu_half(builder, words, half) for half in halves]
    return _joined(builder, words, halves[0], halves[1], 16)


def _from_e5m2(builder: Builder, words: Type, code: str) -> str:
    """The upper byte of an f16."""
    return builder.binary("shl", words, code, words.const(8))


def _from_e4m3(builder: Builder, words: Type, code: str) -> str:
    """As an f32 with too small an exponent, scaled, and to f16, all of which is exact."""
    kind = words.of("float")
    magnitude = builder.binary("and", words, code, words.const(0x7F))
    raised = builder.cast("bitcast", words, builder.binary("shl", words, magnitude, words.const(20)), kind)
    scaled = builder.binary("fmul", kind, raised, kind.const(2.0**120))
    half = narrow(builder, kind, scaled, kind.of("half"), "rn", finite=False)
    short = builder.cast("bitcast", kind.of("half"), half, kind.of("i16"))
    bits = builder.cast("zext", kind.of("i16"), short, words)
    none = builder.compare("icmp eq", words, magnitude, words.const(_NAN8))
    bits = builder.select(words, none, words.const(0x7FFF), bits)
    sign = builder.binary("shl", words, builder.binary("and", words, code, words.const(0x80)), words.const(8))
    return builder.binary("or", words, bits, sign)


def _relu_half(builder: Builder, words: Type, half: str) -> str:
    """The pattern of an f16 with negative numbers replaced by +0; NaN stays."""
    negative = builder.compare("icmp uge", words, half, words.const(0x8000))
    number = builder.compare("icmp ule", words, half, words.const(0xFC00))
    below = builder.binary("and", words.of("i1"), negative, number)
    return builder.select(words, below, words.const(0), half)


_from_small = lanewise(_unpacked, source_types=lambda _: ["b16"], result_type=lambda _: "b32")


def _packed_integers(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    """``cvt.pack.sat``: a and b limited to the narrow type, b lowest, and the low bits of c above them."""
    to = instruction.types[0]
    width = TYPE_WIDTHS[to]
    signed = to[0] == "s"
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    limited = []
    for arg in args[:2]:
        value = builder.intrinsic("smin", kind, arg, kind.const(high))
        value = builder.intrinsic("smax", kind, value, kind.const(low))
        limited.append(builder.binary("and", kind, value, kind.const((1 << width) - 1)) if signed else value)
    pair = _joined(builder, kind, limited[0], limited[1], width)
    return pair if len(args) == 2 else _joined(builder, kind, args[2], pair, 2 * width)


_pack = lanewise(_packed_integers, source_types=lambda i: ["b32"] * (len(i.operands) - 1), result_type=lambda _: "b32")
