"""What handles lead to, as a thread finds it in memory: headers, levels and texels.

Numbers are f32: every operation is done in f64 and rounded, which for +, -, * and / gives the same as one rounding.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

from zcuda_async.interpreter.bits import mask, number
from zcuda_async.interpreter.exact import FORMATS
from zcuda_async.interpreter.operands import reader
from zcuda_async.interpreter.thread import MemoryFaultError, Reader, Thread, Writer, line_of
from zcuda_async.jit.texture_header import CONVERSIONS, HEADER_FIELDS, LEVEL_FIELDS, LEVEL_SIZE, LEVELS_OFFSET
from zcuda_async.ptx.ir import Address, Instruction, Operand

__all__ = (
    "Bytes",
    "Header",
    "Texel",
    "as_bits",
    "as_float",
    "handle_reader",
    "limited",
    "read_all",
    "single",
    "times",
    "write_all",
)

Texel = list[int]
"""Four channels, as bits."""


def single(value: float) -> float:
    """The nearest f32."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def as_float(bits: int) -> float:
    """The f32 with these bits."""
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def as_bits(value: float) -> int:
    """An f32's bits."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def times(a: float, b: float) -> float:
    """The product, rounded."""
    return single(a * b)


class LevelView:
    """One level of a texture."""

    def __init__(self, memory: Bytes, at: int) -> None:
        values = {name: memory.number(at + offset, kind) for name, (offset, kind) in LEVEL_FIELDS.items()}
        self.base, self.slice, self.pitch = values["base"], values["slice"], values["pitch"]
        self.sizes = (values["width"], values["height"], values["depth"])


class Bytes:
    """Global memory, as numbers."""

    def __init__(self, thread: Thread, instruction: Instruction) -> None:
        self._memory = thread.block.launch.memory
        self._line = line_of(instruction)

    def load(self, address: int, size: int) -> bytes:
        """`size` bytes; MemoryFaultError where there is no memory."""
        try:
            return self._memory.load(address, size)
        except IndexError as error:
            raise MemoryFaultError(f"{self._line}: {error}") from None

    def store(self, address: int, data: bytes) -> None:
        """Replace bytes; raises as `load`."""
        try:
            self._memory.store(address, data)
        except IndexError as error:
            raise MemoryFaultError(f"{self._line}: {error}") from None

    def number(self, address: int, kind: str) -> int:
        """An i32 or i64."""
        return int.from_bytes(self.load(address, 8 if kind == "i64" else 4), "little")


class Header:
    """What a handle leads to."""

    def __init__(self, memory: Bytes, handle: int) -> None:
        self.memory = memory
        self.fields = {name: memory.number(handle + offset, kind) for name, (offset, kind) in HEADER_FIELDS.items()}
        self.levels = [
            LevelView(memory, handle + LEVELS_OFFSET + index * LEVEL_SIZE) for index in range(self.fields["levels"])
        ]

    def real(self, name: str) -> float:
        """A field that is an f32."""
        return as_float(self.fields[name])

    @property
    def modes(self) -> tuple[int, int, int]:
        """The address mode of each axis."""
        return self.fields["address_x"], self.fields["address_y"], self.fields["address_z"]

    @property
    def border(self) -> Texel:
        """The colour of what is outside."""
        return [self.fields[f"border_{index}"] for index in range(4)]

    def texel(self, level: LevelView, indices: Sequence[int], layer: int) -> Texel:
        """The texel at a place inside the image."""
        x, y, z = (*indices, 0, 0)[:3]
        size = self.fields["texel_bytes"]
        data = self.memory.load(level.base + x * size + y * level.pitch + (z + layer) * level.slice, size)
        width = self.fields["channel_bits"] // 8
        count = self.fields["channels"]
        found = [int.from_bytes(data[index * width :][:width], "little") for index in range(count)]
        found = [self._converted(value, index) for index, value in enumerate(found)]
        return [*[*found, 0, 0][:3], found[3] if count == 4 else self.fields["alpha"]]

    def _converted(self, value: int, channel: int) -> int:
        bits, rule = self.fields["channel_bits"], CONVERSIONS[self.fields["conversion"]]
        top = 1 << bits
        signed = value - top if value >= top >> 1 else value
        if rule == "signed":
            return signed & mask(32)
        if rule == "half":
            return FORMATS["f32"].encode(FORMATS["f16"].decode(value))
        if rule == "unorm" or (rule == "srgb" and channel == 3):
            return as_bits(single(value / (top - 1)))
        if rule == "snorm":
            return as_bits(max(single(signed / ((top >> 1) - 1)), -1.0))
        if rule == "srgb":
            x = value / 255
            return as_bits(single(x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4))
        return value


def limited(index: int, size: int) -> int:
    """The nearest number from 0 to below `size`."""
    return min(max(index, 0), size - 1)


def handle_reader(instruction: Instruction) -> Reader:
    """How to get the handle that an instruction names."""
    place = next(operand for operand in instruction.operands if isinstance(operand, Address))
    return reader(place.base, "b64")


def read_all(operands: Sequence[Operand], kind: str) -> Callable[[Thread], list[float]]:
    """How to get operands as f32 or s32 numbers."""
    readers = [reader(operand, kind) for operand in operands]
    if kind == "f32":
        return lambda thread: [as_float(read(thread)) for read in readers]
    return lambda thread: [number(read(thread), kind) for read in readers]


def write_all(thread: Thread, writers: Sequence[Writer], values: Sequence[int]) -> None:
    """Store one value with each writer."""
    for write, value in zip(writers, values, strict=True):
        write(thread, value)
