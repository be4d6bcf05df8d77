"""The context: owner of everything an open device has, and the engine behind its streams.

**Streams are state machines on the event loop's thread.**  A stream is a linked list of operations; only its
head runs.  A submission to an idle stream starts at once, inside the submitting call: a kernel goes straight to
`KernelExecutor.submit`, a small copy is made on the spot.  When an operation ends (a call from the executor, a
finished thread, a modelled deadline), `Stream.head_done` lets the next one start.  So there is no task per stream
and idle streams cost only their fields; the few operations that need a task (copies in threads, host
callbacks, compilations) get one in the device's task group.

**Launches go ahead.**  Short launches that directly follow one another are handed to the executor before their
turn (`send_ahead`), as far as it takes them: one worker runs them in order, and the round trip to it is paid once
and not for each.  Nothing else of a stream starts before its turn.

**No recursion.**  A stream that may go on is put on the ready list and `_pump` works the list off, however the
operations of thousands of streams depend on each other.  It hands the loop back after 2 ms.

**Faults are sticky.**  The first fault ends everything pending, and refuses everything submitted later, with
the same `CudaError`, until `reset`.  An executor that fails while idle says so at once (`FaultReporter`).

Everything here is touched on the loop's thread only, except the two heaps, which lock for themselves.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import checkpoint

from zcuda_async.callbacks import start_soon
from zcuda_async.errors import CudaError, LaunchError, Status
from zcuda_async.executor.base import FaultReporter, LaunchAhead
from zcuda_async.memory.arena import Arena
from zcuda_async.memory.heap import Heap
from zcuda_async.op import NS_PER_MS, AbandonedError, Completion, Op
from zcuda_async.options import DeviceLimits
from zcuda_async.services import DeviceServices
from zcuda_async.threads import run_blocking
from zcuda_async.timing.clock import VirtualClock
from zcuda_async.timing.link import copy_engines

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from anyio.abc import TaskGroup

    from zcuda_async.executor.base import Fault, KernelExecutor
    from zcuda_async.jit.info import KernelCode, ModuleInfo
    from zcuda_async.services import PrintTarget
    from zcuda_async.stream import Stream
    from zcuda_async.timing.clock import Clock
    from zcuda_async.timing.link import LinkProfile
    from zcuda_async.timing.recorder import Recorder
    from zcuda_async.work import LaunchOp

__all__ = ("Context", "KernelCompiler")

T = TypeVar("T")

_PUMP_NS: Final = 2_000_000
"""How long the pump keeps the event loop before it lets other tasks run."""
_COPY_THREADS: Final = 4
_CALLBACK_THREADS: Final = 64


class KernelCompiler(Protocol):
    """What the runtime asks of a compiler: `zcuda_async.executor.compiler.CompilerClient` is the real one."""

    async def inspect(self, text: str, filename: str = ...) -> ModuleInfo:
        """Read a module's kernels and variables; CompileError if it is not valid."""

    async def compile(self, text: str, filename: str, kernel: str, block: tuple[int, int, int]) -> KernelCode:
        """Compile one kernel for one block shape; CompileError if it cannot be."""

    async def aclose(self) -> None:
        """Release everything, also when cancelled."""


