"""Heaps: the kinds of memory of a device, and which buffers live there.

A `Heap` is safe on every thread.  Finalizers may run inside any allocation, also inside the allocator's own
lock, so they only note the address; `Heap.collect`, which every allocation calls, gives the memory back.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING

from anyio import ClosedResourceError

from zcuda_async.errors import CudaError, Status
from zcuda_async.memory.allocator import ALIGNMENT

if TYPE_CHECKING:
    from zcuda_async.memory.allocator import Allocation, Allocator
    from zcuda_async.memory.arena import Arena
    from zcuda_async.memory.buffer import Buffer

__all__ = ("Heap",)


class Heap:
    """One kind of memory of one device: allocates it, and knows its live buffers by address."""

    __slots__ = (
        "_allocator",
        "_arena",
        "_buffers",
        "_garbage",
        "_limit",
        "_lock",
        "_serial",
        "_used",
        "base",
        "device_name",
        "is_closed",
        "kind",
    )

    def __init__(self, arena: Arena, allocator: Allocator, base: int, limit: int, kind: str, device_name: str) -> None:
        self._arena = arena
        self._allocator = allocator
        self._limit = limit
        # By address: the number of the buffer that owns the memory now, and the buffer.
        self._buffers: dict[int, tuple[int, weakref.ref[Buffer]]] = {}
        self._garbage: deque[tuple[int, int, int]] = deque()
        self._lock = threading.Lock()
        self._serial = 0
        self._used = 0
        self.base = base
        self.kind = kind
        self.device_name = device_name
        self.is_closed = False

    @property
    def used_bytes(self) -> int:
        """Bytes in live buffers, each rounded up to the alignment; what the runtime itself needs does not count."""
        self.collect()
        return self._used

    @property
    def capacity(self) -> int:
        """Bytes in all."""
        return self._allocator.capacity

    def __contains__(self, address: int) -> bool:
        return self.base <= address < self._limit

    def reserve(self, size: int) -> int:
        """Allocate bare memory and return its address, 0 for size 0."""
        if size < 0:
            raise CudaError(Status.cudaErrorInvalidValue, f"cannot allocate {size} bytes; pass a size of at least 0")
        if self.is_closed:
            raise ClosedResourceError(f"{self.device_name} is closed; allocate inside its `async with` block")
        self.collect()
        return self._allocator.allocate(size) if size else 0

    def register(self, buffer: Buffer) -> int:
        """Remember a buffer by its address; returns the number that `release` knows it by."""
        with self._lock:
            self._serial += 1
            if buffer.size:
                self._buffers[buffer.handle] = (self._serial, weakref.ref(buffer))
                self._used += _rounded(buffer.size)
            return self._serial

    def find(self, address: int) -> Allocation | None:
        """The live allocation that holds `address`, or None; what the runtime itself allocated does not count."""
        allocation = self._allocator.find(address)
        return allocation if allocation is not None and allocation.address in self._buffers else None

    def find_buffer(self, address: int) -> Buffer | None:
        """The open buffer that holds `address`, or None."""
        allocation = self.find(address)
        if allocation is None:
            return None
        entry = self._buffers.get(allocation.address)
        return None if entry is None else entry[1]()

    def view(self, address: int, size: int) -> memoryview:
        """A writable window on arena memory; it keeps the mapping alive."""
        return self._arena.view(address, size) if size else memoryview(bytearray())

    def release(self, address: int, size: int, serial: int) -> None:
        """Give the memory of buffer number `serial` back, now, once, whoever owns its address by then; any thread."""
        with self._lock:
            entry = self._buffers.get(address)
            if entry is None or entry[0] != serial:
                return
            del self._buffers[address]
            self._used -= _rounded(size)
        if not self.is_closed:
            self._allocator.free(address)

    def release_later(self, address: int, size: int, serial: int) -> None:
        """As `release`, at the next `collect`: safe in finalizers."""
        self._garbage.append((address, size, serial))

    def collect(self) -> None:
        """Give back what finalizers left."""
        garbage = self._garbage
        while garbage:
            try:
                address, size, serial = garbage.popleft()
            except IndexError:  # another thread was faster
                return
            self.release(address, size, serial)

    def close(self) -> None:
        """Refuse all further allocations; the arena takes the memory back as a whole."""
        self.is_closed = True
        with self._lock:
            self._buffers.clear()
        self._garbage.clear()


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
