"""How launches are spread over workers."""

from __future__ import annotations

import pytest

from zcuda_async.executor.schedule import BlockCost, chunk_size, participants

LARGEST_GRID = (2**31 - 1) * 65535 * 65535


@pytest.mark.parametrize(
    ("blocks", "workers", "chunk"),
    [(1, 1, 1), (7, 2, 1), (160, 2, 10), (10_000, 4, 312), (LARGEST_GRID, 128, LARGEST_GRID // 1024)],
)
def test_a_worker_claims_an_eighth_of_its_share(blocks: int, workers: int, chunk: int) -> None:
    assert chunk_size(blocks, workers) == chunk


def test_unknown_kernels_get_every_worker() -> None:
    assert participants(1000, 8, None) == 8
    assert participants(3, 8, None) == 3


@pytest.mark.parametrize(("total_ns", "workers"), [(0, 1), (10_000, 1), (35_000, 2), (200_000, 7), (1e9, 8)])
def test_short_launches_wake_few_workers(total_ns: float, workers: int) -> None:
    assert participants(1000, 8, total_ns) == workers


def test_no_more_workers_than_blocks_take_part() -> None:
    assert participants(1, 8, 1e9) == 1


def test_cost_rises_at_once_and_falls_slowly() -> None:
    cost = BlockCost()
    assert cost.total_ns(10) is None
    assert cost.is_long(10)
    cost.observe(total_blocks=10, workers=2, elapsed_ns=500)
    assert cost.total_ns(10) == 1000
    assert not cost.is_long(10)
    cost.observe(10, 1, 10_000_000)
    assert cost.total_ns(10) == 10_000_000
    assert cost.is_long(10)
    cost.observe(10, 1, 0)
    assert cost.total_ns(10) == 7_500_000
