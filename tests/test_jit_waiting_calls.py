"""Barriers and spin loops in recursive functions and those called through pointers (``ptx/waiting_calls.cu``).

Blocks of one group, of several, and of threads that do not fill a group.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from jit_harness import Array, Case, Triple, compiled, differences, run_code, run_interpreter

import zcuda_async as zc
from zcuda_async.jit.compile import compile_kernel
from zcuda_async.ptx import PtxError

TEXT = (Path(__file__).parent / "ptx" / "waiting_calls.ptx").read_text()


def numbers(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(-50, 50, shape).astype(np.int32)


def agree(
    name: str,
    block: int,
    launches: list[list[Array | int]],
    *,
    grid: int = 3,
    cluster: Triple = (1, 1, 1),
    stack_bytes: int = 1 << 14,
) -> list[list[Array]]:
    """What the interpreter computes, once machine code for groups of two widths has computed the same."""
    shared = 4 * block
    cases = [Case(TEXT, args, name, (grid, 1, 1), (block, 1, 1), shared, cluster, stack_bytes) for args in launches]
    wanted = [run_interpreter(case, strict=False) for case in cases]
    for how in [("host", None), *([("sse2", 8)] if name == "recursive_total" and block == 50 else [])]:
        with compiled(cases[0], *how) as code:
            for case, want in zip(cases, wanted, strict=True):
                text = differences(run_code(code, case), want)
                assert not text, f"{name}, {how}:\n{text}"
    return wanted


@pytest.mark.parametrize("block", [8, 50, 96])
def test_barriers_in_recursion(block: int) -> None:
    values = numbers(block, 3, block)
    [[_, got]] = agree("recursive_total", block, [[values, np.zeros_like(values)]])
    for row, result, own in zip(range(3), got, values, strict=True):
        n, s, halves = block - row, own.copy(), []
        while n > 1:
            half = (n + 1) // 2
            s[: n - half] += s[half:n]
            halves.append(half)
            n = half
        r = int(s[0])
        for half in reversed(halves):
            s[:half] += r
        np.testing.assert_array_equal(result, r * 3 + s + len(halves) * 1000000)


@pytest.mark.parametrize("block", [16, 70])
def test_barriers_behind_pointers(block: int) -> None:
    plans = [[0], [1, 3], [0, 1, 2, 3, 2, 1]]
    values = numbers(block, 3, block)
    launches: list[list[Array | int]] = [
        [values, np.zeros_like(values), np.array(plan, np.int32), len(plan), used]
        for plan in plans
        for used in (block, block - 5)
    ]
    wanted = agree("pipeline", block, launches)
    np.testing.assert_array_equal(wanted[0][1], np.roll(values, -1, 1) * 2)
    counts = (values > 1).sum(1) * 10 + (values == 1).any(1)
    np.testing.assert_array_equal(wanted[2][1][0], counts[0] * 5 + values[0] + 2 + values[0])


@pytest.mark.parametrize("block", [16, 100])
def test_threads_meet_in_different_functions(block: int) -> None:
    t = np.arange(block)
    choices = [t * 0 + k for k in range(7)]
    choices += [t % 2, t // 3 % 4, np.where(t < block // 2, 3, 5), t % 7, 6 - t * t % 8, np.where(t == 5, 9, 3)]
    values = numbers(block, 3, block)
    agree("apart", block, [[values, np.zeros_like(values), which.astype(np.int32)] for which in choices])


@pytest.mark.parametrize("gone", [128, 31, 100])
def test_teams_of_warps_meet_in_functions(gone: int) -> None:
    """At barriers of their own, for a number of threads; one thread may have exited."""
    values = numbers(gone, 2, 128)
    [[_, got]] = agree("teams", 128, [[values, np.zeros_like(values), gone]], grid=2)
    t = np.arange(128)
    other = t ^ 32
    want = values[:, other] * 100 + np.where(t < 64, values[:, t ^ 1], values[:, t] * 2) + t // 64
    alive = (t != gone) & (other != gone) & (t ^ 1 != gone)
    np.testing.assert_array_equal(got[:, alive], want[:, alive])


@pytest.mark.parametrize("block", [24, 70])
def test_local_memory_of_functions_that_wait(block: int) -> None:
    values = numbers(block + 1, 4, block)
    agree("virtual_work", block, [[values, np.zeros_like(values), n] for n in (0, 1, 5)], grid=4)


@pytest.mark.parametrize("block", [24, 100])
def test_locks_in_recursion(block: int) -> None:
    n, grid = 3, 2
    [[lock, out]] = agree("locks", block, [[np.zeros(2, np.int32), np.zeros((grid, block), np.int32), n]], grid=grid)
    each = [sum(range(n + t % 3 + 1)) for t in range(block)]
    assert lock.tolist() == [0, sum(each) * grid]
    assert out.all()


@pytest.mark.parametrize("block", [24, 100])
def test_lanes_in_a_function_wait_for_their_neighbours_outside(block: int) -> None:
    [[got]] = agree("neighbours", block, [[np.zeros((2, block), np.int32), 0]], grid=2)
    t = np.arange(block)
    np.testing.assert_array_equal(got, np.tile(np.where(t % 2, 2, (t + 1) * 10), (2, 1)))


@pytest.mark.parametrize(("block", "cluster"), [(32, 4), (64, 2), (50, 3), (64, 1)])
def test_barriers_of_the_cluster_in_recursion(block: int, cluster: int) -> None:
    values = numbers(7, 2 * cluster, block)
    [[_, got]] = agree(
        "cluster_around", block, [[values, np.zeros_like(values), 3]], grid=2 * cluster, cluster=(cluster, 1, 1)
    )
    for start in (0, cluster):
        mine = values[start : start + cluster]
        seen = []
        for n in (3, 2, 1):
            seen.append(np.roll(mine, -1, 0))
            mine = seen[-1] + n
        want = mine
        for each in reversed(seen):
            want = want * 2 + each
        np.testing.assert_array_equal(got[start : start + cluster], want)


# ---------------------------------------------------------------------- between blocks, and for ever

pool = pytest.mark.anyio


@pool
@pytest.mark.parametrize("block", [32, 80])
async def test_spin_loops_behind_pointers_let_other_blocks_go_on(block: int) -> None:
    grid = 9
    flags, out = np.zeros(grid, np.int32), np.zeros((grid, block), np.int32)
    async with zc.open_device(0, workers=2) as device, device.create_stream() as stream:
        function = await device.load_ptx(TEXT).get_kernel("chain")
        buffers = [device.allocate(array.nbytes) for array in (flags, out)]
        stream.memset(buffers[0], 0, flags.nbytes)
        stream.launch(function, zc.LaunchConfig(grid=grid, block=block), *buffers, 0)
        stream.memcpy(flags, buffers[0])
        await stream.memcpy(out, buffers[1])
    assert flags.tolist() == [grid - 1 + (grid - 1 - b) for b in range(grid)]
    np.testing.assert_array_equal(out[:-1], np.repeat(flags[1:, None], block, 1))
    assert not out[-1].any()


@pool
@pytest.mark.parametrize("block", [48, 80])
async def test_a_barrier_in_a_function_that_cannot_open_is_a_deadlock(block: int) -> None:
    async with zc.open_device(0, workers=1) as device, device.create_stream() as stream:
        function = await device.load_ptx(TEXT).get_kernel("stuck")
        out, plan = device.allocate(4 * block), device.allocate(4)
        stream.memset(plan, 0, 4)
        config = zc.LaunchConfig(grid=1, block=block, shared_bytes=4 * block)
        with pytest.raises(zc.CudaError, match=r"^cudaErrorLaunchTimeout \(702\): deadlock in block 0 of stuck .*line"):
            await stream.launch(function, config, out, plan)
        await device.reset()


def test_a_wait_for_the_cluster_that_arrived_elsewhere_is_refused() -> None:
    head = ".version 8.0\n.target sm_90\n.address_size 64\n"
    text = ".func f() { barrier.cluster.wait; call f, (); ret; }\n.visible .entry k() { call f, (); ret; }\n"
    where = "in a function that is recursive, or called through a pointer, and does not arrive there,"
    with pytest.raises(PtxError, match=f"error: barrier: a wait for the cluster's barrier {where} is not supported"):
        compile_kernel(head + text, "r.ptx", "k", (128, 1, 1))
