"""Textures and surfaces: filters, address modes, layers, levels, cubes and volumes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import zcuda_async as zc
from corpus.cases import Array
from corpus.problems import Launch, Problem, Rng, Want, ceil_div, floats, problem

LINEAR = zc.FilterMode.LINEAR
WEIGHTS = 1 / 256
"""Weights of a filter have 8 bits, so what they make is off by that much."""


@dataclass(frozen=True)
class Seen:
    """An array as a texture (with options) or a surface (without); one channel if `channels` is 0.

    `layered` says that the first axis counts layers, `levels` that further levels follow the first, in one row.
    """

    array: Array
    options: zc.TextureOptions | None = None
    channels: int = 0
    layered: bool = False
    cube: bool = False
    level_sizes: tuple[int, ...] = ()
    level: int = 0
    buffer: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """The image's sizes, the slowest first, without channels."""
        if self.level_sizes:
            return self.level_sizes
        return self.array.shape[:-1] if self.channels else self.array.shape

    @property
    def format(self) -> zc.ChannelFormat:
        """What a texel is."""
        return zc.ChannelFormat.of(self.array.dtype, self.channels or 1)


def grid(w: int, h: int) -> tuple[int, int]:
    """Blocks of 16 x 8 threads that cover a picture."""
    return ceil_div(w, 16), ceil_div(h, 8)


def bilinear(image: Array, u: Array, v: Array, mode: str) -> Array:
    """Linear filtering at texel coordinates, in float64; outside as `numpy.pad` has it."""
    far = 40
    padded = np.pad(image.astype(np.float64), [(far, far), (far, far)] + [(0, 0)] * (image.ndim - 2), mode=mode)
    x, y = np.asarray(u) - 0.5 + far, np.asarray(v) - 0.5 + far
    i, j = np.floor(x).astype(int), np.floor(y).astype(int)
    a, b = x - i, y - j
    if image.ndim > 2:
        a, b = a[..., None], b[..., None]
    rows = [padded[j + k, i] * (1 - a) + padded[j + k, i + 1] * a for k in range(2)]
    return np.asarray(rows[0] * (1 - b) + rows[1] * b)


@problem((40, 30, 0.3), (1, 1, 0.0), (133, 75, -2.0))
def texture_rotate(rng: Rng, w: int, h: int, angle: float) -> Problem:
    image, out = floats(rng, h, w), np.zeros((h, w), np.float32)
    c, s = float(np.float32(np.cos(angle))), float(np.float32(np.sin(angle)))
    y, x = np.mgrid[:h, :w]
    u, v = x - 0.5 * w, y - 0.5 * h
    texture = Seen(image, zc.TextureOptions(filter_mode=LINEAR, address_mode=zc.AddressMode.BORDER))
    want = bilinear(image, u * c - v * s + 0.5 * w + 0.5, u * s + v * c + 0.5 * h + 0.5, "constant")
    launch = Launch("texture_rotate", grid(w, h), (16, 8), (texture, out, w, h, c, s))
    return Problem([launch], [Want(out, want, atol=2 * WEIGHTS)])


@problem((500, 1000), (1, 3), (70000, 100000))
def texture_gather(rng: Rng, n: int, m: int) -> Problem:
    table, out = rng.integers(-(2**31), 2**31, n).astype(np.int32), np.ones(m, np.int32)
    where = rng.integers(-5, n + 5, m).astype(np.int32)
    want = np.where((where >= 0) & (where < n), table[np.clip(where, 0, n - 1)], 0)
    texture = Seen(table, zc.TextureOptions(), buffer=True)
    return Problem([Launch("texture_gather", ceil_div(m, 128), 128, (texture, where, out, m))], [Want(out, want)])


@problem((50, 30), (1, 1), (640, 480))
def surface_invert(rng: Rng, w: int, h: int) -> Problem:
    image = rng.integers(0, 256, (h, w, 4)).astype(np.uint8)
    out = np.zeros_like(image)
    want = np.concatenate([255 - image[..., :3], image[..., 3:]], axis=-1)
    surfaces = (Seen(image, channels=4), Seen(out, channels=4))
    return Problem([Launch("surface_invert", grid(w, h), (16, 8), (*surfaces, w, h))], [Want(out, want)])


