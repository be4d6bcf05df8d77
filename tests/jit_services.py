"""The device runtime's memory for kernels that tests run, in this process or emulated in another one."""

from __future__ import annotations

import ctypes
import os
import weakref
from functools import cache
from itertools import count
from typing import Final

from zcuda_async.jit.abi import SERVICES, SERVICES_SIZE
from zcuda_async.memory.kernel_heap import heap_bytes, prepare_heap
from zcuda_async.memory.mapping import map_shared, unmap
from zcuda_async.memory.ring import PrintRing, ring_bytes

__all__ = ("Services", "services")

RING_SIZE = 1 << 16
_BASE: Final = 0x28_0000_0000
"""Programs of no processor have anything here, so that an emulated one can have the same bytes at the same address."""
_SPACING: Final = 1 << 26
_numbers = count()


def _map(size: int) -> tuple[int, memoryview]:
    address = _BASE + next(_numbers) * _SPACING
    fd = os.memfd_create("zcuda-test-services", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, size)
        map_shared(fd, address, size)
    finally:
        os.close(fd)
    memory = (ctypes.c_ubyte * size).from_address(address)
    weakref.finalize(memory, unmap, address, size).atexit = False
    return address, memoryview(memory).cast("B")


class Services:
    """A print buffer and a heap, as a device has them; `memory` is all of it, at `address`."""

    def __init__(self, ring_size: int = RING_SIZE, heap_size: int = 1 << 16) -> None:
        end = SERVICES_SIZE + ring_bytes(ring_size)
        self.address, self.memory = _map(end + heap_bytes(heap_size))
        view = self.memory
        SERVICES.pack_into(view, 0, self.address + SERVICES_SIZE, self.address + end)
        self.ring = PrintRing(view[SERVICES_SIZE:end])
        self.heap = view[end : end + heap_bytes(heap_size)]
        prepare_heap(self.heap, self.address + end)


@cache
def services() -> Services:
    """The one that `jit_harness` gives its kernels."""
    return Services()
