"""Threads that work together, and what C++ offers them."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import zcuda_async as zc
from corpus.cases import Run, case
from corpus.problems import Launch, Problem, Rng, Want, ceil_div, floats, problem


@problem((64, 3), (16, 1), (1024, 4))
def group_reduce16(rng: Rng, block: int, blocks: int) -> Problem:
    data = rng.integers(-100, 100, block * blocks).astype(np.int32)
    rows = data.reshape(-1, 16)
    sums, most, prefix = np.zeros(len(rows), np.int32), np.zeros(len(rows), np.int32), np.zeros_like(data)
    launch = Launch("group_reduce16", blocks, block, (data, sums, most, prefix))
    return Problem([launch], [Want(sums, rows.sum(1)), Want(most, rows.max(1)), Want(prefix, rows.cumsum(1).ravel())])


@problem((64, 300, 3), (256, 1000, 7))
def aggregated_atomics(rng: Rng, block: int, n: int, classes: int) -> Problem:
    """The second half of the sums counts how many have their group's first value: all, if values are remainders."""
    data = rng.integers(0, classes, n).astype(np.int32)
    sums, want = np.zeros(2 * classes, np.int32), np.bincount(data, minlength=classes)
    launch = Launch("aggregated_atomics", ceil_div(n, block), block, (data, sums, n, classes))
    return Problem([launch], [Want(sums, np.concatenate([want, want]))])


@problem((4, 64, 1000), (1, 32, 1), (8, 256, 30000))
def grid_scan(rng: Rng, blocks: int, block: int, n: int) -> Problem:
    a, b = rng.integers(-50, 50, n).astype(np.int32), np.zeros(n, np.int32)
    return Problem([Launch("grid_scan", blocks, block, (a, b, n), cooperative=True)], [Want(a, np.cumsum(a))])


@problem(7, 1, 2, 50)
def producer_consumer(rng: Rng, rounds: int) -> Problem:
    out = np.zeros(64, np.int32)
    want = 1000 * sum(range(rounds)) + rounds * np.arange(63, -1, -1)
    return Problem([Launch("producer_consumer", 1, 128, (out, rounds))], [Want(out, want)])


@problem((128, 500, 11), (32, 32, 1), (256, 3000, 40))
def bucket_lists(rng: Rng, block: int, n: int, buckets: int) -> Problem:
    keys = rng.permutation(10 * n)[:n].astype(np.int32)
    locks, counts, lists = np.zeros(buckets, np.int32), np.zeros(buckets, np.int32), np.full((buckets, n), -1, np.int32)
    want = [sorted(keys[keys % buckets == bucket].tolist()) for bucket in range(buckets)]
    args = (keys, n, locks, counts, lists, buckets, n)
    same = Want(lists, lambda got: [sorted(row[row >= 0].tolist()) for row in got] == want)
    launch = Launch("bucket_lists", ceil_div(n, block), block, args)
    return Problem([launch], [Want(locks, 0), Want(counts, [len(row) for row in want]), same])


