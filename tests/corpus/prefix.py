"""Prefix sums, reductions, compaction."""

from __future__ import annotations

import numpy as np

from corpus.cases import Array
from corpus.problems import Launch, Problem, Rng, Want, floats, problem


def _integers(rng: Rng, count: int) -> Array:
    return rng.integers(-1000, 1000, count).astype(np.int32)


@problem(500, 1, 33, 1024)
def scan_hillis_steele(rng: Rng, block: int) -> Problem:
    n = max(1, block - 2)
    data, out = floats(rng, n), np.zeros(n, np.float32)
    launch = Launch("scan_hillis_steele", 1, block, (data, out, n), shared=8 * block)
    return Problem([launch], [Want(out, np.cumsum(data, dtype=np.float64), rtol=1e-5)])


@problem(128, 32, 1024)
def scan_segmented(rng: Rng, block: int) -> Problem:
    n = 3 * block
    data, head = _integers(rng, n), (rng.random(n) < 0.2).astype(np.uint8)
    want, total = np.zeros(n, np.int32), 0
    for i in range(n):
        total = data[i] if head[i] or i % 32 == 0 else total + data[i]
        want[i] = total
    out = np.zeros(n, np.int32)
    return Problem([Launch("scan_segmented", 3, block, (data, head, out))], [Want(out, want)])


@problem(256, 32, 1024)
def reduce_interleaved(rng: Rng, block: int) -> Problem:
    data, out = _integers(rng, 5 * block), np.zeros(5, np.int32)
    launch = Launch("reduce_interleaved", 5, block, (data, out), shared=4 * block)
    return Problem([launch], [Want(out, data.reshape(5, block).sum(1))])


@problem(256, 32, 1024, 2)
def reduce_sequential(rng: Rng, block: int) -> Problem:
    data, out = _integers(rng, 10 * block), np.zeros(5, np.int32)
    launch = Launch("reduce_sequential", 5, block, (data, out), shared=4 * block)
    return Problem([launch], [Want(out, data.reshape(5, 2 * block).sum(1))])


@problem(3, 40)
def reduce_unrolled(rng: Rng, blocks: int) -> Problem:
    data, out = _integers(rng, 256 * blocks), np.zeros(blocks, np.int32)
    return Problem([Launch("reduce_unrolled", blocks, 256, (data, out))], [Want(out, data.reshape(-1, 256).sum(1))])


@problem((128, 1000), (32, 5), (1024, 50000))
def argmax(rng: Rng, block: int, n: int) -> Problem:
    data = rng.integers(-50, 50, n).astype(np.float32)
    value, index = np.zeros(1, np.float32), np.zeros(1, np.int32)
    launch = Launch("argmax", 1, block, (data, n, value, index))
    return Problem([launch], [Want(value, data.max()), Want(index, data.argmax())])


@problem((128, 1000), (32, 5), (1024, 50000))
def compact_stable(rng: Rng, block: int, n: int) -> Problem:
    data, out, count = _integers(rng, n), np.zeros(n, np.int32), np.zeros(1, np.int32)
    kept = data[data & 1 == 1]
    want = np.concatenate([kept, np.zeros(n - kept.size, np.int32)])
    return Problem(
        [Launch("compact_stable", 1, block, (data, out, count, n))], [Want(out, want), Want(count, kept.size)]
    )


@problem((256, 250), (32, 1), (1024, 1024))
def run_length(rng: Rng, block: int, n: int) -> Problem:
    data = np.repeat(rng.integers(0, 4, n), rng.integers(1, 9, n))[:n].astype(np.int32)
    starts = np.flatnonzero(np.concatenate([[True], data[1:] != data[:-1]]))
    values, lengths, runs = (np.zeros(size, np.int32) for size in (n, n, 1))
    padding = np.zeros(n - starts.size, np.int32)
    wants = [
        Want(values, np.concatenate([data[starts], padding])),
        Want(lengths, np.concatenate([np.diff(starts, append=n), padding])),
        Want(runs, starts.size),
    ]
    return Problem([Launch("run_length", 1, block, (data, n, values, lengths, runs))], wants)
