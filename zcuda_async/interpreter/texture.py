"""Textures, one thread at a time: what the CUDA C++ Programming Guide says under "Texture Fetching"."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Final

from zcuda_async.interpreter.exact import FORMATS
from zcuda_async.interpreter.operands import reader, writer
from zcuda_async.interpreter.surface import SURFACE_STEPS
from zcuda_async.interpreter.texels import (
    Bytes,
    Header,
    Texel,
    as_bits,
    as_float,
    handle_reader,
    limited,
    read_all,
    single,
    times,
    write_all,
)
from zcuda_async.interpreter.thread import Step, Thread
from zcuda_async.jit.texture_header import SURFACE, TEXTURE
from zcuda_async.ptx.ir import Instruction
from zcuda_async.ptx.texture import QUERIES, Geometry, elements_of, geometry_of

__all__ = ("TEXTURE_STEPS",)

_WRAP, _, _MIRROR, _BORDER = range(4)


# ---------------------------------------------------------------------- sampling


def _resolve(index: int, size: int, mode: int) -> int | None:
    """The texel that an index, an s32, means; None for the border."""
    index = min(max(index, -(1 << 31)), (1 << 31) - 1)
    if mode == _WRAP:
        return index % size
    if mode == _MIRROR:
        index %= 2 * size
        return min(index, 2 * size - 1 - index)
    if mode == _BORDER and not 0 <= index < size:
        return None
    return limited(index, size)


def _scaled(header: Header, value: float, size: int, mode: int) -> float:
    """A coordinate in texels; NaN counts as 0, and so does infinity where the image repeats."""
    if mode in (_WRAP, _MIRROR) and math.isfinite(value):
        whole = math.floor(value)
        within = single(value - whole)
        value = single(1 - within) if mode == _MIRROR and whole % 2 else within
    elif mode in (_WRAP, _MIRROR) or math.isnan(value):
        value = 0.0
    return times(value, size) if header.fields["is_normalized"] else value


def _near(value: float, size: int) -> float:
    """A coordinate that can be converted, with all that matters of it."""
    return min(max(value, -2.0), size + 1.0)


def _quantised(fraction: float) -> float:
    return math.floor(fraction * 256 + 0.5) / 256


class _Sampler:
    """A texture's level, ready to be sampled at coordinates."""

    def __init__(self, header: Header, level: int, layer: int, offsets: Sequence[int]) -> None:
        self._header = header
        self._level = header.levels[level]
        self._layer = layer
        self._offsets = offsets

    def at(self, indices: Sequence[int]) -> Texel:
        """The texel that some indices mean."""
        places = [_resolve(*each) for each in zip(indices, self._level.sizes, self._header.modes, strict=False)]
        inside = [place for place in places if place is not None]
        if len(inside) < len(places):
            return self._header.border
        return self._header.texel(self._level, inside, self._layer)

    def integer(self, indices: Sequence[int]) -> Texel:
        """The texel at whole numbers."""
        return self.at([index + offset for index, offset in zip(indices, self._offsets, strict=True)])

    def _texels(self, coordinates: Sequence[float], shift: float) -> list[tuple[int, float]]:
        """(index, fraction) along each axis."""
        found = []
        for axis, value in enumerate(coordinates):
            size, mode = self._level.sizes[axis], self._header.modes[axis]
            place = _near(single(_scaled(self._header, value, size, mode) - shift), size)
            whole = math.floor(place)
            fraction = single(place - whole)
            if not shift and mode == _WRAP:
                whole = min(whole, size - 1)  # the product may have been rounded up to the size
            found.append((whole + self._offsets[axis], fraction))
        return found

    def nearest(self, coordinates: Sequence[float]) -> Texel:
        """Without a filter."""
        return self.at([index for index, _ in self._texels(coordinates, 0.0)])

    def footprint(self, coordinates: Sequence[float], which: Sequence[int]) -> Texel:
        """One of the texels around a point: the lower (0) or upper (1) along each axis."""
        return self.at([index + end for (index, _), end in zip(self._texels(coordinates, 0.5), which, strict=True)])

    def linear(self, coordinates: Sequence[float]) -> Texel:
        """The mean of the texels around a point, weighted by how near they are."""
        places = self._texels(coordinates, 0.5)
        total: list[float] | None = None
        for reverse in product((0, 1), repeat=len(places)):
            which = reverse[::-1]
            weight = 1.0
            for (_, fraction), end in zip(places, which, strict=True):
                near = _quantised(fraction)
                weight *= near if end else 1 - near
            texel = self.at([index + end for (index, _), end in zip(places, which, strict=True)])
            parts = [times(weight, as_float(channel)) for channel in texel]
            total = parts if total is None else [single(a + b) for a, b in zip(total, parts, strict=True)]
        assert total is not None
        return [as_bits(value) for value in total]

    def filtered(self, coordinates: Sequence[float]) -> Texel:
        """As the texture says."""
        return (self.linear if self._header.fields["is_linear"] else self.nearest)(coordinates)


