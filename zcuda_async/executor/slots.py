"""Launch slots: pieces of the arena that hold one launch and its parameters each, used over and over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from zcuda_async.executor.protocol import STAMPS, STAMPS_OFFSET
from zcuda_async.executor.schedule import chunk_size
from zcuda_async.jit.abi import EXTENSION, EXTENSION_OFFSET, LAUNCH, LAUNCH_FIELDS, LAUNCH_SIZE, WORKSPACE_SIZE

if TYPE_CHECKING:
    from zcuda_async.executor.base import LaunchRequest, LaunchResult
    from zcuda_async.executor.codes import KnownCode
    from zcuda_async.executor.process import WorkerProcess
    from zcuda_async.memory.arena import Arena

__all__ = ("Lane", "LaunchSlot", "SlotPool")

_PARAMS_SIZE: Final = 320
"""Most kernels' parameters fit; larger ones are put into the host heap apart."""
_PARAMS_OFFSET: Final = LAUNCH_SIZE + WORKSPACE_SIZE
_SLOT_SIZE: Final = _PARAMS_OFFSET + _PARAMS_SIZE
_SLAB_SLOTS: Final = 256
_STOP_OFFSET: Final = LAUNCH_FIELDS["stop"][0]


class LaunchSlot:
    """One launch in the arena, and what the parent remembers of it while it runs."""

    __slots__ = (
        "_arena",
        "_large",
        "_view",
        "address",
        "known",
        "lane",
        "on_done",
        "request",
        "total_blocks",
        "workers",
    )

    request: LaunchRequest
    on_done: Callable[[LaunchResult], None]

    def __init__(self, arena: Arena, address: int) -> None:
        self.address: Final = address
        self._arena = arena
        self._view = arena.view(address, _SLOT_SIZE)
        self._large = 0
        self.total_blocks = 0
        self.workers: list[WorkerProcess] = []
        self.known: KnownCode | None = None
        self.lane: Lane | None = None

    def fill(self, request: LaunchRequest, participants: int) -> None:
        """Write the launch for `participants` workers.

        Raises:
            CudaError: `cudaErrorMemoryAllocation` if large parameters find no room in the host heap.
        """
        params = request.params
        size = len(params)
        address = self.address + _PARAMS_OFFSET
        if size <= _PARAMS_SIZE:
            self._view[_PARAMS_OFFSET : _PARAMS_OFFSET + size] = params
        else:
            address = self._large = self._arena.host_heap.allocate(size)
            self._arena.view(address, size)[:] = params
        total = self.total_blocks
        chunk = chunk_size(total, participants)
        grid = request.grid
        shared, variables = request.dynamic_shared, request.globals_address
        LAUNCH.pack_into(self._view, 0, 0, total, chunk, participants, 0, *grid, shared, address, variables, 0, 0)
        workspace = 0
        if request.is_cooperative:
            workspace = self.address + LAUNCH_SIZE
            self._view[LAUNCH_SIZE:_PARAMS_OFFSET] = bytes(WORKSPACE_SIZE)
        EXTENSION.pack_into(
            self._view, EXTENSION_OFFSET, workspace, *request.cluster, request.services_address, request.number,
            request.stack_bytes,
        )  # fmt: skip

    def stamps(self) -> tuple[int, int]:
        """started_ns and finished_ns, 0 while it has not."""
        started, finished = STAMPS.unpack_from(self._view, STAMPS_OFFSET)
        return started, finished

    def stamp(self, started_ns: int, finished_ns: int) -> None:
        """Set the times, where no worker process does."""
        STAMPS.pack_into(self._view, STAMPS_OFFSET, started_ns, finished_ns)

    def stop(self) -> None:
        """Have its workers claim no more blocks."""
        self._view[_STOP_OFFSET] = 1

    @property
    def is_complete(self) -> bool:
        """Whether every block has been claimed."""
        next_block: int = LAUNCH.unpack_from(self._view, 0)[0]
        return next_block >= self.total_blocks

    def empty(self) -> None:
        """Forget the launch; no worker may touch it any more."""
        if self._large:
            self._arena.host_heap.free(self._large)
            self._large = 0
        self.known = None
        self.lane = None
        del self.request, self.on_done


class Lane:
    """The pending launches of one queue, all on one worker, which runs them in order."""

    __slots__ = ("count", "number", "worker")

    def __init__(self, number: int, worker: WorkerProcess) -> None:
        self.number = number
        self.worker = worker
        self.count = 0


class SlotPool:
    """Hands out launch slots, most recently used first; grows by slabs of the host heap."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._slabs: list[int] = []
        self._free: list[LaunchSlot] = []

    def take(self) -> LaunchSlot:
        """Return a free slot.

        Raises:
            CudaError: `cudaErrorMemoryAllocation` if all are in use and the host heap is full.
        """
        if not self._free:
            slab = self._arena.host_heap.allocate(_SLAB_SLOTS * _SLOT_SIZE)
            self._slabs.append(slab)
            addresses = range(slab, slab + _SLAB_SLOTS * _SLOT_SIZE, _SLOT_SIZE)
            self._free = [LaunchSlot(self._arena, address) for address in addresses]
        return self._free.pop()

    def put_back(self, slot: LaunchSlot) -> None:
        """Recycle a slot."""
        self._free.append(slot)

    def close(self) -> None:
        """Give the slabs back; no slot may be used any more."""
        self._free.clear()
        for slab in self._slabs:
            self._arena.host_heap.free(slab)
        self._slabs.clear()
