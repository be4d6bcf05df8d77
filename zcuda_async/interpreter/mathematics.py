"""The functions that PTX only asks to be approximated, by way of the C library's doubles.

A double has 29 more bits than an f32, so rounding it to f32 gives the nearest value in all but a few
cases in a billion; whoever compares with these allows the error that PTX states anyway.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from zcuda_async.interpreter import exact
from zcuda_async.interpreter.exact import NAN, Value

__all__ = ("cosine", "exp2", "hyperbolic_tangent", "log2", "reciprocal_root", "sine")

_HUGE = 1 << 12
"""Beyond this, 2**x is zero or infinite in every format here."""


def reciprocal_root(a: Value) -> Value:
    """1 / sqrt a, exact to over 60 bits; of -0 it is -infinity."""
    if a.is_infinite and not a.negative:
        return exact.finite(0)
    if a.is_nan or a.is_infinite or a.is_zero:
        return exact.infinity(a.negative) if a.is_zero else NAN
    return exact.square_root(exact.divide(exact.finite(1), a))


def exp2(a: Value) -> Value:
    """2**a."""
    if a.is_nan:
        return a
    if a.is_infinite or a.magnitude > _HUGE:
        return exact.finite(0) if a.negative else exact.infinity()
    whole = math.floor(a.signed)
    power = Fraction(2) ** whole
    return exact.finite(Fraction(math.exp2(float(a.signed - whole))) * power)


def log2(a: Value) -> Value:
    """The binary logarithm."""
    if a.is_nan or a.is_zero:
        return a if a.is_nan else exact.infinity(negative=True)
    if a.negative:
        return NAN
    return a if a.is_infinite else exact.finite(Fraction(math.log2(a.magnitude)))


def _through_double(function: Callable[[float], float]) -> Callable[[Value], Value]:
    """An odd or even function that has no value at infinity."""

    def compute(a: Value) -> Value:
        if a.is_nan or a.is_infinite:
            return NAN
        x = math.copysign(float(a.magnitude), -1.0 if a.negative else 1.0)
        y = function(x)
        return exact.finite(Fraction(y), negative_zero=math.copysign(1.0, y) < 0)

    return compute


sine = _through_double(math.sin)
cosine = _through_double(math.cos)
_tanh = _through_double(math.tanh)


def hyperbolic_tangent(a: Value) -> Value:
    """Tanh a; 1 and -1 at the infinities."""
    return exact.finite(-1 if a.negative else 1) if a.is_infinite else _tanh(a)
