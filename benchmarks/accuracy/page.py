"""The page that shows what was measured: docs/accuracy.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from benchmarks.accuracy.errors import Errors
from benchmarks.accuracy.functions import FAMILIES, Family, Range
from benchmarks.accuracy.sweep import Sweep

__all__ = ("as_rows", "format_rows", "page")

_HEAD: Final = """\
# How exact the approximate instructions are

Made by `python -m benchmarks.accuracy --update-docs`; do not edit. Measured on {processor}, {lanes} lanes of f32.

One-argument instructions of f32, f16 and bf16 are evaluated for **every** bit pattern; two-argument and f64 ones for
as many as the table says, spread evenly over all patterns. The reference is numpy in float64, whose own error is below
2^-26 units in the last place (ulp) of an f32; for f64 it is the x87 long double with 64 bits, and where that cannot
tell whether a result is the nearest float64, integers do. An error is |result - exact|; infinity counts as the power of
two beyond the format's range, so an overflow that should not be one is a large error. Units are those of the exact
value: near a zero of the function, for large angles, a small error has many.

Not in the columns but checked for each input as well (the verdict would be "wrong"): NaN exactly where the exact result
is none, zeros with their sign, the manual's tables of special inputs; `.ftz` gives bit for bit what the plain spelling
gives for flushed inputs, flushed; the packed spellings (`f16x2`, `bf16x2`) give bit for bit what the plain ones give
for each half; and the low 32 bits of `.approx.ftz.f64` are zero.

Limits are those of the PTX ISA manual, in the section named. The code for processors without AVX-512 differs in `ex2`
and `rsqrt`; `tests/test_accuracy.py` holds it to the same limits, for 2^17 inputs of each function and the worst ones.

"""
_COLUMNS: Final = ("instruction", "inputs", "range", "the manual's limit", "largest error", "in ulp", "at", "verdict")


def as_rows(sweeps: Iterable[tuple[Family, Sweep]]) -> list[dict[str, Any]]:
    """One row for each instruction and range; what JSON files hold."""
    return [
        _row(family, done, errors, part)
        for family, done in sweeps
        for errors in done.errors.values()
        for part in errors.function.ranges
    ]


def _row(family: Family, done: Sweep, errors: Errors, part: Range) -> dict[str, Any]:
    function, worst = errors.function, errors.worst[part.text]
    others = [name for name in (function.flushed, function.pair) if name]
    return {
        "instruction": function.spelling,
        "also": others,
        "section": function.section,
        "inputs": done.inputs.count,
        "range": part.text,
        "limit": part.limit,
        "limit_text": part.limit_text,
        "kind": part.kind,
        "error": worst.error,
        "ulps": worst.ulps,
        "at": [_input(family, bits) for bits in worst.at or ()],
        "verdict": errors.verdict(part) if not errors.wrong_count else "wrong",
        "wrong": [f"{what}: {', '.join(map(hex, bits))}" for what, bits in errors.wrong],
        "wrong_count": errors.wrong_count,
    }


def _input(family: Family, bits: int) -> str:
    value = family.format.decode(np.array([bits], family.format.word))[0]
    return f"{value:.9g} (0x{bits:0{family.format.width // 4}x})"


def _figure(row: Mapping[str, Any]) -> str:
    if row["kind"] == "ulp":
        return f"{row['ulps']:.4g} ulp"
    power = f"2^{np.log2(row['error']):.2f}" if row["error"] else "0"
    return f"{power} {row['kind']}"


def format_rows(rows: Iterable[Mapping[str, Any]]) -> str:
    """The rows as a Markdown table."""
    lines = ["| " + " | ".join(_COLUMNS) + " |", "|" + " --- |" * len(_COLUMNS)]
    for row in rows:
        names = "<br>".join(f"`{name}`" for name in [row["instruction"], *row["also"]])
        count = f"2^{np.log2(row['inputs']):g}" if row["inputs"] & (row["inputs"] - 1) == 0 else f"{row['inputs']:,}"
        at = ", ".join(row["at"]) or "-"
        limit = f"{row['limit_text']}, {row['section']}"
        cells = [names, count, row["range"], limit, _figure(row), f"{row['ulps']:.4g}", at, row["verdict"]]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def page(rows: list[dict[str, Any]], processor: str, lanes: int) -> str:
    """The whole page; rows in the table's order."""
    order = [function.spelling for family in FAMILIES for function in family.functions]
    rows = sorted(rows, key=lambda row: order.index(row["instruction"]))
    return _HEAD.format(processor=processor, lanes=lanes) + format_rows(rows)
