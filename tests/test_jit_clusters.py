"""Clusters of blocks: machine code and interpreter agree, and both with plain numpy, for clusters of several shapes.

The kernels are in ``ptx/distributed.cu``, built by nvcc, and below as written by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from jit_harness import Array, Case, Triple, check, compiled, differences, kernel, run_code, run_interpreter

from zcuda_async.interpreter import DeadlockError, InterpreterError, MemoryFaultError

TEXT = (Path(__file__).parent / "ptx" / "distributed.ptx").read_text()
SHAPES: list[tuple[Triple, Triple]] = [
    ((2, 1, 1), (2, 1, 1)),
    ((6, 1, 1), (3, 1, 1)),
    ((4, 4, 1), (2, 2, 1)),
    ((2, 6, 1), (1, 3, 1)),
    ((2, 2, 4), (2, 1, 2)),
    ((3, 2, 1), (1, 1, 1)),
]
"""(grid, cluster)."""


def numbers(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(-1000, 1000, shape).astype(np.int32)


def ranks(grid: Triple, cluster: Triple) -> list[list[int]]:
    """The linear indices of the blocks of each cluster, by rank."""
    clusters: dict[tuple[int, ...], list[int]] = {}
    for index in range(grid[0] * grid[1] * grid[2]):
        place = index % grid[0], index // grid[0] % grid[1], index // grid[0] // grid[1]
        clusters.setdefault(tuple(a // b for a, b in zip(place, cluster, strict=True)), []).append(index)
    return list(clusters.values())  # within a cluster, ranks grow as linear indices do


class Agreement:
    """Runs one kernel, compiled for one and for several groups, and compares it with the interpreter."""

    def __init__(self, name: str, block: int) -> None:
        self.name = name
        self.block = block
        self.codes = ExitStack()
        first = Case(TEXT, [], name, block=(block, 1, 1))
        self.compiled = [self.codes.enter_context(compiled(first, *how)) for how in (("host", None), ("sse2", 1))]

    def __call__(self, grid: Triple, cluster: Triple, *args: Array | int, shared: int = 0) -> list[Array]:
        case = Case(TEXT, args, self.name, grid, (self.block, 1, 1), shared, cluster)
        want = run_interpreter(case)
        for code in self.compiled:
            text = differences(run_code(code, case), want)
            assert not text, f"{self.name}, grid {grid}, cluster {cluster}:\n{text}"
        return want


@contextmanager
def agreement(name: str, block: int) -> Iterator[Agreement]:
    agree = Agreement(name, block)
    with agree.codes:
        yield agree


def test_values_go_round_the_ring() -> None:
    block = 40
    with agreement("pass_round", block) as agree:
        for grid, cluster in SHAPES:
            blocks = grid[0] * grid[1] * grid[2]
            values = numbers(1, blocks, block)
            _, got = agree(grid, cluster, values, np.zeros_like(values))
            want = values.copy()
            for members in ranks(grid, cluster):
                own = values[members]
                total = own.copy()
                for turn in range(len(members)):
                    own = np.roll(own + np.int32(turn), 1, axis=0)[:, ::-1]
                    total = total * np.int32(3) + own
                want[members] = total
            np.testing.assert_array_equal(got, want)


def test_atomics_reach_the_shared_memory_of_another_block() -> None:
    block = 33
    with agreement("reduce", block) as agree:
        for grid, cluster in SHAPES:
            values = numbers(2, grid[0] * grid[1] * grid[2], block)
            _, got = agree(grid, cluster, values, np.zeros_like(values))
            want = np.zeros_like(values)
            for members in ranks(grid, cluster):
                want[members[0]] = values[members].sum() * 10 + values[members].min()
            np.testing.assert_array_equal(got, want)


def test_a_histogram_is_spread_over_the_blocks() -> None:
    bins, each = 12, 70
    with agreement("histogram", 32) as agree:
        for grid, cluster in SHAPES:
            blocks, members = grid[0] * grid[1] * grid[2], cluster[0] * cluster[1] * cluster[2]
            values = np.abs(numbers(3, blocks, each))
            out = np.zeros((blocks, bins), np.int32)
            _, got = agree(grid, cluster, values, out, each, bins, shared=4 * bins)
            for indices in ranks(grid, cluster):
                want = np.bincount(values[indices].ravel() % (bins * members), minlength=bins * members)
                np.testing.assert_array_equal(got[indices].ravel(), want)


def test_barrier_objects_take_arrivals_from_other_blocks() -> None:
    block = 40
    with agreement("mailboxes", block) as agree:
        for grid, cluster in SHAPES:
            blocks = grid[0] * grid[1] * grid[2]
            values = numbers(4, blocks, block)
            _, got = agree(grid, cluster, values, np.zeros((blocks, 3, block), np.int32))
            want = np.zeros((blocks, 3, block), np.int64)
            for members in ranks(grid, cluster):
                for phase in range(3):
                    for index in members:
                        want[members[0], phase] = want[members[0], phase] * 7 + np.roll(values[index] + phase, -phase)
            np.testing.assert_array_equal(got, want.astype(np.int32))


def test_threads_know_their_place_and_whose_an_address_is() -> None:
    block = 32
    with agreement("place", block) as agree:
        for grid, cluster in SHAPES:
            blocks, members = grid[0] * grid[1] * grid[2], cluster[0] * cluster[1] * cluster[2]
            [got] = agree(grid, cluster, np.zeros((blocks, block, 8), np.uint32))
            sizes = np.array(grid) // cluster
            scale = np.array((1, 10, 100))
            for indices in ranks(grid, cluster):
                for rank, index in enumerate(indices):
                    at = np.array((index % grid[0], index // grid[0] % grid[1], index // grid[0] // grid[1]))
                    mine = members == 1
                    want = [
                        rank * 100 + members,
                        (at % cluster) @ scale + 1000 * (np.array(cluster) @ scale),
                        (at // cluster) @ scale + 1000 * (sizes @ scale),
                        (rank - 1) % members * 10 + rank,
                        0,
                        0b11001 if mine else 0b01000,  # shared::cta, shared::cluster, global, local, shared
                        0b11001,
                        int(not mine),
                    ]
                    np.testing.assert_array_equal(got[index], np.tile(np.array(want), (block, 1)))


def test_threads_arrive_and_exit() -> None:
    block = 64
    thread = np.arange(block)
    with agreement("arrive_and_exit", block) as agree:
        for grid, cluster in SHAPES:
            values = numbers(8, grid[0] * grid[1] * grid[2], block)
            _, got = agree(grid, cluster, values, np.zeros_like(values))
            want = np.zeros_like(values)
            for members in ranks(grid, cluster):
                for rank, index in enumerate(members):
                    before = values[members[rank - 1]]
                    want[index] = np.where(thread % 3, before * 2 + before[thread // 3 * 3], 0)
            np.testing.assert_array_equal(got, want)


def test_threads_that_have_exited_are_not_waited_for() -> None:
    block = 64
    with agreement("leave_early", block) as agree:
        for grid, cluster in SHAPES:
            values = numbers(5, grid[0] * grid[1] * grid[2], block)
            _, got = agree(grid, cluster, values, np.zeros_like(values))
            want = np.zeros_like(values)
            thread = np.arange(block)
            for members in ranks(grid, cluster):
                for rank, index in enumerate(members):
                    other = (rank + 1) % len(members)
                    seen = np.where(thread % 4 == other % 4, -1, values[members[other]])
                    want[index] = np.where(thread % 4 == rank % 4, 0, seen)
            np.testing.assert_array_equal(got, want)


# ---------------------------------------------------------------------- by hand

ROW = "mul.lo.u32 %r20, %r0, 8;"
JOIN = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"


def by_hand(body: str, grid: int = 4, cluster: int = 4) -> Case:
    before = ".shared .align 16 .b8 window[512];"
    values = np.random.default_rng(6).integers(0, 1 << 62, (grid, 32)).astype(np.uint64)
    return Case(
        kernel(f"{ROW} mov.u32 %r9, %cluster_ctarank; {body}", before=before),
        [values, np.zeros_like(values)],
        grid=(grid, 1, 1),
        cluster=(cluster, 1, 1),
    )


@pytest.mark.parametrize(
    "access",
    [
        "st.shared::cluster.u64 [%r21], %d4;",
        "st.shared::cluster.v2.u32 [%r21], {%r22, %r23};",
        "atom.shared::cluster.exch.b64 %d5, [%r21], %d4;",
        "red.relaxed.cluster.shared::cluster.add.u64 [%r21], %d4;",
        "cvt.u64.u32 %d6, %r21; cvta.shared::cluster.u64 %d6, %d6; st.u64 [%d6], %d4;",
        "mov.u64 %d6, window; cvta.shared.u64 %d6, %d6; cvt.u64.u32 %d7, %r20; add.u64 %d6, %d6, %d7;"
        "mapa.u64 %d6, %d6, %r10; atom.add.u64 %d5, [%d6], %d4;",
        "mov.u64 %d6, window; cvt.u64.u32 %d7, %r20; add.u64 %d6, %d6, %d7;"
        "mapa.shared::cluster.u64 %d6, %d6, %r10; st.release.cluster.shared::cluster.u64 [%d6], %d4;",
    ],
)
@pytest.mark.parametrize("target", ["xor.b32 %r10, %r9, 3;", "xor.b32 %r10, %r0, %r9; and.b32 %r10, %r10, 3;"])
def test_accesses_to_other_blocks(access: str, target: str) -> None:
    """One block for a whole group, or another for each lane."""
    body = f"""
    add.u64 %d4, %d0, %d2; ld.global.u64 %d4, [%d4]; mov.b64 {{%r22, %r23}}, %d4;
    mov.u32 %r21, window; add.u32 %r21, %r21, %r20; mov.u64 %d5, 0; st.shared.u64 [%r21], %d5; {JOIN}
    {target} mapa.shared::cluster.u32 %r21, %r21, %r10; {access} {JOIN}
    mov.u32 %r21, window; add.u32 %r21, %r21, %r20; ld.shared.u64 %d10, [%r21];
    """
    check(by_hand(body), targets=("host", "sse2"), parts=(None,))


def test_whose_shared_memory_an_address_is_in() -> None:
    body = f"""
    xor.b32 %r10, %r0, %r9; and.b32 %r10, %r10, 3; mov.u32 %r21, window; add.u32 %r21, %r21, %r20;
    mapa.shared::cluster.u32 %r22, %r21, %r10; getctarank.shared::cluster.u32 %r23, %r22;
    mapa.shared::cluster.u32 %r24, window+16, 2; getctarank.shared::cluster.u32 %r25, %r24;
    getctarank.shared::cluster.u32 %r26, %r21; getctarank.shared::cluster.u32 %r27, window;
    mapa.shared::cluster.u32 %r22, %r22, %r9; cvt.u64.u32 %d4, %r22; cvta.shared::cluster.u64 %d4, %d4;
    getctarank.u64 %r28, %d4; mapa.u64 %d4, %d4, 1; getctarank.u64 %r29, %d4;
    mad.lo.u32 %r30, %r23, 10, %r25; mad.lo.u32 %r30, %r30, 10, %r26; mad.lo.u32 %r30, %r30, 10, %r27;
    mad.lo.u32 %r30, %r30, 10, %r28; mad.lo.u32 %r30, %r30, 10, %r29; cvt.u64.u32 %d10, %r30; {JOIN}
    """
    case = by_hand(body)
    check(case, targets=("host", "sse2"), parts=(None,))
    lane, rank = np.arange(32), np.arange(4)[:, None]
    want = (lane ^ rank) % 4 * 100000 + 20000 + rank * 1110 + 1
    np.testing.assert_array_equal(run_interpreter(case)[1], want.astype(np.uint64))


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("mapa.shared::cluster.u32 %r21, window, 4;", InterpreterError, "mapa: no block of rank 4, the cluster has 4"),
        (
            "mapa.shared::cluster.u32 %r21, window, 2; ld.shared::cluster.u32 %r21, [%r21+512];",
            MemoryFaultError,
            "ld: shared address 0x3000200 is beyond the 512 bytes of block 2",
        ),
        (
            "mapa.shared::cluster.u32 %r21, window, 2; ld.shared.u32 %r21, [%r21];",
            MemoryFaultError,
            "ld: offset 0x2000000 of",
        ),
        ("barrier.cluster.wait;", InterpreterError, "barrier: thread .* waits without having arrived"),
        ("barrier.cluster.arrive; barrier.cluster.arrive;", InterpreterError, "barrier: thread .* arrives twice"),
        (
            "barrier.cluster.arrive; setp.eq.u32 %p0, %r9, 1; @!%p0 bra W; bar.sync 1, 64; W: barrier.cluster.wait;",
            DeadlockError,
            r"^block \(1, 0, 0\): no thread can go on; 32 at line 16: bar\b",
        ),
    ],
)
def test_the_interpreter_says_what_has_no_meaning(body: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run_interpreter(by_hand(body))


def test_the_interpreter_takes_whole_clusters_only() -> None:
    with pytest.raises(ValueError, match=r"^the grid \(6, 1, 1\) is no multiple of the cluster \(4, 1, 1\)$"):
        run_interpreter(by_hand("", grid=6))
