"""Special registers, questions about addresses, and instructions that only give advice."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt
import pytest
from jit_harness import SHARED_BYTES, TARGETS, Case, kernel, run_interpreter, run_jit

from zcuda_async.jit.abi import MAX_WORKERS, SHARED_WINDOW_SIZE, WORKER_SPACING
from zcuda_async.memory import arena, mapping

EMPTY = np.zeros(1, np.uint32)


def words(
    body: str, threads: int = 64, *, target: str = "host", dynamic: int = 0, before: str = ""
) -> npt.NDArray[np.uint64]:
    """What %d10 is in each thread of one block."""
    case = Case(
        kernel(body, before=before),
        [EMPTY, np.zeros(threads, np.uint64)],
        block=(threads, 1, 1),
        dynamic_shared=dynamic,
    )
    return run_jit(case, target)[1]


def both(body: str, threads: int = 64, *, dynamic: int = 0, before: str = "") -> npt.NDArray[np.uint64]:
    """The same, after machine code for all processors and the interpreter agreed."""
    case = Case(
        kernel(body, before=before),
        [EMPTY, np.zeros(threads, np.uint64)],
        block=(threads, 1, 1),
        dynamic_shared=dynamic,
    )
    want = run_interpreter(case)[1]
    for name in TARGETS:
        assert (run_jit(case, name)[1] == want).all(), name
    return want


@pytest.mark.parametrize("register", ["%laneid", "%warpid", "%nwarpid", "%lanemask_eq", "%lanemask_le", "%lanemask_lt",
                                      "%lanemask_ge", "%lanemask_gt", "%envreg0", "%envreg31",
                                      "%reserved_smem_offset_begin", "%reserved_smem_offset_0"])  # fmt: skip
def test_words_agree(register: str) -> None:
    both(f"mov.u32 %r10, {register}; cvt.u64.u32 %d10, %r10;")


def test_shared_memory_sizes() -> None:
    body = """
    .shared .align 4 .b8 some[100];
    st.shared.u32 [some], 1; mov.u32 %r10, %dynamic_smem_size; mov.u32 %r11, %total_smem_size;
    mov.u32 %r12, %aggr_smem_size; mad.lo.u32 %r13, %r11, 1000, %r10; mad.lo.u32 %r13, %r12, 1000000, %r13;
    cvt.u64.u32 %d10, %r13;
    """
    assert set(both(body, dynamic=24)) == {124_124_024}


@pytest.mark.parametrize("register", ["%clock64", "%globaltimer"])
def test_time_goes_on_while_a_thread_runs(register: str) -> None:
    """Both readings are in one basic block, and they differ."""
    body = f"mov.u64 %d11, {register}; {'add.u64 %d12, %d11, 1; ' * 50} mov.u64 %d12, {register}; sub.u64 %d10, %d12, %d11;"
    for target in TARGETS:
        assert (words(body, target=target).view(np.int64) >= 0).all()
        assert (words(body.replace("mov.u64 %d12", "nanosleep.u32 100; mov.u64 %d12"), target=target) < 10**9).all()


def test_two_readings_of_the_cycle_counter_are_two() -> None:
    body = """
    mov.u64 %d11, %clock64; mov.u32 %r10, 0;
    AGAIN: add.u32 %r10, %r10, 1; mov.u64 %d12, %clock64; setp.eq.u64 %p1, %d11, %d12; @%p1 bra AGAIN;
    sub.u64 %d10, %d12, %d11;
    """
    assert (words(body) > 0).all()


def test_the_global_timer_is_the_wall_clock_in_nanoseconds() -> None:
    before = time.time_ns()
    measured = words("mov.u64 %d10, %globaltimer;")
    after = time.time_ns()
    assert ((measured >= before) & (measured <= after)).all()


@pytest.mark.parametrize(("low", "high", "whole"), [("%clock", "%clock_hi", "%clock64"),
                                                    ("%globaltimer_lo", "%globaltimer_hi", "%globaltimer")])  # fmt: skip
def test_halves_of_times(low: str, high: str, whole: str) -> None:
    body = f"""
    mov.u64 %d11, {whole}; mov.u32 %r11, {high}; mov.u32 %r10, {low}; mov.b64 %d12, {{%r10, %r11}};
    sub.u64 %d10, %d12, %d11;
    """
    results = [words(body) for _ in range(3)]
    # A carry between the readings may happen, but not three times in a row.
    assert any((found < 1 << 32).all() for found in results)


def test_the_multiprocessor_is_the_worker() -> None:
    found = set(words("mov.u32 %r10, %smid; mov.u32 %r11, %nsmid; mov.b64 %d10, {%r10, %r11};"))
    assert len(found) == 1
    (pair,) = found
    assert int(pair) >> 32 == MAX_WORKERS
    assert int(pair) & 0xFFFFFFFF < MAX_WORKERS


def test_the_compilers_view_of_worker_memory_is_the_arenas() -> None:
    first, *_, last = arena._bases(1 << 30, arena._SPACING)
    assert first % (MAX_WORKERS * WORKER_SPACING) == last % (MAX_WORKERS * WORKER_SPACING) == 0
    layout = mapping.ArenaLayout(first, 2 << 20, 2 << 20)
    regions = [layout.worker_region(index) for index in (0, 1, MAX_WORKERS - 1)]
    assert mapping.MAX_WORKERS == MAX_WORKERS
    assert arena._SPACING % (MAX_WORKERS * WORKER_SPACING) == 0
    assert regions[0].shared_size == SHARED_WINDOW_SIZE == SHARED_BYTES
    assert [region.shared // WORKER_SPACING % MAX_WORKERS for region in regions] == [0, 1, MAX_WORKERS - 1]


# ---------------------------------------------------------------------- addresses

SPACES = ("global", "shared", "local", "const", "param", "shared::cta")
MODULE = ".const .align 8 .b8 table[64]; .global .align 8 .b8 words[64];"


@pytest.mark.parametrize("space", SPACES)
def test_which_space_an_address_is_in(space: str) -> None:
    """Bit i of the result: address i is in the space; some addresses are the same in all lanes, some are not."""
    body = """
    .shared .align 8 .b8 block[512]; .local .align 8 .b8 own[32]; .reg .pred %q<9>;
    cvt.u64.u32 %d20, %r0; mov.u64 %d11, block; cvta.shared.u64 %d11, %d11; add.u64 %d12, %d11, %d20;
    mov.u64 %d13, own; cvta.local.u64 %d13, %d13; mov.u64 %d14, table; cvta.const.u64 %d14, %d14;
    mov.u64 %d15, words; cvta.global.u64 %d15, %d15; add.u64 %d16, %d15, %d20;
    mov.u64 %d17, in; cvta.param.u64 %d17, %d17; mov.b16 %h1, 1; st.local.u8 [own], %h1; mov.u32 %r10, 0;
    """
    addresses = ("%d11", "%d12", "%d13", "%d14", "%d15", "%d16", "%d17", "%d1")
    for bit, register in enumerate(addresses):
        body += f"isspacep.{space} %q1, {register}; selp.u32 %r11, {1 << bit}, 0, %q1; or.b32 %r10, %r10, %r11;\n"
    found = set(both(body + "cvt.u64.u32 %d10, %r10;", before=MODULE))
    kinds = ("shared", "shared", "local", "const", "global", "global", "param", "global")
    wanted = space.partition("::")[0]
    inside = [kind == wanted or (wanted == "global" and kind == "param") for kind in kinds]
    assert found == {sum(1 << bit for bit, truth in enumerate(inside) if truth)}


def test_advice_changes_nothing() -> None:
    body = """
    .reg .f32 %half; mov.f32 %half, 0f3F000000; mov.u32 %r20, 64; mov.u32 %r21, 128;
    createpolicy.fractional.L2::evict_last.b64 %d11, %half; createpolicy.fractional.L2::evict_first.b64 %d11;
    createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %d12, [%d1], %r20, %r21;
    createpolicy.cvt.L2.b64 %d13, %d11;
    prefetch.global.L2 [%d1]; prefetch.global.L2::evict_last [%d1]; prefetchu.L1 [%d1]; nanosleep.u32 20;
    discard.global.L2 [%d1], 128; applypriority.global.L2::evict_normal [%d1], 128; pmevent 3; pmevent.mask 9; brkpt;
    st.global.L2::cache_hint.u64 [%d3], %d2, %d11; ld.global.L2::cache_hint.u64 %d10, [%d3], %d12;
    """
    assert (both(body) == np.arange(64) * 8).all()
