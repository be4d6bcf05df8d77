"""What the handles of textures and surfaces lead to.

A handle is the address of a *header* in device memory: what a GPU keeps in its texture descriptors. Whoever makes
textures writes it (`pack_header`), the interpreter and machine code read it.  After the fields come the levels of the
mipmap, of which there is at least one: `LEVELS_OFFSET` + number * `LEVEL_SIZE`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = (
    "CONVERSIONS",
    "HEADER_FIELDS",
    "HEADER_SIZE",
    "LEVELS_OFFSET",
    "LEVEL_FIELDS",
    "LEVEL_SIZE",
    "MOST_LEVELS",
    "SURFACE",
    "TEXTURE",
    "Level",
    "pack_header",
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