class Context:
    """Owns the memory, streams, executor and compiler of one open device; made by `open_device`."""

    def __init__(
        self,
        *,
        name: str,
        arena: Arena,
        clock: Clock,
        link: LinkProfile | None,
        recorder: Recorder | None,
        limits: DeviceLimits | None = None,
        printf: PrintTarget = None,
    ) -> None:
        layout = arena.layout
        self.name = name
        self.arena = arena
        self.clock = clock
        self.virtual_clock = clock if isinstance(clock, VirtualClock) else None
        self.now_ns = clock.now_ns
        self.link = link
        self.engines = copy_engines(link)
        self.recorder = recorder
        self.device_heap = Heap(arena, arena.device_heap, layout.device_base, layout.limit, "device", name)
        self.pinned_heap = Heap(arena, arena.host_heap, layout.host_base, layout.device_base, "pinned", name)
        self.services = DeviceServices(name, arena, limits or DeviceLimits(), printf, self.note_failure)
        self.task_group: TaskGroup
        self.executor: KernelExecutor
        self.needs_code = True
        self.thread = threading.get_ident()
        self.epoch_ns = clock.now_ns()
        self.sequence = 0
        self.refusal: BaseException | None = None
        self.busy: dict[Stream, None] = {}
        self.busy_blocking: dict[Stream, None] = {}
        self.is_stopping = False
        self._names = 0
        self._fault: CudaError | None = None
        self._fault_observed = False
        self._failures: list[Completion[Any]] = []
        self._ready: deque[Stream] = deque()
        self._is_pumping = False
        self._in_flight = 0
        self._launch_limit = 1
        self._generation = 0
        self._held_launches: list[tuple[int, int, LaunchOp]] = []
        self._ahead: LaunchAhead | None = None
        self._compiler: KernelCompiler | None = None
        self._start_compiler: Callable[[], Awaitable[KernelCompiler]]
        self._compiler_lock = anyio.Lock()
        self._resetting = anyio.Lock()
        self._resets = 0
        self._copies = 0
        self._copies_done: anyio.Event | None = None
        self._copy_limiter = anyio.CapacityLimiter(_COPY_THREADS)
        self._callback_limiter = anyio.CapacityLimiter(_CALLBACK_THREADS)

    # -- starting and ending ------------------------------------------------------------------------------

    def open(
        self, task_group: TaskGroup, executor: KernelExecutor, start_compiler: Callable[[], Awaitable[KernelCompiler]]
    ) -> None:
        """Take the finished parts into service; the compiler starts when it is first needed."""
        self.task_group = task_group
        self.executor = executor
        self.needs_code = getattr(executor, "needs_code", True)
        self._start_compiler = start_compiler
        if isinstance(executor, FaultReporter):
            executor.watch_faults(self.fault_happened)
        self._launch_limit = max(4, 2 * executor.workers)
        # On a virtual clock a launch's modelled end may come after the executor's.
        self._ahead = executor if isinstance(executor, LaunchAhead) and self.virtual_clock is None else None
        task_group.start_soon(self.clock.run, name=f"{self.name} clock")

    async def get_compiler(self) -> KernelCompiler:
        """The compiler, started if it was not yet."""
        async with self._compiler_lock:
            self.check_open()
            if self._compiler is None:
                self._compiler = await self._start_compiler()
            return self._compiler

    async def drain(self) -> None:
        """Wait until no stream has work, then raise what nobody has heard of."""
        while self.busy:
            await self._settle_busy()
        if self._fault is not None and not self._fault_observed:
            self.raise_fault()
        self.raise_failures(list(self._failures))

    def abandon(self, reason: str) -> None:
        """End everything pending with `AbandonedError`, and refuse what comes later."""
        self.refusal = anyio.ClosedResourceError(f"{self.name} is closed; use it inside its `async with` block")
        self._generation += 1
        self.is_stopping = True
        self.end_pending(lambda op: AbandonedError(f"{op.label} on {op.stream.name} was abandoned: {reason}"))

    async def aclose(self) -> None:
        """Release everything; runs shielded."""
        try:
            await self._close_parts()
        finally:
            self.services.close()
            self.device_heap.close()
            self.pinned_heap.close()
            self.clock.detach()
            await run_blocking(self.arena.close)

    async def _close_parts(self) -> None:
        try:
            if hasattr(self, "executor"):
                await self.executor.aclose()
        finally:
            try:
                if self._compiler is not None:
                    await self._compiler.aclose()
            finally:
                await self._copies_settled()

    async def reset(self) -> None:
        """End everything pending, make the executor whole, and forget the fault; joins a reset under way."""
        self.check_open()
        resets = self._resets
        with anyio.CancelScope(shield=True):
            async with self._resetting:
                self.check_open()
                if self._resets == resets:
                    await self._reset()
        await checkpoint()

    async def _reset(self) -> None:
        self.refusal = CudaError(
            Status.cudaErrorDeviceUninitialized, f"{self.name} is being reset; await dev.reset() first"
        )
        self._generation += 1
        self.is_stopping = True
        self.end_pending(
            lambda op: AbandonedError(f"{op.label} on {op.stream.name} was abandoned: {self.name} was reset")
        )
        try:
            await self.executor.reset()
        finally:
            self.services.reset()
            self.check_open()  # the device may have been closed meanwhile, and stays so
        await self._copies_settled()
        self.check_open()
        self.is_stopping = False
        self._in_flight = 0
        self.engines = copy_engines(self.link)
        self._fault, self._fault_observed, self.refusal = None, False, None
        self._failures.clear()
        self._resets += 1

    # -- checks -------------------------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether the device was closed."""
        return isinstance(self.refusal, anyio.ClosedResourceError)

    def check_open(self) -> None:
        """ClosedResourceError if the device is closed, RuntimeError on another thread than its event loop's."""
        if self.is_closed or threading.get_ident() != self.thread:
            self.refuse()

    def refuse(self) -> None:
        """Raise why nothing can be submitted now."""
        refusal = self.refusal
        if refusal is None:
            raise RuntimeError(
                f"{self.name} belongs to the event loop of thread {self.thread}, but thread"
                f" {threading.get_ident()} used it; go through anyio.from_thread.run_sync"
            )
        self.note_observed(refusal)
        raise refusal.with_traceback(None)

    def new_name(self, kind: str) -> str:
        """A numbered name for a stream or event."""
        self._names += 1
        return f"{kind} {self._names}"

    def to_ms(self, time_ns: int) -> float:
        """Milliseconds since the device was opened."""
        return (time_ns - self.epoch_ns) / NS_PER_MS

    # -- the pump -----------------------------------------------------------------------------------------

    def make_ready(self, stream: Stream) -> None:
        """Let the head of `stream` start if nothing holds it."""
        self._ready.append(stream)
        if not self._is_pumping:
            self._pump()

    def _pump(self) -> None:
        ready = self._ready
        deadline = time.monotonic_ns() + _PUMP_NS
        self._is_pumping = True
        while ready:
            head = ready.popleft().head
            if head is not None and head.can_start:
                head.start()
                if ready and time.monotonic_ns() > deadline:
                    self.start_task(self._pump_on)
                    return  # the list stays closed to others until the task has run
        self._is_pumping = False

    async def _pump_on(self) -> None:
        await checkpoint()
        self._pump()

    def start_task(self, function: Callable[..., Coroutine[Any, Any, None]], *arguments: object) -> None:
        """Run an async function in the background; a virtual clock stands still meanwhile."""
        start_soon(self.task_group, self._run_task, function, *arguments)
        self.clock.begin_work()

    async def _run_task(self, function: Callable[..., Coroutine[Any, Any, None]], *arguments: object) -> None:
        try:
            await function(*arguments)
        finally:
            self.clock.end_work()

    # -- order between streams ----------------------------------------------------------------------------

    def order_legacy(self, op: Op[Any], legacy: Stream) -> None:
        """Order `op` as CUDA's legacy default stream demands: after the blocking streams, and they after it."""
        if op.stream is not legacy:
            before = op.stream.tail
            if legacy.tail is not None and (before is None or before.sequence < legacy.tail.sequence):
                op.block_on(legacy.tail)
            return
        # What was submitted before the last legacy operation is ordered by that one already.
        covered = -1 if legacy.tail is None else legacy.tail.sequence
        for stream in self.busy_blocking:
            tail = stream.tail
            if tail is not None and stream is not legacy and tail.sequence > covered:
                op.block_on(tail)

    # -- failures -----------------------------------------------------------------------------------------

    def note_failure(self, failed: Completion[Any]) -> None:
        """Keep a failure until somebody has heard of it."""
        if len(self._failures) > 64:
            self._failures = [kept for kept in self._failures if kept.is_kept]
        self._failures.append(failed)

    @property
    def has_failures(self) -> bool:
        """Whether some failure is kept."""
        return bool(self._failures)

    def note_observed(self, error: BaseException) -> None:
        """Note that somebody was told of `error`."""
        if error is self._fault:
            self._fault_observed = True

    def raise_failures(self, candidates: list[Completion[Any]]) -> None:
        """Raise the first failure among `candidates` that nobody has heard of; the others become its notes."""
        unheard = [failed for failed in candidates if failed.is_unobserved]
        for failed in unheard:
            failed.mark_observed()
        self._failures = [kept for kept in self._failures if kept.is_kept]
        if not unheard:
            return
        first, *others = unheard
        error = first.error
        assert error is not None
        for other in others:
            if other.error is not error:
                error.add_note(f"also failed: {other!r}: {other.error}")
        raise error.with_traceback(None)

    def failures_of(self, stream: Stream) -> list[Completion[Any]]:
        """The kept failures of one stream's operations."""
        return [failed for failed in self._failures if isinstance(failed, Op) and failed.stream is stream]

    def fault_happened(self, fault: Fault) -> None:
        """Make the context unusable until `reset`: the first fault ends everything pending."""
        self.services.flush(final=True)
        if self._fault is not None or self.refusal is not None:
            return
        error = LaunchError(Status(fault.code), fault.detail)
        self._fault = self.refusal = error
        self.end_pending(lambda op: error)

    @property
    def fault(self) -> CudaError | None:
        """The sticky error, if there is one; looking does not count as being told."""
        return self._fault

    def raise_fault(self) -> None:
        """Raise the sticky error, if there is one."""
        if self._fault is not None:
            self._fault_observed = True
            raise self._fault.with_traceback(None)

    def end_pending(self, error_for: Callable[[Op[Any]], BaseException]) -> None:
        """Settle every pending operation with an exception and empty the streams."""
        pending: list[Op[Any]] = []
        for stream in self.busy:
            pending.extend(stream.take_all())
        self.busy.clear()
        self.busy_blocking.clear()
        self._ready.clear()
        self._held_launches.clear()
        for op in pending:
            op.cut_off(error_for(op))

    # -- waiting ------------------------------------------------------------------------------------------

    async def sync(self) -> None:
        """Wait for everything submitted so far; raise what failed."""
        self.check_open()
        self.raise_fault()
        await self._settle_busy()
        self.raise_fault()
        self.raise_failures(list(self._failures))

    async def _settle_busy(self) -> None:
        tails = [stream.tail for stream in self.busy]
        await checkpoint()
        for tail in tails:
            if tail is not None and not tail.is_done:
                await tail.settled()

    # -- launches -----------------------------------------------------------------------------------------

    def admit(self, op: LaunchOp) -> None:
        """Send a launch to the executor, or hold it by priority while the executor has plenty."""
        if self._in_flight >= self._launch_limit:
            heappush(self._held_launches, (op.stream.priority, op.sequence, op))
            return
        self._in_flight += 1
        if not op.send(self._generation):
            self._in_flight -= 1

    def launch_ended(self, generation: int) -> None:
        """A launch left the executor: the most urgent held ones may follow."""
        if generation != self._generation:
            return
        self._in_flight -= 1
        while self._held_launches and self._in_flight < self._launch_limit:
            self._in_flight += 1
            if not heappop(self._held_launches)[2].send(generation):
                self._in_flight -= 1

    def send_ahead(self, stream: Stream) -> None:
        """Send the launches that directly follow what `stream` has at the executor, as far as that wants them.

        They are not counted as in flight: none is sent while another launch is held.
        """
        executor = self._ahead
        if executor is None or self._held_launches:
            return
        while stream.last_sent is not None:
            following = stream.last_sent.following
            if following is None or not following.send_behind(executor):
                return
            stream.last_sent = following

    # -- threads ------------------------------------------------------------------------------------------

    def run_copy(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Move bytes in a thread; `done` is called on the loop thread.  Closing waits for it."""
        self.start_task(self._copy_task, work, done)
        self._copies += 1

    async def _copy_task(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        error: BaseException | None = None
        try:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(work, limiter=self._copy_limiter)
        except Exception as exc:  # noqa: BLE001 - it belongs to whoever awaits the operation
            error = exc
        self._copies -= 1
        if not self._copies and self._copies_done is not None:
            self._copies_done.set()
        done(error)

    async def _copies_settled(self) -> None:
        while self._copies:
            if self._copies_done is None or self._copies_done.is_set():
                self._copies_done = anyio.Event()
            await self._copies_done.wait()

    def run_callback(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        """Run user code in a thread; closing in a hurry leaves it behind."""
        self.start_task(self._callback_task, work, done)

    async def _callback_task(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        try:
            value = await anyio.to_thread.run_sync(work, limiter=self._callback_limiter, abandon_on_cancel=True)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever awaits the operation
            done(None, error)
        else:
            done(value, None)
