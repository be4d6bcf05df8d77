"""Asynchronous copies into shared memory and barrier objects: machine code, interpreter and numpy agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from jit_harness import TARGETS, Case, differences, kernel, run_interpreter, run_jit

from zcuda_async.ptx import PtxError, parse

TEXT = (Path(__file__).parent / "ptx" / "async_copy.ptx").read_text()
Array = npt.NDArray[Any]


def numbers(shape: Any, high: int = 1000, kind: Any = np.int32) -> Array:
    return np.random.default_rng(3).integers(0, high, shape).astype(kind)


def check(name: str, args: list[Any], block: int, want: Array, *, dynamic_shared: int = 0) -> None:
    """The kernel's second argument ends up as `want`, however it is run."""
    case = Case(TEXT, args, kernel=name, block=(block, 1, 1), dynamic_shared=dynamic_shared)
    slow = run_interpreter(case)
    np.testing.assert_array_equal(slow[1].reshape(want.shape), want)
    for target in TARGETS:
        text = differences(run_jit(case, target), slow)
        assert not text, f"{target}:\n{text}"


@pytest.mark.parametrize("tiles", [1, 2, 5])
def test_tiles_staged_through_two_buffers(tiles: int) -> None:
    values = numbers((tiles, 128, 4), 9, np.float32)
    want = (values[:, ::-1] * [1, 2, 3, 4]).sum((0, 2)).astype(np.float32)
    check("staged_sum", [values, np.zeros(128, np.float32), tiles], 128, want)


def test_bytes_beyond_the_source_size_are_zeros() -> None:
    values, used = numbers((32, 16), 256, np.uint8), np.arange(32, dtype=np.int32) % 17
    want = np.where(np.arange(16) < used[:, None], values, 0).astype(np.uint8)
    check("zero_filled", [values, np.zeros((32, 4), np.uint32), used], 32, want.view(np.uint32))


def test_copies_of_4_and_8_bytes_by_some_threads() -> None:
    values = numbers(128)
    want = np.repeat(np.array([-1, -2], np.int32), 128)
    want[:77] = values[::-1][:77]
    for thread in range(0, 64, 3):
        want[128 + 2 * thread : 130 + 2 * thread] = values[2 * thread : 2 * thread + 2]
    check("small_copies", [values, np.zeros(256, np.int32), 77], 128, want)


@pytest.mark.parametrize("rounds", [1, 5])
def test_producers_and_consumers_with_barrier_objects(rounds: int) -> None:
    values = numbers((rounds, 64))
    check("producers", [values, np.zeros((rounds, 64), np.int32), rounds], 128, values[:, ::-1] * 3)


@pytest.mark.parametrize("block", [64])
def test_a_group_copies_and_waits_at_a_barrier_object(block: int) -> None:
    values = numbers((4, 256))
    check("group_copy", [values, values * 0, 1024], block, values[:, ::-1], dynamic_shared=1024)


@pytest.mark.parametrize("block", [32, 100])
def test_threads_that_drop_out_are_not_waited_for(block: int) -> None:
    thread = np.arange(block)
    out = np.zeros(block, np.int32)
    case = Case(TEXT, [out], kernel="dropping", block=(block, 1, 1))
    want = np.where(thread == 0, 100, thread % 4 * 10)
    np.testing.assert_array_equal(run_interpreter(case)[0], want)
    for target in TARGETS:
        np.testing.assert_array_equal(run_jit(case, target)[0], want)


def test_a_source_size_that_is_not_known_beforehand_and_a_guard() -> None:
    body = """
    .shared .align 16 .b8 s[640]; .reg .pred %q;
    mov.u32 %r10, s; shl.b32 %r11, %r6, 4; add.u32 %r10, %r10, %r11;
    st.shared.v4.u32 [%r10], {%r7, %r7, %r7, %r7};
    cvt.u64.u32 %d11, %r11; add.u64 %d11, %d0, %d11;
    and.b32 %r12, %r6, 31; setp.ne.u32 %q, %r12, 7;
    @%q cp.async.ca.shared.global [%r10], [%d11], 16, %r12;
    cp.async.commit_group; cp.async.wait_group 0;
    ld.shared.v2.u64 {%d12, %d13}, [%r10]; xor.b64 %d10, %d12, %d13;
    """
    data = numbers((40, 16), 256, np.uint8)
    case = Case(kernel(body), [data, np.zeros(40, np.uint64)], block=(40, 1, 1))
    want = run_interpreter(case)
    for target in TARGETS:
        assert not differences(run_jit(case, target), want)


def test_bytes_that_a_phase_waits_for() -> None:
    body = """
    .shared .align 8 .b64 bar; .reg .pred %q; .reg .b64 %s; .reg .b32 %a;
    mov.u32 %a, bar;
    mbarrier.init.shared.b64 [%a], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 %s, [%a], 48;
    mbarrier.test_wait.shared.b64 %q, [%a], %s; selp.u64 %d11, 1, 0, %q;
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%a], 16;
    mbarrier.test_wait.parity.shared.b64 %q, [%a], 0; selp.u64 %d12, 1, 0, %q;
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%a], 32;
    mbarrier.try_wait.parity.shared::cta.b64 %q, [%a], 0; selp.u64 %d13, 1, 0, %q;
    mbarrier.try_wait.parity.shared::cta.b64 %q, [%a], 1, 20; selp.u64 %d14, 1, 0, %q;
    mbarrier.inval.shared.b64 [%a];
    shl.b64 %d12, %d12, 1; shl.b64 %d13, %d13, 2; shl.b64 %d14, %d14, 3;
    or.b64 %d10, %d11, %d12; or.b64 %d10, %d10, %d13; or.b64 %d10, %d10, %d14;
    """
    case = Case(kernel(body), [np.zeros(1, np.uint64), np.zeros(1, np.uint64)], block=(1, 1, 1))
    assert run_interpreter(case)[1].tolist() == [0b0100]
    assert run_jit(case)[1].tolist() == [0b0100]


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("cp.async.ca.shared.global [%r0], [%d0], 12;", "copies 4, 8 or 16 bytes, not 12"),
        ("cp.async.cg.shared.global [%r0], [%d0], 8;", "8"),
        ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%d0], %r1, [%r2];", "bulk"),
    ],
)
def test_what_cannot_be_copied_is_refused(instruction: str, message: str) -> None:
    with pytest.raises(PtxError, match=message):
        parse(kernel(instruction), "<test>")
