"""Buffers: owned pieces of the arena, and the heaps that hand them out.

Who may touch what: a `Heap` and the `close` of its buffers are safe on every thread; a buffer's count of
uses belongs to the event loop's thread.  A closed buffer's memory goes back when the last operation that
uses it has ended, and a pinned buffer's when, besides, the last view of it is gone.

Finalizers may run inside any allocation, also inside the allocator's own lock, so they only note the
address; `Heap.collect`, which every allocation calls, gives the memory back.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING

from anyio import ClosedResourceError

from zcuda_async.errors import CudaError, Status
from zcuda_async.memory.allocator import ALIGNMENT

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Self

    import numpy.typing as npt

    from zcuda_async.memory.allocator import Allocation, Allocator
    from zcuda_async.memory.arena import Arena

__all__ = ("Buffer", "Heap", "PinnedBuffer")


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


class Buffer:
    """`size` bytes of device memory at address `handle`, made by `Device.allocate`.

    Pass it to `Stream.memcpy`, `Stream.memset` and `Stream.launch`; it stays allocated until every
    operation that uses it has ended, also after `close`.  A buffer that is garbage collected gives its
    memory back too, so keep it for as long as you use its bare `handle`.  Works as a context manager.
    """

    __slots__ = ("__weakref__", "_is_closed", "_serial", "_uses", "handle", "heap", "size")

    def __init__(self, heap: Heap, handle: int, size: int) -> None:
        self.handle = handle
        """The device address, the same number in every process."""
        self.size = size
        """Bytes."""
        self.heap = heap
        self._uses = 0
        self._is_closed = False
        self._serial = heap.register(self)

    @property
    def is_closed(self) -> bool:
        """Whether the buffer was closed, or its device."""
        return self._is_closed or self.heap.is_closed

    def close(self) -> None:
        """Give the memory back once no submitted operation uses it.  Does not wait; any thread; idempotent."""
        self._is_closed = True
        if self._uses == 0:
            self._free()

    def retain(self) -> None:
        """Note that an operation uses the buffer; ClosedResourceError if it is closed.  Loop thread only."""
        self._uses += 1
        if self._is_closed or self.heap.is_closed:
            self.drop()
            raise ClosedResourceError(f"{self!r} is closed; allocate a new one")

    def drop(self) -> None:
        """Note that an operation that used the buffer ended.  Loop thread only."""
        self._uses -= 1
        if self._is_closed and self._uses == 0:
            self._free()

    def _free(self) -> None:
        self.heap.release(self.handle, self.size, self._serial)

    def __array__(self, *arguments: object, **options: object) -> npt.NDArray[Any]:
        """Tell whoever wants to see device memory from the host how to."""
        raise self._not_host_memory()

    def _not_host_memory(self) -> TypeError:
        return TypeError(
            f"{self!r} is device memory, which the host does not see; copy it: await stream.memcpy(array, buffer)"
        )

    def __bytes__(self) -> bytes:
        """As `__array__`."""
        raise self._not_host_memory()

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.size} bytes at {self.handle:#x}, {self.heap.device_name}>"

    def __del__(self) -> None:
        if not self._is_closed:
            self.heap.release_later(self.handle, self.size, self._serial)


class PinnedBuffer(Buffer):
    """`size` bytes of host memory in the arena, made by `Device.allocate_pinned`.

    Host and kernels see the same bytes at the same address, and copies read and write them in stream order.
    ``numpy.asarray(buffer)`` and `view` show the bytes without a copy (and ``memoryview(buffer)`` does
    from Python 3.12 on); the memory is kept while such a view lives, whatever is closed meanwhile.
    """

    __slots__ = ("_memory",)

    def __init__(self, heap: Heap, handle: int, size: int) -> None:
        super().__init__(heap, handle, size)
        memory = (ctypes.c_ubyte * size).from_buffer(heap.view(handle, size))
        weakref.finalize(memory, heap.release_later, handle, size, self._serial).atexit = False
        self._memory: ctypes.Array[ctypes.c_ubyte] | None = memory

    def view(self) -> memoryview:
        """A writable window on all bytes; Python 3.11, whose ``memoryview(buffer)`` knows no such classes, needs it."""
        if self._memory is None or self.is_closed:
            raise ClosedResourceError(f"{self!r} is closed; allocate a new one")
        return memoryview(self._memory).cast("B")

    def _free(self) -> None:
        # The memory goes back when the last view of it lets go of this object.
        self._memory = None
        self.heap.collect()

    def __bytes__(self) -> bytes:
        """A copy of all bytes."""
        return self.view().tobytes()

    def __buffer__(self, flags: int, /) -> memoryview:
        return self.view()

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """What numpy reads: the bytes as an array of uint8."""
        return {"version": 3, "typestr": "|u1", "shape": (self.size,), "data": self.view()}

    def __del__(self) -> None:
        """Leave the release to the memory's own finalizer."""
