"""Accesses whose addresses only run time can tell to be in a row: all of them, some of them, none, lanes off."""

from __future__ import annotations

import numpy as np
import pytest
from jit_harness import Case, check, kernel

VALUES = (np.arange(512, dtype=np.uint64) * 2654435761 % (1 << 32)).astype(np.uint32)
ADDRESS = "mul.wide.u32 %d11, %r11, {size}; add.s64 %d12, %d0, %d11;"
INDICES = {
    "clamped": "add.s32 %r11, %r0, -3; max.s32 %r11, %r11, 0; min.s32 %r11, %r11, 50;",
    "in a row": "max.s32 %r11, %r0, 0; add.u32 %r11, %r11, 5;",
    "all the same": "min.u32 %r11, %r0, 0; add.u32 %r11, %r11, 9;",
    "backward": "max.s32 %r11, %r0, 0; sub.u32 %r11, 63, %r11;",
    "two rows": "setp.lt.u32 %p1, %r0, 7; selp.u32 %r12, 40, 0, %p1; add.u32 %r11, %r0, %r12;",
    "every other": "max.s32 %r11, %r0, 0; shl.b32 %r11, %r11, 1;",
}
LANES = {
    "every lane": "mov.u32 %r13, 1;",
    "not the first": "and.b32 %r13, %r0, 15; min.u32 %r13, %r13, 1;",
    "some": "mul.lo.u32 %r13, %r0, 0x9E3779B1; and.b32 %r13, %r13, 0x20000;",
    "the first half": "setp.lt.u32 %p2, %r0, 37; selp.u32 %r13, 1, 0, %p2;",
    "none": "mov.u32 %r13, 0;",
}
LOADS = {
    "u8": (1, "ld.global.u8 %r10, [%d12+3];"),
    "u16": (2, "ld.global.u16 %r10, [%d12+2];"),
    "u32": (4, "ld.global.u32 %r10, [%d12];"),
    "u64": (8, "ld.global.u64 %d13, [%d12]; cvt.u32.u64 %r10, %d13;"),
    "v2": (8, "ld.global.v2.u32 {%r10, %r14}, [%d12]; mad.lo.u32 %r10, %r14, 5, %r10;"),
    "v4": (
        16,
        "ld.global.v4.u32 {%r10, %r14, %r15, %r16}, [%d12]; mad.lo.u32 %r10, %r14, 5, %r10;"
        "mad.lo.u32 %r10, %r15, 7, %r10; mad.lo.u32 %r10, %r16, 11, %r10;",
    ),
}


STORES = (
    (1, "st.global.u8 [%d12], %r0;"),
    (2, "st.global.u16 [%d12+2], %r0;"),
    (4, "st.global.u32 [%d12], %r0;"),
    (8, "st.global.v2.u32 [%d12+8], {%r0, %r3};"),
    (16, "st.global.v4.u32 [%d12], {%r0, %r3, %r11, 9};"),
)


def turn(items: tuple[tuple[int, str], ...], index: str, lanes: str) -> list[tuple[int, str]]:
    """Two of the items, so that each item meets every index and nearly every choice of lanes."""
    at = list(INDICES).index(index) + 2 * list(LANES).index(lanes)
    return [items[at % len(items)], items[(at + 3) % len(items)]]


def among(lanes: str, body: str) -> str:
    """The body for some lanes only."""
    return f"{LANES[lanes]} setp.eq.u32 %p0, %r13, 0; mov.u32 %r10, 77; @%p0 bra PAST; {body} PAST: cvt.u64.u32 %d10, %r10;"


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("index", INDICES)
def test_loads(index: str, lanes: str) -> None:
    for size, load in turn(tuple(LOADS.values()), index, lanes):
        body = among(lanes, INDICES[index] + ADDRESS.format(size=size) + load)
        check(Case(kernel(body), [VALUES, np.zeros(64, np.uint64)], block=(64, 1, 1)), parts=(None,))


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("index", [name for name in INDICES if name not in ("clamped", "all the same")])
def test_stores(index: str, lanes: str) -> None:
    for size, store in turn(STORES, index, lanes):
        body = among(lanes, INDICES[index] + ADDRESS.format(size=size) + store)
        check(Case(kernel(body), [VALUES, np.zeros(64, np.uint64)], block=(64, 1, 1)), parts=(None,))


def test_lanes_that_are_off_do_not_read_past_the_end() -> None:
    """Row or not, only lanes that are on touch memory: the input ends where the last of them reads."""
    body = among("the first half", INDICES["in a row"] + ADDRESS.format(size=4) + LOADS["u32"][1])
    check(Case(kernel(body), [VALUES[: 37 + 5], np.zeros(64, np.uint64)], block=(64, 1, 1)))


def test_a_loop_that_lanes_leave_at_different_times() -> None:
    body = """
        mov.u32 %r10, 0; mov.u32 %r11, %r0; and.b32 %r12, %r0, 3; setp.eq.u32 %p0, %r12, 0; @%p0 bra LONG;
        SHORT: mul.wide.u32 %d11, %r11, 4; add.s64 %d12, %d0, %d11; ld.global.u32 %r13, [%d12];
        add.u32 %r10, %r10, %r13; add.u32 %r11, %r11, 64; add.u32 %r12, %r12, -1; setp.ne.u32 %p0, %r12, 0; @%p0 bra SHORT;
        LONG: setp.gt.u32 %p0, %r11, 447; @%p0 bra PAST; mul.wide.u32 %d11, %r11, 4; add.s64 %d12, %d0, %d11;
        ld.global.u32 %r13, [%d12]; mad.lo.u32 %r10, %r10, 3, %r13; add.u32 %r11, %r11, 64; bra LONG;
        PAST: cvt.u64.u32 %d10, %r10;"""
    check(Case(kernel(body), [VALUES, np.zeros(64, np.uint64)], block=(64, 1, 1)))
