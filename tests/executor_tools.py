"""Opens executors and waits for launches, for tests."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from executor_kernels import SYS_FUTEX

from zcuda_async.executor.base import KernelExecutor, LaunchRequest, LaunchResult
from zcuda_async.executor.inline import InlineExecutor
from zcuda_async.executor.pool import PoolExecutor
from zcuda_async.executor.stub import StubExecutor
from zcuda_async.memory.arena import Arena

__all__ = ("MIB", "STARTERS", "Pending", "announced", "open_executor", "open_pool", "run", "words")

MIB: Final = 1 << 20
_FUTEX_WAIT: Final = 0
_syscall = ctypes.CDLL(None).syscall
_syscall.argtypes = [
    ctypes.c_long,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_uint,
    ctypes.c_char_p,
    ctypes.c_long,
    ctypes.c_long,
]

STARTERS: Final[dict[str, Callable[[Arena, TaskGroup], Awaitable[KernelExecutor]]]] = {
    "pool": PoolExecutor.start,
    "inline": InlineExecutor.start,
    "stub": StubExecutor.start,
}


@asynccontextmanager
async def open_executor(kind: str) -> AsyncIterator[tuple[KernelExecutor, Arena]]:
    """Start an executor on an arena of its own; close both."""
    arena = Arena(64 * MIB, 64 * MIB)
    try:
        async with anyio.create_task_group() as task_group:
            executor = await STARTERS[kind](arena, task_group)
            try:
                yield executor, arena
            finally:
                await executor.aclose()
    finally:
        arena.close()


@asynccontextmanager
async def open_pool(workers: int = 2) -> AsyncIterator[tuple[PoolExecutor, Arena]]:
    """Start a pool on an arena of its own; close both."""
    arena = Arena(64 * MIB, 64 * MIB)
    try:
        async with anyio.create_task_group() as task_group:
            pool = await PoolExecutor.start(arena, task_group, workers)
            try:
                yield pool, arena
            finally:
                await pool.aclose()
    finally:
        arena.close()


class Pending:
    """A submitted launch: `wait` for its result; every call of its `on_done` is in `results`."""

    def __init__(self, executor: KernelExecutor, request: LaunchRequest) -> None:
        self.results: list[LaunchResult] = []
        self._done = anyio.Event()
        executor.submit(request, self._on_done)

    def _on_done(self, result: LaunchResult) -> None:
        self.results.append(result)
        self._done.set()

    async def wait(self) -> LaunchResult:
        """Return the result."""
        with anyio.fail_after(20):
            await self._done.wait()
        (result,) = self.results
        return result


async def run(executor: KernelExecutor, request: LaunchRequest) -> LaunchResult:
    """Launch and wait."""
    return await Pending(executor, request).wait()


def words(arena: Arena, address: int, count: int) -> list[int]:
    """Read `count` 64-bit words."""
    return arena.view(address, 8 * count).cast("Q").tolist()


async def announced(arena: Arena, address: int) -> None:
    """Wait until a kernel has announced itself at `address` (see `executor_kernels.ANNOUNCE`)."""
    flag = arena.view(address, 4).cast("I")
    timeout = struct.pack("<qq", 20, 0)

    def sleep() -> None:
        while not flag[0]:
            _syscall(SYS_FUTEX, address, _FUTEX_WAIT, 0, timeout, 0, 0)

    await anyio.to_thread.run_sync(sleep)
