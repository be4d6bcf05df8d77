"""Textures and surfaces: what is refused today."""

from __future__ import annotations

import numpy as np

from corpus.problems import Launch, Problem, Rng, Want, problem


@problem()
def texture_rotate(rng: Rng) -> Problem:
    out = np.zeros((8, 8), np.float32)
    return Problem([Launch("texture_rotate", 1, (8, 8), (0, out, 8, 8, 1.0, 0.0))], [Want(out, 0)])
