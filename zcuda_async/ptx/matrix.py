"""The shape of matrix instructions' operands: how many registers a fragment has, and what is in them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from zcuda_async.ptx.ir import Instruction, Operand, VectorOperand

__all__ = (
    "ELEMENT_BITS",
    "Fragment",
    "Product",
    "elements_of",
    "fragment_of",
    "fragment_operands",
    "matrix_rule",
    "product_of",
    "register_counts",
)

ELEMENT_BITS: Final = {
    "f64": 64,
    "f32": 32,
    "s32": 32,
    "tf32": 32,
    "f16": 16,
    "bf16": 16,
    "e4m3": 8,
    "e5m2": 8,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "b1": 1,
}
_WARP: Final = 32
_SHAPE: Final = re.compile(r"m(\d+)n(\d+)k(\d+)\Z")


@dataclass(frozen=True, slots=True)
class Fragment:
    """A matrix spread over lanes: each has `registers`, each of `per_register` elements of `type`.

    `is_linear`: the layout is one that PTX leaves open (``wmma``), for which elements are numbered in
    row-major order, register by register, lane by lane; otherwise it is the manual's for ``mma``.
    A sparse factor has half of its `columns`.
    """

    type: str
    rows: int
    columns: int
    registers: int
    is_linear: bool = False

    @property
    def per_register(self) -> int:
        """Elements in one register of 32 bits (64 for f64)."""
        return 1 if self.type == "f64" else 32 // ELEMENT_BITS[self.type]


@dataclass(frozen=True, slots=True)
class Product:
    """d = a x b + c of an ``mma`` or ``wmma.mma``; the sizes are those of the shape ``m{m}n{n}k{k}``.

    `count` products are made at once, each by a warp's share of lanes.  `is_sparse`: half of a is left out.
    """

    m: int
    n: int
    k: int
    d: Fragment
    a: Fragment
    b: Fragment
    c: Fragment
    count: int = 1
    is_sparse: bool = False


def _shape(instruction: Instruction) -> tuple[int, int, int]:
    match = next(found for part in instruction.modifiers if (found := _SHAPE.match(part)))
    m, n, k = (int(number) for number in match.groups())
    return m, n, k


def _fragment(element: str, rows: int, columns: int, *, lanes: int = _WARP) -> Fragment:
    width = 64 if element == "f64" else 32
    return Fragment(element, rows, columns, rows * columns * ELEMENT_BITS[element] // (width * lanes))


def _open_fragment(element: str, rows: int, columns: int, *, is_factor: bool) -> Fragment:
    """A fragment of ``wmma``: factors of less than 8 bits are laid out as for ``mma``."""
    fragment = _fragment(element, rows, columns)
    if is_factor and element == "f16":
        return replace(fragment, registers=8, is_linear=True)  # fixed, whatever the shape
    return replace(fragment, is_linear=not (is_factor and ELEMENT_BITS[element] < 8))


def product_of(instruction: Instruction) -> Product:
    """The matrices of an ``mma`` or ``wmma.mma``."""
    m, n, k = _shape(instruction)
    types = instruction.types
    d, a, b, c = types if len(types) == 4 else (types[0], "f16", "f16", types[1])
    if instruction.opcode == "wmma":
        factors = (_open_fragment(e, *size, is_factor=True) for e, size in ((a, (m, k)), (b, (k, n))))
        sums = (_open_fragment(e, m, n, is_factor=False) for e in (d, c))
        (left, right), (result, start) = factors, sums
        return Product(m, n, k, result, left, right, start)
    count = 4 if k == 4 and a == "f16" else 1
    is_sparse = instruction.has("sp") or instruction.has("sp::ordered_metadata")
    lanes = _WARP // count
    return Product(
        m,
        n,
        k,
        d=_fragment(d, m, n, lanes=lanes),
        a=_fragment(a, m, k // 2 if is_sparse else k, lanes=lanes),
        b=_fragment(b, k, n, lanes=lanes),
        c=_fragment(c, m, n, lanes=lanes),
        count=count,
        is_sparse=is_sparse,
    )


def fragment_of(instruction: Instruction) -> Fragment:
    """The matrix of a ``wmma.load`` or ``wmma.store``."""
    m, n, k = _shape(instruction)
    which = next((name for name in ("a", "b") if instruction.has(name)), "c")
    rows, columns = {"a": (m, k), "b": (k, n), "c": (m, n)}[which]
    return _open_fragment(instruction.types[0], rows, columns, is_factor=which != "c")


def fragment_operands(item: Instruction) -> tuple[Operand, ...]:
    """The operands that are fragments."""
    if len(item.operands) >= 4:
        return item.operands[:4]
    is_store = item.opcode == "stmatrix" or item.has("store")
    return item.operands[1:2] if is_store else item.operands[:1]


def elements_of(operand: Operand) -> tuple[Operand, ...]:
    """A fragment's registers; the braces around a single one may be left out."""
    return operand.elements if isinstance(operand, VectorOperand) else (operand,)


def register_counts(instruction: Instruction) -> list[int]:
    """How many registers each fragment operand must have."""
    if instruction.opcode in ("ldmatrix", "stmatrix"):
        return [next(int(part[1:]) for part in instruction.modifiers if part in ("x1", "x2", "x4"))]
    if instruction.opcode == "wmma" and not instruction.has("mma"):
        return [fragment_of(instruction).registers]
    product = product_of(instruction)
    return [each.registers for each in (product.d, product.a, product.b, product.c)]


def matrix_rule(item: Instruction, _context: object) -> str | None:
    """What is wrong with the numbers of registers, for the verifier."""
    wanted = register_counts(item)
    given = [len(elements_of(operand)) for operand in fragment_operands(item)]
    if given == wanted:
        return None
    return f"has vectors of {', '.join(map(str, wanted))} registers, got {', '.join(map(str, given)) or 'none'}"