def _cube(direction: Sequence[float]) -> tuple[list[float], int]:
    """((s, t), face): where a direction from the middle of a cube meets its surface."""
    x, y, z = direction
    sizes = [abs(value) for value in direction]
    if sizes[0] >= sizes[1] and sizes[0] >= sizes[2]:
        axis, across, down = 0, (z if x < 0 else -z), -y
    elif sizes[1] >= sizes[2]:
        axis, across, down = 1, x, (-z if y < 0 else z)
    else:
        axis, across, down = 2, (-x if z < 0 else x), -y
    face = 2 * axis + (direction[axis] < 0)

    def place(value: float) -> float:
        major = sizes[axis]
        if math.isnan(value) or math.isnan(major) or not major or (math.isinf(value) and math.isinf(major)):
            return math.nan
        return times(single(single(value / major) + 1), 0.5)

    return [place(across), place(down)], face


def _longest(header: Header, gradients: Sequence[Sequence[float]]) -> float:
    """The level at which the longer gradient crosses one texel."""
    squares = []
    for gradient in gradients:
        total = 0.0
        for value, size in zip(gradient, header.levels[0].sizes, strict=False):
            length = times(value, size) if header.fields["is_normalized"] else value
            total = single(total + times(length, length))
        squares.append(total)
    longest = max((square for square in squares if not math.isnan(square)), default=math.nan)
    return -math.inf if longest == 0 else longest if not math.isfinite(longest) else 0.5 * math.log2(longest)


def _by_level(header: Header, lod: float, sample: Callable[[int], Texel]) -> Texel:
    """The level nearest to `lod`, or the two around it."""
    top = header.fields["levels"] - 1
    lod = single(lod + header.real("level_bias"))
    lod = header.real("level_least") if math.isnan(lod) else max(lod, header.real("level_least"))
    lod = min(max(min(lod, header.real("level_most")), 0.0), top)
    if not header.fields["is_level_linear"]:
        return sample(min(math.floor(single(lod + 0.5)), top))
    lower = math.floor(lod)
    weight = _quantised(lod - lower)
    pairs = zip(sample(lower), sample(min(lower + 1, top)), strict=True)
    return [as_bits(single(times(1 - weight, as_float(a)) + times(weight, as_float(b)))) for a, b in pairs]


# ---------------------------------------------------------------------- tex and tld4


