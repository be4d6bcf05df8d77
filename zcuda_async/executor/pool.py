"""The default executor: worker processes that share the arena and take chunks of each launch's blocks."""

from __future__ import annotations

import os
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, Self

import anyio

from zcuda_async.callbacks import start_soon
from zcuda_async.errors import Status
from zcuda_async.executor.base import Fault, LaunchRequest, LaunchResult
from zcuda_async.executor.codes import CodeTable, KnownCode
from zcuda_async.executor.crew import Crew
from zcuda_async.executor.faults import current_launch, explain_death
from zcuda_async.executor.protocol import COMMAND, Command, Reply
from zcuda_async.executor.schedule import is_worth_sending_ahead, participants
from zcuda_async.executor.slots import Lane, LaunchSlot, SlotPool
from zcuda_async.memory.mapping import MAX_WORKERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskGroup

    from zcuda_async.executor.process import WorkerProcess
    from zcuda_async.memory.arena import Arena

__all__ = ("PoolExecutor",)

_CLOSED: Final = Fault(Status.cudaErrorContextIsDestroyed, "the device was closed before the launch ended")
_RESET: Final = Fault(Status.cudaErrorContextIsDestroyed, "the device was reset before the launch ended")


class PoolExecutor:
    """Runs launches on worker processes; made by `start`.

    Launches that are in flight together share the workers; each worker takes its commands in order.
    When a worker dies, the others are killed, and once all are gone every pending launch gets the
    fault, as does every later one until `reset`.  A launch that had finished by then is not touched.
    A worker that dies while idle is a fault like any other, and reported at once.

    Everything happens on the event-loop thread and nothing there blocks; processes start in a thread.
    """

    def __init__(self, arena: Arena, task_group: TaskGroup, workers: int) -> None:
        self._arena = arena
        self._task_group = task_group
        self._count = workers
        self._crew = self._new_crew()
        self._workers: list[WorkerProcess] = []
        self._codes = CodeTable(arena)
        self._slots = SlotPool(arena)
        self._pending: dict[int, LaunchSlot] = {}
        self._lanes: dict[int, Lane] = {}
        self._held: list[Callable[[LaunchResult], None]] = []
        self._fault: Fault | None = None
        self._on_fault: Callable[[Fault], None] | None = None
        self._changing = anyio.Lock()
        self._is_closed = False

    @classmethod
    async def start(cls, arena: Arena, task_group: TaskGroup, workers: int | None = None) -> Self:
        """Start a pool whose background tasks live in `task_group`.

        Returns as soon as the processes exist: they come up while the caller goes on, and launches
        may be submitted at once.  One that fails to come up is a fault like any other.

        Args:
            arena: what the workers share; it must outlive the pool.
            task_group: must stay open until `aclose` has returned.
            workers: how many processes; by default one per processor this process may use.

        Raises:
            ValueError: `workers` is not between 1 and 128.
            OSError: a process could not be made; nothing is left behind.
        """
        count = min(len(os.sched_getaffinity(0)), MAX_WORKERS) if workers is None else workers
        if not 1 <= count <= MAX_WORKERS:
            raise ValueError(f"workers must be between 1 and {MAX_WORKERS}, got {count}")
        pool = cls(arena, task_group, count)
        await pool._man()
        return pool

    @property
    def workers(self) -> int:
        """How many launches can make progress at once."""
        return self._count

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the workers, for diagnosis; empty while they are down."""
        return tuple(worker.pid for worker in self._crew.workers)

    @property
    def fault(self) -> Fault | None:
        """What every launch is answered with until `reset`, or None."""
        return self._fault

    def watch_faults(self, on_fault: Callable[[Fault], None]) -> None:
        """Call `on_fault` after each fault, also when no launch was pending, once those that were are answered."""
        self._on_fault = on_fault

    def submit(self, request: LaunchRequest, on_done: Callable[[LaunchResult], None]) -> None:
        """Start a launch; `on_done` is called exactly once, later, on the event-loop thread.

        Raises:
            CudaError: `cudaErrorMemoryAllocation` if the host heap has no room for what the launch
                needs; nothing was started then and `on_done` is not called.
            anyio.ClosedResourceError: the pool is closed.
        """
        if self._is_closed:
            raise anyio.ClosedResourceError
        if self._fault is not None:
            start_soon(self._task_group, _answer, on_done, _failed(self._fault))
            return
        if self._crew.victim is not None:
            self._held.append(on_done)
            return
        known = self._codes.find(request.code) or self._add_code(request)
        self._send(request, on_done, known, self._choose(known, _blocks(request)))

    def submit_behind(self, request: LaunchRequest, on_done: Callable[[LaunchResult], None]) -> bool:
        """As `submit`, to run after the pending launches of the request's lane; see `LaunchAhead`.

        One worker takes its commands in order, so a short launch simply goes to the worker that has the others.

        Raises:
            CudaError: as `submit`.
        """
        lane, known = self._lanes.get(request.lane), self._codes.find(request.code)
        if lane is None or known is None or self._fault is not None or self._crew.victim is not None:
            return False
        worker, total = lane.worker, _blocks(request)
        total_ns = known.cost.total_ns(total)
        if total_ns is None or participants(total, self._count, total_ns) > 1:
            return False
        if not is_worth_sending_ahead(worker.load, total_ns):
            return False
        if worker.load > lane.count and not all(map(_load, self._workers)):
            return False  # others share this worker and another one is idle: the lane had better move there
        self._send(request, on_done, known, [worker])
        return True

    def _send(
        self,
        request: LaunchRequest,
        on_done: Callable[[LaunchResult], None],
        known: KnownCode,
        chosen: list[WorkerProcess],
    ) -> None:
        slot = self._slots.take()
        slot.total_blocks = _blocks(request)
        slot.workers = chosen
        try:
            slot.fill(request, len(chosen))
        except BaseException:
            self._slots.put_back(slot)
            raise
        slot.request, slot.on_done, slot.known = request, on_done, known
        known.in_flight += 1
        if request.lane and len(chosen) == 1:
            self._enter_lane(slot, request.lane)
        self._pending[slot.address] = slot
        message = COMMAND.pack(Command.RUN, known.id, slot.address, 0, 0)
        for worker in chosen:
            worker.load += 1
            if known.id not in worker.loaded:
                worker.loaded.add(known.id)
                worker.send(known.load_command)
            worker.send(message)

    def _enter_lane(self, slot: LaunchSlot, number: int) -> None:
        lane = self._lanes.get(number)
        if lane is None or lane.worker is not slot.workers[0]:
            lane = self._lanes[number] = Lane(number, slot.workers[0])
        lane.count += 1
        slot.lane = lane

    async def reset(self) -> None:
        """Kill what runs, make the workers whole again, and forget the fault.

        Pending launches get the fault, or without one `cudaErrorContextIsDestroyed`.  Runs shielded.

        Raises:
            OSError: no new processes could be made; the pool stays down, and may be reset again.
            anyio.ClosedResourceError: the pool is closed.
        """
        with anyio.CancelScope(shield=True):
            async with self._changing:
                if self._is_closed:
                    raise anyio.ClosedResourceError
                # Stands until the new workers do, so that a launch submitted meanwhile gets an answer.
                self._fault = await self._bring_down() or _RESET
                self._answer_all(self._fault)
                self._crew = self._new_crew()
                await self._man()
                self._fault = None

    async def aclose(self) -> None:
        """Kill the workers and release everything.  Runs shielded; calling it again does nothing.

        Launches still pending get the fault, or without one `cudaErrorContextIsDestroyed`.
        """
        self._crew.kill()
        with anyio.CancelScope(shield=True):
            async with self._changing:
                if self._is_closed:
                    return
                self._is_closed = True
                self._fault = await self._bring_down() or _CLOSED
                self._answer_all(self._fault)
                self._codes.close()
                self._slots.close()

    def _new_crew(self) -> Crew:
        return Crew(self._arena, self._task_group, self._on_reply, self._on_death)

    async def _man(self) -> None:
        await self._crew.start(self._count)
        self._workers = self._crew.workers

    def _add_code(self, request: LaunchRequest) -> KnownCode:
        known = self._codes.add(request.code)
        for evicted in self._codes.evict():
            for worker in self._workers:
                if evicted.id in worker.loaded:
                    worker.loaded.discard(evicted.id)
                    worker.send(evicted.unload_command)
        return known

    def _choose(self, known: KnownCode, total_blocks: int) -> list[WorkerProcess]:
        """Pick who takes part: idle workers first, busy ones only where waiting for them pays."""
        workers = self._workers
        count = participants(total_blocks, len(workers), known.cost.total_ns(total_blocks))
        idle = [worker for worker in workers if not worker.load]
        if len(idle) >= count:
            return idle[:count]
        if idle and not known.cost.is_long(total_blocks):
            return idle
        return sorted(workers, key=_load)[:count]

    def _on_reply(self, kind: int, address: int) -> None:
        if kind != Reply.DONE:
            return
        slot = self._pending.pop(address)
        started, finished = slot.stamps()
        assert slot.known is not None
        slot.known.cost.observe(slot.total_blocks, len(slot.workers), finished - started)
        self._finish(slot, LaunchResult(started, finished))

    def _on_death(self, crew: Crew) -> None:
        if crew is self._crew:
            start_soon(self._task_group, self._fail, crew)

    async def _fail(self, crew: Crew) -> None:
        with anyio.CancelScope(shield=True):
            async with self._changing:
                if crew is not self._crew or self._is_closed:
                    return  # A reset or the end came first, and has answered.
                fault = await self._bring_down()
                if fault is not None:
                    self._answer_all(fault)
                    if self._on_fault is not None:
                        self._on_fault(fault)

    async def _bring_down(self) -> Fault | None:
        """End the workers; return the fault, if one of them died by itself or an earlier crew's did."""
        crew = self._crew
        await crew.end()
        if crew.victim is not None and crew.workers:
            slot = self._pending.get(current_launch(self._arena, crew.victim))
            kernel = None if slot is None else slot.request.code.name
            self._fault = explain_death(self._arena, crew.victim, kernel)
        await crew.release()
        return self._fault

    def _answer_all(self, fault: Fault) -> None:
        """Answer what is pending: with its result if it had finished, else with the fault."""
        slots, self._pending = list(self._pending.values()), {}
        held, self._held = self._held, []
        for slot in slots:
            started, finished = slot.stamps()
            self._finish(slot, LaunchResult(started, finished) if finished else _failed(fault, started))
        for on_done in held:
            on_done(_failed(fault))

    def _finish(self, slot: LaunchSlot, result: LaunchResult) -> None:
        on_done = slot.on_done
        for worker in slot.workers:
            worker.load -= 1
        if slot.known is not None:
            slot.known.in_flight -= 1
        lane = slot.lane
        if lane is not None:
            lane.count -= 1
            if not lane.count and self._lanes.get(lane.number) is lane:
                del self._lanes[lane.number]
        slot.empty()
        self._slots.put_back(slot)
        on_done(result)


def _blocks(request: LaunchRequest) -> int:
    x, y, z = request.grid
    return x * y * z


def _load(worker: WorkerProcess) -> int:
    return worker.load


def _failed(fault: Fault, started_ns: int = 0) -> LaunchResult:
    now = monotonic_ns()
    return LaunchResult(started_ns or now, now, fault)


async def _answer(on_done: Callable[[LaunchResult], None], result: LaunchResult) -> None:
    on_done(result)
