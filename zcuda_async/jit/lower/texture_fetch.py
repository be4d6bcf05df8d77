"""Functions that sample a texture for N lanes at once, one for each kind of fetch in a kernel.

What a texture is (its format, filter, address modes) is known only when the kernel runs, and the same for all lanes of
a call, so it is branched on or selected by scalars.  The arithmetic is that of the CUDA C++ Programming Guide,
"Texture Fetching": coordinates become texels by floor, weights of a linear filter have 8 bits of fraction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from zcuda_async.jit.builder import Type
from zcuda_async.jit.lower.mathematics import log2_approx
from zcuda_async.jit.lower.texel import texel_function
from zcuda_async.jit.lower.texture_code import CHANNELS, Code
from zcuda_async.ptx.texture import Geometry

__all__ = ("Fetch", "fetch_function")

_WRAP: Final = 0
_MIRROR: Final = 2
_BORDER: Final = 3
_GATHERED: Final = ((0, 1), (1, 1), (1, 0), (0, 0))
"""Which texels of the footprint ``tld4`` gives, as (x, y), in order."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """A kind of fetch.

    `mode` is ``base``, ``level``, ``grad`` or ``gather`` (of the channel `channel`); `is_integer` says that
    coordinates are numbers of texels.
    """

    name: str
    geometry: Geometry
    mode: str
    is_integer: bool
    has_offset: bool
    channel: int = 0

    @property
    def axes(self) -> int:
        """Axes of the image that is sampled."""
        return 2 if self.geometry.is_cube else self.geometry.axes

    @property
    def is_by_level(self) -> bool:
        """Whether lanes choose levels."""
        return self.mode in ("level", "grad")

    def arguments(self, lanes: int) -> list[tuple[Type, str]]:
        """The function's parameters after the header: layer, coordinates, level or gradients, offsets."""
        ints, floats = Type("i32", lanes), Type("float", lanes)
        coordinate = ints if self.is_integer else floats
        found = [(ints, "%layer")] if self.geometry.is_layered else []
        found += [(coordinate, f"%c{axis}") for axis in range(self.geometry.axes)]
        if self.mode == "level":
            found.append((coordinate, "%lod"))
        elif self.mode == "grad":
            found += [(floats, f"%d{way}{axis}") for way in "xy" for axis in range(self.geometry.axes)]
        if self.has_offset:
            found += [(ints, f"%o{axis}") for axis in range(self.geometry.axes)]
        return found


def fetch_function(fetch: Fetch, features: str, lanes: int) -> tuple[str, set[str]]:
    """(name, texts) of ``channels @name(ptr header, …)``, with all that it calls."""
    texel, texts = texel_function(features, lanes)
    sample = _Sample(fetch, features, lanes, texel)
    texts |= sample.make()
    if not fetch.is_by_level:
        return sample.name, texts
    choice = _Levels(fetch, features, lanes, sample)
    return choice.name, texts | choice.make()


