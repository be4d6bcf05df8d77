"""Blocking calls of the runtime itself, off the event loop."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import TypeVar

import anyio
import anyio.to_thread

__all__ = ("import_in_thread", "run_blocking")

T = TypeVar("T")


async def run_blocking(function: Callable[[], T]) -> T:
    """Call `function` in a thread and wait for it, also when cancelled.

    The thread does not count against the common limit: the user's blocking calls may have used that up, and
    may be waiting for the very thing that `function` does.
    """
    return await anyio.to_thread.run_sync(function, limiter=anyio.CapacityLimiter(1))


async def import_in_thread(module: str) -> None:
    """Import a module that takes a while (the first time), so that an ``import`` of it is quick afterwards."""
    if module not in sys.modules:
        await run_blocking(lambda: import_module(module))
