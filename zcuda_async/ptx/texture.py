"""The shape of the operands of instructions for textures and surfaces (PTX ISA 9.7.10 and 9.7.11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from zcuda_async.ptx.ir import TYPE_BITS, Address, Immediate, Instruction, Operand, Register, Sink, VectorOperand

__all__ = (
    "GEOMETRIES",
    "QUERIES",
    "Geometry",
    "elements_of",
    "geometry_of",
    "handle_rule",
    "texture_rule",
    "texture_vectors",
)

QUERIES: Final[Mapping[str, str]] = {
    "channel_data_type": "channel_data_type",
    "channel_order": "channel_order",
    "normalized_coords": "is_normalized",
    "array_size": "array_size",
    "num_mipmap_levels": "levels",
    "num_samples": "samples",
    "force_unnormalized_coords": "is_unnormalized",
    "filter_mode": "is_linear",
    "addr_mode_0": "asked_mode_0",
    "addr_mode_1": "asked_mode_1",
    "addr_mode_2": "asked_mode_2",
    "memory_layout": "memory_layout",
}
"""The header's field for each attribute that ``txq`` and ``suq`` ask for, besides the sizes of a level."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """How an instruction's coordinates are laid out.

    `axes` of them say where in an image (3 for a cube: a direction), after a layer's number if there are layers;
    vectors of three are written with a fourth element without meaning.
    """

    axes: int
    is_layered: bool = False
    is_cube: bool = False

    @property
    def coordinates(self) -> int:
        """Elements of the coordinate vector."""
        count = self.axes + self.is_layered
        return 4 if count == 3 else count

    @property
    def vector(self) -> int:
        """Elements of a vector that has one number for each axis (gradients, offsets)."""
        return 4 if self.axes == 3 else self.axes


GEOMETRIES: Final[Mapping[str, Geometry]] = {
    "1d": Geometry(1),
    "2d": Geometry(2),
    "3d": Geometry(3),
    "a1d": Geometry(1, is_layered=True),
    "a2d": Geometry(2, is_layered=True),
    "cube": Geometry(3, is_cube=True),
    "acube": Geometry(3, is_layered=True, is_cube=True),
}


def geometry_of(instruction: Instruction) -> Geometry:
    """The geometry that an instruction names."""
    return next(GEOMETRIES[part] for part in instruction.modifiers if part in GEOMETRIES)


def elements_of(operand: Operand) -> tuple[Operand, ...]:
    """The elements of a vector; the braces around a single one may be left out."""
    return operand.elements if isinstance(operand, VectorOperand) else (operand,)


def handle_rule(item: Instruction, _context: object) -> str | None:
    """Whether the handle is in a 64-bit register."""
    place = next(operand for operand in item.operands if isinstance(operand, Address))
    if isinstance(place.base, Register) and TYPE_BITS[place.base.type] == 64 and not place.offset:
        return None
    return "the handle of a texture or surface must be in a 64-bit register (bindless)"


def texture_vectors(item: Instruction) -> dict[int, tuple[str, int]]:
    """What the operands after the handle are, and how many elements they have, by their index."""
    geometry = geometry_of(item)
    first = 1 if item.opcode in ("sust", "sured") else 2
    found = {first: ("the coordinates", geometry.coordinates)}
    if item.has("level"):
        found[first + 1] = ("the level", 1)
    elif item.has("grad"):
        found |= {first + 1: ("dPdx", geometry.vector), first + 2: ("dPdy", geometry.vector)}
    last = len(item.operands) - 1
    if item.opcode in ("tex", "tld4") and last > max(found):
        found[last] = ("the offset", geometry.vector)
    return found


def texture_rule(item: Instruction, context: object) -> str | None:
    """Whether coordinates, levels, gradients and offsets have as many elements as the geometry has, all of 32 bits."""
    problem = handle_rule(item, context)
    if problem:
        return problem
    if geometry_of(item).is_cube and item.types[-1] != "f32":
        return "a direction into a cube is of type .f32"
    for index, (what, count) in texture_vectors(item).items():
        problem = _vector_problem(item.operands[index], what, count)
        if problem:
            return problem
    return None


def _vector_problem(operand: Operand, what: str, count: int) -> str | None:
    elements = elements_of(operand)
    if what == "the offset" and len(elements) == 1 < count:
        return "depth textures, which compare with a value, are not supported"
    if len(elements) != count:
        return (
            f"{what} must be a vector of {count} elements, not {len(elements)}" if count > 1 else f"{what} must be one"
        )
    for element in elements:
        if isinstance(element, Register) and TYPE_BITS[element.type] == 32:
            continue
        if isinstance(element, Immediate):
            continue
        name = (
            element.name.partition("#")[0]
            if isinstance(element, Register)
            else "_"
            if isinstance(element, Sink)
            else ""
        )
        return f"the elements of {what} must be 32-bit registers or constants" + (f", not '{name}'" if name else "")
    return None