class _Sample:
    """``channels @name(ptr header, <N x i32> level, …)``: an image sampled; the level only if lanes choose one."""

    def __init__(self, fetch: Fetch, features: str, lanes: int, texel: str) -> None:
        self.fetch = fetch
        self.code = Code(features, lanes)
        self.name = f"zcuda.sample.{fetch.name}.{lanes}"
        self._texel = texel

    @property
    def _is_far(self) -> bool:
        """Whether an index can be more than one beyond the edge."""
        return self.fetch.has_offset or self.fetch.is_integer

    @property
    def arguments(self) -> list[tuple[Type, str]]:
        """The parameters after the header."""
        names = ("%lod", "%dx", "%dy")
        plain = [pair for pair in self.fetch.arguments(self.code.lanes) if not pair[1].startswith(names)]
        return [(self.code.ints, "%level"), *plain] if self.fetch.is_by_level else plain

    def make(self) -> set[str]:
        """The function's text, and what it declares."""
        code, fetch = self.code, self.fetch
        self._level = code.level("%level" if fetch.is_by_level else None)
        self._sizes = [self._level[name] for name in ("width", "height", "depth")[: fetch.axes]]
        coordinates, self._layer = self._image()
        if fetch.is_integer:
            channels = self._point(coordinates)
        elif fetch.mode == "gather":
            channels = self._gather(self._scaled(coordinates))
        else:
            channels = self._filtered(self._scaled(coordinates))
        return {code.text(self.name, self.arguments, channels), *code.b.declarations}

    # ------------------------------------------------------------------ coordinates

    def _image(self) -> tuple[list[str], str | None]:
        """(coordinates in the image, its number among the layers)."""
        code, b, ints = self.code, self.code.b, self.code.ints
        geometry = self.fetch.geometry
        given = [f"%c{axis}" for axis in range(geometry.axes)]
        last = b.splat(ints, b.op(f"sub i32 {code.field('layers')}, 1"))
        if not geometry.is_cube:
            return given, code.clamp("%layer", last) if geometry.is_layered else None
        coordinates, face = self._face(given)
        if not geometry.is_layered:
            return coordinates, face
        count = b.op(f"udiv i32 {code.field('layers')}, 6")
        cubes = b.splat(ints, b.op(f"sub i32 {count}, 1"))
        first = b.binary("mul", ints, code.clamp("%layer", cubes), ints.const(6))
        return coordinates, b.binary("add", ints, first, face)

    def _face(self, direction: Sequence[str]) -> tuple[list[str], str]:
        """Where a direction from a cube's middle meets its surface: ((s, t), face), faces +x, -x, +y, -y, +z, -z."""
        code, b, floats, ints = self.code, self.code.b, self.code.floats, self.code.ints
        x, _, z = direction
        sizes = [b.intrinsic("fabs", floats, value) for value in direction]
        minus = [b.op(f"fneg {floats} {value}") for value in direction]
        negative = [b.compare("fcmp olt", floats, value, floats.const(0.0)) for value in direction]
        is_x = b.binary(
            "and",
            code.truth,
            b.compare("fcmp oge", floats, sizes[0], sizes[1]),
            b.compare("fcmp oge", floats, sizes[0], sizes[2]),
        )
        is_y = b.compare("fcmp oge", floats, sizes[1], sizes[2])

        def chosen(kind: Type, by_axis: Sequence[str]) -> str:
            return b.select(kind, is_x, by_axis[0], b.select(kind, is_y, by_axis[1], by_axis[2]))

        across = [b.select(floats, negative[0], z, minus[2]), x, b.select(floats, negative[2], minus[0], x)]
        down = [minus[1], b.select(floats, negative[1], minus[2], z), minus[1]]
        faces = [b.select(ints, negative[axis], ints.const(2 * axis + 1), ints.const(2 * axis)) for axis in range(3)]
        major = chosen(floats, sizes)
        found = []
        for value in (chosen(floats, across), chosen(floats, down)):
            ratio = b.binary("fdiv", floats, value, major)
            found.append(
                b.binary("fmul", floats, b.binary("fadd", floats, ratio, floats.const(1.0)), floats.const(0.5))
            )
        return found, chosen(ints, faces)

    def _scaled(self, coordinates: Sequence[str]) -> list[str]:
        """Coordinates in texels, wrapped or mirrored into the image where the texture says so; NaN counts as 0."""
        code, b, floats = self.code, self.code.b, self.code.floats
        found = []
        for axis, value in enumerate(coordinates):
            mode = f"address_{'xyz'[axis]}"
            whole = b.intrinsic("floor", floats, value)
            within = b.binary("fsub", floats, value, whole)
            even = b.binary("fmul", floats, b.intrinsic("floor", floats, self._halved(whole)), floats.const(2.0))
            is_odd = b.compare("fcmp une", floats, even, whole)
            back = b.select(floats, is_odd, b.binary("fsub", floats, floats.const(1.0), within), within)
            inside = code.either(code.has(mode, _WRAP), floats, within, value)
            inside = code.either(code.has(mode, _MIRROR), floats, back, inside)
            size = b.op(f"uitofp {code.ints} {self._sizes[axis]} to {floats}")
            number = b.compare("fcmp ord", floats, inside, floats.const(0.0))
            inside = b.select(floats, number, inside, floats.const(0.0))
            scaled = b.binary("fmul", floats, inside, size)
            found.append(code.either(code.is_set("is_normalized"), floats, scaled, inside))
        return found

    def _halved(self, value: str) -> str:
        return self.code.b.binary("fmul", self.code.floats, value, self.code.floats.const(0.5))

    def _floor(self, axis: int, value: str) -> tuple[str, str]:
        """(texel, fraction) of a coordinate, which is brought near the image first, so that any can be converted."""
        code, b, floats = self.code, self.code.b, self.code.floats
        size = b.op(f"uitofp {code.ints} {self._sizes[axis]} to {floats}")
        value = b.intrinsic("maxnum", floats, value, floats.const(-2.0))
        value = b.intrinsic("minnum", floats, value, b.binary("fadd", floats, size, floats.const(1.0)))
        whole = b.intrinsic("floor", floats, value)
        return b.op(f"fptosi {floats} {whole} to {code.ints}"), b.binary("fsub", floats, value, whole)

    def _resolved(self, axis: int, index: str, *, is_wrapping: bool) -> tuple[str, str]:
        """(texel in the image, lanes outside of it) as the address mode has it."""
        code, b, ints = self.code, self.code.b, self.code.ints
        size, mode = self._sizes[axis], f"address_{'xyz'[axis]}"
        if is_wrapping or self._is_far:
            index = self._repeated(axis, index)
        outside = b.compare("icmp uge", ints, index, size)
        is_border = code.has(mode, _BORDER)
        outside = code.either(is_border, code.truth, outside, code.truth.const(0))
        return code.clamp(index, b.binary("sub", ints, size, ints.const(1))), outside

    def _repeated(self, axis: int, index: str) -> str:
        """An index beyond the edge where the image repeats, as itself or mirrored."""
        code, b, ints = self.code, self.code.b, self.code.ints
        size, mode = self._sizes[axis], f"address_{'xyz'[axis]}"
        if not self._is_far:  # then it is beyond by one at most, and the mirror image of that is the edge
            low = b.compare("icmp slt", ints, index, ints.const(0))
            high = b.compare("icmp sge", ints, index, size)
            moved = b.select(ints, low, b.binary("add", ints, index, size), index)
            moved = b.select(ints, high, b.binary("sub", ints, index, size), moved)
            return code.either(code.has(mode, _WRAP), ints, moved, index)
        moved = self._modulo(index, size)
        twice = b.binary("shl", ints, size, ints.const(1))
        period = self._modulo(index, twice)
        last = b.binary("sub", ints, twice, ints.const(1))
        reverse = b.binary("sub", ints, last, period)
        mirrored = b.intrinsic("smin", ints, period, reverse)
        index = code.either(code.has(mode, _WRAP), ints, moved, index)
        return code.either(code.has(mode, _MIRROR), ints, mirrored, index)

    def _modulo(self, value: str, by: str) -> str:
        b, ints = self.code.b, self.code.ints
        rest = b.binary("srem", ints, value, by)
        negative = b.compare("icmp slt", ints, rest, ints.const(0))
        return b.select(ints, negative, b.binary("add", ints, rest, by), rest)

    def _moved(self, axis: int, index: str) -> str:
        if not self.fetch.has_offset:
            return index
        return self.code.b.intrinsic("sadd.sat", self.code.ints, index, f"%o{axis}")

    # ------------------------------------------------------------------ texels

    def _texels(self, indices: Sequence[str], outside: Sequence[str]) -> list[str]:
        """The texel at a place of the image, or the border's colour."""
        code, b, longs = self.code, self.code.b, self.code.longs
        size = b.splat(code.ints, code.field("texel_bytes"))
        address = b.binary("add", longs, self._level["base"], code.wide_product(indices[0], size))
        if len(indices) > 1:
            address = b.binary("add", longs, address, code.wide_product(indices[1], self._level["pitch"]))
        plane = indices[2] if len(indices) > 2 else self._layer
        if plane is not None:
            number = b.cast("zext", code.ints, plane, longs)
            address = b.binary("add", longs, address, b.binary("mul", longs, number, self._level["slice"]))
        channels = code.call(self._texel, [(longs, address)])
        beyond = outside[0]
        for lanes in outside[1:]:
            beyond = b.binary("or", code.truth, beyond, lanes)
        border = [code.splat_field(f"border_{index}") for index in range(CHANNELS)]
        return [b.select(code.ints, beyond, *pair) for pair in zip(border, channels, strict=True)]

    def _point(self, indices: Sequence[str]) -> list[str]:
        places = []
        for axis, index in enumerate(indices):
            places.append(self._resolved(axis, self._moved(axis, index), is_wrapping=False))
        return self._texels([index for index, _ in places], [lanes for _, lanes in places])

    def _nearest(self, scaled: Sequence[str]) -> list[str]:
        code, b, ints = self.code, self.code.b, self.code.ints
        indices = []
        for axis, value in enumerate(scaled):
            index, _ = self._floor(axis, value)
            # A product can round up to the image's size.
            last = b.binary("sub", ints, self._sizes[axis], ints.const(1))
            limited = b.intrinsic("smin", ints, index, last)
            indices.append(code.either(code.has(f"address_{'xyz'[axis]}", _WRAP), ints, limited, index))
        return self._point(indices)

    def _footprint(self, scaled: Sequence[str]) -> tuple[list[list[tuple[str, str]]], list[str]]:
        """For each axis the two texels around a point, and the weight of the second."""
        code, b, floats = self.code, self.code.b, self.code.floats
        ends, weights = [], []
        for axis, value in enumerate(scaled):
            index, fraction = self._floor(axis, b.binary("fsub", floats, value, floats.const(0.5)))
            index = self._moved(axis, index)
            following = b.intrinsic("sadd.sat", code.ints, index, code.ints.const(1))
            ends.append([self._resolved(axis, each, is_wrapping=True) for each in (index, following)])
            weights.append(quantised(self.code, fraction))
        return ends, weights

    def _corner(self, ends: Sequence[Sequence[tuple[str, str]]], which: Sequence[int]) -> list[str]:
        places = [pair[end] for pair, end in zip(ends, which, strict=True)]
        return self._texels([index for index, _ in places], [lanes for _, lanes in places])

    def _linear(self, scaled: Sequence[str]) -> list[str]:
        code, b, floats = self.code, self.code.b, self.code.floats
        ends, second = self._footprint(scaled)
        first = [b.binary("fsub", floats, floats.const(1.0), weight) for weight in second]
        sums: list[str] = []
        for reverse in product((0, 1), repeat=len(scaled)):
            which = reverse[::-1]  # x fastest
            weight = (first, second)[which[0]][0]
            for axis in range(1, len(which)):
                weight = b.binary("fmul", floats, weight, (first, second)[which[axis]][axis])
            texel = [code.as_float(channel) for channel in self._corner(ends, which)]
            parts = [b.binary("fmul", floats, weight, channel) for channel in texel]
            sums = [b.binary("fadd", floats, *pair) for pair in zip(sums, parts, strict=True)] if sums else parts
        return [code.as_bits(value) for value in sums]

    def _gather(self, scaled: Sequence[str]) -> list[str]:
        ends, _ = self._footprint(scaled)
        return [self._corner(ends, which)[self.fetch.channel] for which in _GATHERED]

    def _filtered(self, scaled: Sequence[str]) -> list[str]:
        code = self.code
        return branch(code, code.is_set("is_linear"), lambda: self._linear(scaled), lambda: self._nearest(scaled))


