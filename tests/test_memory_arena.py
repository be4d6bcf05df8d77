"""The arena: one file, one address, everything given back."""

from __future__ import annotations

import errno
import itertools
import os
from pathlib import Path

import anyio
import pytest

from zcuda_async.errors import CudaError
from zcuda_async.jit.abi import WORKER_SPACING
from zcuda_async.memory.arena import Arena
from zcuda_async.memory.mapping import MAX_WORKERS, PAGE, ArenaLayout, map_shared

MIB = 1 << 20


def mappings() -> int:
    return Path("/proc/self/maps").read_text().count("zcuda-arena")


def test_two_arenas_have_bases_of_their_own() -> None:
    first, second = Arena(MIB, MIB), Arena(MIB, MIB)
    assert first.base != second.base
    assert first.layout.limit < second.base
    first.close()
    second.close()


def test_a_base_is_used_again_after_close() -> None:
    first = Arena(MIB, MIB)
    base = first.base
    first.close()
    second = Arena(MIB, MIB)
    assert second.base == base
    second.close()


def test_the_heaps_lie_behind_the_worker_regions() -> None:
    arena = Arena(3 * MIB, MIB)
    layout = arena.layout
    last = layout.worker_region(MAX_WORKERS - 1)
    assert layout.base == layout.worker_region(0).page
    assert last.shared + last.shared_size < last.scratch
    assert last.scratch + last.scratch_size < layout.host_base
    assert (layout.device_base, layout.limit) == (layout.host_base + 2 * MIB, layout.device_base + 4 * MIB)
    assert arena.host_heap.capacity == 2 * MIB
    assert arena.device_heap.capacity == 4 * MIB
    arena.close()


def test_views_share_the_memory() -> None:
    arena = Arena(MIB, MIB)
    address = arena.device_heap.allocate(100)
    arena.view(address, 100)[:] = bytes(range(100))
    assert bytes(arena.view(address + 10, 5)) == bytes([10, 11, 12, 13, 14])
    assert len(arena.view(address, 0)) == 0
    arena.close()


def test_the_file_ends_where_the_device_heap_does() -> None:
    arena = Arena(64 * MIB, MIB)
    start = arena.layout.device_base - arena.base
    assert os.fstat(arena.fd).st_size == start
    arena.device_heap.allocate(100)
    assert os.fstat(arena.fd).st_size == start + 2 * MIB
    big = arena.device_heap.allocate(5 * MIB)
    assert os.fstat(arena.fd).st_size == start + 6 * MIB
    with pytest.raises(ValueError, match=r"^1 bytes at 0x\w+ are not inside the arena$"):
        arena.view(arena.layout.device_base + 6 * MIB, 1)
    arena.device_heap.free(big)
    arena.close()


@pytest.mark.parametrize(("offset", "size"), [(-1, 1), (0, -1), (0, 1 << 40), (1 << 45, 1)])
def test_views_outside_are_refused(offset: int, size: int) -> None:
    arena = Arena(MIB, MIB)
    with pytest.raises(ValueError, match=rf"^{size} bytes at {arena.base + offset:#x} are not inside the arena$"):
        arena.view(arena.base + offset, size)
    arena.close()


def test_freed_memory_goes_back_to_the_system() -> None:
    arena = Arena(256 * MIB, 64 * MIB)
    before = arena.resident_bytes
    for heap in (arena.device_heap, arena.host_heap):
        large = heap.allocate(16 * MIB + 12345)
        arena.view(large, 16 * MIB)[:] = bytes(16 * MIB)
        small = [heap.allocate(300) for _ in range(2000)]
        for address in small:
            arena.view(address, 300)[:] = bytes(300)
        assert arena.resident_bytes - before >= 16 * MIB
        heap.free(large)
        for address in small[::2] + small[1::2]:
            heap.free(address)
        assert arena.resident_bytes - before <= (64 << 10) + PAGE  # less than 64 KiB, but it may straddle 17 pages
        before = arena.resident_bytes
    arena.close()


def test_closing_unmaps_and_closes() -> None:
    before, descriptors = mappings(), len(os.listdir("/proc/self/fd"))
    arena = Arena(MIB, MIB)
    arena.view(arena.device_heap.allocate(8), 8)[0] = 1
    assert mappings() > before
    arena.close()
    arena.close()
    assert arena.is_closed
    assert mappings() == before
    assert len(os.listdir("/proc/self/fd")) == descriptors
    with pytest.raises(anyio.ClosedResourceError):
        arena.view(arena.base, 1)


