"""Filters and transforms of images."""

from __future__ import annotations

import numpy as np

from corpus.cases import Array
from corpus.problems import Launch, Problem, Rng, Want, ceil_div, floats, problem


@problem((100, 37), (1, 1), (300, 200))
def convolve_separable(rng: Rng, w: int, h: int) -> Problem:
    image, middle, out = floats(rng, h, w), np.zeros((h, w), np.float32), np.zeros((h, w), np.float32)
    weights = floats(rng, 9)
    padded = np.pad(image.astype(np.float64), 4)
    rows = sum(weights[i] * padded[:, i : i + w] for i in range(9))
    want = sum(weights[i] * rows[i : i + h] for i in range(9))
    launches = [
        Launch("convolve_rows", (ceil_div(w, 64), ceil_div(h, 4)), (64, 4), (image, middle, w, h)),
        Launch("convolve_columns", (ceil_div(w, 16), ceil_div(h, 32)), (16, 8), (middle, out, w, h)),
    ]
    return Problem(launches, [Want(out, want, rtol=1e-5)], {"row_filter": weights})


@problem((60, 37), (1, 1), (300, 200))
def convolve_square(rng: Rng, w: int, h: int) -> Problem:
    image, out, weights = floats(rng, h, w), np.zeros((h, w), np.float32), floats(rng, 5, 5, low=-1)
    padded = np.pad(image.astype(np.float64), 2, mode="edge")
    want = sum(weights[j, i] * padded[j : j + h, i : i + w] for j in range(5) for i in range(5))
    launch = Launch("convolve_square", (ceil_div(w, 16), ceil_div(h, 16)), (16, 16), (image, out, w, h))
    return Problem([launch], [Want(out, want, rtol=1e-5, atol=1e-5)], {"square_filter": weights})


@problem((45, 30, 3, (16, 8)), (1, 1, 2, (8, 4)), (100, 100, 4, (32, 1)))
def bilateral(rng: Rng, w: int, h: int, radius: int, block: tuple[int, int]) -> Problem:
    image, out = floats(rng, h, w), np.zeros((h, w), np.float32)
    exact = image.astype(np.float64)
    total, weights = np.zeros((h, w)), np.zeros((h, w))
    for dy in range(-radius, radius + 1):
        for dx in range(-radius, radius + 1):
            target = (slice(max(0, -dy), min(h, h - dy)), slice(max(0, -dx), min(w, w - dx)))
            source = (slice(max(0, dy), min(h, h + dy)), slice(max(0, dx), min(w, w + dx)))
            if exact[target].size == 0 or exact[source].size == 0:
                continue
            weight = np.exp(-(dx * dx + dy * dy) * 0.125 - (exact[source] - exact[target]) ** 2 * 20)
            total[target] += weight * exact[source]
            weights[target] += weight
    grid = (ceil_div(w, block[0]), ceil_div(h, block[1]))
    launch = Launch("bilateral", grid, block, (image, out, w, h, radius, 0.125, 20.0))
    return Problem([launch], [Want(out, total / weights, rtol=2e-5)])


@problem((40, 30, 18, 64), (100, 70, 60, 256))
def hough(rng: Rng, w: int, h: int, angles: int, block: int) -> Problem:
    image = (rng.random((h, w)) < 0.05).astype(np.uint8)
    distances = 2 * (w + h)
    votes, want = np.zeros((angles, distances), np.int32), np.zeros((angles, distances), np.int64)
    y, x = np.nonzero(image)
    for angle in range(angles):
        theta = angle * np.pi / angles
        place = np.floor(x * np.cos(theta) + y * np.sin(theta) + 0.5).astype(int) + distances // 2
        want[angle] = np.bincount(place, minlength=distances)
    launch = Launch("hough", angles, block, (image, w, h, votes, angles, distances), shared=4 * distances)
    close = Want(votes, lambda got: bool((got.sum(1) == want.sum(1)).all() and (got != want).sum() <= angles))
    return Problem([launch], [close])


@problem(1000, 1)
def colours(rng: Rng, n: int) -> Problem:
    pixels = rng.integers(0, 256, (n, 4)).astype(np.uint8)
    grey, ycc = np.zeros(n, np.uint8), np.zeros((n, 4), np.uint8)
    r, g, b, a = pixels.astype(np.int64).T
    luma = (77 * r + 150 * g + 29 * b + 128) >> 8
    cb = np.minimum(255, ((-43 * r - 85 * g + 128 * b + 128) >> 8) + 128)
    cr = np.minimum(255, ((128 * r - 107 * g - 21 * b + 128) >> 8) + 128)
    launch = Launch("colours", ceil_div(n, 128), 128, (pixels, grey, ycc, n))
    return Problem([launch], [Want(grey, luma), Want(ycc, np.stack([luma, cb, cr, a], 1))])


