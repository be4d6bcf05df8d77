"""Integer instructions that pick bits and fields: ``dp2a``, ``szext``, ``bmsk`` and ``fns``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Builder, Type
from zcuda_async.jit.lower.lanewise import lanewise
from zcuda_async.ptx.ir import Instruction

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering

__all__ = ("BITFIELD",)


def _field(builder: Builder, kind: Type, value: str, first: int, width: int, ptx_type: str) -> str:
    """`width` bits from bit `first` on, sign- or zero-extended."""
    up = builder.binary("shl", kind, value, kind.const(32 - first - width))
    return builder.binary("ashr" if ptx_type[0] == "s" else "lshr", kind, up, kind.const(32 - width))


def _dp2a(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    """C plus the half-words of a times the low (``.lo``) or the high two bytes of b."""
    total = args[2]
    start = 16 if instruction.has("hi") else 0
    for index in range(2):
        half = _field(builder, kind, args[0], 16 * index, 16, instruction.types[0])
        byte = _field(builder, kind, args[1], start + 8 * index, 8, instruction.types[1])
        total = builder.binary("add", kind, total, builder.binary("mul", kind, half, byte))
    return total


def _ones(builder: Builder, kind: Type, length: str) -> str:
    """That many low bits set; `length` is at most 32."""
    none = builder.compare("icmp eq", kind, length, kind.const(0))
    unused = builder.binary("sub", kind, kind.const(32), length)
    safe = builder.select(kind, none, kind.const(0), unused)
    return builder.select(kind, none, kind.const(0), builder.binary("lshr", kind, kind.const(-1), safe))


def _amount(builder: Builder, instruction: Instruction, kind: Type, value: str) -> str:
    """A number of bits: at most 32 with ``.clamp``, modulo 32 with ``.wrap``."""
    if instruction.has("clamp"):
        return builder.intrinsic("umin", kind, value, kind.const(32))
    return builder.binary("and", kind, value, kind.const(31))


def _szext(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    length = _amount(builder, instruction, kind, args[1])
    mask = _ones(builder, kind, length)
    value = builder.binary("and", kind, args[0], mask)
    if instruction.types[0] == "u32":
        return value
    top = builder.binary("lshr", kind, builder.binary("add", kind, mask, kind.const(1)), kind.const(1))
    # The field's sign bit; a mask of all ones adds up to zero and needs no extension.
    negative = builder.compare("icmp ne", kind, builder.binary("and", kind, value, top), kind.const(0))
    extended = builder.binary("or", kind, value, builder.binary("xor", kind, mask, kind.const(-1)))
    return builder.select(kind, negative, extended, value)


def _bmsk(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    """`b` ones from bit `a` on."""
    start, length = (_amount(builder, instruction, kind, arg) for arg in args)
    outside = builder.compare("icmp ugt", kind, start, kind.const(31))
    safe = builder.select(kind, outside, kind.const(0), start)
    mask = builder.binary("shl", kind, _ones(builder, kind, length), safe)
    return builder.select(kind, outside, kind.const(0), mask)


def _fns(builder: Builder, _: Instruction, kind: Type, args: Sequence[str]) -> str:
    """The place of the n-th set bit from `base` on, upward for positive n, downward for negative; -1 if there is none.

    N = 0 asks whether bit `base` itself is set.  Downward is upward in the reversed word.
    """
    bits, base, count = args
    truth = kind.of("i1")
    down = builder.compare("icmp slt", kind, count, kind.const(0))
    bits = builder.select(kind, down, builder.intrinsic("bitreverse", kind, bits), bits)
    start = builder.select(kind, down, builder.binary("sub", kind, kind.const(31), base), base)
    inside = builder.compare("icmp ult", kind, base, kind.const(32))
    safe = builder.select(kind, inside, start, kind.const(0))
    itself = builder.compare("icmp eq", kind, count, kind.const(0))
    above = builder.binary("shl", kind, kind.const(-1), safe)
    only = builder.binary("shl", kind, kind.const(1), safe)
    bits = builder.binary("and", kind, bits, builder.select(kind, itself, only, above))
    size = builder.select(kind, down, builder.binary("sub", kind, kind.const(0), count), count)
    wanted = builder.select(kind, itself, kind.const(1), size)
    enough = builder.compare("icmp ule", kind, wanted, builder.intrinsic("ctpop", kind, bits))
    place = _place_of(builder, kind, bits, wanted)
    place = builder.select(kind, down, builder.binary("sub", kind, kind.const(31), place), place)
    return builder.select(kind, builder.binary("and", truth, enough, inside), place, kind.const(-1))


def _place_of(builder: Builder, kind: Type, bits: str, count: str) -> str:
    """Where the `count`-th set bit is, if there are so many: by halves, counting the bits of the lower one."""
    place = kind.const(0)
    for width in (16, 8, 4, 2, 1):
        low = builder.binary("and", kind, builder.binary("lshr", kind, bits, place), kind.const((1 << width) - 1))
        here = builder.intrinsic("ctpop", kind, low)
        further = builder.compare("icmp ugt", kind, count, here)
        count = builder.select(kind, further, builder.binary("sub", kind, count, here), count)
        place = builder.select(kind, further, builder.binary("add", kind, place, kind.const(width)), place)
    return place


BITFIELD: Final[dict[str, Lowering]] = {
    "dp2a": lanewise(_dp2a, source_types=lambda _: ["b32"] * 3, result_type=lambda _: "b32"),
    "szext": lanewise(_szext, source_types=lambda _: ["b32"] * 2, result_type=lambda _: "b32"),
    "bmsk": lanewise(_bmsk, source_types=lambda _: ["b32"] * 2, result_type=lambda _: "b32"),
    "fns": lanewise(_fns, source_types=lambda _: ["b32"] * 3, result_type=lambda _: "b32"),
}
