"""An executor that computes nothing: it accepts launches, remembers them, and says that they are done."""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING, Final, Self

import anyio
import anyio.lowlevel

from zcuda_async.callbacks import start_soon
from zcuda_async.errors import Status
from zcuda_async.executor.base import Fault, LaunchRequest, LaunchResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskGroup

    from zcuda_async.memory.arena import Arena

__all__ = ("StubExecutor",)

_ENDED: Final = Fault(Status.cudaErrorContextIsDestroyed, "the device was reset or closed before the launch ended")


class StubExecutor:
    """Records launches in `launches` and runs none: **no kernel's output is ever written**.

    For studying streams, events and timing without caring for results.  Each launch ends at once,
    with equal start and finish times.
    """

    needs_code: Final = False
    """Kernels need not be compiled for it; `LaunchRequest.code` may hold no object code."""

    def __init__(self, task_group: TaskGroup, workers: int) -> None:
        self.launches: Final[list[LaunchRequest]] = []
        """Every launch submitted so far, in order."""
        self._task_group = task_group
        self._workers = workers
        self._waiting: list[Callable[[LaunchResult], None]] = []
        self._is_closed = False

    @classmethod
    async def start(cls, arena: Arena, task_group: TaskGroup, workers: int | None = None) -> Self:
        """Make a stub; it uses no memory of `arena`.  `workers` is only what `workers` reports, by default 1."""
        del arena
        await anyio.lowlevel.checkpoint()
        return cls(task_group, 1 if workers is None else workers)

    @property
    def workers(self) -> int:
        """How many launches can make progress at once."""
        return self._workers

    def submit(self, request: LaunchRequest, on_done: Callable[[LaunchResult], None]) -> None:
        """Record a launch; `on_done` is called soon, on the event-loop thread, though nothing was computed.

        Raises:
            anyio.ClosedResourceError: the stub is closed.
        """
        if self._is_closed:
            raise anyio.ClosedResourceError
        self.launches.append(request)
        self._waiting.append(on_done)
        if len(self._waiting) == 1:
            start_soon(self._task_group, self._answer)

    async def _answer(self) -> None:
        self._answer_all(None)

    def _answer_all(self, fault: Fault | None) -> None:
        waiting, self._waiting = self._waiting, []
        now = monotonic_ns()
        for on_done in waiting:
            on_done(LaunchResult(now, now, fault))

    async def reset(self) -> None:
        """Answer what is pending; `launches` is kept."""
        self._answer_all(_ENDED)
        await anyio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """Answer what is pending and take no more.  Calling it again does nothing."""
        self._is_closed = True
        self._answer_all(_ENDED)
        with anyio.CancelScope(shield=True):
            await anyio.lowlevel.checkpoint()