def test_a_view_that_is_still_held_keeps_its_memory() -> None:
    before = mappings()
    arena = Arena(MIB, MIB)
    view = arena.view(arena.device_heap.allocate(8), 8)
    view[:] = b"still ok"
    arena.close()
    assert bytes(view) == b"still ok"
    assert mappings() > before
    del view
    assert mappings() == before


def test_an_arena_nobody_closed_warns_and_closes() -> None:
    before = mappings()
    arena = Arena(MIB, MIB)
    with pytest.warns(ResourceWarning, match=r"^an arena was not closed; call close\(\)$"):
        del arena
    assert mappings() == before


def test_worker_regions_run_out_and_come_back() -> None:
    arena = Arena(MIB, MIB)
    indices = [arena.take_worker() for _ in range(MAX_WORKERS)]
    assert indices == list(range(MAX_WORKERS))
    with pytest.raises(CudaError, match=r"^cudaErrorMemoryAllocation \(2\): an arena serves at most 128 workers$"):
        arena.take_worker()
    region = arena.layout.worker_region(5)
    arena.view(region.scratch, PAGE)[0] = 1
    arena.return_worker(5)
    assert arena.resident_bytes == 0
    assert arena.take_worker() == 5
    arena.close()


@pytest.mark.parametrize(("device_bytes", "host_bytes"), [(0, 1), (1, 0), (-5, 1)])
def test_sizes_must_be_positive(device_bytes: int, host_bytes: int) -> None:
    with pytest.raises(ValueError, match=r"^heap sizes must be positive, got device_bytes="):
        Arena(device_bytes, host_bytes)


def test_an_arena_larger_than_the_address_space_is_refused() -> None:
    with pytest.raises(CudaError, match=r"^cudaErrorMemoryAllocation \(2\): no free address range of \d+ bytes"):
        Arena(1 << 47, MIB)


@pytest.mark.parametrize("bits", [39, 42])
def test_systems_with_fewer_addresses_have_room_too(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As arm64 systems may be built: beyond so many bits there is no memory."""

    def limited(fd: int, address: int, size: int) -> None:
        if address + size > 1 << bits:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        map_shared(fd, address, size)

    monkeypatch.setattr("zcuda_async.memory.arena.map_shared", limited)
    first, second = Arena(4 << 30, 4 << 30), Arena(4 << 30, 4 << 30)
    assert 1 << (bits - 2) <= first.base < first.layout.limit <= second.base
    assert second.layout.limit <= 5 << (bits - 3)
    assert first.base % (MAX_WORKERS * WORKER_SPACING) == 0
    address = second.device_heap.allocate(8)
    second.view(address, 8)[:] = b"anywhere"
    with pytest.raises(CudaError, match=r"bytes for the arena: \[Errno 12\] Cannot allocate memory$"):
        Arena(1 << bits, MIB)
    first.close()
    second.close()


def test_a_workers_pieces_are_apart_whatever_the_size_of_a_page() -> None:
    region = ArenaLayout(0, 2 * MIB, 2 * MIB).worker_region(0)
    largest = 64 << 10
    pieces = [
        (region.page, largest),
        (region.shared, region.shared_size),
        (region.scratch, region.scratch_size),
        (WORKER_SPACING, largest),
    ]
    assert all(address % largest == 0 for address, _ in pieces)
    for (address, size), (following, _) in itertools.pairwise(pieces):
        assert following - address - size >= largest


def test_mapping_over_something_is_refused() -> None:
    arena = Arena(MIB, MIB)
    with pytest.raises(FileExistsError):
        map_shared(arena.fd, arena.base, PAGE)
    arena.close()


def test_a_worker_maps_the_same_addresses(tmp_path: Path) -> None:
    arena = Arena(MIB, MIB)
    address = arena.device_heap.allocate(8)
    child = os.fork()
    if not child:
        # The copy of the parent's mapping stands in the way, as it never does in a worker.
        arena._whole.release()
        layout = ArenaLayout(arena.base, arena.layout.host_bytes, arena.layout.device_bytes)
        layout.map_for_worker(arena.fd, 3)
        memory = (__import__("ctypes").c_ubyte * 8).from_address(address)
        memory[0] = 77
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert arena.view(address, 1)[0] == 77
    arena.close()
