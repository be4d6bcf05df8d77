"""Sorts, merges and searches that take several kernels."""

from __future__ import annotations

import numpy as np

from corpus.problems import Launch, Problem, Rng, Want, ceil_div, floats, problem


@problem((256, 1000), (64, 1), (1024, 20000))
def radix_sort(rng: Rng, block: int, n: int) -> Problem:
    keys, values = rng.integers(0, 2**32, n, dtype=np.uint32), np.arange(n, dtype=np.uint32)
    keys[::7] = keys[0]  # a stable sort keeps these in order
    order = np.argsort(keys, kind="stable")
    from_keys, from_values, to_keys, to_values = keys, values, np.zeros_like(keys), np.zeros_like(values)
    blocks = ceil_div(n, block)
    counts = np.zeros(16 * blocks, np.uint32)
    launches = []
    for shift in range(0, 32, 4):
        launches += [
            Launch("radix_count", blocks, block, (from_keys, counts, shift, n)),
            Launch("radix_scan", 1, 256, (counts, counts.size)),
            Launch("radix_scatter", blocks, block, (from_keys, from_values, to_keys, to_values, counts, shift, n)),
        ]
        from_keys, from_values, to_keys, to_values = to_keys, to_values, from_keys, from_values
    return Problem(launches, [Want(keys, keys[order]), Want(values, order)])


@problem((128, 1024), (32, 64), (256, 1 << 14))
def bitonic_global(rng: Rng, block: int, n: int) -> Problem:
    data = floats(rng, n, low=-1)
    launches = []
    span = 2
    while span <= n:
        distance = span // 2
        while distance:
            launches.append(Launch("bitonic_step", n // block, block, (data, distance, span)))
            distance //= 2
        span *= 2
    return Problem(launches, [Want(data, np.sort(data))])


@problem((128, 101), (512, 512), (32, 2))
def odd_even(rng: Rng, block: int, n: int) -> Problem:
    data = np.stack([rng.permutation(n), np.arange(n)], 1).astype(np.int32)
    return Problem([Launch("odd_even", 1, block, (data, n))], [Want(data, data[np.argsort(data[:, 0])])])


@problem((700, 301, 7), (1, 0, 3), (5000, 12000, 64))
def merge_path(rng: Rng, na: int, nb: int, share: int) -> Problem:
    a, b = (np.sort(rng.integers(0, 500, size)).astype(np.int32) for size in (na, nb))
    out = np.zeros(na + nb, np.int32)
    launch = Launch("merge_path", ceil_div(out.size, share * 64), 64, (a, na, b, nb, out, share))
    return Problem([launch], [Want(out, np.sort(np.concatenate([a, b])))])


@problem(500, 1, 3000)
def rank_sort(rng: Rng, n: int) -> Problem:
    data, out = rng.integers(-200, 200, n).astype(np.int16), np.zeros(n, np.int16)
    return Problem([Launch("rank_sort", ceil_div(n, 128), 128, (data, out, n))], [Want(out, np.sort(data))])


@problem((1000, 500), (1, 5), (100000, 3000))
def lower_bound(rng: Rng, n: int, count: int) -> Problem:
    data, needles = np.sort(rng.integers(0, 300, n).astype(np.float64)), rng.uniform(-10, 310, count).round()
    where = np.zeros(count, np.int32)
    launch = Launch("lower_bound", ceil_div(count, 128), 128, (data, n, needles, where, count))
    return Problem([launch], [Want(where, np.searchsorted(data, needles))])


@problem((40, 100), (1, 1), (200, 300))
def quicksort_rows(rng: Rng, width: int, count: int) -> Problem:
    rows = rng.integers(-50, 50, (count, width)).astype(np.int32)
    return Problem(
        [Launch("quicksort_rows", ceil_div(count, 64), 64, (rows, width, count))], [Want(rows, np.sort(rows))]
    )
