"""What the handles of textures and surfaces lead to, and the shape of the operands of their instructions.

A handle is the address of a *header* in device memory: what a GPU keeps in its texture descriptors. Whoever makes
textures writes it (`pack_header`), the interpreter and machine code read it.  After the fields come the levels of the
mipmap, of which there is at least one: `LEVELS_OFFSET` + number * `LEVEL_SIZE`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zcuda_async.ptx.ir import TYPE_BITS, Address, Immediate, Instruction, Operand, Register, Sink, VectorOperand

__all__ = (
    "CONVERSIONS",
    "GEOMETRIES",
    "HEADER_FIELDS",
    "HEADER_SIZE",
    "LEVELS_OFFSET",
    "LEVEL_FIELDS",
    "LEVEL_SIZE",
    "MOST_LEVELS",
    "QUERIES",
    "SURFACE",
    "TEXTURE",
    "Geometry",
    "Level",
    "elements_of",
    "geometry_of",
    "handle_rule",
    "pack_header",
    "texture_rule",
    "texture_vectors",
)

TEXTURE: Final = 1
SURFACE: Final = 2
"""The kinds of handle, as the header's `kind`."""

CONVERSIONS: Final = ("raw", "signed", "half", "unorm", "snorm", "srgb")
"""What becomes of a channel as it lies in memory; the header has the index.

``raw`` extends with zeros and ``signed`` with the sign; ``half`` becomes f32; ``unorm`` is divided by the largest
value, ``snorm`` likewise and limited to -1; ``srgb`` is ``unorm`` and then made linear, except for alpha.
"""

_FIELDS: Final = (
    ("kind", "i32"),
    ("texel_bytes", "i32"),  # 1, 2, 4, 8 or 16
    ("channel_bits", "i32"),  # 8, 16 or 32
    ("channels", "i32"),  # 1, 2 or 4
    ("conversion", "i32"),
    ("alpha", "i32"),  # the bits of a fourth channel that the texture does not have: 1 or 1.0
    ("is_normalized", "i32"),  # whether coordinates go from 0 to 1
    ("is_linear", "i32"),  # whether texels are filtered
    ("is_level_linear", "i32"),  # whether levels are
    ("address_x", "i32"),  # 0 wrap, 1 clamp, 2 mirror, 3 border; wrap and mirror only if coordinates are normalized
    ("address_y", "i32"),
    ("address_z", "i32"),
    ("levels", "i32"),
    ("layers", "i32"),  # 6 for each cube; 0 if there are none
    ("border_0", "i32"),  # the bits of what is outside, per channel
    ("border_1", "i32"),
    ("border_2", "i32"),
    ("border_3", "i32"),
    ("level_bias", "float"),
    ("level_least", "float"),
    ("level_most", "float"),
    ("channel_data_type", "i32"),  # what only txq and suq ask for
    ("channel_order", "i32"),
    ("array_size", "i32"),
    ("asked_mode_0", "i32"),
    ("asked_mode_1", "i32"),
    ("asked_mode_2", "i32"),
    ("is_unnormalized", "i32"),
    ("memory_layout", "i32"),
    ("samples", "i32"),
)
LEVELS_OFFSET: Final = 128
LEVEL_SIZE: Final = 32
MOST_LEVELS: Final = 16
HEADER_SIZE: Final = LEVELS_OFFSET + MOST_LEVELS * LEVEL_SIZE
HEADER_FIELDS: Final[Mapping[str, tuple[int, str]]] = {
    name: (4 * index, kind) for index, (name, kind) in enumerate(_FIELDS)
}
"""Byte offset and LLVM type of each field."""

LEVEL_FIELDS: Final[Mapping[str, tuple[int, str]]] = {
    "base": (0, "i64"),
    "slice": (8, "i64"),
    "pitch": (16, "i32"),
    "width": (20, "i32"),
    "height": (24, "i32"),
    "depth": (28, "i32"),
}
"""The same within a level: its address, the bytes from one layer or plane and from one row to the next, texels."""

_HEADER: Final = struct.Struct("<" + "".join({"i32": "I", "float": "f"}[kind] for _, kind in _FIELDS))
_LEVEL: Final = struct.Struct("<QQIIII")


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a mipmap: where it is (bytes) and how large (texels); `depth` is 1 but for three dimensions."""

    base: int
    slice: int
    pitch: int
    width: int
    height: int
    depth: int


def pack_header(fields: Mapping[str, int | float], levels: Sequence[Level]) -> bytes:
    """The header's bytes; fields that are not given are 0."""
    unknown = fields.keys() - HEADER_FIELDS.keys()
    if unknown or not 1 <= len(levels) <= MOST_LEVELS:
        raise ValueError(f"a header has 1 to {MOST_LEVELS} levels, got {len(levels)}, and no fields {sorted(unknown)}")
    data = bytearray(HEADER_SIZE)
    _HEADER.pack_into(data, 0, *(fields.get(name, 0) for name, _ in _FIELDS))
    for index, level in enumerate(levels):
        at = LEVELS_OFFSET + index * LEVEL_SIZE
        _LEVEL.pack_into(data, at, level.base, level.slice, level.pitch, level.width, level.height, level.depth)
    return bytes(data)


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