@problem((3, 64, 700), (1, 1, 5), (9, 256, 5000))
def work_queue(rng: Rng, blocks: int, block: int, n: int) -> Problem:
    lengths, counter = np.zeros(n, np.int32), np.zeros(1, np.uint32)
    want = []
    for x in range(1, n + 1):
        steps = 0
        while x != 1:
            x, steps = (3 * x + 1 if x & 1 else x // 2), steps + 1
        want.append(steps)
    launch = Launch("work_queue", blocks, block, (counter, n, lengths))
    return Problem([launch], [Want(lengths, want), Want(counter, n + blocks * block)])


@problem((96, 250, 5), (32, 7, 1), (256, 3000, 100))
def match_histogram(rng: Rng, block: int, n: int, bins: int) -> Problem:
    keys = rng.integers(0, bins, n).astype(np.int32)
    counts, ranks, want = np.zeros(bins, np.int32), np.full(n, -1, np.int32), np.bincount(keys, minlength=bins)

    def distinct(got: np.ndarray[tuple[int], np.dtype[np.int32]]) -> bool:
        return all(sorted(got[keys == key].tolist()) == list(range(want[key])) for key in range(bins))

    launch = Launch("match_histogram", ceil_div(n, block), block, (keys, counts, ranks, n))
    return Problem([launch], [Want(counts, want), Want(ranks, distinct)])


@problem((64, 4), (32, 1), (1024, 8))
def votes(rng: Rng, block: int, blocks: int) -> Problem:
    data = rng.integers(-20, 95, (blocks, block)).astype(np.int32)
    data[0] = np.abs(data[0]) % 90
    out = np.zeros_like(data)
    warps = np.trunc(data / 100).reshape(-1, 32)
    same = np.repeat((warps == warps[:, :1]).all(1), 32).reshape(blocks, block)
    facts = ((data > 0).sum(1) * 8 + (data < 90).all(1) * 4 + (data == 7).any(1) * 2)[:, None]
    return Problem([Launch("votes", blocks, block, (data, out))], [Want(out, facts + same)])


@problem((32, 60), (1, 1), (100, 1000))
def recursive_sum(rng: Rng, block: int, n: int) -> Problem:
    heap, out = rng.integers(-100, 100, n).astype(np.int32), np.zeros(block, np.int32)
    sums = np.zeros(max(2 * n + 2, block), np.int64)
    for node in range(n - 1, -1, -1):
        sums[node] = heap[node] + sums[2 * node + 1] + sums[2 * node + 2]
    return Problem([Launch("recursive_sum", 1, block, (heap, n, out))], [Want(out, sums[:block])])


@problem()
def ackermann_table(rng: Rng) -> Problem:
    out = np.zeros(12, np.int32)
    want = [n + 1 if m == 0 else n + 2 if m == 1 else 2 * n + 3 for m in range(3) for n in range(4)]
    return Problem([Launch("ackermann_table", 1, 12, (out,))], [Want(out, want)])


def _trace(spheres: np.ndarray, origin: np.ndarray, direction: np.ndarray, depth: int) -> float:  # type: ignore[type-arg]
    offset = origin - spheres[:, :3]
    b, c = offset @ direction, (offset**2).sum(1) - spheres[:, 3] ** 2
    d = b * b - c
    t = np.where(d > 0, -b - np.sqrt(np.maximum(d, 0)), np.inf)
    t[t <= 1e-3] = np.inf
    hit = int(t.argmin())
    if not np.isfinite(t[hit]):
        return 0.5 + 0.5 * float(direction[1])
    point = origin + t[hit] * direction
    normal = (point - spheres[hit, :3]) / spheres[hit, 3]
    light = max(0.0, 0.57735 * float(normal[0] + normal[1] - normal[2]))
    if depth == 0:
        return light
    mirrored = direction - 2 * float(direction @ normal) * normal
    return 0.6 * light + 0.4 * _trace(spheres, point, mirrored, depth - 1)


@problem((24, 16, 2), (48, 40, 4))
def reflections(rng: Rng, w: int, h: int, depth: int) -> Problem:
    """A pixel at the rim of a sphere may see another one, for rounding; a few may."""
    spheres = np.array([[-0.6, 0, 0, 0.5], [0.6, 0.1, 0.2, 0.5], [0, -0.7, 0.5, 0.4]], np.float32)
    image, want = np.zeros((h, w), np.float32), np.zeros((h, w))
    for y in range(h):
        for x in range(w):
            ray = np.array([(x + 0.5) / w - 0.5, (y + 0.5) / h - 0.5, 1.0])
            want[y, x] = _trace(spheres.astype(np.float64), np.array([0, 0, -3.0]), ray / np.sqrt(ray @ ray), depth)
    launch = Launch("reflections", (ceil_div(w, 8), ceil_div(h, 8)), (8, 8), (spheres, 3, image, w, h, depth))
    return Problem([launch], [Want(image, lambda got: bool((np.abs(got - want) > 1e-3).sum() <= w * h // 100))])


@problem((64, 100), (1, 1), (128, 1000))
def shapes(rng: Rng, block: int, n: int) -> Problem:
    kinds, sizes = rng.integers(0, 3, n).astype(np.int32), floats(rng, n)
    areas, corners = np.zeros(n, np.float32), np.zeros(n, np.int32)
    factor = np.array([3, 1, 0.5], np.float32)[kinds]
    launch = Launch("shapes", ceil_div(n, block), block, (kinds, sizes, areas, corners, n))
    return Problem([launch], [Want(areas, factor * sizes * sizes, rtol=1e-6), Want(corners, np.where(kinds, 4, 0))])


@problem((64, 100, 9), (1, 1, 1), (128, 500, 40))
def calculator(rng: Rng, block: int, n: int, length: int) -> Problem:
    program, data, out = rng.integers(0, 4, length).astype(np.int32), rng.uniform(-1, 1, n), np.zeros(n)
    operations = (operator.add, operator.sub, operator.mul, max)
    want = []
    for i in range(n):
        value = float(data[i])
        for j in range(length):
            value = operations[(int(program[j]) + i) & 3](value, float(data[(i + j) % n]))
        want.append(value)
    launch = Launch("calculator", ceil_div(n, block), block, (program, length, data, out, n))
    return Problem([launch], [Want(out, want)])


@problem((32, 2, 10), (1, 1, 0), (128, 4, 50))
def heap_lists(rng: Rng, block: int, blocks: int, length: int) -> Problem:
    sums = np.zeros((blocks, block), np.int32)
    want = np.arange(block) * sum(range(length))
    return Problem([Launch("heap_lists", blocks, block, (sums, length))], [Want(sums, want)])


@case("threads: talkative")
async def talkative(run: Run) -> None:
    await run.sequence("threads", [Launch("talkative", 1, 40, (3,))], [], {})
    lines = [f"thread {i} of block: {i * 0.5:5.2f} 10000000000\n" for i in range(3)]
    assert "".join(run.printed) == "".join(lines)


@case("threads: checked")
async def checked(run: Run) -> None:
    data = np.arange(32, dtype=np.int32)
    await run.sequence("threads", [Launch("checked", 1, 32, (data,))], [], {})
    data[5] = -1
    with pytest.raises(zc.CudaError, match=r"cudaErrorAssert \(710\)"):
        await run.sequence("threads", [Launch("checked", 1, 32, (data,))], [], {})
