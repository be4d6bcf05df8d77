"""Four small products at once: ``mma.m8n8k4`` of halves (PTX ISA 9.7.14.5.1), as first made for Volta.

Lanes 4q to 4q + 3 and 16 + 4q to 16 + 4q + 3 hold the matrices of product q.  The four are multiplied side
by side: a vector of 32 lanes has column j of product q at 8q + j, and an element of a eight times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zcuda_async.jit.builder import Builder, Type
from zcuda_async.jit.lower.half import narrow
from zcuda_async.jit.lower.matrix_elements import element, word
from zcuda_async.ptx.matrix import Fragment, Product

__all__ = ("multiply_quads",)

_LANES: Final = 32
_SIZE: Final = 8
_FLOATS: Final = Type("float", _LANES)
_CELLS: Final = [(q, column) for q in range(4) for column in range(_SIZE)]
"""The product and the column that each lane of a row of sums is of."""
Place = tuple[int, int]
"""One of several vectors, and a lane of it."""


def multiply_quads(b: Builder, product: Product, layouts: Sequence[str]) -> None:
    """The body of a function of %a, %b, %c and %d, arrays ``[register][lane]`` of words.

    Args:
        b: Where code goes.
        product: Its matrices.
        layouts: Of a and b: ``row`` or ``col``.
    """
    a, factor, sums = (
        _elements(b, part, name) for part, name in ((product.a, "%a"), (product.b, "%b"), (product.c, "%c"))
    )
    by_row, by_column = layouts[0] == "row", layouts[1] == "col"
    rows_of_b = [_pick(b, factor, [_place_of_factor(q, j, k, by_column) for q, j in _CELLS]) for k in range(product.k)]
    results = []
    for i in range(_SIZE):
        total = _pick(b, sums, [_place_of_sum(product.c.type, q, i, j) for q, j in _CELLS])
        for k, row in enumerate(rows_of_b):
            spread = _pick(b, a, [_place_of_factor(q, i, k, by_row) for q, _ in _CELLS])
            total = b.intrinsic("fma", _FLOATS, spread, row, total)
        results.append(total)
    _store(b, product.d, results)


def _elements(b: Builder, fragment: Fragment, source: str) -> list[str]:
    """What the lanes hold, as f32: a vector for each place."""
    words = [word(b, source, fragment, register) for register in range(fragment.registers)]
    return [element(b, fragment, each, index, "float") for each in words for index in range(fragment.per_register)]


def _pick(b: Builder, sources: Sequence[str], places: Sequence[Place]) -> str:
    """A vector of 32 lanes, each from where `places` says."""
    result = "poison"
    for index in sorted({source for source, _ in places}):
        mask = [_LANES + lane if source == index else at for at, (source, lane) in enumerate(places)]
        result = b.shuffle(_FLOATS, result, sources[index], mask)
    return result


def _lane(q: int, line: int) -> int:
    """The lane of product q that has a line (a row or a column) of a matrix to itself."""
    return 4 * q + line % 4 + line // 4 * 16


def _place_of_factor(q: int, line: int, k: int, whole_lines: bool) -> Place:
    """Element k of a row of a, or a column of b: lanes have whole lines, or four lines' elements of one k."""
    return (k, _lane(q, line)) if whole_lines else (line % 4, _lane(q, line // 4 * 4 + k))


def _place_of_sum(kind: str, q: int, row: int, column: int) -> Place:
    """Halves: a lane has a row.  f32: a lane of each pair of rows has every other pair of columns."""
    if kind == "f16":
        return column, _lane(q, row)
    return column & 4 | row & 2 | column & 1, _lane(q, row & 4 | column & 2 | row & 1)


def _store(b: Builder, fragment: Fragment, rows: Sequence[str]) -> None:
    """Write the registers of d; `rows` has the sums of all four products, side by side."""
    where = {
        _place_of_sum(fragment.type, q, row, column): (row, lane)
        for row in range(_SIZE)
        for lane, (q, column) in enumerate(_CELLS)
    }
    values = [_pick(b, rows, [where[place, lane] for lane in range(_LANES)]) for place in range(_SIZE)]
    if fragment.type == "f16":
        half = Type("half", _LANES)
        halves = [narrow(b, _FLOATS, value, half, "rn", finite=False) for value in values]
        both = [lane + _LANES * e for lane in range(_LANES) for e in range(2)]
        values = [b.shuffle(half, halves[e], halves[e + 1], both) for e in range(0, _SIZE, 2)]
    kind = Type("half", 2 * _LANES) if fragment.type == "f16" else _FLOATS
    for register, value in enumerate(values):
        at = b.op(f"getelementptr i32, ptr %d, i32 {register * _LANES}")
        b.line(f"store {kind} {value}, ptr {at}, align 64")
