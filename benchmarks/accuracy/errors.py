"""Comparing what an instruction gave with what is exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import numpy as np

from benchmarks.accuracy.formats import Array, Doubles, Format
from benchmarks.accuracy.functions import Family, Function, Range

__all__ = ("Errors", "Worst", "compare", "is_rounded")

_DOUBTFUL: Final = 0.5 - 2.0**-9
"""From this many units on, a longdouble does not say whether a float64 is the nearest one."""


@dataclass(slots=True)
class Worst:
    """The largest error seen in a range, and the bit patterns of the operands it belongs to."""

    error: float = 0.0
    ulps: float = 0.0
    at: tuple[int, ...] | None = None

    def take(self, other: Worst) -> None:
        """Keep the larger of the two."""
        if other.error > self.error or self.at is None:
            self.error, self.at = other.error, other.at
        self.ulps = max(self.ulps, other.ulps)


@dataclass(slots=True)
class Errors:
    """What was found for one instruction: the worst of each range, and results that are wrong in kind.

    `wrong` holds the operands where one of the two is NaN, where a zero has the wrong sign, or where bits that
    must be zero are not; at most a few, and `wrong_count` says how many there were.
    """

    function: Function
    worst: dict[str, Worst] = field(default_factory=dict)
    wrong: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    wrong_count: int = 0

    def note(self, what: str, mask: Array, bits: Sequence[Array]) -> None:
        """Record samples where something is wrong in kind."""
        count = int(np.count_nonzero(mask))
        self.wrong_count += count
        if count and len(self.wrong) < 4:
            at = int(np.argmax(mask))
            self.wrong.append((what, tuple(int(operand[at]) for operand in bits)))

    def verdict(self, part: Range) -> str:
        """Whether a range keeps its limit: "within", "over", or "-" where there is none."""
        worst = self.worst.get(part.text)
        if part.limit is None or worst is None:
            return "-"
        return "within" if worst.error <= part.limit else "over"

    @property
    def is_within(self) -> bool:
        """Whether no result is wrong in kind and no range is over its limit."""
        return not self.wrong_count and all(self.verdict(part) != "over" for part in self.function.ranges)


def compare(errors: Errors, family: Family, bits: Sequence[Array], values: Sequence[Doubles], want: Doubles,
            result: Array) -> None:  # fmt: skip
    """Add one block of samples: operands as `bits` and `values`, the exact results, and the instruction's."""
    form, function = family.format, errors.function
    got = form.decode(result)
    missing = np.isnan(want)
    errors.note("NaN", np.isnan(got) != missing, bits)
    errors.note("sign of zero", (want == 0) & ((np.signbit(got) != np.signbit(want)) | (got != 0)), bits)
    if function.zero_bits:
        errors.note("low bits", (result & result.dtype.type((1 << function.zero_bits) - 1)) != 0, bits)
    want = form.bounded(want)
    off = np.abs(form.bounded(got.astype(want.dtype)) - want)
    ulps = off / form.units(want)
    for part in function.ranges:
        inside = part.holds(*values)
        errors.worst.setdefault(part.text, Worst()).take(
            _worst(errors, form, part, inside, bits, off, ulps, want, result)
        )


def _worst(errors: Errors, form: Format, part: Range, inside: Array, bits: Sequence[Array], off: Doubles,
           ulps: Doubles, want: Doubles, result: Array) -> Worst:  # fmt: skip
    in_ulps = np.where(inside, ulps, 0)
    most = np.fmax.reduce(in_ulps)
    if not most > 0:
        return Worst()
    if part.kind == "relative":
        with np.errstate(divide="ignore", invalid="ignore"):
            measure = np.where(inside, off / np.abs(want), 0)
    else:
        measure = in_ulps if part.kind == "ulp" else np.where(inside, off, 0)
    at = int(np.nanargmax(measure))
    error, most = float(measure[at]), float(most)
    if part.limit == 0.5 and form.width == 64 and error > _DOUBTFUL:
        for index in np.flatnonzero(in_ulps > _DOUBTFUL):
            operands = [operand.view(np.float64)[index] for operand in bits]
            is_nearest = is_rounded(errors.function.spelling, operands, result.view(np.float64)[index])
            errors.note("rounding", np.arange(len(result)) == (-1 if is_nearest else index), bits)
        error = most = min(error, 0.5)
    return Worst(error, most, tuple(int(operand[at]) for operand in bits))


def is_rounded(spelling: str, operands: Sequence[float], result: float) -> bool:
    """Whether `result` is a float64 nearest to the exact quotient, reciprocal or root: by integers."""
    y, half = Fraction(float(result)), Fraction(float(np.spacing(np.abs(result)))) / 2
    exact = [Fraction(float(operand)) for operand in operands]
    if spelling.startswith("sqrt"):
        return (y - half) ** 2 <= exact[0] <= (y + half) ** 2
    above, below = exact if spelling.startswith("div") else (Fraction(1), exact[0])
    return abs(above - y * below) <= half * abs(below)
