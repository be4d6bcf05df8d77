"""Shuffles, votes and reductions of compiled kernels against the interpreter."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pytest
from jit_harness import TARGETS, Case, check, kernel, run_interpreter, run_jit

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


# ---------------------------------------------------------------------- reductions of floats

REDUX = """
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out, .param .u64 masks) {
.reg .b64 %i, %o, %a, %m; .reg .b32 %t, %w, %mask; .reg .f32 %f<3>; .reg .pred %p;
ld.param.u64 %i, [in]; ld.param.u64 %o, [out]; ld.param.u64 %m, [masks];
mov.u32 %t, %tid.x; mov.u32 %w, %ctaid.x; mad.lo.u32 %t, %w, 64, %t;
mul.wide.u32 %a, %t, 4; add.u64 %i, %i, %a; add.u64 %o, %o, %a;
shr.u32 %w, %t, 5; mul.wide.u32 %a, %w, 4; add.u64 %m, %m, %a; ld.global.u32 %mask, [%m];
ld.global.f32 %f1, [%i]; and.b32 %w, %t, 31; shr.u32 %w, %mask, %w; and.b32 %w, %w, 1; setp.ne.u32 %p, %w, 0;
@!%p bra END;
redux.sync.OPERATION.f32 %f2, %f1, %mask;
st.global.f32 [%o], %f2;
END: ret; }
"""
FLOATS = [0, 0x80000000, 1, 0x80000001, 0x7F800000, 0xFF800000, 0x3F800000, 0xBF800000, 0x7F7FFFFF, 0xFF7FFFFF]
NANS = [0x7FC00000, 0xFFFFFFFF, 0x7F800001, 0xFF800001]


def reduced(words: list[int], operation: str) -> int:
    """What the manual says: numbers only, +0 above -0; NaN where there are none, or any with ``.NaN``."""
    name, *modifiers = operation.split(".")
    if "abs" in modifiers:
        words = [word & 0x7FFFFFFF for word in words]
    numbers = [word for word in words if word & 0x7FFFFFFF <= 0x7F800000]
    if not numbers or ("NaN" in modifiers and len(numbers) < len(words)):
        return 0x7FFFFFFF
    as_float = {word: struct.unpack("<f", struct.pack("<I", word))[0] for word in numbers}
    return {"min": min, "max": max}[name](numbers, key=lambda word: (as_float[word], -(word >> 31)))


def warps_of_floats(rng: np.random.Generator) -> Iterator[tuple[list[int], int]]:
    """32 words and a membermask: numbers, zeros, NaNs, and mixtures."""
    pools = (FLOATS, [0, 0x80000000], NANS, [*FLOATS, *NANS], [0x80000000, *NANS], [0x7F800000, 0xFF800000])
    for pool in (*pools, None, None):
        for mask in (0xFFFFFFFF, 1, 0x80000000, int(rng.integers(1, 1 << 32))):
            words = rng.integers(0, 1 << 32, 32) if pool is None else rng.choice(np.array(pool, np.uint64), 32)
            yield [int(word) for word in words], mask


@pytest.mark.parametrize(
    "operation", [f"{n}{a}{v}" for n in ("min", "max") for a in ("", ".abs") for v in ("", ".NaN")]
)
def test_floats_are_reduced(operation: str) -> None:
    rows = list(warps_of_floats(np.random.default_rng(5)))
    words, masks = np.array([row for row, _ in rows], np.uint32), np.array([mask for _, mask in rows], np.uint32)
    want = np.full(words.shape, 0x12345678, np.uint32)
    for at, (row, mask) in enumerate(rows):
        members = [lane for lane in range(32) if mask >> lane & 1]
        want[at, members] = reduced([row[lane] for lane in members], operation)
    launch = Case(
        REDUX.replace("OPERATION", operation),
        [words, np.full(words.shape, 0x12345678, np.uint32), masks],
        grid=(len(rows) // 2, 1, 1),
        block=(64, 1, 1),
    )
    np.testing.assert_array_equal(run_interpreter(launch)[1], want)
    for name in TARGETS:
        np.testing.assert_array_equal(run_jit(launch, name)[1], want)
