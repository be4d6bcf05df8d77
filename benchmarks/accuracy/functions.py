"""The table: every approximate instruction, what it is compared with, and the error that the PTX manual allows it.

The limits are those of the PTX ISA manual, sections 9.7.3 (floating point) and 9.7.4 (half precision).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from benchmarks.accuracy.formats import FORMATS, Doubles, Format

__all__ = ("FAMILIES", "FUNCTIONS", "Family", "Function", "Range")

Bools = npt.NDArray[np.bool_]
Specials = tuple[tuple[float, float], ...]
_INF: Final = float("inf")
_NAN: Final = float("nan")


@dataclass(frozen=True, slots=True)
class Range:
    """Some of the inputs, and the largest error they may have.

    `kind` is how the manual measures it there: "ulp", "relative" or "absolute".  `limit` is None where the
    manual states none, and 0 where it gives the result itself.
    """

    text: str
    holds: Callable[..., Bools]
    kind: str
    limit: float | None
    limit_text: str


@dataclass(frozen=True, slots=True)
class Function:
    """One instruction.

    `flushed` is its ``.ftz`` spelling: that must give, bit for bit, what the instruction itself gives for flushed
    inputs, flushed.  `specials` are inputs with the result that the manual's table gives.  `pair` is the spelling
    for two packed halves.  `zero_bits` low bits of the result are always zero.
    """

    spelling: str
    section: str
    ranges: tuple[Range, ...]
    specials: Specials = ()
    flushed: str | None = None
    pair: str | None = None
    zero_bits: int = 0


@dataclass(frozen=True, slots=True)
class Family:
    """Instructions with one exact result.

    `reference` takes float64 arrays; its result is float64 for the narrower formats, whose 29 further bits make
    its own error invisible, and longdouble for f64.  `step` is the distance between the bit patterns of samples
    where there are too many inputs for all of them, one for each operand; odd, so it goes through all there are.
    """

    format: Format
    reference: Callable[..., Doubles]
    functions: tuple[Function, ...]
    steps: tuple[int, ...] = ()

    @property
    def arguments(self) -> int:
        """Operands of the instructions."""
        return max(1, len(self.steps))


def _all(*operands: Doubles) -> Bools:
    return np.ones(operands[0].shape, np.bool_)


def _everywhere(kind: str, limit: float | None, text: str) -> tuple[Range, ...]:
    return (Range("all", _all, kind, limit, text),)


def _ulps(limit: float) -> tuple[Range, ...]:
    return _everywhere("ulp", limit, f"{limit:g} ulp" + (" (correctly rounded)" if limit == 0.5 else ""))


def _power(exponent: float) -> str:
    return f"2^{exponent:g}"


_TURN: Final = 2 * np.pi
_ANGLES: Final = (
    Range("abs(x) ≤ 2π", lambda x: np.abs(x) <= _TURN, "absolute", 2.0**-20.5, f"{_power(-20.5)} absolute"),
    Range(
        "2π < abs(x) ≤ 100π",
        lambda x: (np.abs(x) > _TURN) & (np.abs(x) <= 50 * _TURN),
        "absolute",
        2.0**-14.7,
        f"{_power(-14.7)} absolute",
    ),
    Range("100π < abs(x)", lambda x: np.abs(x) > 50 * _TURN, "absolute", None, "none stated (best effort)"),
)
_LOGARITHMS: Final = (
    Range("0.5 < x < 2", lambda x: (x > 0.5) & (x < 2), "absolute", 2.0**-22, f"{_power(-22)} absolute"),
    Range("other x", lambda x: (x <= 0.5) | (x >= 2), "relative", 2.0**-22, f"{_power(-22)} relative"),
)
_QUOTIENTS: Final = (
    Range(
        "2^-126 ≤ abs(b) ≤ 2^126", lambda _, b: (np.abs(b) >= 2.0**-126) & (np.abs(b) <= 2.0**126), "ulp", 2, "2 ulp"
    ),
    Range("2^126 < abs(b)", lambda _, b: np.abs(b) > 2.0**126, "ulp", 0, "exactly 0, NaN for infinite a"),
    Range("abs(b) < 2^-126", lambda _, b: np.abs(b) < 2.0**-126, "ulp", None, "none stated"),
)

_RECIPROCAL: Final = ((-_INF, -0.0), (-0.0, -_INF), (0.0, _INF), (_INF, 0.0), (_NAN, _NAN))
_ROOT: Final = ((-_INF, _NAN), (-1.0, _NAN), (-0.0, -0.0), (0.0, 0.0), (_INF, _INF), (_NAN, _NAN))
_RECIPROCAL_ROOT: Final = ((-_INF, _NAN), (-1.0, _NAN), (-0.0, -_INF), (0.0, _INF), (_INF, 0.0), (_NAN, _NAN))
_POWER: Final = ((-_INF, 0.0), (-0.0, 1.0), (0.0, 1.0), (_INF, _INF), (_NAN, _NAN))
_TANGENT: Final = ((-_INF, -1.0), (-0.0, -0.0), (0.0, 0.0), (_INF, 1.0), (_NAN, _NAN))
_TINY: Final = ((-1e-310, -_INF), (1e-310, _INF))


def _reciprocal_root(x: Doubles) -> Doubles:
    return 1 / np.sqrt(x)


def _divide_far(a: Doubles, b: Doubles) -> Doubles:
    """``div.approx``: the reciprocal of what is beyond 2^126 counts as zero."""
    return a / np.where(np.abs(b) > 2.0**126, np.copysign(np.inf, b), b)


def _upper(function: Callable[[Doubles], Doubles]) -> Callable[[Doubles], Doubles]:
    """``.approx.ftz.f64``: only the upper words count, and subnormal numbers are zeros."""

    def compute(x: Doubles) -> Doubles:
        bits = x.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)
        y = function(FORMATS["f64"].flush(bits).view(np.float64).astype(np.longdouble))
        return np.where(np.abs(y) < np.ldexp(np.longdouble(1), -1022), np.copysign(np.longdouble(0), y), y)

    return compute


def _wide(function: Callable[..., Doubles]) -> Callable[..., Doubles]:
    return lambda *operands: function(*(operand.astype(np.longdouble) for operand in operands))


def _flushing(function: Callable[[Doubles], Doubles]) -> Callable[[Doubles], Doubles]:
    """``ex2.approx.ftz.bf16``: no other spelling exists."""

    def compute(x: Doubles) -> Doubles:
        y = function(np.where(np.abs(x) < 2.0**-126, np.copysign(0.0, x), x))
        return np.where(np.abs(y) < 2.0**-126, np.copysign(0.0, y), y)

    return compute


_F16, _BF16, _F32, _F64 = (FORMATS[name] for name in ("f16", "bf16", "f32", "f64"))
_WORDS: Final = (0x9E3779B9, 0x85EBCA6B)
_LONGS: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
_GROSS: Final = _everywhere("relative", None, "none stated (gross)")

FAMILIES: Final = (
    Family(
        _F32,
        np.exp2,
        (Function("ex2.approx.f32", "9.7.3.21", _ulps(2), _POWER, "ex2.approx.ftz.f32"),),
    ),
    Family(
        _F32,
        np.log2,
        (
            Function(
                "lg2.approx.f32",
                "9.7.3.20",
                _LOGARITHMS,
                ((-_INF, _NAN), (-1.0, _NAN), (-0.0, -_INF), (0.0, -_INF), (1.0, 0.0), (_INF, _INF), (_NAN, _NAN)),
                "lg2.approx.ftz.f32",
            ),
        ),
    ),
    Family(
        _F32,
        np.sin,
        (
            Function(
                "sin.approx.f32",
                "9.7.3.18",
                _ANGLES,
                ((-_INF, _NAN), (-0.0, -0.0), (0.0, 0.0), (_INF, _NAN), (_NAN, _NAN)),
                "sin.approx.ftz.f32",
            ),
        ),
    ),
    Family(
        _F32,
        np.cos,
        (
            Function(
                "cos.approx.f32",
                "9.7.3.19",
                _ANGLES,
                ((-_INF, _NAN), (-0.0, 1.0), (0.0, 1.0), (_INF, _NAN), (_NAN, _NAN)),
                "cos.approx.ftz.f32",
            ),
        ),
    ),
    Family(
        _F32,
        np.tanh,
        (
            Function(
                "tanh.approx.f32",
                "9.7.3.22",
                _everywhere("relative", 2.0**-11, f"{_power(-11)} relative"),
                (*_TANGENT, (1e-45, 1e-45), (-1e-39, -1e-39)),
            ),
        ),
    ),
    Family(
        _F32,
        np.reciprocal,
        (
            Function("rcp.approx.f32", "9.7.3.13", _ulps(1), _RECIPROCAL, "rcp.approx.ftz.f32"),
            Function("rcp.rn.f32", "9.7.3.13", _ulps(0.5), _RECIPROCAL, "rcp.rn.ftz.f32"),
        ),
    ),
    Family(
        _F32,
        np.sqrt,
        (
            Function(
                "sqrt.approx.f32",
                "9.7.3.15",
                _everywhere("relative", 2.0**-23, f"{_power(-23)} relative"),
                _ROOT,
                "sqrt.approx.ftz.f32",
            ),
            Function("sqrt.rn.f32", "9.7.3.15", _ulps(0.5), _ROOT, "sqrt.rn.ftz.f32"),
        ),
    ),
    Family(
        _F32,
        _reciprocal_root,
        (
            Function(
                "rsqrt.approx.f32",
                "9.7.3.16",
                _everywhere("relative", 2.0**-22.9, f"{_power(-22.9)} relative"),
                _RECIPROCAL_ROOT,
                "rsqrt.approx.ftz.f32",
            ),
        ),
    ),
    Family(_F32, _divide_far, (Function("div.approx.f32", "9.7.3.8", _QUOTIENTS),), _WORDS),
    Family(
        _F32,
        np.divide,
        (Function("div.full.f32", "9.7.3.8", _ulps(2)), Function("div.rn.f32", "9.7.3.8", _ulps(0.5))),
        _WORDS,
    ),
    Family(
        _F16,
        np.exp2,
        (
            Function(
                "ex2.approx.f16",
                "9.7.4.10",
                (
                    Range("normal results", lambda x: ~(x < -14), "relative", 2.0**-9.9, f"{_power(-9.9)} relative"),
                    Range("subnormal results", lambda x: x < -14, "ulp", 0.75, "half a unit and that"),
                ),
                _POWER,
                pair="ex2.approx.f16x2",
            ),
        ),
    ),
    Family(
        _BF16,
        _flushing(np.exp2),
        (
            Function(
                "ex2.approx.ftz.bf16",
                "9.7.4.10",
                _everywhere("relative", 2.0**-7, f"{_power(-7)} relative"),
                (*_POWER, (-1e-39, 1.0), (1e-39, 1.0)),
                pair="ex2.approx.ftz.bf16x2",
            ),
        ),
    ),
    Family(
        _F16,
        np.tanh,
        (
            Function(
                "tanh.approx.f16",
                "9.7.4.9",
                _everywhere("absolute", 2.0**-10.987, f"{_power(-10.987)} absolute"),
                _TANGENT,
                pair="tanh.approx.f16x2",
            ),
        ),
    ),
    Family(
        _BF16,
        np.tanh,
        (
            Function(
                "tanh.approx.bf16",
                "9.7.4.9",
                _everywhere("absolute", 2.0**-8, f"{_power(-8)} absolute"),
                _TANGENT,
                pair="tanh.approx.bf16x2",
            ),
        ),
    ),
    Family(
        _F64,
        _upper(np.reciprocal),
        (Function("rcp.approx.ftz.f64", "9.7.3.14", _GROSS, (*_RECIPROCAL, *_TINY), zero_bits=32),),
        _LONGS[:1],
    ),
    Family(
        _F64,
        _upper(_reciprocal_root),
        (Function("rsqrt.approx.ftz.f64", "9.7.3.17", _GROSS, (*_RECIPROCAL_ROOT, *_TINY), zero_bits=32),),
        _LONGS[:1],
    ),
    Family(
        _F64,
        _wide(_reciprocal_root),
        (Function("rsqrt.approx.f64", "9.7.3.16", _everywhere("relative", None, "none stated"), _RECIPROCAL_ROOT),),
        _LONGS[:1],
    ),
    Family(_F64, _wide(np.reciprocal), (Function("rcp.rn.f64", "9.7.3.13", _ulps(0.5), _RECIPROCAL),), _LONGS[:1]),
    Family(_F64, _wide(np.sqrt), (Function("sqrt.rn.f64", "9.7.3.15", _ulps(0.5), _ROOT),), _LONGS[:1]),
    Family(_F64, _wide(np.divide), (Function("div.rn.f64", "9.7.3.8", _ulps(0.5)),), _LONGS),
)
FUNCTIONS: Final = {function.spelling: function for family in FAMILIES for function in family.functions}
