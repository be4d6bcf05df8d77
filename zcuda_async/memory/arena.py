"""The arena: one sparse memory file, mapped at the same address in the parent and in every worker."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
import warnings
import weakref
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final

from anyio import ClosedResourceError

from zcuda_async.errors import CudaError, Status
from zcuda_async.memory.allocator import Allocator
from zcuda_async.memory.mapping import (
    MAX_WORKERS,
    ArenaLayout,
    advise_huge_pages,
    map_shared,
    punch_hole,
    unmap,
)

__all__ = ("Arena",)

_STEP: Final = 2 << 20
_ADDRESS_BITS: Final = (47, 42, 39)
"""Of a program's addresses: at least 47 on x86-64 and most arm64 systems, 42 or 39 on the others."""
_SPACING: Final = 64 << 30


class Arena:
    """All memory of one device: worker regions, the host heap and the device heap, in one ``memfd``.

    The file ends where the device heap's highest allocation so far ends (rounded up to 2 MiB), so a
    kernel that runs past it is stopped.  Freed ranges give their pages back.

    `close` unmaps at once unless views are still held; then the mapping goes with the last of them.

    Args:
        device_bytes: size of the device heap, rounded up to 2 MiB.  Costs address space only.
        host_bytes: size of the host heap (pinned buffers, parameters, object code), likewise.

    Raises:
        CudaError: `cudaErrorMemoryAllocation` if no address range of that size is free.
    """

    _file: _File | None = None

    def __init__(self, device_bytes: int, host_bytes: int) -> None:
        if device_bytes <= 0 or host_bytes <= 0:
            raise ValueError(f"heap sizes must be positive, got device_bytes={device_bytes}, host_bytes={host_bytes}")
        fd = os.memfd_create("zcuda-arena", os.MFD_CLOEXEC)
        try:
            layout = _map_anywhere(fd, _round_up(host_bytes), _round_up(device_bytes))
        except BaseException:
            os.close(fd)
            raise
        # The heaps know the file and not the arena, so that a forgotten arena goes without a collector.
        self._file = file = _File(fd, layout)
        self.fd: Final = fd
        self.layout: Final = layout
        size = layout.limit - layout.base
        memory = (ctypes.c_ubyte * size).from_address(layout.base)
        # Every view keeps `memory` alive, so none can outlive the mapping.
        weakref.finalize(memory, unmap, layout.base, size).atexit = False
        self._whole = memoryview(memory).cast("B")
        self._free_workers = list(range(MAX_WORKERS))
        self.host_heap: Final = Allocator(layout.host_base, layout.device_base, release=file.release, name="host")
        self.device_heap: Final = Allocator(
            layout.device_base, layout.limit, grow=file.grow, release=file.release, name="device"
        )

    @property
    def base(self) -> int:
        """First address, the same in every process."""
        return self.layout.base

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._file is None

    @property
    def resident_bytes(self) -> int:
        """Memory the arena takes, whoever touched it, once what was freed has been given back; may block for that."""
        self.host_heap.settle()
        self.device_heap.settle()
        return os.fstat(self.fd).st_blocks * 512

    def view(self, address: int, size: int) -> memoryview:
        """Return a writable window on `size` bytes at `address`, without a copy.

        Raises:
            ValueError: the range is not inside the arena.
            anyio.ClosedResourceError: the arena is closed.
        """
        if self._file is None:
            raise ClosedResourceError
        offset = address - self.layout.base
        if offset < 0 or size < 0 or offset + size > self._file.size:
            raise ValueError(f"{size} bytes at {address:#x} are not inside the arena")
        return self._whole[offset : offset + size]

    def release_pages(self, start: int, end: int) -> None:
        """Give the pages from `start` to `end` (page-aligned addresses) back; they read as zeros afterwards."""
        if self._file is not None:
            self._file.release(start, end)

    def take_worker(self) -> int:
        """Reserve a worker region and return its index.

        Raises:
            CudaError: `cudaErrorMemoryAllocation` when all are taken.
        """
        if not self._free_workers:
            raise CudaError(Status.cudaErrorMemoryAllocation, f"an arena serves at most {MAX_WORKERS} workers")
        return heappop(self._free_workers)

    def return_worker(self, index: int) -> None:
        """Give a worker region and its pages back; its process must be gone."""
        region = self.layout.worker_region(index)
        self.release_pages(region.page, region.scratch + region.scratch_size)
        heappush(self._free_workers, index)

    def close(self) -> None:
        """Give everything back.  Calling it again does nothing; every process that maps it must be gone.

        Blocks for some 200 ms per GiB of memory in use; safe to call in a thread.
        """
        if self._file is None:
            return
        self.host_heap.close()
        self.device_heap.close()
        self._whole.release()
        self._file.close()
        self._file = None

    def __del__(self) -> None:
        if self._file is not None:
            warnings.warn("an arena was not closed; call close()", ResourceWarning, source=self, stacklevel=2)
            self.close()


