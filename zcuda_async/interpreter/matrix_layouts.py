"""Where the lanes of a warp have the elements of matrices: the figures of the manual's 9.7.14, as formulas.

The layouts of ``wmma``, which the manual leaves open, are row-major over the lanes, but for factors of
less than 8 bits, which are laid out as for ``mma``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from zcuda_async.ptx.matrix import ELEMENT_BITS, Fragment, Product

__all__ = ("Cell", "Where", "partners", "place", "place_in_quad")

_WARP: Final = 32
Cell = tuple[int, int]
"""Row and column."""
Where = Callable[[Fragment, str, int, int, int], Cell]
"""(fragment, which of a, b, c and d it is, lane, register, element in the register) → cell."""


def place(fragment: Fragment, role: str, lane: int, register: int, element: int) -> Cell:
    """One element of a fragment of a whole warp."""
    return (_linear if fragment.is_linear else _drawn)(fragment, role, lane, register, element)


def _drawn(fragment: Fragment, role: str, lane: int, register: int, element: int) -> Cell:
    group, thread = divmod(lane, 4)
    each = fragment.per_register
    if role == "a":
        if fragment.rows == 8:
            return group, 4 * each * register + each * thread + element
        upper, block = register % 2, register // 2
        return group + 8 * upper, 4 * each * block + each * thread + element
    if role == "b":
        return 4 * each * register + each * thread + element, group
    index = register * each + element
    return group + 8 * (index // 2), 2 * thread + index % 2


def _linear(fragment: Fragment, _: str, lane: int, register: int, element: int) -> Cell:
    """Numbered through, and beginning again where there are more places than elements."""
    at = (register * _WARP + lane) * fragment.per_register + element
    return divmod(at % (fragment.rows * fragment.columns), fragment.columns)


def place_in_quad(layouts: Mapping[str, str]) -> Where:
    """Where eight lanes have what ``mma.m8n8k4`` of halves multiplies; `layouts` are those of a and b."""

    def where(fragment: Fragment, role: str, lane: int, register: int, element: int) -> Cell:
        index, high = register * fragment.per_register + element, 4 if lane >= 16 else 0
        if role in layouts:
            # A lane has four elements in the direction of the layout.
            row, column = (lane % 4, index) if layouts[role] == "row" else (index, lane % 4)
            return (row + high, column) if role == "a" else (row, column + high)
        if fragment.type == "f16":
            return lane % 4 + high, index
        return (lane & 1) + (index & 2) + high, (index & 4) + (lane & 2) + (index & 1)

    return where


# ---------------------------------------------------------------------- sparse factors


def partners(product: Product, selector: int, metadata: Mapping[int, int]) -> dict[Cell, int]:
    """For each element of a sparse a, (row, place among the stored), its column: the row of b that it meets.

    `metadata` is each lane's word.  A chunk of a row has four bits: two numbers of two bits each, from the lowest.
    """
    kind = product.a.type
    chunk, stored = {"tf32": (2, 1), "s4": (8, 4), "u4": (8, 4)}.get(kind, (4, 2))
    found: dict[Cell, int] = {}
    for row in range(product.m):
        for number in range(product.k // chunk):
            lane, shift = _metadata_at(product, selector, row, number)
            four = metadata[lane] >> shift & 15
            for index, inside in enumerate(_positions(kind, four)):
                found[row, number * stored + index] = number * chunk + inside
    return found


def _metadata_at(product: Product, selector: int, row: int, chunk: int) -> tuple[int, int]:
    """The lane and the lowest bit of what is said about a chunk of a row."""
    first = row % 8 * 4
    if ELEMENT_BITS[product.a.type] >= 16:  # words are of both rows of a group, four chunks each
        words = product.a.registers // 2
        return first + selector * words + chunk // 4, row // 8 * 16 + chunk % 4 * 4
    return first + 2 * (selector + chunk // 8) + row // 8, chunk % 8 * 4


def _positions(kind: str, four: int) -> list[int]:
    """Where in its chunk each stored element is."""
    low, high = four & 3, four >> 2
    if kind == "tf32":  # 0b0100 is the first of two, 0b1110 the second
        return [low >> 1]
    if kind in ("s4", "u4"):
        return [2 * low, 2 * low + 1, 2 * high, 2 * high + 1]
    return [low, high]
