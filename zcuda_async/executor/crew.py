"""All workers of a pool from their common start to their common end."""

from __future__ import annotations

import os
import threading
import warnings
from typing import TYPE_CHECKING, Final

import anyio

from zcuda_async.executor.process import SpawnedWorker, WorkerProcess, discard_workers, spawn_workers
from zcuda_async.threads import run_blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskGroup

    from zcuda_async.memory.arena import Arena

__all__ = ("Crew",)


class Crew:
    """The workers, started together and ended together; one that died is not replaced singly.

    `victim` is the first worker that ended without being told to.

    Args:
        arena: what they map; each takes a worker region of it.
        task_group: where their readers run.
        on_reply: called on the loop with (kind, address) for each reply of any worker.
        on_death: called on the loop with this crew once it has a victim.
    """

    def __init__(
        self,
        arena: Arena,
        task_group: TaskGroup,
        on_reply: Callable[[int, int], None],
        on_death: Callable[[Crew], None],
    ) -> None:
        self.workers: list[WorkerProcess] = []
        self.victim: WorkerProcess | None = None
        self._arena = arena
        self._task_group = task_group
        self._on_reply = on_reply
        self._on_death = on_death
        self._death_fd = -1
        self._is_ending = False
        self._gone: Final = anyio.Event()

    async def start(self, count: int) -> None:
        """Start `count` workers; they come up in the background and take commands at once.

        Raises:
            CudaError: `cudaErrorMemoryAllocation` if the arena serves no more workers.
            OSError: a process could not be made.  Nothing is left of the others then.
        """
        indices: list[int] = []
        spawning = _Spawning(self._arena, indices)
        try:
            for _ in range(count):
                indices.append(self._arena.take_worker())  # noqa: PERF401 - kept when a later one fails
            await run_blocking(spawning.run)
        except BaseException:
            spawning.abandon()
            self._gone.set()
            for index in indices:
                self._arena.return_worker(index)
            raise
        self._death_fd = spawning.death_fd
        for each in spawning.spawned:
            region = self._arena.layout.worker_region(each.index)
            worker = WorkerProcess(each, region, self._task_group)
            self.workers.append(worker)
            self._task_group.start_soon(self._read, worker)

    async def _read(self, worker: WorkerProcess) -> None:
        await worker.receive(self._on_reply)
        if not self._is_ending:
            self.victim = worker
            self.kill()
            self._on_death(self)

    def kill(self) -> None:
        """Send SIGKILL to all; from now on no death is reported."""
        self._is_ending = True
        for worker in self.workers:
            worker.kill()

    async def end(self) -> None:
        """Kill all and wait until they are gone; their state pages can still be read.  May be called again."""
        self.kill()
        death_fd, self._death_fd = self._death_fd, -1
        if death_fd < 0:
            await self._gone.wait()
            return
        os.close(death_fd)
        for worker in self.workers:
            await worker.reap()
            await worker.close()
        self._gone.set()

    async def release(self) -> None:
        """Give the worker regions back to the arena, once `end` has returned.  May be called again."""
        workers, self.workers = self.workers, []
        if workers:  # in a thread: they may have used much scratch memory
            await run_blocking(lambda: self._return_regions([worker.index for worker in workers]))

    def _return_regions(self, indices: list[int]) -> None:
        for index in indices:
            self._arena.return_worker(index)

    def __del__(self) -> None:
        if self._death_fd >= 0:
            # Losing the pipe ends the processes.
            os.close(self._death_fd)
            warnings.warn("a worker pool was not closed; call aclose()", ResourceWarning, source=self, stacklevel=2)


class _Spawning:
    """Starts workers in a thread.  Whoever waits for that may be interrupted; then nobody gets them."""

    def __init__(self, arena: Arena, indices: list[int]) -> None:
        self.death_fd = -1
        self.spawned: list[SpawnedWorker] = []
        self._arena = arena
        self._indices = indices
        self._lock = threading.Lock()
        self._is_abandoned = False

    def run(self) -> None:
        death_fd, spawned = spawn_workers(self._arena, self._indices)
        with self._lock:
            if self._is_abandoned:
                discard_workers(death_fd, spawned)
            else:
                self.death_fd, self.spawned = death_fd, spawned

    def abandon(self) -> None:
        with self._lock:
            self._is_abandoned = True
            if self.death_fd >= 0:
                discard_workers(self.death_fd, self.spawned)
                self.death_fd, self.spawned = -1, []
