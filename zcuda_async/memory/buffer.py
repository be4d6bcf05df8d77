"""Buffers: owned pieces of the arena, and views, which are parts of them.

Who may touch what: the `close` of a buffer is safe on every thread; its count of uses belongs to the event
loop's thread.  A closed buffer's memory goes back when the last operation that uses it has ended, and a
pinned buffer's when, besides, the last window on it is gone.  A view owns nothing: it keeps its buffer
alive, and every use of the view counts as one of the buffer.
"""

from __future__ import annotations

import ctypes
import operator
import weakref
from typing import TYPE_CHECKING

from anyio import ClosedResourceError

from zcuda_async.errors import CudaError, Status

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Self

    import numpy.typing as npt

    from zcuda_async.memory.heap import Heap

__all__ = ("Buffer", "BufferView", "PinnedBuffer", "PinnedBufferView")


class Buffer:
    """`size` bytes of device memory at address `handle`, made by `Device.allocate`.

    Pass it to `Stream.memcpy`, `Stream.memset` and `Stream.launch`; it stays allocated until every
    operation that uses it has ended, also after `close`.  A buffer that is garbage collected gives its
    memory back too, so keep it for as long as you use its bare `handle`.  Works as a context manager.

    ``buffer[start:stop]`` is a `BufferView` of the bytes from `start` to `stop`, which may be passed wherever a
    buffer may.  Negative numbers count from the end.  A slice beyond the end is an error and not, as a list's, cut
    short: a view is as large as it was asked to be.
    """

    __slots__ = ("__weakref__", "_is_closed", "_owner", "_serial", "_uses", "handle", "heap", "size")

    _owner: Buffer
    """The buffer whose memory it is; only views have it, as a buffer that refers to itself is not freed at once."""

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

    def __getitem__(self, part: slice) -> BufferView:
        """The bytes `part`, as a view without a copy; they are shared with this buffer.

        Raises:
            TypeError: `part` is not a slice of ints.
            ValueError: its step is not 1.
            IndexError: it begins or ends outside the buffer, or ends before it begins.
            anyio.ClosedResourceError: the buffer is closed.
        """
        return BufferView(self._memory_owner(), *self._locate(part))

    def _memory_owner(self) -> Buffer:
        """The buffer whose memory it is; ClosedResourceError if that is closed."""
        if self.is_closed:
            raise ClosedResourceError(f"{self!r} is closed; allocate a new one")
        return self

    def _locate(self, part: object) -> tuple[int, int]:
        """The address and size of a part."""
        if not isinstance(part, slice):
            raise TypeError(f"{self!r} is cut by a slice of bytes, got {type(part).__name__}; write buffer[start:stop]")
        if part.step not in (None, 1):
            raise ValueError(f"a part of {self!r} is contiguous, got step {part.step}; leave the step out")
        start = 0 if part.start is None else self._offset("start", part.start)
        stop = self.size if part.stop is None else self._offset("stop", part.stop)
        if stop < start:
            raise IndexError(f"a part of {self!r} cannot stop at byte {stop}, before its start {start}; swap the two")
        return self.handle + start, stop - start

    def _offset(self, end: str, index: object) -> int:
        try:
            asked = operator.index(index)  # type: ignore[arg-type]
        except TypeError:
            raise TypeError(
                f"a part of {self!r} has a {end} in bytes (int), got {type(index).__name__}; convert it with int()"
            ) from None
        offset = asked + self.size if asked < 0 else asked
        if not 0 <= offset <= self.size:
            raise IndexError(
                f"a part of {self!r} cannot {end} at {asked}, outside its {self.size} bytes;"
                f" pass {-self.size} to {self.size}"
            )
        return offset

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

    def __getitem__(self, part: slice) -> PinnedBufferView:
        """As `Buffer`'s; host and kernels see the part's bytes as they see the buffer's."""
        return PinnedBufferView(self._memory_owner(), *self._locate(part))

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


class BufferView(Buffer):
    """`size` bytes of a `Buffer` at address `handle`, made by slicing: ``buffer[start:stop]``.

    It may be passed wherever a buffer may, and sliced again.  It owns no memory: it keeps its buffer from being
    garbage collected, but once that is closed, using the view raises `anyio.ClosedResourceError`.
    """

    __slots__ = ()

    def __init__(self, owner: Buffer, handle: int, size: int) -> None:
        # Not Buffer's: the heap knows the memory by its owner.
        self.handle = handle
        self.size = size
        self.heap = owner.heap
        self._owner = owner

    @property
    def is_closed(self) -> bool:
        """Whether the buffer was closed, or its device."""
        return self._owner.is_closed

    def close(self) -> None:
        """Refuse: the memory is the buffer's, which other views may be using.

        Raises:
            CudaError: `cudaErrorInvalidValue`, always.
        """
        raise CudaError(
            Status.cudaErrorInvalidValue, f"{self!r} is a view and owns no memory; close {self._owner!r} instead"
        )

    def retain(self) -> None:
        """Note that an operation uses the buffer; ClosedResourceError if it is closed.  Loop thread only."""
        self._memory_owner().retain()

    def drop(self) -> None:
        """Note that an operation that used the buffer ended.  Loop thread only."""
        self._owner.drop()

    def _memory_owner(self) -> Buffer:
        if self._owner.is_closed:
            raise ClosedResourceError(f"{self!r} is a view of {self._owner!r}, which is closed; allocate a new one")
        return self._owner

    def __enter__(self) -> Self:
        self.close()
        return self

    def __del__(self) -> None:
        """Nothing to give back."""


class PinnedBufferView(BufferView, PinnedBuffer):
    """`size` bytes of a `PinnedBuffer` at address `handle`, made by slicing: ``buffer[start:stop]``.

    It is a `BufferView` that the host sees, by `view` and ``numpy.asarray``, as it sees the buffer.
    """

    __slots__ = ()

    def __getitem__(self, part: slice) -> PinnedBufferView:
        """As `Buffer`'s."""
        return PinnedBufferView(self._memory_owner(), *self._locate(part))

    def view(self) -> memoryview:
        """A writable window on the part's bytes; it keeps the buffer's memory, as the buffer's own does."""
        owner = self._memory_owner()
        assert isinstance(owner, PinnedBuffer)
        start = self.handle - owner.handle
        return owner.view()[start : start + self.size]
