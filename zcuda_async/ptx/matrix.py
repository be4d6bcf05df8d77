"""The shape of matrix instructions' operands: how many registers a fragment has, and what is in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
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
    """A matrix spread over a warp: each lane has `registers`, each of `per_register` elements of `type`."""

    type: str
    rows: int
    columns: int
    registers: int

    @property
    def per_register(self) -> int:
        """Elements in one register of 32 bits (64 for f64)."""
        return 1 if self.type == "f64" else 32 // ELEMENT_BITS[self.type]


@dataclass(frozen=True, slots=True)
class Product:
    """d = a x b + c of an ``mma`` or ``wmma.mma``; the sizes are those of the shape ``m{m}n{n}k{k}``."""

    m: int
    n: int
    k: int
    d: Fragment
    a: Fragment
    b: Fragment
    c: Fragment


def _shape(instruction: Instruction) -> tuple[int, int, int]:
    match = next(found for part in instruction.modifiers if (found := _SHAPE.match(part)))
    m, n, k = (int(number) for number in match.groups())
    return m, n, k


def _fragment(element: str, rows: int, columns: int, *, is_factor: bool, is_wmma: bool) -> Fragment:
    if is_wmma and is_factor and element == "f16":
        return Fragment(element, rows, columns, 8)  # fixed, whatever the shape
    width = 64 if element == "f64" else 32
    return Fragment(element, rows, columns, rows * columns * ELEMENT_BITS[element] // (width * _WARP))


def product_of(instruction: Instruction) -> Product:
    """The matrices of an ``mma`` or ``wmma.mma``."""
    m, n, k = _shape(instruction)
    types = instruction.types
    is_wmma = instruction.opcode == "wmma"
    d, a, b, c = types if len(types) == 4 else (types[0], "f16", "f16", types[1])
    factors = (("a", a, m, k), ("b", b, k, n))
    fragments = {
        name: _fragment(element, rows, columns, is_factor=True, is_wmma=is_wmma)
        for name, element, rows, columns in factors
    }
    sums = {name: _fragment(element, m, n, is_factor=False, is_wmma=is_wmma) for name, element in (("d", d), ("c", c))}
    return Product(m, n, k, sums["d"], fragments["a"], fragments["b"], sums["c"])


def fragment_of(instruction: Instruction) -> Fragment:
    """The matrix of a ``wmma.load`` or ``wmma.store``."""
    m, n, k = _shape(instruction)
    which = next((name for name in ("a", "b") if instruction.has(name)), "c")
    rows, columns = {"a": (m, k), "b": (k, n), "c": (m, n)}[which]
    return _fragment(instruction.types[0], rows, columns, is_factor=which != "c", is_wmma=True)


def fragment_operands(item: Instruction) -> tuple[Operand, ...]:
    """The operands that are fragments."""
    if len(item.operands) == 4:
        return item.operands
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