class _Levels:
    """``channels @name(ptr header, …)``: the level of each lane, or the two around it."""

    def __init__(self, fetch: Fetch, features: str, lanes: int, sample: _Sample) -> None:
        self.name = f"zcuda.levels.{fetch.name}.{lanes}"
        self._fetch = fetch
        self._code = Code(features, lanes)
        self._sample = sample

    def make(self) -> set[str]:
        """The function's text, and what it declares."""
        code, b, ints = self._code, self._code.b, self._code.ints
        last = b.splat(ints, b.op(f"sub i32 {code.field('levels')}, 1"))
        if self._fetch.is_integer:
            channels = self._at(code.clamp("%lod", last))
        else:
            lod = "%lod" if self._fetch.mode == "level" else self._from_gradients()
            lod = self._limited(lod, last)
            channels = branch(
                code,
                code.is_set("is_level_linear"),
                lambda: self._between(lod, last),
                lambda: self._at(self._nearest(lod, last)),
            )
        return {code.text(self.name, self._fetch.arguments(code.lanes), channels), *b.declarations}

    def _at(self, level: str) -> list[str]:
        values = [(kind, level if name == "%level" else name) for kind, name in self._sample.arguments]
        return self._code.call(self._sample.name, values)

    def _limited(self, lod: str, last: str) -> str:
        code, b, floats = self._code, self._code.b, self._code.floats
        lod = b.binary("fadd", floats, lod, code.splat_field("level_bias"))
        lod = b.intrinsic("maxnum", floats, lod, code.splat_field("level_least"))
        lod = b.intrinsic("minnum", floats, lod, code.splat_field("level_most"))
        lod = b.intrinsic("maxnum", floats, lod, floats.const(0.0))
        return b.intrinsic("minnum", floats, lod, b.op(f"uitofp {code.ints} {last} to {floats}"))

    def _nearest(self, lod: str, last: str) -> str:
        code, b, floats = self._code, self._code.b, self._code.floats
        whole = b.intrinsic("floor", floats, b.binary("fadd", floats, lod, floats.const(0.5)))
        return b.intrinsic("smin", code.ints, b.op(f"fptosi {floats} {whole} to {code.ints}"), last)

    def _between(self, lod: str, last: str) -> list[str]:
        code, b, floats, ints = self._code, self._code.b, self._code.floats, self._code.ints
        whole = b.intrinsic("floor", floats, lod)
        weight = quantised(code, b.binary("fsub", floats, lod, whole))
        lower = b.op(f"fptosi {floats} {whole} to {ints}")
        upper = b.intrinsic("smin", ints, b.binary("add", ints, lower, ints.const(1)), last)
        rest = b.binary("fsub", floats, floats.const(1.0), weight)
        found = []
        for one, other in zip(self._at(lower), self._at(upper), strict=True):
            a = b.binary("fmul", floats, rest, code.as_float(one))
            found.append(
                code.as_bits(b.binary("fadd", floats, a, b.binary("fmul", floats, weight, code.as_float(other))))
            )
        return found

    def _from_gradients(self) -> str:
        """The logarithm of how many texels the longer gradient crosses."""
        code, b, floats = self._code, self._code.b, self._code.floats
        level = code.level(None)
        squares = []
        for way in "xy":
            total = floats.const(0.0)
            for axis, name in zip(range(self._fetch.axes), ("width", "height", "depth"), strict=False):
                size = b.op(f"uitofp {code.ints} {level[name]} to {floats}")
                scaled = b.binary("fmul", floats, f"%d{way}{axis}", size)
                length = code.either(code.is_set("is_normalized"), floats, scaled, f"%d{way}{axis}")
                total = b.binary("fadd", floats, total, b.binary("fmul", floats, length, length))
            squares.append(total)
        longest = b.intrinsic("maxnum", floats, *squares)
        return b.binary("fmul", floats, log2_approx(b, floats, longest), floats.const(0.5))


def quantised(code: Code, fraction: str) -> str:
    """A weight with 8 bits of fraction, as a texture unit has it; 1 can come out."""
    b, floats = code.b, code.floats
    scaled = b.binary("fadd", floats, b.binary("fmul", floats, fraction, floats.const(256.0)), floats.const(0.5))
    return b.binary("fmul", floats, b.intrinsic("floor", floats, scaled), floats.const(1 / 256))


def branch(code: Code, condition: str, yes: Callable[[], list[str]], no: Callable[[], list[str]]) -> list[str]:
    """Four vectors, made one way or the other as a scalar condition says."""
    b = code.b
    done = b.block_name("done")
    starts = [b.block_name("way") for _ in range(2)]
    b.line(f"br i1 {condition}, label %{starts[0]}, label %{starts[1]}")
    ends = []
    for start, make in zip(starts, (yes, no), strict=True):
        b.label(start)
        values = make()
        end = b.block_name("way.end")
        b.line(f"br label %{end}")
        b.label(end)
        b.line(f"br label %{done}")
        ends.append((end, values))
    b.label(done)
    return [
        b.op(f"phi {code.ints} " + ", ".join(f"[{values[index]}, %{end}]" for end, values in ends))
        for index in range(CHANNELS)
    ]
