"""The floating-point formats: bits to doubles, units in the last place, flushing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ("FORMATS", "Array", "Doubles", "Format")

Array = npt.NDArray[Any]
Doubles = npt.NDArray[Any]
"""float64, or longdouble where a float64 is what is measured."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format with the exponent of its smallest normal number and of the first power of two beyond its range."""

    name: str
    width: int
    fraction_bits: int
    lowest: int
    highest: int

    @property
    def word(self) -> np.dtype[Any]:
        """The unsigned integer of this width."""
        return np.dtype(f"u{self.width // 8}")

    def decode(self, bits: Array) -> Doubles:
        """The values of bit patterns, as float64; exact."""
        if self.name == "bf16":
            return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
        return bits.view(f"f{self.width // 8}").astype(np.float64)

    def encode(self, value: float) -> int:
        """The bit pattern of a value that the format has."""
        if self.name == "bf16":
            return int(np.float32(value).view(np.uint32)) >> 16
        return int(np.dtype(f"f{self.width // 8}").type(value).view(self.word))

    def units(self, values: Doubles) -> Doubles:
        """One unit in the last place at each of the exact values (as wide as below the smallest normal number)."""
        if values.dtype != np.float64:
            exponents = np.frexp(values)[1] - 1
            return np.asarray(np.ldexp(values.dtype.type(1), np.maximum(exponents, self.lowest) - self.fraction_bits))
        fields = (values.view(np.int64) >> 52) & 0x7FF
        exponents = np.maximum(fields, self.lowest + 1023) - self.fraction_bits
        return np.asarray((exponents << 52).view(np.float64))

    def bounded(self, values: Doubles) -> Doubles:
        """With what is beyond the range as the power of two there: so a wrong infinity has an error."""
        beyond = np.ldexp(values.dtype.type(1), self.highest)
        return np.asarray(np.clip(values, -beyond, beyond))

    def is_subnormal(self, bits: Array) -> npt.NDArray[np.bool_]:
        """Where a pattern is a subnormal number (zero is none)."""
        size = bits & self.word.type((1 << (self.width - 1)) - 1)
        return np.asarray((size > 0) & (size < self.word.type(1 << self.fraction_bits)))

    def flush(self, bits: Array) -> Array:
        """Subnormal numbers as zeros of the same sign: ``.ftz``."""
        return np.where(self.is_subnormal(bits), bits & self.word.type(1 << (self.width - 1)), bits)


FORMATS: Final = {
    "f16": Format("f16", 16, 10, -14, 16),
    "bf16": Format("bf16", 16, 7, -126, 128),
    "f32": Format("f32", 32, 23, -126, 128),
    "f64": Format("f64", 64, 52, -1022, 1024),
}
