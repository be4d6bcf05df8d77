"""Stencils, flows and particles."""

from __future__ import annotations

import numpy as np

from corpus.cases import Array
from corpus.problems import Launch, Problem, Rng, Want, ceil_div, floats, problem


@problem((50, 37), (1, 1), (200, 150))
def heat_temporal(rng: Rng, w: int, h: int) -> Problem:
    field, out = floats(rng, h, w), np.zeros((h, w), np.float32)
    want = field.astype(np.float64)
    for _ in range(2):
        old = want.copy()
        around = old[1:-1, :-2] + old[1:-1, 2:] + old[:-2, 1:-1] + old[2:, 1:-1]
        want[1:-1, 1:-1] += 0.125 * (around - 4 * old[1:-1, 1:-1])
    launch = Launch("heat_temporal", (ceil_div(w, 16), ceil_div(h, 16)), (16, 16), (field, out, w, h))
    return Problem([launch], [Want(out, want, rtol=1e-5, atol=1e-6)])


@problem((40, 25, 6, (16, 16)), (1, 1, 1, (32, 1)), (150, 100, 20, (7, 9)))
def hotspot(rng: Rng, w: int, h: int, steps: int, block: tuple[int, int]) -> Problem:
    power, field, other = floats(rng, h, w), floats(rng, h, w, low=300, high=330), np.zeros((h, w), np.float32)
    step, rx, ry, rz, ambient = 0.1, 0.25, 0.125, 0.05, 300.0
    grid = (ceil_div(w, block[0]), ceil_div(h, block[1]))
    launches, now, following = [], field, other
    want = field.astype(np.float64)
    for _ in range(steps):
        launches.append(Launch("hotspot", grid, block, (power, now, following, w, h, step, rx, ry, rz, ambient)))
        now, following = following, now
        p = np.pad(want, 1, mode="edge")
        vertical, horizontal = p[2:, 1:-1] + p[:-2, 1:-1] - 2 * want, p[1:-1, 2:] + p[1:-1, :-2] - 2 * want
        want = want + step * (power + vertical * ry + horizontal * rx + (ambient - want) * rz)
    return Problem(launches, [Want(now, want, rtol=1e-5)])


@problem((30, 20, 10, (8, 8)), (3, 3, 3, (1, 1)), (70, 50, 40, (32, 4)))
def wave3d(rng: Rng, nx: int, ny: int, nz: int, block: tuple[int, int]) -> Problem:
    now, old = floats(rng, nz, ny, nx), floats(rng, nz, ny, nx)
    u, want = now.astype(np.float64), old.astype(np.float64)
    inside = (slice(1, -1),) * 3
    laplace = -6 * u[inside] + sum(np.roll(u, s, axis)[inside] for s in (-1, 1) for axis in range(3))
    want[inside] = 2 * u[inside] - want[inside] + 0.1 * laplace
    grid = (ceil_div(nx, block[0]), ceil_div(ny, block[1]))
    return Problem(
        [Launch("wave3d", grid, block, (now, old, nx, ny, nz, 0.1))], [Want(old, want, rtol=1e-4, atol=1e-5)]
    )


@problem((32, 20, 5), (3, 3, 1), (100, 70, 12))
def lbm(rng: Rng, w: int, h: int, steps: int) -> Problem:
    directions = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
    weights = np.array([4 / 9, *[1 / 9] * 4, *[1 / 36] * 4])
    back = [0, 3, 4, 1, 2, 7, 8, 5, 6]
    state, other = weights[:, None, None] * rng.uniform(0.9, 1.1, (9, h, w)), np.zeros((9, h, w))
    wall = (rng.random((h, w)) < 0.1).astype(np.uint8)
    want, launches, now, following = state.copy(), [], state, other
    for _ in range(steps):
        f = np.stack([np.roll(want[d], (y, x), (0, 1)) for d, (x, y) in enumerate(directions)])
        density = f.sum(0)
        ux, uy = (sum(f[d] * directions[d][axis] for d in range(9)) / density for axis in (0, 1))
        along = np.stack([3 * (x * ux + y * uy) for x, y in directions])
        rest = weights[:, None, None] * density * (1 + along + along**2 / 2 - 1.5 * (ux**2 + uy**2))
        want = np.where(wall, f[back], f + 1.2 * (rest - f))
        launches.append(Launch("lbm", (ceil_div(w, 16), ceil_div(h, 4)), (16, 4), (now, following, wall, w, h, 1.2)))
        now, following = following, now
    return Problem(launches, [Want(now, want, rtol=1e-10)])


@problem(3, 1, 5)
def molecular(rng: Rng, boxes: int) -> Problem:
    room, cutoff2 = 16, 1.0
    count = rng.integers(0, room + 1, boxes**3).astype(np.int32)
    position, force = np.zeros((boxes**3, room, 4), np.float32), np.zeros((boxes**3, room, 4), np.float32)
    corner = np.stack(np.meshgrid(*[np.arange(boxes)] * 3, indexing="ij"), -1).reshape(-1, 3)[:, ::-1]
    position[:, :, :3] = corner[:, None] + rng.random((boxes**3, room, 3))
    present = np.arange(room) < count[:, None]
    points = position[present][:, :3].astype(np.float64)
    offset = points[:, None] - points[None]
    r2 = (offset**2).sum(-1)
    near = (r2 < cutoff2) & (r2 > 0)
    i2 = np.where(near, 1 / np.where(near, r2, 1), 0)
    strength = 24 * i2 * i2**3 * (2 * i2**3 - 1)
    want = np.zeros((boxes**3, room, 4))
    terms = strength[..., None] * offset
    want[present, :3] = terms.sum(1)
    scale = np.zeros((boxes**3, room, 4))
    scale[present, :3] = np.abs(terms).sum(1)

    def close(got: Array) -> bool:
        return bool((np.abs(got - want) <= 1e-3 * scale + 1e-4).all())

    launch = Launch("molecular", (boxes, boxes, boxes), 32, (position, count, force, boxes, room, cutoff2))
    return Problem([launch], [Want(force, close)])


@problem((50, 10), (1, 1), (64, 40))
def leapfrog(rng: Rng, n: int, steps: int) -> Problem:
    position, velocity = rng.random((n, 3)), rng.uniform(-0.1, 0.1, (n, 3))
    p, v = position.copy(), velocity.copy()
    for _ in range(steps):
        offset = p[None] - p[:, None]
        v += 0.001 * (offset * (((offset**2).sum(-1) + 0.01) ** -1.5)[..., None]).sum(1)
        p += 0.001 * v
    launch = Launch("leapfrog", 1, 64, (position, velocity, n, steps, 0.001))
    return Problem([launch], [Want(position, p, rtol=1e-10), Want(velocity, v, rtol=1e-9, atol=1e-12)])


@problem((21, 6), (3, 1), (80, 25))
def red_black(rng: Rng, n: int, sweeps: int) -> Problem:
    u, f = rng.random((n, n)), rng.random((n, n))
    want, launches = u.copy(), []
    y, x = np.mgrid[1 : n - 1, 1 : n - 1]
    for _ in range(sweeps):
        for colour in (0, 1):
            around = want[1:-1, :-2] + want[1:-1, 2:] + want[:-2, 1:-1] + want[2:, 1:-1]
            want[1:-1, 1:-1] = np.where((x + y) & 1 == colour, 0.25 * (around - f[1:-1, 1:-1]), want[1:-1, 1:-1])
            launches.append(Launch("red_black", (ceil_div(n, 16), ceil_div(n, 8)), (16, 8), (u, f, n, colour)))
    return Problem(launches, [Want(u, want, rtol=1e-10)])
