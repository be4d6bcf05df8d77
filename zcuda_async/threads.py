"""Blocking calls of the runtime itself, off the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread

__all__ = ("run_blocking",)

T = TypeVar("T")


async def run_blocking(function: Callable[[], T]) -> T:
    """Call `function` in a thread and wait for it, also when cancelled.

    The thread does not count against the common limit: the user's blocking calls may have used that up, and
    may be waiting for the very thing that `function` does.
    """
    return await anyio.to_thread.run_sync(function, limiter=anyio.CapacityLimiter(1))