class _File:
    """The memory file: how long it is, and which of its pages exist."""

    def __init__(self, fd: int, layout: ArenaLayout) -> None:
        self.size = layout.device_base - layout.base
        self._fd = fd
        # A descriptor must not be closed, and its number given to another file, while it is used.
        self._lock = threading.Lock()
        self._base: Final = layout.base

    def grow(self, end: int) -> None:
        """Make the addresses below `end` usable."""
        needed = _round_up(end - self._base)
        with self._lock:
            if needed <= self.size:
                return
            if self._fd < 0:
                raise ClosedResourceError
            try:
                os.ftruncate(self._fd, needed)
            except OSError as error:
                raise CudaError(
                    Status.cudaErrorMemoryAllocation,
                    f"the system refuses to let the arena grow to {needed} bytes: {error.strerror}; raise the limit on"
                    " file sizes (ulimit -f) or allocate less",
                ) from error
            self.size = needed

    def release(self, start: int, end: int) -> None:
        """Give pages back."""
        with self._lock:
            if self._fd >= 0 and start < end:
                punch_hole(self._fd, start - self._base, end - start)

    def close(self) -> None:
        """Close the file; releasing does nothing from now on."""
        with self._lock:
            fd, self._fd = self._fd, -1
            os.close(fd)


def _round_up(size: int) -> int:
    return -(-size // _STEP) * _STEP


def _map_anywhere(fd: int, host_bytes: int, device_bytes: int) -> ArenaLayout:
    """Map the file at the first free base; the far end of each stride stays empty as a guard."""
    probe = ArenaLayout(0, host_bytes, device_bytes)
    size = probe.limit
    try:
        os.ftruncate(fd, probe.device_base)
    except OSError as error:
        raise CudaError(
            Status.cudaErrorMemoryAllocation,
            f"the system refuses an arena with {host_bytes} bytes of pinned memory: {error.strerror}; raise the"
            " limit on file sizes (ulimit -f) or open the device with less",
        ) from error
    refusal = ""
    for base in _bases(size, -(-(size + _STEP) // _SPACING) * _SPACING):
        try:
            map_shared(fd, base, size)
        except OSError as error:
            if error.errno not in (None, errno.EEXIST, errno.ENOMEM):
                raise CudaError(Status.cudaErrorMemoryAllocation, f"no address space for the arena: {error}") from error
            if error.errno == errno.ENOMEM:
                refusal = f": {error}"
            continue
        layout = ArenaLayout(base, host_bytes, device_bytes)
        advise_huge_pages(layout.device_base, device_bytes)
        return layout
    raise CudaError(Status.cudaErrorMemoryAllocation, f"no free address range of {size} bytes for the arena{refusal}")


def _bases(size: int, stride: int) -> Iterator[int]:
    """Where an arena may begin: programs keep nothing from a quarter to five eighths of their addresses.

    Code, heap, libraries and stacks lie above.  Addresses that the system's programs do not have are refused.
    """
    for bits in _ADDRESS_BITS:
        yield from range(1 << (bits - 2), (5 << (bits - 3)) - size, stride)
