"""Raw copies and fills."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from zcuda_async.memory.arena import Arena
from zcuda_async.memory.copy import copy, copy_2d, fill, fill_2d, locked_buffer


@dataclass
class Block:
    """4096 bytes of an arena and a numpy view of them."""

    address: int
    bytes: np.ndarray[tuple[int], np.dtype[np.uint8]]


@pytest.fixture
def block() -> Iterator[Block]:
    arena = Arena(1 << 20, 1 << 20)
    address = arena.device_heap.allocate(4096)
    array = np.frombuffer(arena.view(address, 4096), dtype=np.uint8)
    array[:] = np.arange(4096) % 251
    yield Block(address, array)
    arena.close()


def test_copy_moves_overlapping_bytes(block: Block) -> None:
    expected = block.bytes[:1000].copy()
    copy(block.address + 10, block.address, 1000)
    assert (block.bytes[10:1010] == expected).all()


@pytest.mark.parametrize(("width", "height"), [(1, 1), (16, 4), (7, 20), (64, 10), (0, 3), (5, 1)])
def test_copy_2d_moves_rows(block: Block, width: int, height: int) -> None:
    before = block.bytes.copy()
    copy_2d(block.address + 2048, 64, block.address, 80, width, height)
    expected = before.copy()
    for row in range(height):
        expected[2048 + 64 * row : 2048 + 64 * row + width] = before[80 * row : 80 * row + width]
    assert (block.bytes == expected).all()


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_fill_repeats_a_pattern(block: Block, width: int) -> None:
    value = 0x8899AABBCCDDEEFF % (1 << 8 * width)
    fill(block.address + 64, value, 9, width)
    assert bytes(block.bytes[64 : 64 + 9 * width]) == value.to_bytes(width, "little") * 9
    assert block.bytes[64 + 9 * width] == (64 + 9 * width) % 251
    assert block.bytes[63] == 63


@pytest.mark.parametrize(("pitch", "columns", "rows"), [(64, 3, 5), (64, 16, 4), (12, 3, 4), (64, 2, 1)])
def test_fill_2d_leaves_the_gaps(block: Block, pitch: int, columns: int, rows: int) -> None:
    expected = block.bytes.copy()
    fill_2d(block.address, pitch, 0x01020304, columns, rows, 4)
    for row in range(rows):
        expected[pitch * row : pitch * row + 4 * columns] = [4, 3, 2, 1] * columns
    assert (block.bytes == expected).all()


def test_a_locked_buffer_is_read_in_place(block: Block) -> None:
    data = bytes(range(50))
    with locked_buffer(data) as (address, size):
        copy(block.address, address, size)
    assert bytes(block.bytes[:50]) == data


def test_a_locked_buffer_cannot_move() -> None:
    data = bytearray(10)
    with locked_buffer(data, writable=True) as (address, _):
        fill(address, 7, 10)
        with pytest.raises(BufferError):
            data.append(1)
    data.append(1)
    assert data == bytes([7] * 10 + [1])


def test_arrays_of_any_type_and_shape_are_locked() -> None:
    array = np.zeros((3, 5), dtype=np.float64, order="F")
    with locked_buffer(array, writable=True) as (address, size):
        assert (address, size) == (array.ctypes.data, 120)
    with locked_buffer(b"") as (_, size):
        assert size == 0


def test_what_cannot_be_locked_is_refused() -> None:
    with pytest.raises(BufferError), locked_buffer(b"abc", writable=True):
        pass
    with pytest.raises((BufferError, ValueError)), locked_buffer(np.zeros((4, 4))[:, ::2]):
        pass
    with pytest.raises(TypeError), locked_buffer(17):  # type: ignore[arg-type]
        pass
