"""Threads that wait for each other: voting and named barriers, locks, flags, whole grids, clusters, deadlocks.

The kernels are in ``ptx/waiting.cu`` and ``ptx/clusters.cu``.  All of them would hang if lanes that wait did not let
the others go on: those of their warp, of their block, and of blocks that come later in the grid.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import zcuda_async as zc

FOLDER = Path(__file__).parent / "ptx"
FILES = ["waiting.ptx", "waiting_debug.ptx"]
Array = npt.NDArray[Any]

pytestmark = [pytest.mark.anyio, pytest.mark.pool]


async def run(file: str, kernel: str, grid: Any, block: int, *args: Array | int, **config: Any) -> None:
    """Launch with the arrays' contents, and read them all back."""
    async with zc.open_device(0, workers=2) as device, device.create_stream() as stream:
        function = await device.load_ptx((FOLDER / file).read_text(), file).get_kernel(kernel)
        buffers = {}
        for index, arg in enumerate(args):
            if isinstance(arg, np.ndarray):
                buffers[index] = device.allocate(arg.nbytes)
                stream.memcpy(buffers[index], arg)
        values = [buffers.get(index, arg) for index, arg in enumerate(args)]
        stream.launch(function, zc.LaunchConfig(grid=grid, block=block, **config), *values)
        for index, buffer in buffers.items():
            stream.memcpy(args[index], buffer)
        await stream.sync()


def numbers(seed: int, low: int, high: int, size: int) -> Array:
    return np.random.default_rng(seed).integers(low, high, size).astype(np.int32)


def zeros(size: int) -> Array:
    return np.zeros(size, np.int32)


# ---------------------------------------------------------------------- barriers


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("block", [32, 100, 256])
async def test_voting_barriers_count_all_threads(file: str, block: int) -> None:
    values, out = numbers(block, -6, 9, 3 * block), zeros(3 * block)
    await run(file, "count_votes", 3, block, values, out)
    rows = values.reshape(3, block)
    want = (rows > 3).sum(1) * 4 + np.where((rows > -5).all(1), 2, 0) + (rows == 7).any(1)
    np.testing.assert_array_equal(out, np.repeat(want, block))


def _votes_in_a_loop(values: Array) -> Array:
    value, live, rounds = values.copy(), np.ones(len(values), bool), zeros(len(values))
    while live.any() and (value[live] > 0).any():
        value[live & (value > 0)] -= 3
        rounds[live] += 1
        if live[5] and rounds[5] == 2:
            live[5] = False
    return rounds * 1000 + value


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("block", [32, 200])
async def test_voting_in_a_loop_that_a_thread_leaves_early(file: str, block: int) -> None:
    values, out = numbers(block, -6, 30, 2 * block), zeros(2 * block)
    await run(file, "vote_loop", 2, block, values, out, 0)
    want = np.concatenate([_votes_in_a_loop(part) for part in values.reshape(2, block)])
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("rounds", [1, 2, 7])
async def test_producer_and_consumer_warps_meet_at_named_barriers(file: str, rounds: int) -> None:
    values, out = numbers(rounds, 0, 100, rounds * 64), zeros(rounds * 64)
    await run(file, "producer_consumer", 1, 128, values, out, rounds)
    np.testing.assert_array_equal(out.reshape(rounds, 64), values.reshape(rounds, 64)[:, ::-1] * 2 + 1)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("block", [32, 256])
async def test_barrier_does_not_wait_for_threads_that_have_exited(file: str, block: int) -> None:
    values, out = numbers(block, 0, 100, block), zeros(block)
    await run(file, "half_exit", 1, block, values, out)
    even = np.arange(0, block, 2)
    np.testing.assert_array_equal(out[even], values[even] + values[(even + 2) % block])


