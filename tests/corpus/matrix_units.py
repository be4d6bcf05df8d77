"""Matrix products by tensor-core instructions."""

from __future__ import annotations

import numpy as np

from corpus.problems import Launch, Problem, Rng, Want, problem


@problem((32, 64, 48), (16, 32, 16), (64, 128, 256))
def wmma_half(rng: Rng, m: int, n: int, k: int) -> Problem:
    a, b = (rng.uniform(-1, 1, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    c = np.zeros((m, n), np.float32)
    want = a.astype(np.float64) @ b.astype(np.float64)
    return Problem(
        [Launch("wmma_half", (n // 32, m // 16), 64, (a, b, c, n, k))], [Want(c, want, rtol=1e-4, atol=1e-4)]
    )


@problem((32, 48, 64), (16, 16, 16))
def wmma_int8(rng: Rng, m: int, n: int, k: int) -> Problem:
    a, b = rng.integers(-128, 128, (m, k)).astype(np.int8), rng.integers(-128, 128, (n, k)).astype(np.int8)
    c, want = np.zeros((m, n), np.int32), a.astype(np.int64) @ b.astype(np.int64).T
    return Problem([Launch("wmma_int8", (n // 16, m // 16), 32, (a, b, c, n, k))], [Want(c, want)])


@problem((32, 24, 40), (16, 8, 8), (64, 64, 128))
def mma_half(rng: Rng, m: int, n: int, k: int) -> Problem:
    a, b = (rng.uniform(-1, 1, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    c, want = np.zeros((m, n), np.float32), a.astype(np.float64) @ b.astype(np.float64).T
    return Problem([Launch("mma_half", (n // 8, m // 16), 32, (a, b, c, n, k))], [Want(c, want, rtol=1e-4, atol=1e-4)])
