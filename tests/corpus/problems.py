"""Cases written as data: the launches of a topic's kernels in stream order, and what they must leave in memory.

Each topic is a pair of files: ``sorting.cu`` with kernels and ``sorting.py`` with a function for each kernel (or for
kernels that work together), which makes a `Problem` from random numbers and a shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from corpus.cases import CASES, EXHAUSTIVE, Array, Case, Run

__all__ = ("Launch", "Problem", "Rng", "Want", "ceil_div", "floats", "problem")

Rng = np.random.Generator
Dim = int | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch.  An array among `args` is device memory; the same array in two launches is the same memory."""

    kernel: str
    grid: Dim
    block: Dim
    args: Sequence[Any] = ()
    shared: int = 0
    cooperative: bool = False


@dataclass(frozen=True, slots=True)
class Want:
    """What `array` must hold afterwards: values (within a tolerance; exactly, by default), or a condition."""

    array: Array
    value: Any
    rtol: float = 0.0
    atol: float = 0.0

    def failure(self, got: Array) -> str:
        """What is wrong with `got`; empty if nothing is."""
        if callable(self.value):
            return "" if self.value(got) else f"the condition does not hold for {got}"
        want = np.broadcast_to(np.asarray(self.value), got.shape)
        fine = np.isclose(got, want, self.rtol, self.atol, equal_nan=True) if self.rtol or self.atol else got == want
        if got.dtype.kind == "f":
            fine |= np.isnan(got) & np.isnan(want)
        wrong = np.argwhere(~fine)
        lines = [f"{list(map(int, at))}: got {got[tuple(at)]!r}, want {want[tuple(at)]!r}" for at in wrong[:4]]
        return f"{len(wrong)} of {got.size} differ: {'; '.join(lines)}" if lines else ""


@dataclass(frozen=True, slots=True)
class Problem:
    """Launches in order; `symbols` are the module's variables that are written first."""

    launches: Sequence[Launch]
    wants: Sequence[Want]
    symbols: Mapping[str, Array] = field(default_factory=dict)


def problem(*shapes: Any) -> Callable[[Callable[..., Problem]], Callable[..., Problem]]:
    """Make a case of a function ``make(rng, *shape)``: for the first shape, or for all of them if exhaustive."""
    tuples = tuple(shape if isinstance(shape, tuple) else (shape,) for shape in shapes) or ((),)

    def register(make: Callable[..., Problem]) -> Callable[..., Problem]:
        topic = make.__module__.rpartition(".")[2]

        async def check(run: Run) -> None:
            for shape in tuples if EXHAUSTIVE else tuples[:1]:
                made = make(np.random.default_rng(len(make.__name__)), *shape)
                got = await run.sequence(topic, made.launches, [want.array for want in made.wants], made.symbols)
                failures = [want.failure(array) for want, array in zip(made.wants, got, strict=True)]
                assert not any(failures), (shape, failures)

        CASES.append(Case(f"{topic}: {make.__name__}", check))
        return make

    return register


def ceil_div(a: int, b: int) -> int:
    """How many blocks of `b` cover `a`."""
    return -(-a // b)


def floats(rng: Rng, *shape: int, low: float = 0.0, high: float = 1.0) -> Array:
    """Uniform float32 numbers."""
    return rng.uniform(low, high, shape).astype(np.float32)
