"""The device runtime's memory for kernels that tests run in this process."""

from __future__ import annotations

from functools import cache

import numpy as np

from zcuda_async.jit.abi import SERVICES, SERVICES_SIZE
from zcuda_async.memory.kernel_heap import heap_bytes, prepare_heap
from zcuda_async.memory.ring import PrintRing, ring_bytes

__all__ = ("Services", "services")

RING_SIZE = 1 << 16


class Services:
    """A print buffer and a heap, as a device has them."""

    def __init__(self, ring_size: int = RING_SIZE, heap_size: int = 1 << 16) -> None:
        self._memory = np.zeros(SERVICES_SIZE + ring_bytes(ring_size) + heap_bytes(heap_size) + 64, np.uint8)
        start = -self._memory.ctypes.data % 64
        self.address = int(self._memory.ctypes.data) + start
        view = memoryview(self._memory)[start:]
        end = SERVICES_SIZE + ring_bytes(ring_size)
        SERVICES.pack_into(view, 0, self.address + SERVICES_SIZE, self.address + end)
        self.ring = PrintRing(view[SERVICES_SIZE:end])
        self.heap = view[end : end + heap_bytes(heap_size)]
        prepare_heap(self.heap, self.address + end)


@cache
def services() -> Services:
    """The one that `jit_harness` gives its kernels."""
    return Services()
