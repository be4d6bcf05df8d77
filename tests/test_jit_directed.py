"""Arithmetic rounded toward zero, up and down: machine code, interpreter and exact rational arithmetic agree."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from jit_harness import TARGETS
from scalar_tools import F32, F64, INFINITY, NAN, Form, Number, check_spelling, product, total

FORMS = {"f32": F32, "f64": F64}
ROUND = ("rz", "rm", "rp")


def rows_of(form: Form, operands: int, count: int = 160) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(operands)
    values = np.array(form.interesting(rng, 40), np.uint64)
    return [tuple(map(int, row)) for row in rng.choice(values, (count, operands))]


def add(mode: str, a: Number, b: Number) -> Number:
    value = total(a, b)
    if value == 0 and mode == "rm" and not (a == 0 and b == 0 and str(a) == str(b)):
        return -0.0
    return value


def quotient(a: Number, b: Number) -> Number:
    if a != a or b != b or (a == 0 and b == 0) or abs(a) == abs(b) == INFINITY:
        return NAN
    negative = str(a).startswith("-") != str(b).startswith("-")
    if b == 0 or abs(a) == INFINITY:
        return -INFINITY if negative else INFINITY
    if a == 0 or abs(b) == INFINITY:
        return -0.0 if negative else Fraction(0)
    return Fraction(a) / Fraction(b)


COMPUTE: dict[str, tuple[int, Callable[..., Number]]] = {
    "add": (2, add),
    "sub": (2, lambda mode, a, b: add(mode, a, product(b, Fraction(-1)))),
    "mul": (2, lambda _, a, b: product(a, b)),
    "fma": (3, lambda mode, a, b, c: add(mode, product(a, b), c)),
    "div": (2, lambda _, a, b: quotient(a, b)),
    "rcp": (1, lambda _, a: quotient(Fraction(1), a)),
}


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("opcode", list(COMPUTE))
def test_results_are_the_neighbours_that_the_mode_asks_for(opcode: str, kind: str) -> None:
    form = FORMS[kind]
    count, compute = COMPUTE[opcode]

    def want(mode: str) -> Callable[..., int]:
        return lambda *bits: form.bits(compute(mode, *map(form.value, bits)), mode)

    spellings = [f"{opcode}.{mode}.{kind}" for mode in ROUND]
    check_spelling(spellings, rows_of(form, count), [want(mode) for mode in ROUND], targets=TARGETS)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_roots_are_the_neighbours_that_the_mode_asks_for(kind: str) -> None:
    """Checked by squaring: the result rounded down is the last whose square does not pass the argument."""
    form = FORMS[kind]

    def want(mode: str) -> Callable[[int], int]:
        def run(bits: int) -> int:
            value = form.value(bits)
            if value != value or value == 0 or value < 0 or value == INFINITY:
                return bits if value == 0 or value == INFINITY else form.bits(NAN)
            low, high = 0, form.infinity
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if Fraction(form.value(middle)) ** 2 <= value else (low, middle)
            exact = Fraction(form.value(low)) ** 2 == value
            return low + (mode == "rp" and not exact)

        return run

    check_spelling([f"sqrt.{mode}.{kind}" for mode in ROUND], rows_of(form, 1), [want(mode) for mode in ROUND])
