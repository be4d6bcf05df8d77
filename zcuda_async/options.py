"""Frozen options, and the plain facts a device reports."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ("DeviceLimits", "DeviceProperties", "EventOptions", "MemoryInfo", "StreamOptions")

HIGHEST_PRIORITY = -5
LOWEST_PRIORITY = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """How a stream behaves.

    Args:
        nonblocking: True keeps it apart from the legacy default stream (`Device.default_stream`); False orders
            the two against each other, as CUDA's blocking streams are.
        priority: which launches go first when the executor is full; lower numbers do, from -5 to 0.
        name: what timelines and messages call it; numbered if None.
    """

    nonblocking: bool = True
    priority: int = LOWEST_PRIORITY
    name: str | None = None

    def __post_init__(self) -> None:
        """Check the priority."""
        if isinstance(self.priority, bool) or not isinstance(self.priority, int):
            raise TypeError(f"StreamOptions priority is an int, got {type(self.priority).__name__}")
        if not HIGHEST_PRIORITY <= self.priority <= LOWEST_PRIORITY:
            raise ValueError(
                f"StreamOptions priority must be {HIGHEST_PRIORITY} (first) to {LOWEST_PRIORITY} (last),"
                f" got {self.priority}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class EventOptions:
    """How an event behaves.

    Args:
        timing_enabled: whether the event keeps the time of its record for `elapsed_ms`.
        blocking_sync: accepted for CUDA's sake; waiting never spins here.
        name: what messages call it; numbered if None.
    """

    timing_enabled: bool = True
    blocking_sync: bool = False
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLimits:
    """What kernels may use of the device's own runtime (CUDA's ``cudaDeviceSetLimit``); sizes are in bytes.

    Args:
        printf_fifo_bytes: what kernels may print until it is written; beyond that the oldest output is lost.
        malloc_heap_bytes: what ``malloc`` in kernels takes from; a null pointer says that it is used up.
        stack_bytes: what the calls of each thread may take, counted only for functions that are recursive or called
            through pointers: 16 bytes each and their ``.local`` variables.  Calls beyond it are
            `cudaErrorHardwareStackError`, and so are calls beyond what there is: some 256 KiB for each thread.
    """

    printf_fifo_bytes: int = 1 << 20
    malloc_heap_bytes: int = 8 << 20
    stack_bytes: int = 1024

    def __post_init__(self) -> None:
        """Check the sizes."""
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"DeviceLimits {name} is a number of bytes (int), got {type(value).__name__}")
            if value < 1:
                raise ValueError(f"DeviceLimits {name} must be at least 1, got {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryInfo:
    """A device's memory at one moment, in bytes.  Sizes are rounded up to the 256-byte alignment."""

    total_bytes: int
    used_bytes: int
    pinned_total_bytes: int
    pinned_used_bytes: int

    @property
    def free_bytes(self) -> int:
        """Device memory that is not allocated (it may be in pieces)."""
        return self.total_bytes - self.used_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProperties:
    """What a device is and allows; sizes are in bytes."""

    name: str
    total_memory: int
    multiprocessor_count: int
    compute_capability: tuple[int, int] = (8, 6)
    warp_size: int = 32
    max_threads_per_block: int = 1024
    max_threads_per_multiprocessor: int = 1536
    max_block_dim: tuple[int, int, int] = (1024, 1024, 64)
    max_grid_dim: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    shared_memory_per_block: int = 48 << 10
    shared_memory_per_block_optin: int = 99 << 10
    async_engine_count: int = 2
    concurrent_kernels: bool = True
