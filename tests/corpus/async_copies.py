"""Products whose tiles arrive by cp.async."""

from __future__ import annotations

import numpy as np

from corpus.problems import Launch, Problem, Rng, Want, floats, problem


@problem(48, 16, 160)
def matmul_async_copies(rng: Rng, n: int) -> Problem:
    a, b, c = floats(rng, n, n), floats(rng, n, n), np.zeros((n, n), np.float32)
    launch = Launch("matmul_async_copies", (n // 16, n // 16), (16, 16), (a, b, c, n))
    return Problem([launch], [Want(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5)])
