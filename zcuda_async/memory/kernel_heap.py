"""The memory that ``malloc`` in kernels takes from, as the host prepares it (see `jit.abi.HEAP`)."""

from __future__ import annotations

import struct

from zcuda_async.jit.abi import HEAP, HEAP_BINS, HEAP_BLOCKS, HEAP_HEAD, HEAP_USED

__all__ = ("heap_bytes", "prepare_heap")

_WORDS = struct.Struct("<QQQQ")


def heap_bytes(size: int) -> int:
    """Bytes that a heap with `size` bytes for blocks takes."""
    return HEAP_BLOCKS + -(-size // 16) * 16 + HEAP_HEAD


def prepare_heap(view: memoryview, address: int) -> None:
    """Make the memory at `address` one free block; what kernels had allocated there is gone."""
    size = len(view) - HEAP_BLOCKS - HEAP_HEAD
    first, end = address + HEAP_BLOCKS, address + HEAP_BLOCKS + size
    view[:HEAP_BLOCKS] = bytes(HEAP_BLOCKS)
    HEAP.pack_into(view, 0, 0, end)
    struct.pack_into("<Q", view, HEAP_BINS + 8 * (size.bit_length() - 1), first)
    _WORDS.pack_into(view, HEAP_BLOCKS, size, 0, 0, 0)
    struct.pack_into("<QQ", view, HEAP_BLOCKS + size, HEAP_USED, size)  # nothing joins with the end
