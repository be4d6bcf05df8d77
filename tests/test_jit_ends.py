"""Branches that are decided by a group's first and last lane: they go where the lanes, one by one, would go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from jit_harness import Case, differences, kernel, run_interpreter, run_jit, target

from zcuda_async.jit.compile import generate_ir

RELATIONS = ("lt", "le", "gt", "ge")
TYPES = ("s32", "u32")
EDGES = (-(1 << 31), (1 << 31) - 1, 0, -1)
"""Where indices begin, so that they wrap around, or nearly do, within a group or soon after."""

GEOMETRIES = (("host", None), ("host", 4), ("avx2", 8), ("sse2", 1), ("sse2", 4))
COUNT = "add.u64 %d10, %d10, 1;"


def body(compare: str, *, stride: int = 1, step: int = 64, swapped: bool = False, negated: bool = False) -> str:
    """A loop that counts its rounds and gives up after 20; an index `start` + thread * stride is compared with `n`.

    Each block has a start and an n of its own.
    """
    operands = "%r11, %r10" if swapped else "%r10, %r11"
    return (
        f"mad.wide.u32 %d12, %r5, 8, %d0; ld.global.u32 %r9, [%d12]; ld.global.u32 %r11, [%d12+4]; mad.lo.s32 %r10, %r0, {stride}, %r9; mov.u32 %r12, 0;"
        f"AGAIN: {COUNT} add.u32 %r12, %r12, 1; setp.ge.u32 %p2, %r12, 20; @%p2 bra END; add.s32 %r10, %r10, {step};"
        f"setp.{compare} %p1, {operands}; @{'!' if negated else ''}%p1 bra AGAIN;"
    )


def check(text: str, pairs: Sequence[tuple[int, int]], block: tuple[int, int, int] = (96, 1, 1)) -> None:
    values = np.array(pairs, np.int64).astype(np.uint32)
    out = np.zeros(len(pairs) * block[0] * block[1] * block[2], np.uint64)
    case = Case(text, [values.ravel(), out], grid=(len(pairs), 1, 1), block=block)
    want = run_interpreter(case)
    for name, parts in GEOMETRIES:
        text = differences(run_jit(case, name, parts), want)
        assert not text, f"{name}, parts {parts}: {text}"


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("relation", RELATIONS)
def test_loops_end_where_each_lane_says(relation: str, kind: str) -> None:
    down = relation in ("gt", "ge")
    text = kernel(body(f"{relation}.{kind}", step=-64 if down else 64))
    up = [(0, 400), (0, 384), (7, 71), (0, 1)]
    check(text, [(1000, 400), (1000, 416), (0, 1), (5, 1 << 20)] if down else up)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("relation", RELATIONS)
def test_indices_that_wrap_around(relation: str, kind: str) -> None:
    text = kernel(body(f"{relation}.{kind}"))
    starts = [(edge, edge + offset - 64) for edge in EDGES for offset in (-70, -40, -1)]
    check(text, [(start, edge + more) for edge, start in starts for more in (0, 30, -30)])


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("stride", "step"), [(1, 96), (3, 200), (-1, -96), (-(1 << 30), 7)])
def test_other_strides_and_forms(stride: int, step: int, swapped: bool, negated: bool) -> None:
    for relation in RELATIONS:
        text = kernel(body(f"{relation}.s32", stride=stride, step=step, swapped=swapped, negated=negated))
        check(text, [(100, 500), (2000, 500)])


@pytest.mark.parametrize("block", [(16, 6, 1), (32, 4, 1), (64, 2, 1), (8, 8, 2), (100, 1, 1), (1, 1, 1)])
def test_other_blocks(block: tuple[int, int, int]) -> None:
    check(kernel(body("lt.s32")), [(3, 300), (0, 64)], block)


READ_LATER = {
    "behind the loop": "selp.u64 %d11, 100, 200, %p1; add.u64 %d10, %d10, %d11;",
    "nowhere": "add.u64 %d10, %d10, 5;",
}


@pytest.mark.parametrize("name", READ_LATER)
def test_a_predicate_that_is_read_later(name: str) -> None:
    check(kernel(body("lt.s32") + READ_LATER[name]), [(0, 350)])


@pytest.mark.parametrize(
    "between",
    [
        "add.s32 %r10, %r10, 64;",
        "selp.u64 %d11, 3, 0, %p1; add.u64 %d10, %d10, %d11;",
        "add.s32 %r11, %r11, -3;",
        "add.u64 %d10, %d10, 2;",
    ],
)
def test_what_stands_between_comparison_and_branch(between: str) -> None:
    text = body("lt.s32").replace("@%p1 bra AGAIN;", between + "@%p1 bra AGAIN;")
    check(kernel(text), [(0, 700)])


def test_one_comparison_decides_for_all_parts() -> None:
    text = kernel(body("lt.s32"))
    ir, _, _ = generate_ir(text, "<test>", "k", (256, 1, 1), target=target("host"), parts=4)
    assert "icmp slt i64" in ir
    uneven, _, _ = generate_ir(text, "<test>", "k", (24, 8, 1), target=target("host"), parts=4)
    assert "icmp slt i64" not in uneven