@problem((30, 20), (3, 3), (200, 100))
def texture_enlarge(rng: Rng, w: int, h: int) -> Problem:
    image = rng.integers(0, 256, (h, w, 4)).astype(np.uint8)
    out = np.zeros((2 * h, 2 * w, 4), np.float32)
    y, x = np.mgrid[: 2 * h, : 2 * w]
    u, v = (x + 0.5) * 0.5 - 0.5, (y + 0.5) * 0.5 - 0.5
    i, j = np.floor(u).astype(int), np.floor(v).astype(int)

    def weights(t: Array) -> list[Array]:
        return [(1 - t) ** 3 / 6, (3 * t**3 - 6 * t**2 + 4) / 6, (-3 * t**3 + 3 * t**2 + 3 * t + 1) / 6, t**3 / 6]

    padded = np.pad(image / 255.0, [(3, 3), (3, 3), (0, 0)], mode="edge")
    want = np.zeros(out.shape)
    for k, b in enumerate(weights(v - j)):
        for n, a in enumerate(weights(u - i)):
            want += (a * b)[..., None] * padded[j - 1 + k + 3, i - 1 + n + 3]
    options = zc.TextureOptions(filter_mode=LINEAR, read_mode=zc.ReadMode.NORMALIZED_FLOAT)
    texture = Seen(image, options, channels=4)
    launch = Launch("texture_enlarge", grid(2 * w, 2 * h), (16, 8), (texture, out, 2 * w, 2 * h, 0.5))
    return Problem([launch], [Want(out, want, atol=2 * WEIGHTS)])


@problem((20, 16, 12), (1, 1, 1), (64, 48, 40))
def texture_project(rng: Rng, w: int, h: int, d: int) -> Problem:
    volume, out = floats(rng, d, h, w).astype(np.float16), np.zeros((h, w), np.float32)
    options = zc.TextureOptions(
        filter_mode=LINEAR, normalized_coords=True, address_mode=(zc.AddressMode.MIRROR, *(zc.AddressMode.CLAMP,) * 2)
    )
    steps, tilt = 2 * d, 0.75
    y, x = np.mgrid[:h, :w]
    want = np.zeros((h, w))
    for i in range(steps):
        t = (i + 0.5) / steps
        z = t * d - 0.5
        low = int(np.floor(z))
        planes = [
            bilinear(volume[np.clip(k, 0, d - 1)], x + 0.5 + tilt * (t - 0.5) * w, y + 0.5, "symmetric")
            for k in (low, low + 1)
        ]
        want = np.maximum(want, planes[0] * (1 - (z - low)) + planes[1] * (z - low))
    launch = Launch("texture_project", grid(w, h), (16, 8), (Seen(volume, options), out, w, h, steps, tilt))
    return Problem([launch], [Want(out, want, atol=3 * WEIGHTS)])


def halved(image: Array) -> Array:
    h, w = image.shape[0] // 2, image.shape[1] // 2
    return np.asarray(image[: 2 * h, : 2 * w].reshape(h, 2, w, 2).mean(axis=(1, 3)))


