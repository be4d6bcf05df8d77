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


PLACES = {
    "exclusive or": "xor.b32 %r11, %r6, 5;",
    "backward": "not.b32 %r11, %r6; and.b32 %r11, %r11, 63;",
    "interleaved": "shl.b32 %r11, %r6, 1; and.b32 %r12, %r6, 3; sub.u32 %r11, %r11, %r12; and.b32 %r11, %r11, 127;",
    "across the edge of a window": "add.u32 %r11, %r6, 7; xor.b32 %r11, %r11, 1; and.b32 %r11, %r11, 127;",
    "far apart": "mul.lo.u32 %r11, %r6, 37; and.b32 %r11, %r11, 127;",
    "one for all": "min.u32 %r11, %r6, 3; shr.u32 %r11, %r11, 2; add.u32 %r11, %r11, 9;",
}
SHARED_LOADS = {
    4: "ld.shared.u32 %r10, [%r15];",
    8: "ld.shared.v2.u32 {%r10, %r14}, [%r15]; mad.lo.u32 %r10, %r14, 5, %r10;",
}


@pytest.mark.parametrize("size", SHARED_LOADS)
@pytest.mark.parametrize("offset", [0, 64])
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("place", PLACES)
def test_loads_from_neighbouring_lines(place: str, lanes: str, offset: int, size: int) -> None:
    """Shared memory that starts on a window's edge, or in the middle of one."""
    body = f"""
        mul.wide.u32 %d11, %r6, 8; add.s64 %d12, %d0, %d11; ld.global.v2.u32 {{%r10, %r14}}, [%d12];
        mov.u32 %r15, s; mad.lo.u32 %r16, %r6, 8, %r15; st.shared.v2.u32 [%r16+{offset}], {{%r10, %r14}};
        ld.global.v2.u32 {{%r10, %r14}}, [%d12+512]; st.shared.v2.u32 [%r16+{offset + 512}], {{%r14, %r10}}; bar.sync 0;
        {PLACES[place]} mad.lo.u32 %r15, %r11, {size}, %r15; add.u32 %r15, %r15, {offset};
        {among(lanes, SHARED_LOADS[size])}"""
    before = ".shared .align 128 .b8 s[2048];"
    case = Case(kernel(body, before=before), [VALUES, np.zeros(64, np.uint64)], block=(64, 1, 1))
    check(case, targets=("host",), parts=(None,))


@pytest.mark.parametrize("store", ["st.shared.u32 [%r15], %r0;", "st.shared.v2.u32 [%r15], {%r0, %r6};"])
@pytest.mark.parametrize("lane", ["7", "63", "99"])
def test_a_lane_that_writes_alone(lane: str, store: str) -> None:
    body = f"""
        mov.u32 %r15, s; mad.lo.u32 %r16, %r6, 8, %r15; st.shared.v2.u32 [%r16], {{%r6, %r6}}; bar.sync 0;
        mul.lo.u32 %r11, %r6, 5; and.b32 %r11, %r11, 63; mad.lo.u32 %r15, %r11, 8, %r15;
        setp.eq.u32 %p0, %r6, {lane}; @%p0 {store} bar.sync 0; ld.shared.u64 %d10, [%r16];"""
    before = ".shared .align 128 .b8 s[2048];"
    check(Case(kernel(body, before=before), [VALUES, np.zeros(64, np.uint64)], block=(64, 1, 1)))


INDEXED = {
    "signed": "mul.wide.s32 %d11, %r11, 4; add.s64 %d12, %d0, %d11;",
    "unsigned": "mul.wide.u32 %d11, %r11, 4; add.s64 %d12, %d11, %d0;",
    "shifted": "cvt.s64.s32 %d11, %r11; shl.b64 %d11, %d11, 2; add.s64 %d12, %d0, %d11;",
    "at once": "mad.wide.s32 %d12, %r11, 4, %d0;",
    "moved": "mul.wide.s32 %d11, %r11, 4; add.s64 %d11, %d11, 8; add.s64 %d12, %d0, %d11; add.s64 %d12, %d12, -8;",
    "by a constant": "mul.wide.s32 %d11, %r11, 12; add.s64 %d12, %d0, %d11;",
    "over itself": "mov.b64 %d12, %d0; cvt.u64.u32 %d11, %r11; shl.b64 %d11, %d11, 2; add.s64 %d12, %d12, %d11;",
    "changed for some": "mul.wide.s32 %d11, %r11, 4; @%p3 mov.b64 %d11, 16; add.s64 %d12, %d0, %d11;",
    "index changed after": "mul.wide.s32 %d11, %r11, 4; mov.u32 %r11, 3; add.s64 %d12, %d0, %d11;",
}


@pytest.mark.parametrize("form", INDEXED)
@pytest.mark.parametrize("index", ["negative", *INDICES])
def test_addresses_made_of_indices(form: str, index: str) -> None:
    """However a program says base plus index, it reads and writes there."""
    first = 64
    make = "mul.lo.u32 %r11, %r0, 11; and.b32 %r11, %r11, 63; sub.s32 %r11, 0, %r11;"
    code = make if index == "negative" else INDICES[index]
    if index == "negative" and form in ("unsigned", "over itself"):
        code += "neg.s32 %r11, %r11;"
    if form == "by a constant":
        code += "rem.s32 %r11, %r11, 20;"
    body = f"""
        add.s64 %d0, %d0, {4 * first}; and.b32 %r12, %r0, 4; setp.ne.u32 %p3, %r12, 0;
        {code} {INDEXED[form]} ld.global.u32 %r10, [%d12]; cvt.u64.u32 %d10, %r10; ld.global.u32 %r13, [%d12+4];
        mad.wide.u32 %d10, %r13, 3, %d10;"""
    check(Case(kernel(body), [VALUES, np.zeros(64, np.uint64)], block=(64, 1, 1)), parts=(None,))


def test_an_index_that_wraps_around_is_no_row() -> None:
    """Lanes whose index passes 2**31 would be 16 GiB away: they are off, and the others read where they should."""
    body = """
        mov.u32 %r11, 0x7FFFFFF8; max.s32 %r12, %r0, 0; add.u32 %r11, %r11, %r12; setp.lt.s32 %p0, %r11, 0;
        mov.b64 %d13, 0x1FFFFFFE0; sub.s64 %d13, %d0, %d13; mul.wide.s32 %d11, %r11, 4; add.s64 %d12, %d13, %d11;
        @%p0 bra PAST; ld.global.u32 %r10, [%d12]; cvt.u64.u32 %d10, %r10; PAST:"""
    check(Case(kernel(body), [VALUES[:8], np.zeros(64, np.uint64)], block=(64, 1, 1)))
