"""Shuffles, votes and reductions of compiled kernels against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from jit_harness import Case, check, kernel, run_jit

from zcuda_async.ptx import PtxError

VALUES = np.random.default_rng(2).integers(0, 1 << 32, 256, dtype=np.uint64).astype(np.uint32)
OWN = "mul.wide.u32 %d11, %r7, 4; add.s64 %d11, %d0, %d11; ld.global.u32 %r10, [%d11];"
"""%r10 is a value of the thread's own."""


def case(body: str, block: tuple[int, int, int] = (64, 1, 1)) -> Case:
    return Case(kernel(OWN + body), [VALUES, np.zeros(256, np.uint64)], block=block)


def result(register: str = "%r11", predicate: str = "%p1") -> str:
    return f"cvt.u64.u32 %d10, {register}; selp.u64 %d12, 0x100000000, 0, {predicate}; or.b64 %d10, %d10, %d12;"


CONTROLS = (0x1F, 0, 0x1C1F, 0x181F, 0x1800, 0x0F, 0x1007)
"""Clamp values and segment masks: whole warps, segments of 4, 8 and 16 lanes, odd clamps."""


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffles_by_constants_agree(mode: str) -> None:
    lines = ["mov.u64 %d13, 0;"]
    for at, control in enumerate(CONTROLS):
        for lane in (0, 1, 5, 16, 31, 33):
            lines.append(f"shfl.sync.{mode}.b32 %r11|%p1, %r10, {lane}, {control}, 0xffffffff;")
            lines.append(f"{result()} mad.lo.u64 %d13, %d13, {2 * at + 3}, %d10;")
    check(case("\n".join([*lines, "mov.u64 %d10, %d13;"])), targets=("host", "sse2"), parts=(2, 4))


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffles_by_registers_agree(mode: str) -> None:
    lines = ["mov.u64 %d13, 0; xor.b32 %r12, %r10, 5;"]
    for at, control in enumerate(CONTROLS):
        lines.append(f"mov.u32 %r14, {control}; shfl.sync.{mode}.b32 %r11|%p1, %r10, %r12, %r14, -1;")
        lines.append(f"{result()} mad.lo.u64 %d13, %d13, {2 * at + 3}, %d10; shr.u32 %r12, %r12, 3;")
    check(case("\n".join([*lines, "mov.u64 %d10, %d13;"]), (16, 4, 1)), targets=("host", "sse2"), parts=(2, 4))


def test_a_guarded_shuffle_keeps_the_old_value_elsewhere() -> None:
    body = """
    mov.u32 %r11, 77; setp.lt.u32 %p0, %r6, 32; setp.eq.u32 %p1, %r6, 99;
    @%p0 shfl.sync.bfly.b32 %r11|%p1, %r10, 1, 31, -1;
    """
    check(case(body + result()), targets=("host",))


@pytest.mark.parametrize("block", [(64, 1, 1), (40, 1, 1), (7, 3, 1), (1, 1, 1)])
def test_votes_and_reductions_agree(block: tuple[int, int, int]) -> None:
    lines = [
        "mov.u64 %d13, 0; and.b32 %r12, %r10, 1; setp.ne.u32 %p2, %r12, 0; setp.lt.u32 %p3, %r6, 200; mov.u32 %r11, 0;"
    ]
    for operand in ("%p2", "!%p2", "%p3", "!%p3"):
        for mode in ("all", "any", "uni"):
            lines.append(
                f"vote.sync.{mode}.pred %p1, {operand}, 0xffffffff; {result()} mad.lo.u64 %d13, %d13, 3, %d10;"
            )
        lines.append(f"vote.sync.ballot.b32 %r11, {operand}, 0xffffffff; {result()} mad.lo.u64 %d13, %d13, 5, %d10;")
    for name in ("add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32", "xor.b32"):
        lines.append(f"redux.sync.{name} %r11, %r10, 0xffffffff; {result()} mad.lo.u64 %d13, %d13, 7, %d10;")
    lines.append(f"activemask.b32 %r11; {result()} mad.lo.u64 %d13, %d13, 7, %d10;")
    check(case("\n".join([*lines, "mov.u64 %d10, %d13;"]), block), parts=(None, 4))