@problem((32, 16), (4, 4), (128, 64))
def texture_mipmap(rng: Rng, w: int, h: int) -> Problem:
    """Three levels, two of them made through surfaces, read between levels and by gradients."""
    fine = floats(rng, h, w)
    middle, coarse = halved(fine), halved(halved(fine))
    memory = np.zeros(w * h * 2, np.float32)
    memory[: w * h] = fine.ravel()
    level = floats(rng, h, w, low=-1, high=3)
    out, small = np.zeros((h, w), np.float32), np.zeros((h // 2, w // 2), np.float32)
    options = zc.TextureOptions(filter_mode=LINEAR, mipmap_filter_mode=LINEAR, normalized_coords=True)

    def seen(number: int) -> Seen:
        return Seen(memory, level_sizes=(h, w), level=number)

    texture = Seen(memory, options, level_sizes=(h, w))
    y, x = np.mgrid[:h, :w]
    planes = [
        bilinear(image, (x + 0.5) / 2**number, (y + 0.5) / 2**number, "edge")
        for number, image in enumerate((fine, middle, coarse))
    ]
    asked = np.clip(level.astype(np.float64), 0, 2)
    lower = np.minimum(np.floor(asked).astype(int), 1)
    choice = np.take_along_axis(np.stack(planes), np.stack([lower, lower + 1]), axis=0)
    want = choice[0] * (1 - (asked - lower)) + choice[1] * (asked - lower)
    launches = [
        Launch("texture_halve", grid(w // 2, h // 2), (16, 8), (seen(0), seen(1), w // 2, h // 2)),
        Launch("texture_halve", grid(w // 4, h // 4), (16, 8), (seen(1), seen(2), w // 4, h // 4)),
        Launch("texture_blur", grid(w, h), (16, 8), (texture, level, out, w, h)),
        Launch("texture_shrink", grid(w // 2, h // 2), (16, 8), (texture, small, w // 2, h // 2)),
    ]
    return Problem(launches, [Want(out, want, atol=3 * WEIGHTS), Want(small, middle, atol=2 * WEIGHTS)])


@problem((8, 400), (1, 7), (64, 5000))
def texture_sky(rng: Rng, size: int, n: int) -> Problem:
    """The colour of each side's middle and the weights of its corners tell sides and directions apart."""
    sky = floats(rng, 6, size, size, 4)
    direction, out = rng.normal(size=(n, 3)).astype(np.float32), np.zeros((n, 4), np.float32)
    sides = [
        ((1, 0, 0), (0, 0, -1), (0, -1, 0)),
        ((-1, 0, 0), (0, 0, 1), (0, -1, 0)),
        ((0, 1, 0), (1, 0, 0), (0, 0, 1)),
        ((0, -1, 0), (1, 0, 0), (0, 0, -1)),
        ((0, 0, 1), (1, 0, 0), (0, -1, 0)),
        ((0, 0, -1), (-1, 0, 0), (0, -1, 0)),
    ]
    towards = np.array([side[0] for side in sides]) @ direction.T.astype(np.float64)
    face = towards.argmax(axis=0)
    want = np.zeros((n, 4))
    for number, (_, across, down) in enumerate(sides):
        chosen = face == number
        major = towards[number, chosen]
        s, t = (direction[chosen] @ np.array(axis) / major for axis in (across, down))
        want[chosen] = bilinear(sky[number], (s + 1) / 2 * size, (t + 1) / 2 * size, "edge")
    texture = Seen(
        sky, zc.TextureOptions(filter_mode=LINEAR, normalized_coords=True), channels=4, layered=True, cube=True
    )
    launch = Launch("texture_sky", ceil_div(n, 64), 64, (texture, direction, out, n))
    return Problem([launch], [Want(out, want, atol=2 * WEIGHTS)])


@problem((40, 25), (1, 1), (500, 300))
def texture_edges(rng: Rng, w: int, h: int) -> Problem:
    image, out = rng.integers(0, 256, (h, w, 2)).astype(np.uint8), np.zeros((h, w), np.uint32)
    padded = np.pad(image[..., 1].astype(int), [(0, 1), (0, 1)], mode="edge")
    four = np.stack([padded[:-1, :-1], padded[1:, :-1], padded[:-1, 1:], padded[1:, 1:]])
    texture = Seen(image, zc.TextureOptions(), channels=2)
    launch = Launch("texture_edges", grid(w, h), (16, 8), (texture, out, w, h))
    return Problem([launch], [Want(out, four.max(axis=0) - four.min(axis=0))])


@problem((30, 20, 5), (1, 1, 1), (100, 100, 9))
def texture_layers(rng: Rng, w: int, h: int, layers: int) -> Problem:
    stack, out = floats(rng, layers, h, w), np.zeros((h, w), np.float32)
    y, x = np.mgrid[:h, :w]
    want = sum(bilinear(stack[i], x + 0.25, y + 0.75, "edge") * (i + 1) for i in range(layers))
    texture = Seen(stack, zc.TextureOptions(filter_mode=LINEAR), layered=True)
    launch = Launch("texture_layers", grid(w, h), (16, 8), (texture, out, w, h, layers))
    return Problem([launch], [Want(out, want, atol=layers * layers * WEIGHTS)])


@problem((30, 20, 5), (1, 1, 1), (100, 100, 9))
def surface_layers(rng: Rng, w: int, h: int, layers: int) -> Problem:
    stack = rng.integers(-(2**15), 2**15, (layers, h, w, 2)).astype(np.int16)
    want = np.cumsum(stack, axis=0, dtype=np.int16)
    surface = Seen(stack, channels=2, layered=True)
    return Problem([Launch("surface_layers", grid(w, h), (16, 8), (surface, w, h, layers))], [Want(stack, want)])


@problem((1, 20, 5), (1, 1, 1), (1, 100, 30))
def surface_volume(rng: Rng, w: int, h: int, d: int) -> Problem:
    """One column, read beyond its left edge and written beyond its right one: nothing changes but by the first."""
    volume = floats(rng, d, h, w, 2)
    surface = Seen(volume, channels=2)
    return Problem([Launch("surface_volume", grid(w, h), (16, 8), (surface, w, h, d))], [Want(volume, volume.copy())])
