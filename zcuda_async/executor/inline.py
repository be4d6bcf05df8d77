"""An executor without processes: the same machine code, in a thread of this one, for debugging."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, Self

import anyio
import anyio.lowlevel
from anyio import CapacityLimiter, to_thread

from zcuda_async.callbacks import start_soon
from zcuda_async.errors import Status
from zcuda_async.executor.base import Fault, LaunchRequest, LaunchResult
from zcuda_async.executor.protocol import BLOCK_OFFSET, CURRENT, NO_BLOCK
from zcuda_async.executor.slots import LaunchSlot, SlotPool
from zcuda_async.jit.abi import WORKER
from zcuda_async.memory.mapping import PAGE
from zcuda_async.threads import run_blocking

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from zcuda_async.executor.native import NativeCode
    from zcuda_async.jit.info import KernelCode
    from zcuda_async.memory.arena import Arena

__all__ = ("InlineExecutor",)

_ENDED: Final = Fault(Status.cudaErrorContextIsDestroyed, "the device was reset or closed before the launch ended")


class InlineExecutor:
    """Runs launches in this process, one at a time, in the order of submission; made by `start`.

    A debugger sees the kernels, but nothing is isolated: **a kernel that faults ends the program**, and
    one that never returns cannot be stopped, so that `reset` and `aclose` wait for it.  Calls may take 4 MiB of the
    thread's native stack, about 2,000 recursive calls of a group.
    """

    def __init__(self, arena: Arena, task_group: TaskGroup) -> None:
        self._arena = arena
        self._task_group = task_group
        self._limiter = CapacityLimiter(1)
        self._slots = SlotPool(arena)
        self._codes: dict[KernelCode, NativeCode] = {}
        self._index = arena.take_worker()
        region = arena.layout.worker_region(self._index)
        self._worker = region.page
        self._page = arena.view(region.page, PAGE)
        WORKER.pack_into(self._page, 0, region.shared, region.scratch, region.scratch_size, NO_BLOCK, 0, 0, 0, 0)
        self._queue: deque[LaunchSlot] = deque()
        self._current: LaunchSlot | None = None
        self._idle: anyio.Event | None = None
        self._fault: Fault | None = None
        self._is_closed = False

    @classmethod
    async def start(cls, arena: Arena, task_group: TaskGroup, workers: int | None = None) -> Self:
        """Load the machinery (in a thread, some 50 ms) and make an executor.

        Raises:
            ValueError: `workers` is neither None nor 1.
        """
        if workers not in (None, 1):
            raise ValueError(f"the inline executor has one worker, got workers={workers}")
        await run_blocking(_import_native)
        return cls(arena, task_group)

    @property
    def workers(self) -> int:
        """How many launches can make progress at once: one."""
        return 1

    def submit(self, request: LaunchRequest, on_done: Callable[[LaunchResult], None]) -> None:
        """Queue a launch; `on_done` is called exactly once, later, on the event-loop thread.

        Raises:
            CudaError: `cudaErrorMemoryAllocation` if the host heap has no room for the launch.
            anyio.ClosedResourceError: the executor is closed.
        """
        if self._is_closed:
            raise anyio.ClosedResourceError
        slot = self._slots.take()
        grid = request.grid
        slot.total_blocks = grid[0] * grid[1] * grid[2]
        try:
            slot.fill(request, 1)
        except BaseException:
            self._slots.put_back(slot)
            raise
        slot.request, slot.on_done = request, on_done
        self._queue.append(slot)
        if self._idle is None:
            self._idle = anyio.Event()
            start_soon(self._task_group, self._work, self._idle)

    async def reset(self) -> None:
        """Let the running launch end early, answer the others with a fault, and forget the fault."""
        await self._quiesce()
        self._fault = None

    async def aclose(self) -> None:
        """As `reset`, then release everything.  Runs shielded; calling it again does nothing."""
        was_closed, self._is_closed = self._is_closed, True
        await self._quiesce()
        if was_closed:
            return
        for code in self._codes.values():
            code.close()
        self._codes.clear()
        self._slots.close()
        self._page.release()
        self._arena.return_worker(self._index)

    async def _quiesce(self) -> None:
        self._fault = self._fault or _ENDED
        if self._current is not None:
            self._current.stop()
        with anyio.CancelScope(shield=True):
            if self._idle is not None:
                await self._idle.wait()
            else:
                await anyio.lowlevel.checkpoint()

    async def _work(self, idle: anyio.Event) -> None:
        """Run what is queued, then end.  Shielded: a kernel cannot be left behind."""
        try:
            with anyio.CancelScope(shield=True):
                while self._queue:
                    await self._run(self._queue.popleft())
        finally:
            self._idle = None
            idle.set()

    async def _run(self, slot: LaunchSlot) -> None:
        self._current = slot
        fault = self._fault
        if fault is None:
            fault = await to_thread.run_sync(self._execute, slot, limiter=self._limiter)
        self._current = None
        self._finish(slot, fault)

    def _execute(self, slot: LaunchSlot) -> Fault | None:
        """Run one launch (in a thread)."""
        from zcuda_async.executor.native import LoadError, NativeCode

        code = slot.request.code
        native = self._codes.get(code)
        if native is None:
            try:
                native = self._codes[code] = NativeCode(code.object_code, code.entry)
            except LoadError as error:
                return Fault(Status.cudaErrorInvalidKernelImage, f"cannot load kernel {code.entry}: {error}")
        CURRENT.pack_into(self._page, BLOCK_OFFSET, NO_BLOCK)
        started = monotonic_ns()
        native.entry(slot.address, self._worker)
        slot.stamp(started, monotonic_ns())
        return None if slot.is_complete else self._fault

    def _finish(self, slot: LaunchSlot, fault: Fault | None) -> None:
        started, finished = slot.stamps()
        now = monotonic_ns()
        if fault is not None and self._fault is None:
            self._fault = fault
        on_done = slot.on_done
        slot.empty()
        self._slots.put_back(slot)
        on_done(LaunchResult(started or now, finished or now, fault))


def _import_native() -> None:
    import zcuda_async.executor.native  # noqa: F401
