"""The device runtime's memory for kernels that tests run in this process."""

from __future__ import annotations

from functools import cache

import numpy as np

from zcuda_async.jit.abi import SERVICES, SERVICES_SIZE
from zcuda_async.memory.ring import PrintRing, ring_bytes

__all__ = ("Services", "services")

RING_SIZE = 1 << 16


class Services:
    """A print buffer, as a device has one."""

    def __init__(self, ring_size: int = RING_SIZE) -> None:
        self._memory = np.zeros(SERVICES_SIZE + ring_bytes(ring_size) + 64, np.uint8)
        start = -self._memory.ctypes.data % 64
        self.address = int(self._memory.ctypes.data) + start
        view = memoryview(self._memory)[start:]
        SERVICES.pack_into(view, 0, self.address + SERVICES_SIZE, 0)
        self.ring = PrintRing(view[SERVICES_SIZE : SERVICES_SIZE + ring_bytes(ring_size)])


@cache
def services() -> Services:
    """The one that `jit_harness` gives its kernels."""
    return Services()
