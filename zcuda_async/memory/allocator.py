"""Sub-allocates one address range: exact, thread-safe, a few microseconds a call."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zcuda_async.errors import CudaError, Status
from zcuda_async.memory.mapping import PAGE

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("ALIGNMENT", "Allocation", "Allocator")

ALIGNMENT: Final = 256
"""Bytes; every address and every rounded size is a multiple, as CUDA has it."""

_RELEASE_FROM: Final = 64 << 10
"""Free ranges hold on to fewer bytes of used pages than this."""
_RELEASE_AT_ONCE: Final = 1 << 20
"""Up to here the caller of `free` gives pages back (some 200 microseconds per MiB); beyond, a thread does."""
_PIECE: Final = 4 << 20
"""What that thread gives back at a time; only this much of a free range cannot be allocated meanwhile."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """A live allocation: `size` bytes from `address`, as asked for (not rounded up)."""

    address: int
    size: int


class Allocator:
    """Best-fit allocator over the addresses `base` to `limit`.

    Free ranges are kept by start, by end and by size, so that allocating, freeing and joining
    neighbours never scan.  A free range also knows which part of it may still hold pages (its
    *stale* part); once that reaches 64 KiB, `release` gives those pages back.  That runs outside
    the lock on a range nobody can be given meanwhile; a request that only this range could serve
    waits for it.  Large stale parts are given back piece by piece in a thread that lives only
    as long as there are any, so `free` never takes long; what is allocated anew before its turn keeps its pages.

    Args:
        base: first address, a multiple of the page size.
        limit: first address past the range.
        alignment: bytes; every address and every rounded size is a multiple.
        grow: called with the new highest end address before an allocation passes the old one.
        release: called with a page-aligned (start, end) whose content is not needed any more.
        name: what messages call this memory.
    """

    def __init__(
        self,
        base: int,
        limit: int,
        alignment: int = ALIGNMENT,
        *,
        grow: Callable[[int], None] | None = None,
        release: Callable[[int, int], None] | None = None,
        name: str = "device",
    ) -> None:
        self._base = base
        self._limit = limit
        self._alignment = alignment
        self._grow = grow
        self._release = release
        self._name = name
        self._lock = threading.Condition(threading.Lock())
        self._live: dict[int, int] = {}
        self._starts: list[int] = []
        self._used = 0
        self._highest = base
        self._releasing = 0
        self._free_end: dict[int, int] = {base: limit}
        self._free_start: dict[int, int] = {limit: base}
        self._by_size: list[tuple[int, int]] = [(limit - base, base)]
        self._stale: dict[int, tuple[int, int]] = {}
        self._dirty: dict[int, None] = {}
        self._waiting = 0
        self._reclaimer: threading.Thread | None = None
        self._is_closed = False

    @property
    def capacity(self) -> int:
        """Bytes in all."""
        return self._limit - self._base

    @property
    def used_bytes(self) -> int:
        """Bytes in live allocations, each rounded up to the alignment."""
        return self._used

    def __len__(self) -> int:
        return len(self._live)

    def allocate(self, size: int, alignment: int | None = None) -> int:
        """Reserve `size` bytes and return their address.  The content is undefined.

        Args:
            size: bytes, at least 1.
            alignment: bytes, a power of two; at least the allocator's own.

        Raises:
            CudaError: `cudaErrorMemoryAllocation` when no free range is large enough,
                `cudaErrorInvalidValue` for a size below 1.
        """
        if size <= 0:
            raise CudaError(Status.cudaErrorInvalidValue, f"cannot allocate {size} bytes; ask for at least 1")
        unit = self._alignment
        rounded = (size + unit - 1) // unit * unit
        step = unit if alignment is None else max(unit, alignment)
        with self._lock:
            address = self._take(rounded, step)
            if address is None and self._releasing:
                address = self._wait_for(rounded, step)
            if address is None:
                raise self._exhausted(size)
            self._live[address] = size
            insort(self._starts, address)
            self._used += rounded
        return address

    def free(self, address: int) -> None:
        """End the allocation that starts at `address`.

        Raises:
            CudaError: `cudaErrorInvalidValue` if none starts there (it was never made, or is freed already).
        """
        with self._lock:
            size = self._live.pop(address, None)
            if size is None:
                raise CudaError(
                    Status.cudaErrorInvalidValue,
                    f"{address:#x} is not the start of a live {self._name} allocation; free what was allocated, once",
                )
            del self._starts[bisect_left(self._starts, address)]
            end = address + (size + self._alignment - 1) // self._alignment * self._alignment
            self._used -= end - address
            start, end, stale = self._join(address, end, (address, end))
            if self._release is None or stale[1] - stale[0] < _RELEASE_FROM:
                self._insert(start, end, stale)
                return
            if stale[1] - stale[0] > _RELEASE_AT_ONCE:
                self._insert(start, end, stale)
                self._start_reclaiming()
                return
            self._releasing += 1
        try:
            self._release(*_pages(start, end, stale))
        finally:
            with self._lock:
                self._releasing -= 1
                self._insert(*self._join(start, end, (end, end)))
                self._lock.notify_all()

    def settle(self) -> None:
        """Wait until the pages of large freed ranges have been given back; blocks."""
        with self._lock:
            while self._reclaimer is not None:
                self._lock.wait()

    def close(self) -> None:
        """Give no more pages back; waits for a piece that is under way.  Idempotent."""
        with self._lock:
            self._is_closed = True
        self.settle()

    def _wait_for(self, size: int, step: int) -> int | None:
        """As `_take`, once the ranges whose pages are being given back have returned."""
        address = None
        self._waiting += 1
        while address is None and self._releasing:
            self._lock.wait()
            address = self._take(size, step)
        self._waiting -= 1
        self._lock.notify_all()
        return address

    def _start_reclaiming(self) -> None:
        if self._reclaimer is not None or self._is_closed:
            return
        self._reclaimer = threading.Thread(target=self._reclaim, name=f"zcuda {self._name} pages", daemon=True)
        try:
            self._reclaimer.start()
        except RuntimeError:  # no more threads: the pages stay until the next large `free`, or serve again
            self._reclaimer = None

    def _reclaim(self) -> None:
        """Give all large stale parts back, a piece at a time, then end."""
        assert self._release is not None
        try:
            while (piece := self._take_piece()) is not None:
                try:
                    self._release(*piece)
                finally:
                    self._return_piece(*piece)
        except BaseException:
            with self._lock:
                self._end_reclaiming()
            raise

    def _take_piece(self) -> tuple[int, int] | None:
        """Cut the next pages to give back out of the free ranges; None, and the thread's end, if there are none."""
        with self._lock:
            while self._waiting and not self._is_closed:  # somebody may need the very range
                self._lock.wait()
            while self._dirty and not self._is_closed:
                start = next(iter(self._dirty))
                end = self._free_end[start]
                stale = self._remove(start, end)
                low, high = _pages(start, end, stale)
                if low >= high:
                    self._insert(start, end, (end, end))
                    continue
                cut = min(high, (low // _PIECE + 1) * _PIECE)
                if start < low:
                    self._insert(start, low, (low, low))
                if cut < end:
                    self._insert(cut, end, (cut, stale[1]))
                self._releasing += 1
                return low, cut
            self._end_reclaiming()
            return None

    def _return_piece(self, start: int, end: int) -> None:
        with self._lock:
            self._releasing -= 1
            self._insert(*self._join(start, end, (end, end)))
            self._lock.notify_all()

    def _end_reclaiming(self) -> None:
        self._reclaimer = None
        self._lock.notify_all()

    def find(self, address: int) -> Allocation | None:
        """Return the live allocation that holds `address`, or None."""
        nearest = self.find_before(address)
        return nearest if nearest is not None and address < nearest.address + nearest.size else None

    def find_before(self, address: int) -> Allocation | None:
        """Return the live allocation with the highest start that is not above `address`, or None."""
        with self._lock:
            index = bisect_right(self._starts, address) - 1
            if index < 0:
                return None
            start = self._starts[index]
            return Allocation(start, self._live[start])

    def allocations(self) -> list[Allocation]:
        """Every live allocation, by address."""
        with self._lock:
            return [Allocation(start, self._live[start]) for start in self._starts]

    def _take(self, size: int, step: int) -> int | None:
        """Cut `size` bytes, aligned to `step`, out of the tightest free range that holds them."""
        by_size = self._by_size
        index = bisect_left(by_size, (size, 0))
        while index < len(by_size):
            length, start = by_size[index]
            address = -(-start // step) * step
            if address + size <= start + length:
                self._cut(index, address, address + size)
                return address
            index += 1
        return None

    def _cut(self, index: int, address: int, end: int) -> None:
        if end > self._highest:
            if self._grow is not None:
                self._grow(end)
            self._highest = end
        _, start = self._by_size.pop(index)
        free_end = self._free_end.pop(start)
        del self._free_start[free_end]
        stale = self._stale.pop(start, (free_end, free_end))
        self._dirty.pop(start, None)
        if start < address:
            self._insert(start, address, stale)
        if end < free_end:
            self._insert(end, free_end, stale)

    def _join(self, start: int, end: int, stale: tuple[int, int]) -> tuple[int, int, tuple[int, int]]:
        """Take free neighbours out of the tables; return the range and stale part with them."""
        low, high = stale
        before = self._free_start.get(start)
        if before is not None:
            low, high = _hull((low, high), self._remove(before, start))
            start = before
        after = self._free_end.get(end)
        if after is not None:
            low, high = _hull((low, high), self._remove(end, after))
            end = after
        return start, end, (low, high)

    def _remove(self, start: int, end: int) -> tuple[int, int]:
        del self._free_end[start], self._free_start[end]
        del self._by_size[bisect_left(self._by_size, (end - start, start))]
        self._dirty.pop(start, None)
        return self._stale.pop(start, (end, end))

    def _insert(self, start: int, end: int, stale: tuple[int, int]) -> None:
        self._free_end[start] = end
        self._free_start[end] = start
        insort(self._by_size, (end - start, start))
        low, high = max(stale[0], start), min(stale[1], end)
        if low < high:
            self._stale[start] = (low, high)
            if high - low >= _RELEASE_FROM:
                self._dirty[start] = None

    def _exhausted(self, size: int) -> CudaError:
        largest = self._by_size[-1][0] if self._by_size else 0
        free = self.capacity - self._used
        return CudaError(
            Status.cudaErrorMemoryAllocation,
            f"{self._name} memory: asked for {size} bytes, but {free} of {self.capacity} are free and the largest"
            f" free range has {largest}; free buffers or open the device with more memory",
        )


def _hull(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """The smallest range that holds both; empty ranges hold nothing."""
    if a[0] >= a[1]:
        return b
    if b[0] >= b[1]:
        return a
    return min(a[0], b[0]), max(a[1], b[1])


def _pages(start: int, end: int, stale: tuple[int, int]) -> tuple[int, int]:
    """The pages that hold `stale` and lie wholly inside the free range."""
    low = stale[0] // PAGE * PAGE
    high = -(-stale[1] // PAGE) * PAGE
    return (low if low >= start else low + PAGE), (high if high <= end else high - PAGE)