def _texture_step(instruction: Instruction, _: int, __: Mapping[str, int]) -> Step:
    geometry = geometry_of(instruction)
    kind = instruction.types[-1]
    axes = geometry.axes
    given = elements_of(instruction.operands[2])
    layer_of = read_all(given[:1], "s32") if geometry.is_layered else None
    coordinates_of = read_all(given[geometry.is_layered :][:axes], kind)
    rest = list(instruction.operands[3:])
    lod_of = read_all([rest.pop(0)], kind) if instruction.has("level") else None
    gradients = [rest.pop(0) for _ in range(2)] if instruction.has("grad") else []
    gradients_of = [read_all(elements_of(each)[:axes], "f32") for each in gradients]
    offsets_of = read_all(elements_of(rest.pop(0))[:axes], "s32") if rest else None
    handle_of, write = handle_reader(instruction), _texture_writer(instruction)
    resident = writer(instruction.second_destination, "pred")
    channel = next((index for index, name in enumerate("rgba") if instruction.has(name)), 0)

    def step(thread: Thread) -> None:
        header = Header(Bytes(thread, instruction), handle_of(thread))
        asked = int(layer_of(thread)[0]) if layer_of is not None else 0
        coordinates = coordinates_of(thread)
        coordinates, layer = _in_image(geometry, header, coordinates, asked)
        offsets = [int(each) for each in offsets_of(thread)] if offsets_of is not None else [0] * 3
        offsets = offsets[: len(coordinates)]

        def sampler(level: int) -> _Sampler:
            return _Sampler(header, level, layer, offsets)

        def sample(level: int) -> Texel:
            if kind == "s32":
                return sampler(level).integer([int(each) for each in coordinates])
            return sampler(level).filtered(coordinates)

        if instruction.opcode == "tld4":
            corners = ((0, 1), (1, 1), (1, 0), (0, 0))
            texel = [sampler(0).footprint(coordinates, which)[channel] for which in corners]
        elif lod_of is not None and kind == "s32":
            texel = sample(limited(int(lod_of(thread)[0]), header.fields["levels"]))
        elif lod_of is not None:
            texel = _by_level(header, lod_of(thread)[0], sample)
        elif gradients_of:
            texel = _by_level(header, _longest(header, [each(thread) for each in gradients_of]), sample)
        else:
            texel = sample(0)
        write(thread, texel)
        resident(thread, 1)

    return step


def _in_image(geometry: Geometry, header: Header, coordinates: list[float], asked: int) -> tuple[list[float], int]:
    """(coordinates, layer) of the image that is sampled."""
    layers = header.fields["layers"]
    if geometry.is_cube:
        place, face = _cube(coordinates)
        return place, face + 6 * (limited(asked, layers // 6) if geometry.is_layered else 0)
    return coordinates, limited(asked, layers) if geometry.is_layered else 0


def _texture_writer(instruction: Instruction) -> Callable[[Thread, Texel], None]:
    kind = instruction.types[0]
    elements = elements_of(instruction.operands[0])
    if not kind.startswith("f16"):
        writers = [writer(element, kind) for element in elements]
        return lambda thread, texel: write_all(thread, writers, texel)
    writers = [writer(element, "b32" if kind == "f16x2" else "b16") for element in elements]

    def write(thread: Thread, texel: Texel) -> None:
        halves = [FORMATS["f16"].encode(FORMATS["f32"].decode(bits)) for bits in texel]
        pairs = [halves[0] | halves[1] << 16, halves[2] | halves[3] << 16]
        write_all(thread, writers, pairs if kind == "f16x2" else halves)

    return write


# ---------------------------------------------------------------------- queries


def _query_step(instruction: Instruction, _: int, __: Mapping[str, int]) -> Step:
    name = next(part for part in instruction.modifiers if part != "level")
    handle_of, write = handle_reader(instruction), writer(instruction.operands[0], "b32")
    level_of = reader(instruction.operands[2], "u32") if instruction.has("level") else lambda _: 0

    def step(thread: Thread) -> None:
        header = Header(Bytes(thread, instruction), handle_of(thread))
        if name in QUERIES:
            write(thread, header.fields[QUERIES[name]])
            return
        level = header.levels[min(level_of(thread), len(header.levels) - 1)]
        write(thread, level.sizes[("width", "height", "depth").index(name)])

    return step


def _type_step(instruction: Instruction, _: int, __: Mapping[str, int]) -> Step:
    handle_of, write = reader(instruction.operands[1], "b64"), writer(instruction.operands[0], "pred")
    wanted = {"texref": TEXTURE, "surfref": SURFACE}.get(instruction.modifiers[0], -1)
    return lambda thread: write(
        thread, int(Header(Bytes(thread, instruction), handle_of(thread)).fields["kind"] == wanted)
    )


TEXTURE_STEPS: Final = {
    "tex": _texture_step,
    "tld4": _texture_step,
    "txq": _query_step,
    "suq": _query_step,
    "istypep": _type_step,
    **SURFACE_STEPS,
}