# ---------------------------------------------------------------------- locks and flags


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("kernel", ["warp_lock", "spin_lock"])
@pytest.mark.parametrize(("grid", "block"), [(1, 32), (3, 100)])
async def test_lock_lets_one_thread_after_the_other_through(file: str, kernel: str, grid: int, block: int) -> None:
    count, order = zeros(1), zeros(grid * block) - 1
    await run(file, kernel, grid, block, zeros(1), count, order)
    assert count[0] == grid * block
    np.testing.assert_array_equal(np.sort(order), np.arange(grid * block))


@pytest.mark.parametrize("file", FILES)
async def test_ticket_lock_serves_in_order(file: str) -> None:
    order, count = zeros(192), zeros(1)
    await run(file, "ticket", 3, 64, zeros(1), zeros(1), order, count)
    np.testing.assert_array_equal(order, np.arange(192))


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("block", [32, 100])
async def test_lock_in_shared_memory(file: str, block: int) -> None:
    out, thread = zeros(2 * block), np.arange(block)
    await run(file, "shared_lock", 2, block, out)
    partner = np.where((thread ^ 1) < block, thread ^ 1, thread)
    np.testing.assert_array_equal(out.reshape(2, block), [block + partner] * 2)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize(("grid", "block"), [(1, 32), (5, 100)])
async def test_each_thread_waits_for_the_one_before(file: str, grid: int, block: int) -> None:
    out = zeros(grid * block)
    await run(file, "flag_chain", grid, block, zeros(grid * block), out)
    np.testing.assert_array_equal(out, np.cumsum(np.arange(grid * block)))


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize(("grid", "block"), [(1, 32), (5, 100)])
async def test_each_thread_waits_for_the_one_behind_it_in_blocks_that_come_later(
    file: str, grid: int, block: int
) -> None:
    count = grid * block
    out = zeros(count)
    await run(file, "flag_chain_back", grid, block, zeros(count), out, count)
    np.testing.assert_array_equal(out, np.cumsum(np.arange(count)[::-1])[::-1])


