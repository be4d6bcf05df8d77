"""Memory: allocating, copying, filling, and asking what a pointer is."""

from __future__ import annotations

from typing import Final, SupportsIndex

from zcuda_async import CudaError, Status
from zcuda_compat.cudart.constants import cudaInvalidDeviceId
from zcuda_compat.cudart.enums import cudaMemcpyKind as Kind
from zcuda_compat.cudart.enums import cudaMemoryType
from zcuda_compat.cudart.results import status_call, two_value_call, value_call
from zcuda_compat.cudart.stream import find_stream
from zcuda_compat.cudart.structs import cudaPointerAttributes
from zcuda_compat.handles import HandleLike
from zcuda_compat.memory import ALLOCATIONS, Allocation, End, resolve
from zcuda_compat.numbers import c_int, c_uint, size_t
from zcuda_compat.primary import current
from zcuda_compat.stream import Stream

__all__ = (
    "cudaFree",
    "cudaFreeHost",
    "cudaHostAlloc",
    "cudaHostGetDevicePointer",
    "cudaHostGetFlags",
    "cudaMalloc",
    "cudaMallocHost",
    "cudaMemGetInfo",
    "cudaMemcpy",
    "cudaMemcpyAsync",
    "cudaMemset",
    "cudaMemsetAsync",
    "cudaPointerGetAttributes",
)

_HOST_FLAGS: Final = 0b111
_STAGE_BYTES: Final = 2 << 20
"""Pageable sources up to this size are copied aside by the calling thread, so that it need not wait."""


@two_value_call
def cudaMemGetInfo() -> tuple[int, int]:
    """Return the free and the total memory of the current device, in bytes."""
    primary = current()
    primary.check()
    info = primary.device.memory_info()
    return info.free_bytes, info.total_bytes


@value_call
def cudaMalloc(size: SupportsIndex) -> int:
    """Allocate `size` bytes on the current device and return their address; 0 for size 0."""
    primary = current()
    buffer = primary.device.allocate(size_t(size))
    return ALLOCATIONS.add(Allocation(primary, buffer, is_host=False)) if buffer.size else 0


@status_call
def cudaFree(devPtr: object) -> None:
    """Free device memory, after the work that may use it; NULL does nothing (but opens the device)."""
    primary = current()
    address = _plain_address(devPtr)
    if address == 0:
        primary.check()
    else:
        ALLOCATIONS.free(address, is_host=False)


@value_call
def cudaHostAlloc(size: SupportsIndex, flags: SupportsIndex) -> int:
    """Allocate `size` bytes of host memory that kernels can use too; return their address, 0 for size 0.

    All such memory is portable and mapped, whatever `flags` says.
    """
    return _allocate_host(size, flags)


@value_call
def cudaMallocHost(size: SupportsIndex) -> int:
    """Allocate `size` bytes of pinned host memory and return their address; 0 for size 0."""
    return _allocate_host(size, 0)


def _allocate_host(size: SupportsIndex, flags: SupportsIndex) -> int:
    size, flags = size_t(size), c_uint(flags)
    if flags & ~_HOST_FLAGS:
        raise CudaError(Status.cudaErrorInvalidValue, f"cudaHostAlloc has no flags {flags:#x}; combine cudaHostAlloc*")
    primary = current()
    buffer = primary.device.allocate_pinned(size)
    return ALLOCATIONS.add(Allocation(primary, buffer, is_host=True, flags=flags)) if size else 0


@status_call
def cudaFreeHost(ptr: object) -> None:
    """Free pinned host memory, after the work that may use it; NULL does nothing."""
    address = _plain_address(ptr)
    if address:
        ALLOCATIONS.free(address, is_host=True)


@value_call
def cudaHostGetDevicePointer(pHost: object, flags: SupportsIndex) -> int:
    """Return the address by which kernels reach pinned host memory: the same."""
    if c_uint(flags):
        raise CudaError(Status.cudaErrorInvalidValue, "cudaHostGetDevicePointer's flags must be 0")
    _find_pinned("cudaHostGetDevicePointer", pHost)
    return _plain_address(pHost)


@value_call
def cudaHostGetFlags(pHost: object) -> int:
    """Return the flags that pinned host memory was allocated with, as CUDA reports them (always mapped)."""
    return _find_pinned("cudaHostGetFlags", pHost).flags | 2


def _find_pinned(verb: str, pointer: object) -> Allocation:
    end = resolve(verb, "pHost", pointer, 1)
    found = None if end.buffer is None else ALLOCATIONS.at(end.buffer.handle)
    if found is None or not found.is_host:
        raise CudaError(Status.cudaErrorInvalidValue, f"{verb}: {end.address:#x} is not from cudaHostAlloc")
    return found


@value_call
def cudaPointerGetAttributes(ptr: object) -> cudaPointerAttributes:
    """Return what kind of memory `ptr` points to, and on which device."""
    end = resolve("cudaPointerGetAttributes", "ptr", ptr, 1)
    if end.primary is None:
        return cudaPointerAttributes(device=cudaInvalidDeviceId, hostPointer=end.address)
    if end.is_device:
        device = cudaMemoryType.cudaMemoryTypeDevice
        return cudaPointerAttributes(device, end.primary.ordinal, end.address, 0, -1)
    host = cudaMemoryType.cudaMemoryTypeHost
    return cudaPointerAttributes(host, end.primary.ordinal, end.address, end.address, -1)


