"""The allocator, against a plain model of what may be where."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from zcuda_async.errors import CudaError, Status
from zcuda_async.memory.allocator import Allocation, Allocator

BASE = 0x2000_0000_0000
CAPACITY = 1 << 20


def rounded(size: int) -> int:
    return -(-size // 256) * 256


class AllocatorModel(RuleBasedStateMachine):
    """Any order of calls keeps allocations apart, aligned, findable, and the free space whole."""

    @initialize()
    def start(self) -> None:
        self.live: dict[int, int] = {}
        self.highest = BASE
        # Pages that may hold data: touched by an allocation and not released since.
        self.touched: set[int] = set()
        self.allocator = Allocator(BASE, BASE + CAPACITY, grow=self.grow, release=self.release)

    def grow(self, end: int) -> None:
        assert end > self.highest
        self.highest = end

    def release(self, start: int, end: int) -> None:
        assert start % 4096 == end % 4096 == 0
        assert BASE <= start <= end <= -(-self.highest // 4096) * 4096
        for address, size in self.live.items():
            assert address + rounded(size) <= start or end <= address, "released a live page"
        self.touched -= set(range(start, end, 4096))

    @rule(size=st.integers(1, 5000) | st.integers(1, CAPACITY + 1), shift=st.integers(0, 16))
    def allocate(self, size: int, shift: int) -> None:
        alignment = 1 << shift
        try:
            address = self.allocator.allocate(size, alignment)
        except CudaError as error:
            assert error.code is Status.cudaErrorMemoryAllocation  # noqa: PT017
            assert not self.fits(size, max(alignment, 256))
            return
        assert address % max(alignment, 256) == 0
        assert address >= BASE
        assert address + rounded(size) <= self.highest <= BASE + CAPACITY
        for other, other_size in self.live.items():
            assert address + rounded(size) <= other or other + rounded(other_size) <= address
        self.live[address] = size
        self.touched |= set(range(address // 4096 * 4096, address + size, 4096))

    def fits(self, size: int, alignment: int) -> bool:
        """Whether some gap between live allocations holds an aligned block."""
        edges = [(BASE - 1, BASE), *((a, a + rounded(s)) for a, s in sorted(self.live.items()))]
        edges.append((BASE + CAPACITY, BASE + CAPACITY))
        return any(
            -(-end // alignment) * alignment + rounded(size) <= start for (_, end), (start, _) in pairwise(edges)
        )

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        address = data.draw(st.sampled_from(sorted(self.live)))
        del self.live[address]
        self.allocator.free(address)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), offset=st.integers(-300, 6000))
    def find(self, data: st.DataObject, offset: int) -> None:
        address = data.draw(st.sampled_from(sorted(self.live))) + offset
        expected = [Allocation(a, s) for a, s in self.live.items() if a <= address < a + s]
        assert self.allocator.find(address) == (expected[0] if expected else None)

    @rule(address=st.integers(BASE - 1000, BASE + CAPACITY + 1000))
    def free_something_else(self, address: int) -> None:
        if address not in self.live:
            with pytest.raises(CudaError, match=r"is not the start of a live device allocation"):
                self.allocator.free(address)

    @invariant()
    def accounts_balance(self) -> None:
        if hasattr(self, "allocator"):
            assert self.allocator.used_bytes == sum(map(rounded, self.live.values()))
            assert len(self.allocator) == len(self.live)
            assert self.allocator.allocations() == [Allocation(a, s) for a, s in sorted(self.live.items())]

    @invariant()
    def little_is_retained(self) -> None:
        if hasattr(self, "allocator") and not self.live:
            assert len(self.touched) * 4096 <= 2 * (64 << 10)

    def teardown(self) -> None:
        if hasattr(self, "allocator"):
            for address in list(self.live):
                del self.live[address]
                self.allocator.free(address)
            # All neighbours joined: the whole range can be had in one piece.
            assert self.allocator.allocate(CAPACITY) == BASE


TestAllocatorModel = AllocatorModel.TestCase
TestAllocatorModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_full_heap_says_what_is_left() -> None:
    allocator = Allocator(BASE, BASE + 4096)
    allocator.allocate(1024)
    with pytest.raises(CudaError) as raised:
        allocator.allocate(4000)
    assert str(raised.value) == (
        "cudaErrorMemoryAllocation (2): device memory: asked for 4000 bytes, but 3072 of 4096 are free and the"
        " largest free range has 3072; free buffers or open the device with more memory"
    )


@pytest.mark.parametrize("size", [0, -1])
def test_sizes_below_one_are_refused(size: int) -> None:
    with pytest.raises(
        CudaError, match=rf"^cudaErrorInvalidValue \(1\): cannot allocate {size} bytes; ask for at least 1$"
    ):
        Allocator(BASE, BASE + 4096).allocate(size)


def test_freeing_twice_is_refused() -> None:
    allocator = Allocator(BASE, BASE + 4096)
    address = allocator.allocate(1)
    allocator.free(address)
    with pytest.raises(
        CudaError,
        match=rf"^cudaErrorInvalidValue \(1\): {address:#x} is not the start of a live device allocation; "
        r"free what was allocated, once$",
    ):
        allocator.free(address)


def test_small_frees_add_up_to_a_release() -> None:
    released: list[tuple[int, int]] = []
    allocator = Allocator(BASE, BASE + CAPACITY, release=lambda start, end: released.append((start, end)))
    for address in [allocator.allocate(256) for _ in range(4096)]:
        allocator.free(address)
    assert released[0] == (BASE, BASE + (64 << 10))
    assert released[-1][1] == BASE + CAPACITY
    assert len(released) == CAPACITY // (64 << 10)


def test_a_request_waits_for_the_range_being_released() -> None:
    entered, go = threading.Event(), threading.Event()

    def release(start: int, end: int) -> None:
        entered.set()
        assert go.wait(20)

    allocator = Allocator(BASE, BASE + CAPACITY, release=release)
    address = allocator.allocate(CAPACITY)
    freeing = threading.Thread(target=allocator.free, args=(address,))
    freeing.start()
    assert entered.wait(20)
    assert allocator.find(address) is None
    got: list[int] = []
    asking = threading.Thread(target=lambda: got.append(allocator.allocate(CAPACITY)))
    asking.start()
    go.set()
    freeing.join(20)
    asking.join(20)
    assert got == [BASE]


def test_large_frees_give_pages_back_in_a_thread_piece_by_piece() -> None:
    pieces: list[tuple[int, int]] = []
    threads: set[int] = set()

    def release(start: int, end: int) -> None:
        pieces.append((start, end))
        threads.add(threading.get_ident())

    size = 64 << 20
    allocator = Allocator(BASE, BASE + 2 * size, release=release)
    first, second = allocator.allocate(size), allocator.allocate(size)
    allocator.free(first)
    allocator.settle()
    assert threading.get_ident() not in threads
    assert max(end - start for start, end in pieces) <= 4 << 20
    assert sorted(pieces)[0][0] == BASE
    assert sum(end - start for start, end in pieces) == size
    pieces.clear()
    allocator.free(second)
    allocator.settle()
    assert sum(end - start for start, end in pieces) == size
    assert allocator.allocate(2 * size) == BASE


def test_a_range_is_not_handed_out_while_its_pages_are_given_back() -> None:
    entered, go = threading.Event(), threading.Event()
    held: list[tuple[int, int]] = []

    def release(start: int, end: int) -> None:
        held.append((start, end))
        entered.set()
        assert go.wait(20)

    size = 64 << 20
    allocator = Allocator(BASE, BASE + size, release=release)
    allocator.free(allocator.allocate(size))
    assert entered.wait(20)
    (start, end) = held[0]
    rest = [allocator.allocate(1 << 20) for _ in range((size - (end - start)) >> 20)]
    assert all(address + (1 << 20) <= start or end <= address for address in rest)
    got: list[int] = []
    asking = threading.Thread(target=lambda: got.append(allocator.allocate(1 << 20)))
    asking.start()
    go.set()
    asking.join(20)
    assert start <= got[0] < end
    allocator.close()


def test_a_request_for_everything_comes_before_the_remaining_pieces() -> None:
    entered, go = threading.Event(), threading.Event()
    pieces: list[tuple[int, int]] = []

    def release(start: int, end: int) -> None:
        pieces.append((start, end))
        entered.set()
        assert go.wait(20)

    size = 64 << 20
    allocator = Allocator(BASE, BASE + size, release=release)
    allocator.free(allocator.allocate(size))
    assert entered.wait(20)
    got: list[int] = []
    asking = threading.Thread(target=lambda: got.append(allocator.allocate(size)))
    asking.start()
    while not allocator._waiting:
        pass
    go.set()
    asking.join(20)
    assert got == [BASE]
    allocator.close()
    assert len(pieces) == 1


def test_closing_stops_giving_pages_back() -> None:
    entered, go = threading.Event(), threading.Event()
    pieces: list[tuple[int, int]] = []

    def release(start: int, end: int) -> None:
        pieces.append((start, end))
        entered.set()
        assert go.wait(20)

    size = 64 << 20
    allocator = Allocator(BASE, BASE + size, release=release)
    allocator.free(allocator.allocate(size))
    assert entered.wait(20)
    closing = threading.Thread(target=allocator.close)
    closing.start()
    while not allocator._is_closed:
        pass
    go.set()
    closing.join(20)
    assert len(pieces) == 1


def test_a_release_that_fails_ends_the_thread_and_nothing_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: raised.append(str(arguments.exc_value)))

    def release(start: int, end: int) -> None:
        raise OSError("no holes here")

    allocator = Allocator(BASE, BASE + (64 << 20), release=release)
    allocator.free(allocator.allocate(64 << 20))
    allocator.settle()
    assert allocator.allocate(64 << 20) == BASE
    allocator.close()
    assert all(text == "no holes here" for text in raised)


def test_a_failed_growth_changes_nothing() -> None:
    def grow(end: int) -> None:
        raise OSError("no space")

    allocator = Allocator(BASE, BASE + CAPACITY, grow=grow)
    with pytest.raises(OSError, match="no space"):
        allocator.allocate(100)
    assert (len(allocator), allocator.used_bytes) == (0, 0)


def test_threads_share_an_allocator() -> None:
    allocator = Allocator(BASE, BASE + (64 << 20), release=lambda start, end: None)
    seen: set[int] = set()
    clashes: list[int] = []
    lock = threading.Lock()

    def work(seed: int) -> None:
        for step in range(300):
            address = allocator.allocate(1000 * (1 + (seed + step) % 90))
            with lock:
                if address in seen:
                    clashes.append(address)
                seen.add(address)
            with lock:
                seen.discard(address)
            allocator.free(address)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not clashes
    assert allocator.used_bytes == 0
    assert allocator.allocate(64 << 20) == BASE
