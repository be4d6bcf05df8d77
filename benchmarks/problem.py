"""One kernel's work, for every contestant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ("Problem", "blocks")


@dataclass(frozen=True, slots=True)
class Problem:
    """One kernel's work: `arguments` in the kernel's own order (arrays, numpy scalars, ints, floats).

    `grid` and `block` are what the kernel-style peers launch, in blocks and threads, x first.  `answer_name`
    is the argument that holds the answer.  `extent` is what a plain loop must know of the grid beside the
    arguments (rows, segments…): the C functions take it last.
    """

    kernel: str
    arguments: dict[str, Any]
    grid: tuple[int, ...]
    block: tuple[int, ...]
    answer_name: str
    extent: int | None = None

    def answer(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return a copy of the output array."""
        return np.array(self.arguments[self.answer_name], dtype=np.float64).ravel()

    def is_answer(self, got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> bool:
        """Compare with another peer's answer; the border of the Mandelbrot set is chaotic, so 5% may differ there."""
        scale = np.abs(expected).max() or 1.0
        wrong = (np.abs(got - expected) / scale > 1e-3).mean()
        return bool(wrong < (0.05 if self.kernel == "mandelbrot" else 1e-3))


def blocks(count: int, size: int) -> int:
    """How many blocks of `size` cover `count`."""
    return -(-count // size)
