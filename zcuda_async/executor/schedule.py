"""How a launch is spread over workers: how many take part, and how many blocks they claim at a time."""

from __future__ import annotations

from typing import Final

__all__ = ("CHUNKS_PER_WORKER", "BlockCost", "chunk_size", "is_worth_sending_ahead", "participants")

CHUNKS_PER_WORKER: Final = 8
"""Enough to even out blocks of different length, few enough that claiming costs nothing."""

_WORTH_WAKING_NS: Final = 30_000
"""A further worker must save more than this to pay for waking it and waiting for it."""

_LONG_NS: Final = 1_000_000
"""Launches longer than this rather wait for a busy worker than do without it."""

_AHEAD_NS: Final = 500_000
_MOST_AHEAD: Final = 32


def chunk_size(total_blocks: int, workers: int) -> int:
    """Blocks that a worker claims at a time, at least 1."""
    return max(1, total_blocks // (workers * CHUNKS_PER_WORKER))


def participants(total_blocks: int, workers: int, total_ns: float | None) -> int:
    """How many of `workers` should take part in a launch of `total_blocks`.

    Args:
        total_blocks: blocks in the grid, at least 1.
        workers: how many there are.
        total_ns: what one worker alone would need, None if unknown.
    """
    most = min(workers, total_blocks)
    if total_ns is None:
        return most
    return min(most, 1 + int(total_ns / _WORTH_WAKING_NS))


def is_worth_sending_ahead(queued: int, total_ns: float) -> bool:
    """Whether a launch of `total_ns` should be sent to a worker that has `queued` launches to do.

    Enough to keep the worker busy, so little that a more urgent launch hardly waits.
    """
    return queued < _MOST_AHEAD and queued * total_ns < _AHEAD_NS


class BlockCost:
    """What one block of a kernel takes, learnt from its launches; leans to the high side."""

    __slots__ = ("_block_ns",)

    def __init__(self) -> None:
        self._block_ns: float | None = None

    def total_ns(self, total_blocks: int) -> float | None:
        """What one worker would need for a launch, in nanoseconds; None before the first observation."""
        return None if self._block_ns is None else self._block_ns * total_blocks

    def is_long(self, total_blocks: int) -> bool:
        """Whether a launch is worth waiting for a busy worker."""
        return self._block_ns is None or self._block_ns * total_blocks > _LONG_NS

    def observe(self, total_blocks: int, workers: int, elapsed_ns: int) -> None:
        """Learn from a launch that `workers` finished in `elapsed_ns`."""
        seen = elapsed_ns * workers / total_blocks
        old = self._block_ns
        self._block_ns = seen if old is None or seen > old else (3 * old + seen) / 4
