"""The two clocks a device can live by.

`RealClock` is the machine's monotonic clock: modelled deadlines are slept for, nothing else is slowed.

`VirtualClock` is a discrete-event clock.  It stands still until it jumps, and it jumps to the earliest
pending deadline only when

1. no real work is in flight (a kernel, a copy thread, a host callback, a compilation), and
2. the event loop went round `settle_turns` times without any submission, completion or new deadline,
   so that every task that was ready had its turn to submit what it wants to overlap.

Deadlines of the same instant are delivered together, in the order in which they were set.  Host work that
the device does not know of takes no virtual time; keep the clock from jumping meanwhile with `hold`.
All of a clock is touched on its event loop's thread only.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

import anyio
from anyio.lowlevel import checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zcuda_async.kernel import Kernel
    from zcuda_async.launch import LaunchConfig

__all__ = ("Clock", "RealClock", "VirtualClock")

_NS_PER_MS: Final = 1_000_000


class Clock(ABC):
    """What a device reads the time from.  One open device uses a clock at a time.

    Users make a `RealClock` or a `VirtualClock`; the methods that are not about reading the time or
    sleeping are the device's.
    """

    def __init__(self) -> None:
        self._deadlines: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._wake: anyio.Event | None = None
        self._owner: str | None = None
        self._sleepers: set[_Sleeper] = set()

    @abstractmethod
    def now_ns(self) -> int:
        """The time in nanoseconds since an arbitrary start."""

    @property
    def now_ms(self) -> float:
        """The time in milliseconds since an arbitrary start."""
        return self.now_ns() / _NS_PER_MS

    async def sleep_ms(self, duration: float) -> None:
        """Wait `duration` milliseconds of this clock; on a virtual clock it stands for host work of that length.

        Raises:
            RuntimeError: no open device has the clock.
            anyio.ClosedResourceError: its device was closed meanwhile.
        """
        if self._owner is None:
            raise RuntimeError(
                "this clock belongs to no open device, so its time does not pass; pass it to open_device(clock=...)"
            )
        sleeper = _Sleeper()
        self._sleepers.add(sleeper)
        self.call_at(self.now_ns() + round(duration * _NS_PER_MS), sleeper.wake)
        try:
            await sleeper.ended.wait()
        finally:
            self._sleepers.discard(sleeper)
        if not sleeper.is_over:
            raise anyio.ClosedResourceError("the clock's device was closed before the sleep was over")

    def attach(self, owner: str) -> None:
        """Give the clock to the open device `owner`; RuntimeError if another one has it."""
        if self._owner is not None:
            raise RuntimeError(f"this clock is in use by {self._owner}; give {owner} a clock of its own")
        self._owner = owner

    def detach(self) -> None:
        """Take the clock back from its device; deadlines still pending are dropped."""
        self._owner = None
        self._deadlines.clear()
        self.changed()
        for sleeper in self._sleepers:
            sleeper.ended.set()

    def call_at(self, deadline_ns: int, callback: Callable[[], None]) -> None:
        """Call `callback` on the loop thread once the time is `deadline_ns`."""
        self._order += 1
        heappush(self._deadlines, (deadline_ns, self._order, callback))
        self.changed()

    def begin_work(self) -> None:  # noqa: B027 - only a virtual clock cares
        """Note that real work started; pairs with `end_work`."""

    def end_work(self) -> None:  # noqa: B027 - likewise
        """Note that real work ended."""

    def changed(self) -> None:
        """Wake `run`: a deadline or the amount of work changed."""
        if self._wake is not None:
            self._wake.set()

    @abstractmethod
    async def run(self) -> None:
        """Deliver deadlines until cancelled; the device runs this in its task group."""

    async def _wait_changed(self, timeout: float | None) -> None:
        """Wait for `changed`, at most `timeout` seconds."""
        self._wake = anyio.Event()
        with anyio.move_on_after(timeout):
            await self._wake.wait()
        self._wake = None

    def _deliver(self, now_ns: int) -> None:
        while self._deadlines and self._deadlines[0][0] <= now_ns:
            heappop(self._deadlines)[2]()


class _Sleeper:
    """A task in `Clock.sleep_ms`."""

    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.is_over = False

    def wake(self) -> None:
        self.is_over = True
        self.ended.set()


class RealClock(Clock):
    """The machine's monotonic clock, the same in every process: workers' time stamps fit it."""

    def now_ns(self) -> int:
        """The time in nanoseconds since an arbitrary start."""
        return time.monotonic_ns()

    async def run(self) -> None:
        """Deliver deadlines until cancelled."""
        while True:
            self._deliver(self.now_ns())
            if self._deadlines:
                await self._wait_changed(max(0.0, (self._deadlines[0][0] - self.now_ns()) / 1e9))
            else:
                await self._wait_changed(None)


class VirtualClock(Clock):
    """A clock that jumps between completions, so tests of overlap are exact and instant.

    Kernels take no virtual time unless `kernel_ms` says how long: a number of milliseconds, or a function of
    the kernel and its `LaunchConfig`.  Copies take what the device's link profile says.  `settle_turns` is
    how many quiet turns of the event loop must pass before a jump: raise it if tasks need more turns than
    that between one completion and the submissions that follow from it.
    """

    def __init__(
        self,
        *,
        kernel_ms: float | Callable[[Kernel, LaunchConfig], float] = 0.0,
        settle_turns: int = 16,
    ) -> None:
        super().__init__()
        if settle_turns < 1:
            raise ValueError(f"settle_turns must be at least 1, got {settle_turns}")
        self._kernel_ms = kernel_ms
        self._settle_turns = settle_turns
        self._now_ns = 0
        self._work = 0
        self._changes = 0

    def now_ns(self) -> int:
        """The time in nanoseconds since an arbitrary start."""
        return self._now_ns

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the clock from jumping inside the ``with`` block, for host work that the device cannot see."""
        self.begin_work()
        try:
            yield
        finally:
            self.end_work()

    def kernel_ns(self, kernel: Kernel, config: LaunchConfig) -> int:
        """The modelled duration of a launch in nanoseconds."""
        duration = self._kernel_ms(kernel, config) if callable(self._kernel_ms) else self._kernel_ms
        return round(duration * _NS_PER_MS)

    def begin_work(self) -> None:
        """Note that real work started: no jump until it has ended."""
        self._work += 1
        self._changes += 1

    def end_work(self) -> None:
        """Note that real work ended."""
        self._work -= 1
        self.changed()

    def changed(self) -> None:
        """Wake `run`, and start counting quiet turns anew."""
        self._changes += 1
        super().changed()

    async def run(self) -> None:
        """Deliver deadlines until cancelled."""
        while True:
            if self._work or not self._deadlines:
                await self._wait_changed(None)
            elif await self._is_settled():
                self._now_ns = max(self._now_ns, self._deadlines[0][0])
                self._deliver(self._now_ns)

    async def _is_settled(self) -> bool:
        """Let the loop go round; True if nothing at all happened meanwhile."""
        changes = self._changes
        for _ in range(self._settle_turns):
            await checkpoint()
            if self._changes != changes:
                return False
        return True
