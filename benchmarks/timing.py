"""How a time is taken: the fastest of several runs after a warm-up."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

__all__ = ("best_ms",)

_AT_MOST: Final = 50


async def best_ms(run: Callable[[], Awaitable[None]], seconds: float, at_least: int = 5) -> float:
    """Return the milliseconds of the fastest run within about `seconds`, of at least `at_least` runs."""
    await run()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < at_least or (time.perf_counter() < end and len(times) < _AT_MOST):
        start = time.perf_counter()
        await run()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3
