"""The arena's layout and the system calls that map it: all that a worker needs to know about memory.

Imports nothing but the standard library's cheap parts, because every worker pays for it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from dataclasses import dataclass
from typing import Final

__all__ = (
    "MAX_WORKERS",
    "PAGE",
    "ArenaLayout",
    "WorkerRegion",
    "advise_huge_pages",
    "map_shared",
    "punch_hole",
    "unmap",
)

PAGE: Final = mmap.PAGESIZE
MAX_WORKERS: Final = 128
"""How many worker regions an arena has room for; unused ones cost address space only."""

_REGION_SIZE: Final = 64 << 20
_LARGEST_PAGE: Final = 64 << 10
"""What arm64 systems may have; those of x86-64 have 4 KiB."""
_SHARED_OFFSET: Final = 2 * _LARGEST_PAGE
_SHARED_SIZE: Final = 256 << 10
_SCRATCH_OFFSET: Final = _SHARED_OFFSET + _SHARED_SIZE + _LARGEST_PAGE
_GUARD: Final = _LARGEST_PAGE

_MAP_NORESERVE: Final = 0x4000
_MAP_FIXED_NOREPLACE: Final = 0x100000
_FALLOC_FL_KEEP_SIZE: Final = 1
_FALLOC_FL_PUNCH_HOLE: Final = 2

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


@dataclass(frozen=True, slots=True)
class WorkerRegion:
    """Addresses of one worker's own memory: its state page, shared-memory window and scratch.

    The stretches between them stay unmapped in the worker, so running off an end is caught.
    """

    page: int
    shared: int
    scratch: int
    shared_size: int = _SHARED_SIZE
    scratch_size: int = _REGION_SIZE - _SCRATCH_OFFSET - _GUARD


@dataclass(frozen=True, slots=True)
class ArenaLayout:
    """Where things are in an arena at `base`: worker regions, then the host heap, then the device heap.

    Sizes are in bytes and multiples of 2 MiB.
    """

    base: int
    host_bytes: int
    device_bytes: int

    @property
    def host_base(self) -> int:
        """First address of the host heap."""
        return self.base + MAX_WORKERS * _REGION_SIZE

    @property
    def device_base(self) -> int:
        """First address of the device heap, which ends the arena."""
        return self.host_base + self.host_bytes

    @property
    def limit(self) -> int:
        """First address past the arena."""
        return self.device_base + self.device_bytes

    def worker_region(self, index: int) -> WorkerRegion:
        """The region of worker `index`, counted from 0."""
        start = self.base + index * _REGION_SIZE
        return WorkerRegion(start, start + _SHARED_OFFSET, start + _SCRATCH_OFFSET)

    def map_for_worker(self, fd: int, index: int) -> WorkerRegion:
        """Map what worker `index` may touch: its own region and the two heaps."""
        region = self.worker_region(index)
        pieces = (
            (region.page, PAGE),
            (region.shared, region.shared_size),
            (region.scratch, region.scratch_size),
            (self.host_base, self.host_bytes),
            (self.device_base, self.device_bytes),
        )
        for address, size in pieces:
            map_shared(fd, address, size, address - self.base)
        advise_huge_pages(self.device_base, self.device_bytes)
        return region


def map_shared(fd: int, address: int, size: int, offset: int = 0) -> None:
    """Map `size` bytes of `fd` at exactly `address`, shared and writable.

    Raises:
        FileExistsError: something else is mapped there.
        OSError: the address is outside what this machine can map, or memory ran out.
    """
    flags = mmap.MAP_SHARED | _MAP_NORESERVE | _MAP_FIXED_NOREPLACE
    got = _libc.mmap(address, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, offset)
    if got == address:
        return
    if got not in (None, ctypes.c_void_p(-1).value):
        # Kernels before 4.17 take the address as a hint only.
        unmap(got, size)
        raise FileExistsError(f"address {address:#x} is taken")
    error = ctypes.get_errno()
    raise OSError(error, f"cannot map {size} bytes at {address:#x}: {os.strerror(error)}")


def unmap(address: int, size: int) -> None:
    """Remove a mapping."""
    _libc.munmap(address, size)


def advise_huge_pages(address: int, size: int) -> None:
    """Ask for 2 MiB pages where the system offers them; it may refuse, and then nothing changes."""
    _libc.madvise(address, size, mmap.MADV_HUGEPAGE)


def punch_hole(fd: int, offset: int, size: int) -> None:
    """Give the pages of a file range back to the system; the range reads as zeros afterwards."""
    if _libc.fallocate(fd, _FALLOC_FL_PUNCH_HOLE | _FALLOC_FL_KEEP_SIZE, offset, size):
        error = ctypes.get_errno()
        raise OSError(error, f"cannot release {size} bytes of the arena: {os.strerror(error)}")
