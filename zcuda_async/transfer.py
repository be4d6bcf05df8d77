"""What a copy's two ends are, and whether the copy is allowed: `plan_copy`.

Each end becomes an `End`: device memory, pinned host memory (both have an address in the arena) or a pageable
object (anything with the buffer protocol).  Everything is checked here, at submission, with CUDA's codes.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, SupportsIndex, TypeGuard

from zcuda_async.errors import CudaError, Status
from zcuda_async.integers import as_integer
from zcuda_async.memory.buffer import Buffer
from zcuda_async.memory.copy import copy, locked_buffer
from zcuda_async.texture import Handle

if TYPE_CHECKING:
    from collections.abc import Callable

    from zcuda_async.context import Context
    from zcuda_async.memory.heap import Heap

__all__ = ("CopyPlan", "End", "device_range", "plan_copy")

_CHUNK: Final = 64 << 20
"""Bytes moved between two looks at whether the device is closing."""


@dataclass(slots=True)
class End:
    """One end of a copy.

    `address` is 0 for a pageable object, which `data` then keeps; `buffer` is the Buffer that was passed;
    `room` is how many bytes the end has, None for a bare address, whose range is checked on its own.
    """

    is_device: bool
    room: int | None
    address: int = 0
    buffer: Buffer | None = None
    data: memoryview | bytes | None = None
    heap: Heap | None = None

    def retain(self) -> None:
        """Keep the buffer allocated; ClosedResourceError if it is closed."""
        if self.buffer is not None:
            self.buffer.retain()

    def release(self) -> None:
        """Let go of the buffer or the object, also if somebody still holds this end."""
        if self.buffer is not None:
            self.buffer.drop()
        data, self.data = self.data, None
        if isinstance(data, memoryview):
            with suppress(BufferError):  # the traceback of a failed copy may still hold a part of it
                data.release()


@dataclass(slots=True)
class CopyPlan:
    """A checked copy of `size` bytes; `direction` is h2d, d2h, d2d or h2h."""

    destination: End
    source: End
    size: int
    direction: str

    @property
    def has_pageable_source(self) -> bool:
        """Whether the source is ordinary memory that its owner may change at any time."""
        return self.source.data is not None

    def copy_views(self) -> None:
        """Move the bytes now, on the calling thread."""
        try:
            target, origin = self._bytes_of(self.destination), self._bytes_of(self.source)
        except (TypeError, ValueError):  # a buffer whose elements memoryview cannot reinterpret, such as records
            self.copy_raw(lambda: False)
            return
        target[: self.size] = origin[: self.size]

    def copy_raw(self, is_stopping: Callable[[], bool]) -> None:
        """Move the bytes without the interpreter lock; for threads.  Stops early if `is_stopping`."""
        with locked(self.destination, writable=True) as target, locked(self.source) as origin:
            overlap = abs(target - origin) < self.size
            chunk = self.size if overlap else _CHUNK
            for offset in range(0, self.size, chunk):
                if is_stopping():
                    return
                copy(target + offset, origin + offset, min(chunk, self.size - offset))

    def stage(self) -> None:
        """Take a copy of a pageable source, so that its owner may change it."""
        data = self.source.data
        if data is not None:
            self.source.data = memoryview(data).tobytes() if self.size == self.source.room else _first(data, self.size)

    def retain(self) -> None:
        """Keep the buffers allocated; ClosedResourceError if one is closed."""
        self.destination.retain()
        try:
            self.source.retain()
        except BaseException:
            self.destination.release()
            raise

    def release(self) -> None:
        """Let go of both ends: nothing touches them any more."""
        self.destination.release()
        self.source.release()

    def _bytes_of(self, end: End) -> memoryview:
        if end.data is not None:
            return memoryview(end.data).cast("B")
        assert end.heap is not None
        return end.heap.view(end.address, self.size)


class locked:  # noqa: N801 - used like a function
    """Hold an end in place; gives its address."""

    __slots__ = ("_end", "_lock", "_writable")

    def __init__(self, end: End, *, writable: bool = False) -> None:
        self._end = end
        self._writable = writable

    def __enter__(self) -> int:
        if self._end.data is None:
            return self._end.address
        self._lock = locked_buffer(self._end.data, writable=self._writable)
        return self._lock.__enter__()[0]

    def __exit__(self, *exc_info: object) -> None:
        if self._end.data is not None:
            self._lock.__exit__(None, None, None)


def _first(data: memoryview | bytes, size: int) -> bytes:
    try:
        return memoryview(data).cast("B")[:size].tobytes()
    except (TypeError, ValueError):
        return memoryview(data).tobytes()


def plan_copy(context: Context, destination: object, source: object, size: SupportsIndex | None) -> CopyPlan:
    """Check a copy and say what it is.

    Raises:
        TypeError: an end is neither a Buffer, an address, nor a contiguous buffer-protocol object.
        CudaError: `cudaErrorInvalidValue` when the copy does not fit its ends.
        anyio.ClosedResourceError: a Buffer is closed.
    """
    asked = None if size is None else _checked_size("memcpy", size)
    target = None if _is_address(destination) else _end(context, "destination", destination, writable=True)
    origin = None if _is_address(source) else _end(context, "source", source, writable=False)
    count = _default_size(target, origin) if asked is None else asked
    if _is_address(destination):
        target = _address_end(context, "memcpy", "destination", destination, count)
    if _is_address(source):
        origin = _address_end(context, "memcpy", "source", source, count)
    assert target is not None
    assert origin is not None
    assert count is not None, "two addresses without a size were refused"
    _check_room("destination", target, count)
    _check_room("source", origin, count)
    direction = f"{'d' if origin.is_device else 'h'}2{'d' if target.is_device else 'h'}"
    return CopyPlan(target, origin, count, direction)


def device_range(context: Context, verb: str, memory: object, size: SupportsIndex | None) -> tuple[End, int]:
    """Check that `size` bytes of `memory`, a Buffer or an address, are allocated; its whole size if None."""
    asked = None if size is None else _checked_size(verb, size)
    if isinstance(memory, Buffer):
        end = _buffer_end(context, verb, "destination", memory)
    elif _is_address(memory):
        end = _address_end(context, verb, "destination", memory, asked)
    else:
        raise TypeError(
            f"{verb} destination is a Buffer or a device address (int), got {type(memory).__name__};"
            " use memcpy or numpy for host memory"
        )
    count = end.room if asked is None else asked
    assert count is not None
    _check_room("destination", end, count, verb)
    return end, count


def _checked_size(verb: str, size: object) -> int:
    number = as_integer(size)
    if number is None:
        raise TypeError(f"{verb} size is a number of bytes (int), got {type(size).__name__}")
    if number < 0:
        raise CudaError(Status.cudaErrorInvalidValue, f"{verb} size must be at least 0 bytes, got {number}")
    return number


def _is_address(memory: object) -> TypeGuard[int]:
    return isinstance(memory, int) and not isinstance(memory, bool)


def _end(context: Context, role: str, memory: object, *, writable: bool) -> End:
    """An end that knows its size: all but a bare address."""
    if isinstance(memory, Buffer):
        return _buffer_end(context, "memcpy", role, memory)
    return _pageable_end(role, memory, writable=writable)


def _buffer_end(context: Context, verb: str, role: str, buffer: Buffer) -> End:
    if isinstance(buffer, Handle):
        raise TypeError(f"{verb} {role}: {buffer!r} is a handle, not memory; copy to or from its array's view()")
    heap = buffer.heap
    if heap is not context.device_heap and heap is not context.pinned_heap:
        raise CudaError(
            Status.cudaErrorInvalidValue,
            f"{verb} {role}: {buffer!r} belongs to another open device than {context.name}'s stream;"
            " copy through host memory",
        )
    return End(heap is context.device_heap, buffer.size, buffer.handle, buffer, heap=heap)


def _address_end(context: Context, verb: str, role: str, address: int, size: int | None) -> End:
    if size is None:
        raise TypeError(f"{verb} {role} is the bare address {address:#x}, which has no size; pass size=<bytes>")
    heap = context.pinned_heap if address in context.pinned_heap else context.device_heap
    if size == 0:
        return End(heap is context.device_heap, None, address, heap=heap)
    allocation = heap.find(address)
    if allocation is None:
        raise CudaError(
            Status.cudaErrorInvalidValue,
            f"{verb} {role}: {address:#x} is in no allocation of {context.name};"
            " pass a Buffer, an address inside one, or host memory as a buffer object",
        )
    end = allocation.address + allocation.size
    if address + size > end:
        raise CudaError(
            Status.cudaErrorInvalidValue,
            f"{verb} {role}: {size} bytes at {address:#x} run {address + size - end} bytes past the end of the"
            f" {allocation.size}-byte allocation at {allocation.address:#x}; copy at most {end - address} bytes",
        )
    return End(heap is context.device_heap, None, address, heap.find_buffer(address), heap=heap)


def _pageable_end(role: str, memory: object, *, writable: bool) -> End:
    try:
        view = memoryview(memory)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"memcpy {role} must be a Buffer, an address (int) or an object with the buffer protocol,"
            f" got {type(memory).__name__} ({error})"
        ) from None
    if not view.c_contiguous:
        raise CudaError(
            Status.cudaErrorInvalidValue,
            f"memcpy {role}: the {type(memory).__name__} is not C-contiguous (shape {view.shape}, strides"
            f" {view.strides}); "
            + ("copy into a contiguous array first" if writable else "pass numpy.ascontiguousarray(...)"),
        )
    if writable and view.readonly:
        raise CudaError(
            Status.cudaErrorInvalidValue,
            f"memcpy destination: the {type(memory).__name__} is read-only; pass a bytearray or a writable array",
        )
    return End(False, view.nbytes, data=view)


def _default_size(destination: End | None, source: End | None) -> int | None:
    """The size of the end that has one; of two, the host's if just one is on the host, else the source's."""
    if destination is None or source is None:
        end = destination or source
        return None if end is None else end.room
    return (destination if source.is_device and not destination.is_device else source).room


def _check_room(role: str, end: End, size: int, verb: str = "memcpy") -> None:
    if end.room is None or size <= end.room:
        return
    where = f"{end.buffer!r}" if end.buffer is not None else f"the {end.room}-byte host object"
    raise CudaError(
        Status.cudaErrorInvalidValue,
        f"{verb} {role}: {size} bytes run {size - end.room} bytes past the end of {where};"
        f" pass size=... of at most {end.room} bytes, or a larger {role}",
    )