def test_the_halves_of_a_warp_vote_apart() -> None:
    body = """
    and.b32 %r12, %r6, 31; setp.lt.u32 %p0, %r12, 16; and.b32 %r13, %r10, 1; setp.ne.u32 %p2, %r13, 0;
    @%p0 bra LOW;
    vote.sync.ballot.b32 %r11, %p2, 0xffff0000; redux.sync.add.u32 %r14, %r10, 0xffff0000;
    shfl.sync.down.b32 %r15, %r10, 3, 31, 0xffff0000;
    bra JOIN;
    LOW: vote.sync.ballot.b32 %r11, !%p2, 0x0000ffff; redux.sync.max.u32 %r14, %r10, 0x0000ffff;
    shfl.sync.idx.b32 %r15, %r10, 3, 0x1000, 0x0000ffff;
    JOIN: mad.wide.u32 %d10, %r11, %r14, 0; cvt.u64.u32 %d12, %r15; add.u64 %d10, %d10, %d12;
    """
    check(case(body.replace("shfl.sync.idx.b32 %r15, %r10, 3, 0x1000", "shfl.sync.idx.b32 %r15, %r10, 3, 0x101f")))


EXCHANGES = (
    *(f"vote.sync.{mode}.pred %p1, %p2, %r14;" for mode in ("all", "any", "uni")),
    "vote.sync.ballot.b32 %r11, !%p2, %r14;",
    *(f"redux.sync.{name} %r11, %r10, %r14;" for name in ("add.u32", "min.s32", "max.u32", "and.b32", "xor.b32")),
    "match.any.sync.b32 %r11, %r13, %r14;",
    "match.all.sync.b32 %r11|%p1, %r13, %r14;",
    "elect.sync %r11|%p1, %r14;",
)


@pytest.mark.parametrize("tile", [1, 2, 4, 8, 16])
def test_tiles_of_a_warp_exchange_apart_in_one_instruction(tile: int) -> None:
    """Lanes that meet with different membermasks are different exchanges, also where some lanes stay away."""
    lines = [
        f"""
        mov.u32 %r12, %laneid; and.b32 %r12, %r12, {-tile & 31}; mov.u32 %r14, {(1 << tile) - 1};
        shl.b32 %r14, %r14, %r12; and.b32 %r13, %r10, 1; setp.ne.u32 %p2, %r13, 0; mov.u64 %d13, 0;
        """
    ]
    for line in EXCHANGES:
        lines.append(f"setp.eq.u32 %p1, 0, 1; mov.u32 %r11, 0; {line} {result()} mad.lo.u64 %d13, %d13, 7, %d10;")
    lines.append("setp.ge.u32 %p3, %r12, 8; @%p3 bra REST;")
    for line in EXCHANGES:
        lines.append(f"{line} {result()} mad.lo.u64 %d13, %d13, 7, %d10;")
    check(case("\n".join([*lines, "REST: mov.u64 %d10, %d13;"]), (64, 1, 1)), parts=(None, 4))


def test_lanes_that_have_left_do_not_vote() -> None:
    body = """
    setp.lt.u32 %p0, %r6, 5; @%p0 exit;
    setp.ge.u32 %p1, %r6, 0; vote.sync.ballot.b32 %r11, %p1, 0xffffffff; vote.sync.all.pred %p2, %p1, 0xffffffff;
    """
    check(case(body + result(predicate="%p2"), (40, 1, 1)))


def test_lane_and_warp_registers_agree() -> None:
    names = ("laneid", "warpid", "nwarpid", "lanemask_eq", "lanemask_lt", "lanemask_le", "lanemask_ge", "lanemask_gt")
    lines = ["mov.u64 %d13, 0;"]
    lines += [f"mov.u32 %r11, %{name}; cvt.u64.u32 %d10, %r11; mad.lo.u64 %d13, %d13, 33, %d10;" for name in names]
    for block in ((64, 1, 1), (7, 3, 5), (100, 1, 1)):
        check(case("\n".join([*lines, "mov.u64 %d10, %d13;"]), block), parts=(1, 2))


@pytest.mark.parametrize(
    "instruction",
    ["redux.sync.min.f32 %f0, %f1, -1;"],
)
def test_what_is_not_supported_is_refused(instruction: str) -> None:
    with pytest.raises(PtxError, match="not supported"):
        run_jit(case(instruction), "host", 2)
