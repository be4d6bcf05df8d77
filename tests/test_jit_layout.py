"""The block layout and the analyses on it: loops contiguous, edges forward, jumps over nothing that waits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zcuda_async.jit.cfg import ControlFlow, build_control_flow
from zcuda_async.jit.choose import choose_geometry
from zcuda_async.jit.geometry import Geometry
from zcuda_async.jit.layout import kernel_layout
from zcuda_async.jit.pending import find_pending
from zcuda_async.jit.shapes import Shape, analyse
from zcuda_async.ptx import parse

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def kernel(body: str, parameters: str = "", declarations: str = "") -> str:
    registers = ".reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %rd<40>; .reg .f32 %f<20>;"
    return f"{HEAD}.visible .entry k({parameters}) {{ {registers} {declarations}\n{body}\n}}\n"


def flow_of(text: str) -> ControlFlow:
    return build_control_flow(parse(text).functions[0])


def graph(edges: list[tuple[int, int | None]]) -> str:
    """A kernel whose block i branches to edges[i][0] if %p1 and else to edges[i][1] (None: the next block)."""
    lines = []
    for index, (taken, other) in enumerate(edges):
        lines.append(f"L{index}: @%p1 bra L{taken};")
        if other is not None:
            lines.append(f"bra L{other};")
    lines.append(f"L{len(edges)}: ret;")
    return kernel("\n".join(lines))


graphs = st.integers(1, 9).flatmap(
    lambda count: st.lists(
        st.tuples(st.integers(0, count), st.one_of(st.none(), st.integers(0, count))), min_size=count, max_size=count
    )
)


@settings(max_examples=300, deadline=None)
@given(edges=graphs)
def test_only_edges_to_loop_heads_point_backward(edges: list[tuple[int, int | None]]) -> None:
    flow = flow_of(graph(edges))
    for block in flow.blocks:
        for target in block.successors:
            if target <= block.index:
                assert target in flow.regions
                assert flow.regions[target] >= block.index


@settings(max_examples=300, deadline=None)
@given(edges=graphs)
def test_loops_nest(edges: list[tuple[int, int | None]]) -> None:
    regions = flow_of(graph(edges)).regions
    for head, last in regions.items():
        for other, other_last in regions.items():
            assert (
                other > last
                or other_last < head
                or head <= other <= other_last <= last
                or other <= head <= last <= other_last
            )


@settings(max_examples=200, deadline=None)
@given(edges=graphs, uniform=st.booleans(), partial=st.booleans())
def test_the_pending_analysis_reaches_every_block(
    edges: list[tuple[int, int | None]], uniform: bool, partial: bool
) -> None:
    flow = flow_of(graph(edges))
    pending = find_pending(flow, lambda _: uniform, partial=partial)
    assert all(state is not None for state in pending.body)
    if uniform and not partial:
        assert all(pending.is_full(block.index) for block in flow.blocks)


def shapes_of(text: str, block: tuple[int, int, int], parts: int = 2) -> dict[str, Shape]:
    module = parse(text)
    function = module.functions[0]
    layout = kernel_layout(module, function)
    return analyse(build_control_flow(function), Geometry(block, 16, parts), layout).shapes


def test_a_global_index_is_affine_and_its_address_too() -> None:
    shapes = shapes_of(
        kernel(
            "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;"
            "mad.lo.s32 %r4, %r1, %r2, %r3; mul.wide.s32 %rd1, %r4, 4; ret;"
        ),
        (256, 1, 1),
    )
    assert shapes["%r2"].const == 256
    assert (shapes["%r4"].stride, shapes["%r4"].same) == (1, False)
    assert shapes["%rd1"].stride == 4


def test_rows_of_a_square_block_share_their_column_index() -> None:
    shapes = shapes_of(kernel("mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; ret;"), (16, 16, 1))
    assert (shapes["%r1"].stride, shapes["%r1"].same) == (1, True)
    assert (shapes["%r2"].stride, shapes["%r2"].same) == (0, False)


def test_an_unsigned_index_that_may_wrap_is_not_widened_as_affine() -> None:
    body = "mov.u32 %r1, %tid.x; add.u32 %r2, %r1, 4294967289; mul.wide.u32 %rd1, %r2, 4; ret;"
    assert shapes_of(kernel(body), (64, 1, 1))["%rd1"].stride is None


def test_a_counter_that_leaves_a_divergent_loop_is_varying_inside_it() -> None:
    body = (
        "mov.u32 %r1, %tid.x; mov.u32 %r2, 0;\n"
        "AGAIN: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, %r1; @%p1 bra AGAIN;\n"
        "cvt.u64.u32 %rd1, %r2; st.global.u64 [%rd1], %rd1; ret;"
    )
    assert shapes_of(kernel(body), (64, 1, 1))["%r2"].stride is None


def test_a_counter_that_dies_with_the_loop_stays_affine() -> None:
    body = "mov.u32 %r2, %tid.x;\nAGAIN: add.s32 %r2, %r2, 64; setp.lt.s32 %p1, %r2, 1000; @%p1 bra AGAIN;\nret;"
    assert shapes_of(kernel(body), (64, 1, 1))["%r2"].stride == 1


def choose(text: str, block: tuple[int, int, int], lanes: int = 16, *, needs_warps: bool = False) -> Geometry:
    module = parse(text)
    function = module.functions[0]
    flow = build_control_flow(function)
    return choose_geometry(flow, kernel_layout(module, function), block, lanes, needs_warps=needs_warps)


def test_a_group_is_never_wider_than_its_block_needs() -> None:
    assert choose(kernel("ret;"), (1, 1, 1)).parts == 1
    assert choose(kernel("ret;"), (33, 1, 1)).width <= 64


def test_a_group_holds_whole_warps_where_the_kernel_needs_them() -> None:
    for lanes in (4, 8, 16):
        assert choose(kernel("ret;"), (8, 1, 1), lanes, needs_warps=True).width % 32 == 0


def test_a_barrier_kernel_gets_its_whole_block_in_one_group() -> None:
    assert choose(kernel("bar.sync 0; ret;"), (256, 1, 1)).groups == 1


def test_a_group_divides_its_block_where_it_can() -> None:
    assert not choose(kernel("mov.u32 %r1, %tid.x; ret;"), (96, 1, 1)).is_partial


DIVIDED = "mov.u32 %r1, %tid.{axis}; setp.gt.u32 %p1, %r1, 5; @%p1 bra OVER; st.global.u32 [%rd1], %r1; OVER: bar.sync 0; ret;"


def test_where_lanes_part_before_a_barrier_a_group_is_one_row_at_most() -> None:
    assert choose(kernel(DIVIDED.format(axis="x")), (32, 8, 1)).parts == 2
    assert choose(kernel(DIVIDED.format(axis="x")), (16, 16, 1)).parts == 1
    assert choose(kernel(DIVIDED.format(axis="x")), (256, 1, 1)).parts == 4
    assert choose(kernel("bar.sync 0; ret;"), (32, 8, 1)).groups == 1


@pytest.mark.parametrize(("indices", "parts"), [(1, 16), (2, 8), (3, 4), (5, 2)])
def test_parts_fit_the_registers_for_what_loops_change_in_each(indices: int, parts: int) -> None:
    names = [f"%r{10 + index}" for index in range(indices)]
    start = "".join(f"mad.lo.s32 {name}, %r5, 100, {index};" for index, name in enumerate(names))
    move = "".join(f"mad.lo.s32 {name}, {name}, %r1, %r2;" for name in names)
    loads = "".join(
        f"mad.wide.s32 %rd2, {name}, 4, %rd1; ld.global.u32 %r3, [%rd2]; st.global.u32 [%rd2+4], %r3;" for name in names
    )
    body = f"mov.u64 %rd1, 4096; mov.u32 %r5, %tid.y; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; {start} mov.u32 %r4, 9; AGAIN: {loads} {move}"
    body += "sub.u32 %r4, %r4, 1; setp.ne.u32 %p1, %r4, 0; bar.sync 0; @%p1 bra AGAIN; ret;"
    assert choose(kernel(body), (16, 16, 1)).parts == parts
