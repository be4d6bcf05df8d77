"""Handles: the opaque numbers by which callers name streams, events, libraries and kernels."""

from __future__ import annotations

import ctypes
from itertools import count
from operator import index
from typing import Final, SupportsIndex, TypeVar

from zcuda_async import CudaError, Status
from zcuda_compat.numbers import size_t

__all__ = (
    "HANDLES",
    "Handle",
    "HandleLike",
    "HandleTable",
    "cudaEvent_t",
    "cudaFunction_t",
    "cudaHostFn_t",
    "cudaKernel_t",
    "cudaLibrary_t",
    "cudaStream_t",
    "handle_value",
)

T = TypeVar("T")
_FIRST: Final = 0x1000
_STEP: Final = 0x10


class Handle:
    """A 64-bit opaque value; handles of one kind are equal if their values are.

    Args:
        init_value: the value.
        _ptr: if it is not 0, the address of the value, which is then shared instead of copied.
    """

    __slots__ = ("_cell",)

    def __init__(self, init_value: SupportsIndex = 0, _ptr: int = 0) -> None:
        self._cell = ctypes.c_uint64.from_address(_ptr) if _ptr else ctypes.c_uint64(size_t(init_value))

    def getPtr(self) -> int:
        """The address of the value."""
        return ctypes.addressof(self._cell)

    def __int__(self) -> int:
        return self._cell.value

    __index__ = __int__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self._cell.value == other._cell.value

    def __hash__(self) -> int:
        return hash(self._cell.value)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._cell.value:#x}>"


class cudaStream_t(Handle):
    """A stream."""

    __slots__ = ()

    def __cuda_stream__(self) -> tuple[int, int]:
        """The protocol by which libraries exchange streams: its version, and the value."""
        return 0, int(self)


class cudaEvent_t(Handle):
    """An event."""

    __slots__ = ()


class cudaLibrary_t(Handle):
    """A loaded library of kernels."""

    __slots__ = ()


class cudaKernel_t(Handle):
    """A kernel of a library, for any device."""

    __slots__ = ()


class cudaFunction_t(Handle):
    """A kernel on one device."""

    __slots__ = ()


class cudaHostFn_t(Handle):
    """The address of a C function ``void (void *)``."""

    __slots__ = ()


HandleLike = Handle | int | None
"""What a call accepts as a handle: one of the classes above, its number, or None for 0."""


def handle_value(handle: HandleLike) -> int:
    """The number behind a handle; TypeError if it is none."""
    if handle is None:
        return 0
    return index(handle)


class HandleTable:
    """Which object each number stands for.  Numbers are not used twice, so that a stale one is found out."""

    def __init__(self) -> None:
        self._objects: dict[int, object] = {}
        self._numbers = count(_FIRST, _STEP)

    def add(self, item: object) -> int:
        """A new number for `item`."""
        number = next(self._numbers)
        self._objects[number] = item
        return number

    def get(self, handle: HandleLike, kind: type[T], status: Status = Status.cudaErrorInvalidResourceHandle) -> T:
        """The object of that kind that a handle stands for; CudaError with `status` if there is none."""
        number = handle_value(handle)
        item = self._objects.get(number)
        if not isinstance(item, kind):
            raise CudaError(status, _explanation(number, item, kind))
        return item

    def remove(self, handle: HandleLike, kind: type[T], status: Status = Status.cudaErrorInvalidResourceHandle) -> T:
        """As `get`, and the handle is invalid from now on."""
        item = self.get(handle, kind, status)
        self._objects.pop(handle_value(handle), None)
        return item

    def remove_all(self, *items: object) -> None:
        """Make every handle of these objects invalid."""
        doomed = {id(item) for item in items}
        for number, item in list(self._objects.items()):
            if id(item) in doomed:
                self._objects.pop(number, None)

    def all_of(self, kind: type[T]) -> list[T]:
        """All objects of a kind."""
        return [item for item in list(self._objects.values()) if isinstance(item, kind)]


def _explanation(number: int, item: object, kind: type) -> str:
    wanted = kind.__name__.lower()
    if item is not None:
        return f"handle {number:#x} is a {type(item).__name__.lower()}, not a {wanted}; pass the {wanted}'s handle"
    return f"handle {number:#x} is no {wanted}: it was never created, or is destroyed; pass what its create call gave"


HANDLES: Final = HandleTable()
"""The process's handles."""