@problem((20, 15, 50, 41), (2, 2, 2, 2), (100, 50, 33, 170))
def resize(rng: Rng, w: int, h: int, ow: int, oh: int) -> Problem:
    image, out = floats(rng, h, w), np.zeros((oh, ow), np.float32)
    exact = image.astype(np.float64)
    x, y = np.arange(ow) * (w - 1) / (ow - 1), np.arange(oh)[:, None] * (h - 1) / (oh - 1)
    x0, y0 = np.minimum(x.astype(int), w - 2), np.minimum(y.astype(int), h - 2)
    top = exact[y0, x0] * (1 - (x - x0)) + exact[y0, x0 + 1] * (x - x0)
    bottom = exact[y0 + 1, x0] * (1 - (x - x0)) + exact[y0 + 1, x0 + 1] * (x - x0)
    want = top * (1 - (y - y0)) + bottom * (y - y0)
    launch = Launch("resize", (ceil_div(ow, 16), ceil_div(oh, 16)), (16, 16), (image, w, h, out, ow, oh))
    return Problem([launch], [Want(out, want, rtol=1e-6)])


@problem((70, 50), (1, 1), (300, 200))
def integral_image(rng: Rng, w: int, h: int) -> Problem:
    image, out = rng.integers(0, 256, (h, w)).astype(np.uint8), np.zeros((h, w), np.uint32)
    launches = [
        Launch("integral_rows", ceil_div(h, 32), 32, (image, out, w, h)),
        Launch("integral_columns", ceil_div(w, 64), 64, (out, w, h)),
    ]
    return Problem(launches, [Want(out, image.astype(np.int64).cumsum(0).cumsum(1))])


@problem((40, 30), (2, 2), (130, 100))
def marching_squares(rng: Rng, w: int, h: int) -> Problem:
    field, level = floats(rng, h, w), np.float32(0.5)
    corners = (field[:-1, :-1], field[:-1, 1:], field[1:, 1:], field[1:, :-1])
    codes = sum((corner > level).astype(int) << i for i, corner in enumerate(corners))
    offsets = np.array([(0, 0), (1, 0), (1, 1), (0, 1)], np.float32)
    wanted = []
    for i in range(4):
        j = (i + 1) % 4
        y, x = np.nonzero((codes >> i & 1) != (codes >> j & 1))
        t = (level - corners[i][y, x]) / (corners[j][y, x] - corners[i][y, x])
        wanted.append(np.stack([x, y], 1) + offsets[i] + t[:, None] * (offsets[j] - offsets[i]))
    want = np.concatenate(wanted)
    cases, points, count = (
        np.zeros((h - 1, w - 1), np.uint8),
        np.zeros((4 * w * h, 2), np.float32),
        np.zeros(1, np.int32),
    )

    def same(got: Array) -> bool:
        """The points come in any order; sets that agree in four projections, sorted, are taken to be the same."""
        projections = np.array([[1, 0], [0, 1], [0.7, 0.4], [0.3, -0.9]]).T
        ours, theirs = (np.sort(points.astype(np.float64) @ projections, axis=0) for points in (got[: len(want)], want))
        return bool(np.allclose(ours, theirs, atol=1e-4))

    launch = Launch(
        "marching_squares", (ceil_div(w, 16), ceil_div(h, 8)), (16, 8), (field, w, h, 0.5, cases, points, count)
    )
    return Problem([launch], [Want(cases, codes), Want(count, len(want)), Want(points, same)])


@problem((5, 20), (1, 1), (9, 100))
def morphology(rng: Rng, words: int, h: int) -> Problem:
    pixels = rng.random((h, 32 * words)) < 0.6
    packed = np.packbits(pixels, bitorder="little").view(np.uint32).reshape(h, words)
    padded = np.pad(pixels, 1)
    around = [padded[j : j + h, i : i + 32 * words] for j in range(3) for i in range(3)]

    def pack(
        image: np.ndarray[tuple[int, int], np.dtype[np.bool_]],
    ) -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
        return np.packbits(image, bitorder="little").view(np.uint32).reshape(h, words)

    eroded, dilated = np.zeros_like(packed), np.zeros_like(packed)
    launch = Launch("morphology", (ceil_div(words, 32), h), 32, (packed, eroded, dilated, words, h))
    wants = [Want(eroded, pack(np.logical_and.reduce(around))), Want(dilated, pack(np.logical_or.reduce(around)))]
    return Problem([launch], wants)