@pytest.mark.parametrize("file", FILES)
async def test_lanes_that_ran_ahead_meet_again_in_a_shuffle(file: str) -> None:
    out = zeros(128)
    await run(file, "apart_then_together", 2, 64, zeros(4), out)
    lane5 = (np.arange(64) // 32 * 32 + 5) * 6 + 1
    np.testing.assert_array_equal(out.reshape(2, 64), [lane5] * 2)


# ---------------------------------------------------------------------- grids and clusters


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize(("grid", "block"), [(1, 32), (8, 100)])
async def test_cooperative_grid_synchronises(file: str, grid: int, block: int) -> None:
    values = numbers(grid, 0, 9, grid * block - 3)
    out, want = np.zeros_like(values), np.cumsum(values)
    await run(file, "gridsum", grid, block, values, out, len(values), cooperative=True)
    np.testing.assert_array_equal(out, want)


async def test_grid_synchronisation_needs_a_cooperative_launch() -> None:
    with pytest.raises(zc.LaunchError, match=r"^cudaErrorLaunchFailure \(719\): "):
        await run("waiting.ptx", "gridsum", 1, 32, zeros(32), zeros(32), 32)


async def test_cooperative_launch_must_fit_the_device() -> None:
    with pytest.raises(
        zc.LaunchError,
        match=r"^cudaErrorCooperativeLaunchTooLarge \(720\): a cooperative launch of gridsum may have at most 2 blocks"
        r" of \(1024, 1, 1\) threads, got 3; use a smaller grid",
    ):
        await run("waiting.ptx", "gridsum", 3, 1024, zeros(1), zeros(1), 1, cooperative=True)


@pytest.mark.parametrize(("grid", "block", "bins"), [(4, 32, 10), (12, 128, 100)])
async def test_cluster_shares_a_histogram(grid: int, block: int, bins: int) -> None:
    values, out = numbers(bins, 0, 1 << 20, 5000), zeros(bins * 4)
    await run("clusters.ptx", "cluster_hist", grid, block, values, out, 5000, bins, shared_bytes=bins * 4)
    np.testing.assert_array_equal(out, np.bincount(values % (bins * 4), minlength=bins * 4))


@pytest.mark.parametrize(("grid", "cluster"), [((2, 1), (2, 1)), ((4, 4), (2, 2)), ((6, 3), (3, 1)), ((2, 3), (1, 1))])
async def test_block_reads_the_shared_memory_of_the_next_in_its_cluster(
    grid: tuple[int, int], cluster: tuple[int, int]
) -> None:
    values = numbers(grid[0], 0, 1000, grid[0] * grid[1] * 64)
    out = np.zeros_like(values)
    await run("clusters.ptx", "ring", grid, 64, values, out, cluster=cluster)
    rows = values.reshape(grid[1], grid[0], 64)
    want = np.zeros_like(rows)
    for y, x in np.ndindex(grid[1], grid[0]):
        rank = y % cluster[1] * cluster[0] + x % cluster[0]
        after = (rank + 1) % (cluster[0] * cluster[1])
        other_y = y - y % cluster[1] + after // cluster[0]
        other_x = x - x % cluster[0] + after % cluster[0]
        own = rows[y, x] % 7 + after * 100 + x % cluster[0] * 10 + cluster[1] * 50000
        want[y, x] = rows[other_y, other_x][::-1] * 1000 + own
    np.testing.assert_array_equal(out, want.ravel())


async def test_cluster_must_divide_the_grid() -> None:
    with pytest.raises(
        zc.LaunchError,
        match=r"^cudaErrorInvalidClusterSize \(912\): the grid \(6, 1, 1\) must be a multiple of the cluster"
        r" \(4, 1, 1\) in each dimension$",
    ):
        await run("clusters.ptx", "cluster_hist", 6, 32, zeros(1), zeros(1), 0, 1)


# ---------------------------------------------------------------------- warps


@pytest.mark.parametrize("file", FILES)
async def test_matching_lanes(file: str) -> None:
    values = numbers(1, 0, 4, 96)
    values[:32] = 5
    found, every, wide = (np.zeros(96, kind) for kind in (np.uint32, np.uint32, np.uint64))
    await run(file, "matching", 1, 96, values, found, every, wide)
    for lane in range(96):
        warp = values[lane // 32 * 32 :][:32]
        same = sum(1 << other for other in range(32) if warp[other] == values[lane])
        assert found[lane] == same
        alike = len(set(warp >> 8)) == 1
        assert every[lane] == ((0xFFFFFFFF if alike else 0) * 2 + alike) & 0xFFFFFFFF
        assert wide[lane] == (same & 0xFFFFF if lane % 32 < 20 else 0)


# ---------------------------------------------------------------------- deadlocks


async def test_deadlock_is_reported_with_the_places_where_threads_wait() -> None:
    text = (FOLDER / "waiting.ptx").read_text().splitlines()
    start = next(n for n, line in enumerate(text, 1) if ".entry deadlock" in line)
    first, second = [n for n, line in enumerate(text, 1) if n > start and "bar.sync" in line][:2]
    with pytest.raises(zc.LaunchError) as caught:
        await run("waiting.ptx", "deadlock", 1, 64, zeros(64))
    waits = {("bar.sync 1" in text[line - 1]): line for line in (first, second)}
    low, high = sorted([(waits[True], "0-31"), (waits[False], "32-63")])
    assert str(caught.value) == (
        f"cudaErrorLaunchTimeout (702): deadlock in block 0 of deadlock (PTX line {low[0]}): nobody can open the"
        f" barriers where its threads wait: threads {low[1]} at line {low[0]}; threads {high[1]} at line {high[0]}"
    )


@pytest.mark.parametrize("block", [32, 64])
async def test_barrier_for_more_threads_than_come_is_a_deadlock(block: int) -> None:
    with pytest.raises(
        zc.LaunchError,
        match=r"^cudaErrorLaunchTimeout \(702\): deadlock in block 0 of half_waits \(PTX line \d+\): nobody can open"
        r" the barriers where its threads wait: threads 0-31 at line \d+$",
    ):
        await run("waiting.ptx", "half_waits", 1, block, zeros(64))
