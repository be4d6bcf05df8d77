"""Registers as Python integers: every value is its bit pattern, 0 <= value < 2**width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zcuda_async.ptx.ir import Instruction
from zcuda_async.ptx.table_syntax import TYPE_WIDTHS

__all__ = (
    "Compute",
    "Factory",
    "clamped",
    "halves",
    "is_float",
    "is_signed",
    "mask",
    "number",
    "packed",
    "wrapped",
)

Compute = Callable[..., int | tuple[int, ...]]
"""Source operands' bits to the result's bits; a tuple where there are two destinations."""

Factory = Callable[[Instruction], Compute]
"""From an instruction to what it computes."""


def mask(width: int) -> int:
    """All ones in the low `width` bits."""
    return (1 << width) - 1


def is_signed(ptx_type: str) -> bool:
    """Whether a type is a signed integer."""
    return ptx_type[0] == "s"


def is_float(ptx_type: str) -> bool:
    """Whether a type is floating point, packed or not."""
    return ptx_type.startswith(("f", "bf", "tf"))


def number(bits: int, ptx_type: str) -> int:
    """The integer that a bit pattern of an integer type stands for."""
    width = TYPE_WIDTHS[ptx_type]
    bits &= mask(width)
    return bits - (1 << width) if is_signed(ptx_type) and bits >> (width - 1) else bits


def wrapped(value: int, ptx_type: str) -> int:
    """The bit pattern of an integer, modulo the type's range."""
    return value & mask(TYPE_WIDTHS[ptx_type])


def clamped(value: int, ptx_type: str) -> int:
    """The bit pattern of an integer, limited to the type's range."""
    width = TYPE_WIDTHS[ptx_type]
    low, high = (-(1 << (width - 1)), mask(width - 1)) if is_signed(ptx_type) else (0, mask(width))
    return min(max(value, low), high) & mask(width)


def halves(bits: int) -> tuple[int, int]:
    """The low and the high 16 bits of a 32-bit word."""
    return bits & 0xFFFF, bits >> 16


def packed(factory: Factory) -> Factory:
    """Let a factory for 16-bit types also serve the two halves of the ``x2`` type."""

    def make(instruction: Instruction) -> Compute:
        types = instruction.types
        if not types[0].endswith("x2"):
            return factory(instruction)
        one = factory(replace(instruction, types=tuple(name.removesuffix("x2") for name in types)))

        def compute(*words: int) -> int:
            low, high = (one(*(halves(word)[index] for word in words)) for index in range(2))
            assert isinstance(low, int)
            assert isinstance(high, int)
            return low | high << 16

        return compute

    return make
