"""Barriers that the threads of a warp or a block reach at different places in the code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import zcuda_async as zc

FOLDER = Path(__file__).parent / "ptx"


def expected(values: npt.NDArray[np.int32], block: int) -> npt.NDArray[np.int32]:
    """What ``barriers.cu`` computes, one block after another."""
    return np.concatenate([_block(values[start : start + block]) for start in range(0, len(values), block)])


def _block(values: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    count = len(values)
    value = values.copy()
    for base in range(0, count, 32):
        warp = value[base : base + 32]
        tile = np.zeros(32, np.int32)
        for lane in range(20):
            for i in range((lane & 3) + 1):
                warp[lane] = warp[lane] * 3 + i
            tile[lane] = warp[lane]
        tile[20:] = warp[20:] - 5
        warp[20:] = tile[20:][::-1]
        warp[:20] = tile[:20][::-1]
        tile[1:20:2] = warp[1:20:2] + 7
        warp[:20] += tile[(np.arange(20) | 1) % 20]
    thread = np.arange(count)
    shared = value.copy()
    first = shared[(thread + 1) % count]
    return np.where(thread % 3 == 0, first, value * 2 + shared[(thread + 2) % count]).astype(np.int32)


@pytest.mark.anyio
@pytest.mark.parametrize("file", ["barriers.ptx", "barriers_debug.ptx"])
@pytest.mark.parametrize("block", [32, 64, 256])
async def test_each_thread_sees_what_was_written_before_the_barrier(file: str, block: int) -> None:
    values = np.random.default_rng(block).integers(-1000, 1000, 3 * block).astype(np.int32)
    result = np.empty_like(values)
    async with zc.open_device(0, workers=1) as device, device.create_stream() as stream:
        kernel = await device.load_ptx((FOLDER / file).read_text(), file).get_kernel("warps")
        source, target = device.allocate(values.nbytes), device.allocate(values.nbytes)
        stream.memcpy(source, values)
        stream.launch(kernel, zc.LaunchConfig(grid=3, block=block), source, target)
        await stream.memcpy(result, target)
    np.testing.assert_array_equal(result, expected(values, block))
