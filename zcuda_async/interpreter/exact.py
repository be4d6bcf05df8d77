"""Floating point without floating point: exact rational values, rounded once where a result is stored."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Final

__all__ = (
    "FORMATS",
    "NAN",
    "Format",
    "Kind",
    "Value",
    "add",
    "divide",
    "finite",
    "infinity",
    "multiply",
    "square_root",
)


class Kind(Enum):
    """What a value is."""

    FINITE = "finite"
    INFINITE = "infinite"
    NAN = "nan"


@dataclass(frozen=True, slots=True)
class Value:
    """A sign and an exact magnitude; zero is FINITE with magnitude 0, and has a sign."""

    kind: Kind
    negative: bool = False
    magnitude: Fraction = Fraction(0)

    @property
    def is_nan(self) -> bool:
        """Whether this is no number."""
        return self.kind is Kind.NAN

    @property
    def is_infinite(self) -> bool:
        """Whether this is an infinity."""
        return self.kind is Kind.INFINITE

    @property
    def is_zero(self) -> bool:
        """Whether this is +0 or -0."""
        return self.kind is Kind.FINITE and not self.magnitude

    @property
    def signed(self) -> Fraction:
        """The value of a finite number."""
        return -self.magnitude if self.negative else self.magnitude

    def negated(self) -> Value:
        """The same with the other sign."""
        return Value(self.kind, not self.negative, self.magnitude)


NAN: Final = Value(Kind.NAN)


def infinity(negative: bool = False) -> Value:
    """An infinity."""
    return Value(Kind.INFINITE, negative)


def finite(value: Fraction | int, *, negative_zero: bool = False) -> Value:
    """A rational number."""
    return Value(Kind.FINITE, value < 0 or (value == 0 and negative_zero), abs(Fraction(value)))


def add(a: Value, b: Value, mode: str = "rn") -> Value:
    """The exact sum; `mode` only decides the sign of x - x."""
    if a.is_nan or b.is_nan:
        return NAN
    if a.is_infinite or b.is_infinite:
        if a.is_infinite and b.is_infinite and a.negative != b.negative:
            return NAN
        return a if a.is_infinite else b
    if a.is_zero and b.is_zero and a.negative == b.negative:
        return a
    return finite(a.signed + b.signed, negative_zero=mode == "rm")


def multiply(a: Value, b: Value) -> Value:
    """The exact product."""
    negative = a.negative != b.negative
    if a.is_nan or b.is_nan or (a.is_infinite and b.is_zero) or (a.is_zero and b.is_infinite):
        return NAN
    if a.is_infinite or b.is_infinite:
        return infinity(negative)
    return Value(Kind.FINITE, negative, a.magnitude * b.magnitude)


def divide(a: Value, b: Value) -> Value:
    """The exact quotient."""
    negative = a.negative != b.negative
    if a.is_nan or b.is_nan or (a.is_infinite and b.is_infinite) or (a.is_zero and b.is_zero):
        return NAN
    if a.is_infinite or b.is_zero:
        return infinity(negative)
    if b.is_infinite:
        return Value(Kind.FINITE, negative)
    return Value(Kind.FINITE, negative, a.magnitude / b.magnitude)


def square_root(a: Value) -> Value:
    """The square root: exact where it is rational, else a value that rounds like it.

    The stand-in lies between the same two neighbours of any format here: it has over 60 bits, and
    one more that says that the root goes on.
    """
    if a.is_nan or a.is_zero:
        return a
    if a.negative:
        return NAN
    if a.is_infinite:
        return a
    n, d = a.magnitude.numerator, a.magnitude.denominator
    shift = max(0, 128 - n.bit_length() + d.bit_length())
    shift += shift % 2
    scaled, rest = divmod(n << shift, d)
    root = isqrt(scaled)
    inexact = rest != 0 or root * root != scaled
    return finite(Fraction(2 * root + inexact, 2 << (shift // 2)))


@dataclass(frozen=True, slots=True)
class Format:
    """A binary interchange format: how bits become a value and a value becomes bits."""

    exponent_bits: int
    fraction_bits: int

    @property
    def width(self) -> int:
        """Bits in all."""
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def bias(self) -> int:
        """What is added to an exponent to store it; also the largest exponent."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def sign_bit(self) -> int:
        """The sign, as a mask."""
        return 1 << (self.width - 1)

    @property
    def infinity_bits(self) -> int:
        """Positive infinity."""
        return ((1 << self.exponent_bits) - 1) << self.fraction_bits

    @property
    def nan_bits(self) -> int:
        """NVIDIA's canonical NaN: all ones but the sign."""
        return self.sign_bit - 1

    def is_nan(self, bits: int) -> bool:
        """Whether a bit pattern is a NaN."""
        return bits & ~self.sign_bit > self.infinity_bits

    def is_subnormal(self, bits: int) -> bool:
        """Whether a bit pattern is a subnormal number (zeros are not)."""
        return 0 < bits & ~self.sign_bit < 1 << self.fraction_bits

    def flush(self, bits: int) -> int:
        """Subnormal numbers to zero of the same sign."""
        return bits & self.sign_bit if self.is_subnormal(bits) else bits

    def decode(self, bits: int) -> Value:
        """The value of a bit pattern."""
        return _decode(self, bits)

    def encode(self, value: Value, mode: str = "rn") -> int:
        """The bit pattern of a value, rounded by `mode`: rn, rz, rm, rp or rna."""
        sign = self.sign_bit if value.negative else 0
        if value.is_nan:
            return self.nan_bits
        if value.is_infinite:
            return sign | self.infinity_bits
        if value.is_zero:
            return sign
        return sign | self._encode_magnitude(value.magnitude, mode, value.negative)

    def _encode_magnitude(self, magnitude: Fraction, mode: str, negative: bool) -> int:
        n, d = magnitude.numerator, magnitude.denominator
        exponent = max(_exponent(n, d), 1 - self.bias)
        quantum = exponent - self.fraction_bits
        if quantum >= 0:
            d <<= quantum
        else:
            n <<= -quantum
        whole, rest = divmod(n, d)
        if _rounds_up(whole, rest, d, mode, negative):
            whole += 1
        if whole >> (self.fraction_bits + 1):
            whole >>= 1
            exponent += 1
        if exponent > self.bias:
            away = mode in ("rn", "rna") or mode == ("rm" if negative else "rp")
            return self.infinity_bits if away else self.infinity_bits - 1
        # The leading one of a normal number adds one to the exponent field; a subnormal has none.
        return ((exponent + self.bias - 1) << self.fraction_bits) + whole


