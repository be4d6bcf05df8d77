"""Surfaces, one thread at a time: suld, sust and sured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from zcuda_async.interpreter.bits import mask, number
from zcuda_async.interpreter.exact import FORMATS
from zcuda_async.interpreter.operands import reader, writer
from zcuda_async.interpreter.texels import Bytes, Header, handle_reader, limited, read_all, write_all
from zcuda_async.interpreter.thread import MemoryFaultError, Step, Thread, TrapError, line_of
from zcuda_async.jit.texture_header import CONVERSIONS
from zcuda_async.ptx.ir import TYPE_BITS, Instruction
from zcuda_async.ptx.texture import elements_of, geometry_of

__all__ = ("SURFACE_STEPS",)


class _Spot:
    """Where an instruction accesses a surface."""

    def __init__(self, instruction: Instruction) -> None:
        self._instruction = instruction
        self._geometry = geometry_of(instruction)
        index = 1 if instruction.opcode in ("sust", "sured") else 2
        self._coordinates = read_all(elements_of(instruction.operands[index]), "s32")
        self._handle = handle_reader(instruction)
        self._in_samples = instruction.has("p")

    def find(self, thread: Thread, size: int | None) -> tuple[Header, int | None]:
        """(header, address) of an access of `size` bytes (None: a sample's); no address where nothing is to be done.

        Raises:
            TrapError: It is outside.
            MemoryFaultError: It is misaligned.
        """
        header = Header(Bytes(thread, self._instruction), self._handle(thread))
        level, texel = header.levels[0], header.fields["texel_bytes"]
        size = texel if size is None else size
        given = [int(each) for each in self._coordinates(thread)]
        layer = given.pop(0) if self._geometry.is_layered else 0
        given = given[: self._geometry.axes]
        if self._in_samples:
            given[0] *= texel
        sizes = [level.sizes[0] * texel - size + 1, *level.sizes[1:]][: len(given)]
        layers = header.fields["layers"] if self._geometry.is_layered else 1
        pairs = [*zip(given, sizes, strict=True), (layer, layers)]
        if not all(0 <= value < count for value, count in pairs):
            if self._instruction.has("zero"):
                return header, None
            if not self._instruction.has("clamp"):
                raise TrapError(f"{line_of(self._instruction)}: {given} is outside of the surface")
        *given, layer = (limited(value, count) for value, count in pairs)
        x, y, z = (*given, 0, 0)[:3]
        if x % size:
            raise MemoryFaultError(f"{line_of(self._instruction)}: {x} is not a multiple of {size}")
        return header, level.base + x + y * level.pitch + (z + layer) * level.slice


def _surface_load_step(instruction: Instruction, _: int, __: Mapping[str, int]) -> Step:
    width = TYPE_BITS[instruction.types[0]] // 8
    elements = elements_of(instruction.operands[0])
    writers = [writer(element, instruction.types[0]) for element in elements]
    spot = _Spot(instruction)

    def step(thread: Thread) -> None:
        header, address = spot.find(thread, width * len(writers))
        data = bytes(width * len(writers)) if address is None else header.memory.load(address, width * len(writers))
        write_all(thread, writers, [int.from_bytes(data[at:][:width], "little") for at in range(0, len(data), width)])

    return step


def _surface_store_step(instruction: Instruction, _: int, __: Mapping[str, int]) -> Step:
    kind = instruction.types[0]
    width = TYPE_BITS[kind] // 8
    readers = [reader(element, kind) for element in elements_of(instruction.operands[2])]
    spot = _Spot(instruction)

    def step(thread: Thread) -> None:
        is_sample = instruction.has("p")
        header, address = spot.find(thread, None if is_sample else width * len(readers))
        if address is None:
            return
        values = [read(thread) for read in readers]
        if is_sample:
            header.memory.store(address, _sample_bytes(header, values))
        else:
            header.memory.store(address, b"".join(value.to_bytes(width, "little") for value in values))

    return step


def _sample_bytes(header: Header, values: Sequence[int]) -> bytes:
    """Words as the channels of a surface's format; channels that are not given are 0."""
    bits, rule = header.fields["channel_bits"], CONVERSIONS[header.fields["conversion"]]
    out = b""
    for value in [*values, 0, 0, 0][: header.fields["channels"]]:
        if rule == "signed":
            half = 1 << bits - 1
            channel = min(max(number(value, "s32"), -half), half - 1) & mask(bits)
        elif rule == "half":
            channel = FORMATS["f16"].encode(FORMATS["f32"].decode(value))
        else:
            channel = min(value, mask(bits))
        out += channel.to_bytes(bits // 8, "little")
    return out


def _surface_reduce_step(instruction: Instruction, _: int, __: Mapping[str, int]) -> Step:
    kind = instruction.types[0]
    width = TYPE_BITS[kind] // 8
    read, spot = reader(instruction.operands[2], kind), _Spot(instruction)
    operation = next(name for name in ("add", "min", "max", "and", "or") if instruction.has(name))

    def step(thread: Thread) -> None:
        header, address = spot.find(thread, width)
        if address is None:
            return
        is_signed = header.fields["channel_data_type"] == 0x10D9 if instruction.has("p") else kind[0] == "s"
        form = f"{'s' if is_signed else 'u'}{8 * width}"
        old, own = (
            number(int.from_bytes(header.memory.load(address, width), "little"), form),
            number(read(thread), form),
        )
        new = {"add": old + own, "min": min(old, own), "max": max(old, own), "and": old & own, "or": old | own}
        header.memory.store(address, (new[operation] & mask(8 * width)).to_bytes(width, "little"))

    return step


SURFACE_STEPS: Final = {"suld": _surface_load_step, "sust": _surface_store_step, "sured": _surface_reduce_step}
