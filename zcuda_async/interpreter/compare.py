"""Comparison and selection."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from zcuda_async.interpreter.bits import Compute, Factory, halves, is_float, mask, number
from zcuda_async.interpreter.exact import FORMATS, Value, finite
from zcuda_async.ptx.ir import Instruction
from zcuda_async.ptx.table_syntax import TYPE_WIDTHS

__all__ = ("COMPARE",)

Relation = Callable[[Any, Any], bool]
Test = Callable[[int, int], bool]

_RELATIONS: Final[dict[str, Relation]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
_UNSIGNED_NAMES: Final = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_UNORDERED_NAMES: Final = {"equ": "eq", "neu": "ne", "ltu": "lt", "leu": "le", "gtu": "gt", "geu": "ge"}
_TESTS: Final = frozenset((*_RELATIONS, *_UNSIGNED_NAMES, *_UNORDERED_NAMES, "num", "nan"))
_COMBINE: Final[dict[str, Callable[[int, int], int]]] = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}


def _comparable(value: Value) -> Fraction | float:
    """Something that orders like the value: rationals between the two infinities; -0 equals +0."""
    if value.is_infinite:
        return float("-inf") if value.negative else float("inf")
    return value.signed


def _test(instruction: Instruction, source: str) -> Test:
    name = next(modifier for modifier in instruction.modifiers if modifier in _TESTS)
    if not is_float(source):
        relation = _RELATIONS[_UNSIGNED_NAMES.get(name, name)]
        return lambda a, b: relation(number(a, source), number(b, source))
    form, flushes = FORMATS[source], instruction.has("ftz")

    def compare(a: int, b: int) -> bool:
        if flushes:
            a, b = form.flush(a), form.flush(b)
        x, y = form.decode(a), form.decode(b)
        if name in ("num", "nan"):
            return (x.is_nan or y.is_nan) == (name == "nan")
        if x.is_nan or y.is_nan:
            return name in _UNORDERED_NAMES
        return _RELATIONS[_UNORDERED_NAMES.get(name, name)](_comparable(x), _comparable(y))

    return compare


def _combiner(instruction: Instruction) -> Callable[[int, int], int]:
    return next((_COMBINE[name] for name in _COMBINE if instruction.has(name)), lambda truth, _: truth)


def _setp(instruction: Instruction) -> Compute:
    """Both p = (a cmp b) op c and q = !(a cmp b) op c; packed halves go to p and q."""
    source, combine = instruction.types[0], _combiner(instruction)
    if source.endswith("x2"):
        half = _test(instruction, source.removesuffix("x2"))

        def both(a: int, b: int, c: int = 0) -> tuple[int, int]:
            low, high = (int(half(x, y)) for x, y in zip(halves(a), halves(b), strict=True))
            return combine(low, c), combine(high, c)

        return both
    test = _test(instruction, source)

    def compute(a: int, b: int, c: int = 0) -> tuple[int, int]:
        truth = test(a, b)
        return combine(int(truth), c), combine(int(not truth), c)

    return compute


def _set(instruction: Instruction) -> Compute:
    """All ones, or 1.0, where the test holds."""
    to, source = instruction.types
    combine = _combiner(instruction)
    packed_source, packed_result = source.endswith("x2"), to.endswith("x2")
    test = _test(instruction, source.removesuffix("x2"))
    element = to.removesuffix("x2")
    true = FORMATS[element].encode(finite(1)) if is_float(to) else mask(TYPE_WIDTHS[to])
    half_true = true if packed_result else 0xFFFF

    def compute(a: int, b: int, c: int = 0) -> int:
        if not packed_source:
            return true if combine(int(test(a, b)), c) else 0
        low, high = (combine(int(test(x, y)), c) for x, y in zip(halves(a), halves(b), strict=True))
        return (half_true if low else 0) | (half_true if high else 0) << 16

    return compute


def _selp(_: Instruction) -> Compute:
    return lambda a, b, p: a if p else b


def _slct(instruction: Instruction) -> Compute:
    """A where c >= 0, else b; with NaN that is b, and ``.ftz`` makes a small negative c a zero."""
    control = instruction.types[1]
    if control == "s32":
        return lambda a, b, c: a if number(c, "s32") >= 0 else b
    form, flushes = FORMATS[control], instruction.has("ftz")

    def compute(a: int, b: int, c: int) -> int:
        value = form.decode(form.flush(c) if flushes else c)
        return a if not value.is_nan and (value.is_zero or not value.negative) else b

    return compute


COMPARE: Final[dict[str, Factory]] = {"setp": _setp, "set": _set, "selp": _selp, "slct": _slct}
