"""Kernels that launch kernels, which is refused."""

from __future__ import annotations

import numpy as np

from corpus.problems import Launch, Problem, Rng, Want, problem


@problem()
def parent(rng: Rng) -> Problem:
    out = np.zeros(1, np.int32)
    return Problem([Launch("parent", 1, 1, (out, 2))], [Want(out, 7)])