def _exponent(n: int, d: int) -> int:
    """The e with 2**e <= n/d < 2**(e+1)."""
    exponent = n.bit_length() - d.bit_length()
    reaches = n >= d << exponent if exponent >= 0 else n << -exponent >= d
    return exponent if reaches else exponent - 1


def _rounds_up(whole: int, rest: int, divisor: int, mode: str, negative: bool) -> bool:
    """Whether whole + rest/divisor goes to whole + 1."""
    if mode == "rn":
        return 2 * rest > divisor or (2 * rest == divisor and whole % 2 == 1)
    if mode == "rna":
        return 2 * rest >= divisor
    return rest > 0 and mode == ("rm" if negative else "rp")


@lru_cache(maxsize=1 << 14)
def _decode(form: Format, bits: int) -> Value:
    negative = bool(bits & form.sign_bit)
    if form.is_nan(bits):
        return NAN
    field = bits >> form.fraction_bits & ((1 << form.exponent_bits) - 1)
    fraction = bits & ((1 << form.fraction_bits) - 1)
    if field == (1 << form.exponent_bits) - 1:
        return infinity(negative)
    if field:
        fraction |= 1 << form.fraction_bits
    exponent = max(field, 1) - form.bias - form.fraction_bits
    magnitude = Fraction(fraction << exponent) if exponent >= 0 else Fraction(fraction, 1 << -exponent)
    return Value(Kind.FINITE, negative, magnitude)


FORMATS: Final[dict[str, Format]] = {
    "f16": Format(5, 10),
    "bf16": Format(8, 7),
    "f32": Format(8, 23),
    "f64": Format(11, 52),
}