def _plain_address(pointer: object) -> int:
    return resolve("", "", pointer, 0).address


# -- copies ---------------------------------------------------------------------------------------------------

_DIRECTIONS: Final = {
    Kind.cudaMemcpyHostToHost: (False, False),
    Kind.cudaMemcpyHostToDevice: (False, True),
    Kind.cudaMemcpyDeviceToHost: (True, False),
    Kind.cudaMemcpyDeviceToDevice: (True, True),
}
"""Whether source and destination are on the device."""


@status_call
def cudaMemcpy(dst: object, src: object, count: SupportsIndex, kind: Kind) -> None:
    """Copy `count` bytes after all earlier work on the legacy default stream, and wait for it.

    A copy from device to device is not waited for.
    """
    stream = current().legacy
    ends = _plan("cudaMemcpy", dst, src, size_t(count), kind)
    if ends is None:
        stream.primary.check()
        return
    _copy(stream, *ends, size_t(count), is_async=False)


@status_call
def cudaMemcpyAsync(dst: object, src: object, count: SupportsIndex, kind: Kind, stream: HandleLike) -> None:
    """Copy `count` bytes after all earlier work on `stream`.

    Waits for the copy if it writes pageable host memory, or reads more than 2 MiB of it; a smaller pageable source
    may be changed when the call returns.
    """
    target = find_stream(stream)
    ends = _plan("cudaMemcpyAsync", dst, src, size_t(count), kind)
    if ends is not None:
        _copy(target, *ends, size_t(count), is_async=True)


def _plan(verb: str, dst: object, src: object, count: int, kind: Kind) -> tuple[End, End] | None:
    """Check a copy; None if there is nothing to do."""
    try:
        kind = Kind(kind)
    except ValueError:
        raise CudaError(
            Status.cudaErrorInvalidMemcpyDirection, f"{verb} kind must be a cudaMemcpyKind (0 to 4), got {kind!r}"
        ) from None
    destination = resolve(verb, "dst", dst, count, writable=True)
    source = resolve(verb, "src", src, count)
    if count == 0:
        return None
    if kind is not Kind.cudaMemcpyDefault:
        wants_source, wants_destination = _DIRECTIONS[kind]
        _check_direction(verb, kind, "src", source, wants_source)
        _check_direction(verb, kind, "dst", destination, wants_destination)
    return destination, source


def _check_direction(verb: str, kind: Kind, role: str, end: End, wants_device: bool) -> None:
    if end.is_device == wants_device or (end.primary is not None and not end.is_device):
        return  # pinned memory is mapped, so it is both
    what = "device memory" if end.is_device else "host memory"
    raise CudaError(
        Status.cudaErrorInvalidMemcpyDirection,
        f"{verb} with {kind.name}: {role} {end.address:#x} is {what}; pass the kind that fits, or cudaMemcpyDefault",
    )


def _copy(stream: Stream, destination: End, source: End, count: int, *, is_async: bool) -> None:
    primary = stream.primary
    primary.check()
    is_foreign = False
    for end in (destination, source):
        if end.primary is not None and end.primary is not primary:
            is_foreign = True
            end.primary.synchronize()  # the other device's work on that memory comes first
    target, origin = destination.operand(primary, count), source.operand(primary, count)
    is_staged = is_async and source.is_pageable and count <= _STAGE_BYTES
    if (
        is_foreign
        or destination.is_pageable
        or (source.is_pageable and not is_staged)
        or not (is_async or (destination.is_device and source.is_device))
    ):
        stream.complete(lambda queue: queue.memcpy(target, origin, count))
        return
    if is_staged:
        origin = bytes(memoryview(origin)[:count])
    stream.submit(lambda queue: queue.memcpy(target, origin, count))


# -- fills ----------------------------------------------------------------------------------------------------


@status_call
def cudaMemset(devPtr: object, value: SupportsIndex, count: SupportsIndex) -> None:
    """Set `count` bytes to the low byte of `value`, on the legacy default stream; waits only for pinned memory."""
    stream = current().legacy
    end = _fill(stream, "cudaMemset", devPtr, value, count)
    if end is not None and not end.is_device:
        stream.synchronize()


@status_call
def cudaMemsetAsync(devPtr: object, value: SupportsIndex, count: SupportsIndex, stream: HandleLike) -> None:
    """Set `count` bytes to the low byte of `value`, after all earlier work on `stream`."""
    _fill(find_stream(stream), "cudaMemsetAsync", devPtr, value, count)


def _fill(stream: Stream, verb: str, pointer: object, value: SupportsIndex, count: SupportsIndex) -> End | None:
    stream.primary.check()
    byte, size = c_int(value) & 0xFF, size_t(count)
    end = resolve(verb, "devPtr", pointer, size)
    if size == 0:
        return None
    if end.primary is not stream.primary:
        where = "is host memory" if end.primary is None else f"is on device {end.primary.ordinal}"
        raise CudaError(
            Status.cudaErrorInvalidValue,
            f"{verb}: {end.address:#x} {where}, not on device {stream.primary.ordinal} of the stream",
        )
    stream.submit(lambda queue: queue.memset(end.address, byte, size))
    return end
