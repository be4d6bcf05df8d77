"""Memory as callers name it: by address.  What an address or object is, and the allocations by address."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Final

from zcuda_async import Buffer, CudaError, Status
from zcuda_compat.handles import Handle
from zcuda_compat.primary import Primary, open_primaries

__all__ = ("ALLOCATIONS", "Allocation", "Allocations", "End", "host_view", "resolve")

_WRITE: Final = 0x200  # PyBUF_WRITE
_memory_view = ctypes.pythonapi.PyMemoryView_FromMemory
_memory_view.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int]
_memory_view.restype = ctypes.py_object


@dataclass(frozen=True, slots=True)
class Allocation:
    """What one cudaMalloc or cudaHostAlloc gave."""

    primary: Primary
    buffer: Buffer
    is_host: bool
    flags: int = 0


class Allocations:
    """The process's allocations by their address; the verbs are for any thread."""

    def __init__(self) -> None:
        self._by_address: dict[int, Allocation] = {}

    def add(self, allocation: Allocation) -> int:
        """Keep an allocation; gives its address."""
        self._by_address[allocation.buffer.handle] = allocation
        return allocation.buffer.handle

    def free(self, address: int, *, is_host: bool) -> None:
        """Free what starts at `address`, after all work on its device that may use it.

        Raises:
            CudaError: `cudaErrorInvalidValue` if no such allocation starts there; a sticky or earlier error.
        """
        found = self._by_address.get(address)
        if found is None or found.is_host is not is_host:
            raise CudaError(Status.cudaErrorInvalidValue, self._explanation(address, found, is_host))
        found.primary.check()
        if not found.primary.is_idle:
            found.primary.synchronize()
        if self._by_address.pop(address, None) is not None:
            found.buffer.close()

    def at(self, address: int) -> Allocation | None:
        """The allocation that starts at `address`."""
        return self._by_address.get(address)

    def close_all(self, primary: Primary) -> None:
        """Free everything of one device."""
        for address, allocation in list(self._by_address.items()):
            if allocation.primary is primary:
                self._by_address.pop(address, None)
                allocation.buffer.close()

    def _explanation(self, address: int, found: Allocation | None, is_host: bool) -> str:
        free, allocate = ("cudaFreeHost", "cudaHostAlloc") if is_host else ("cudaFree", "cudaMalloc")
        if found is not None:
            other = "cudaFreeHost" if found.is_host else "cudaFree"
            return f"{free}: {address:#x} was not allocated by {allocate}; use {other}"
        return f"{free}: no allocation starts at {address:#x}; pass what {allocate} returned, once"


@dataclass(frozen=True, slots=True)
class End:
    """One end of a copy or fill: an address, the object behind it, and the device whose memory it is."""

    address: int
    primary: Primary | None = None
    buffer: Buffer | None = None
    is_device: bool = False
    data: Any = None

    @property
    def is_pageable(self) -> bool:
        """Whether it is ordinary host memory."""
        return self.primary is None

    def operand(self, primary: Primary, size: int) -> Any:
        """What to give to a stream of `primary`: an address there, or `size` bytes of this process's memory."""
        if self.primary is primary:
            return self.address
        return host_view(self.address, size) if self.data is None else self.data


def host_view(address: int, size: int) -> memoryview:
    """A writable window on `size` bytes of this process's memory."""
    view: memoryview = _memory_view(address, size, _WRITE)
    return view


def resolve(verb: str, role: str, pointer: object, size: int, *, writable: bool = False) -> End:
    """Find out what `pointer` is, and check that `size` bytes fit there.

    Args:
        verb: the call, for messages.
        role: the argument's name, for messages.
        pointer: an address, a handle object, an object with the buffer protocol, or None.
        size: bytes to be used; 0 checks nothing.
        writable: whether it must not be a read-only object.

    Raises:
        TypeError: it is no pointer.
        CudaError: `cudaErrorInvalidValue` for NULL, for device memory that is not allocated, and for too little room.
    """
    address, data = _address_of(pointer)
    if size == 0:
        return End(address, data=data)
    if address == 0:
        raise CudaError(Status.cudaErrorInvalidValue, f"{verb} {role} is NULL; pass an address or a buffer object")
    for primary in open_primaries():
        if primary.holds(address):
            return _arena_end(verb, role, primary, address, size)
    if data is not None:
        _check_object(verb, role, pointer, data, size, writable)
    return End(address, data=data)


def _arena_end(verb: str, role: str, primary: Primary, address: int, size: int) -> End:
    buffer = primary.device.find_buffer(address)
    if buffer is None:
        raise CudaError(
            Status.cudaErrorInvalidValue,
            f"{verb} {role}: {address:#x} is in no allocation of device {primary.ordinal}; it was freed, or is wrong",
        )
    excess = address + size - buffer.handle - buffer.size
    if excess > 0:
        raise CudaError(
            Status.cudaErrorInvalidValue,
            f"{verb} {role}: {size} bytes at {address:#x} run {excess} bytes past the end of the {buffer.size}-byte"
            f" allocation at {buffer.handle:#x}; use at most {size - excess} bytes",
        )
    return End(address, primary, buffer, address in primary.context.device_heap)


def _address_of(pointer: object) -> tuple[int, Any]:
    """The address of what a caller passed, and the bytes of an object, which also keep it alive."""
    if pointer is None:
        return 0, None
    if isinstance(pointer, (int, Handle)):
        return int(pointer), None
    import numpy as np  # not at the top: programs with their own addresses never need it

    try:
        data = np.frombuffer(pointer, np.uint8) if memoryview(pointer).nbytes else None  # type: ignore[call-overload, arg-type]
    except TypeError:
        raise TypeError(
            f"a pointer is an int, an object with the buffer protocol or None, got {type(pointer).__name__}"
        ) from None
    if data is None:
        return 0, None
    address: int = data.__array_interface__["data"][0]
    return address, data


def _check_object(verb: str, role: str, pointer: object, data: Any, size: int, writable: bool) -> None:
    name = type(pointer).__name__
    if size > data.nbytes:
        raise CudaError(
            Status.cudaErrorInvalidValue,
            f"{verb} {role}: the {name} has {data.nbytes} bytes, fewer than the {size} to be copied",
        )
    if writable and not data.flags.writeable:
        raise CudaError(
            Status.cudaErrorInvalidValue,
            f"{verb} {role}: the {name} is read-only; pass a bytearray or a writable array",
        )


ALLOCATIONS: Final = Allocations()
"""The process's allocations."""
