"""malloc and free in kernels (``heap.ptx``, built from ``heap.cu``)."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from jit_harness import TARGETS, Case, run_interpreter, run_jit
from jit_services import Services

import zcuda_async as zc
from zcuda_async.jit.abi import HEAP_BLOCKS

TEXT = (Path(__file__).parent / "ptx" / "heap.ptx").read_text()


def list_sums(threads: int, n: int) -> list[int]:
    sums = []
    for t in range(threads):
        kept: list[int] = []
        for i in range(t % n):
            kept.append(t * i)
            if i % 3 == 2:
                del kept[-2]
        sums.append(sum(kept))
    return sums


def is_one_free_block(services: Services) -> bool:
    size, before = struct.unpack_from("<QQ", services.heap, HEAP_BLOCKS)
    return size == len(services.heap) - HEAP_BLOCKS - 16 and before == 0


@pytest.mark.parametrize("target", TARGETS)
def test_lists_are_made_and_freed(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    services = Services()
    monkeypatch.setattr("jit_harness.services", lambda: services)
    case = Case(TEXT, [13, np.zeros(120, np.int32), np.zeros(1, np.int32)], "lists", (3, 1, 1), (40, 1, 1))
    sums, bad = run_jit(case, target)
    assert not bad[0]
    assert sums.tolist() == list_sums(120, 13)
    assert is_one_free_block(services)


def test_the_interpreter_has_a_heap_too() -> None:
    case = Case(TEXT, [13, np.zeros(40, np.int32), np.zeros(1, np.int32)], "lists", block=(40, 1, 1))
    sums, bad = run_interpreter(case, heap_size=1 << 14)
    assert not bad[0]
    assert sums.tolist() == list_sums(40, 13)
    case = Case(TEXT, [1 << 12, np.zeros(6, np.uint64)], "take", block=(6, 1, 1))
    (blocks,) = run_interpreter(case, heap_size=1 << 14)
    assert np.count_nonzero(blocks) == 4


def test_what_does_not_fit_is_a_null_pointer(monkeypatch: pytest.MonkeyPatch) -> None:
    services = Services(heap_size=1 << 16)
    monkeypatch.setattr("jit_harness.services", lambda: services)
    for size, count in ((1 << 12, 15), (1 << 16, 0), (1 << 63, 0), ((1 << 16) - 16, 1), (0, 32)):
        case = Case(TEXT, [size, np.zeros(32, np.uint64)], "take", block=(32, 1, 1))
        (blocks,) = run_jit(case)
        held = blocks[blocks != 0]
        assert len(held) == len(set(held.tolist())) == count
        assert not (held % 16).any()
        gaps = np.diff(np.sort(held))
        assert (gaps >= size).all()
        run_jit(Case(TEXT, [0, blocks, np.zeros(1, np.int32)], "give", block=(32, 1, 1)))
        assert is_one_free_block(services)


@pytest.mark.anyio
async def test_workers_share_one_heap_and_blocks_outlive_launches() -> None:
    threads, n = 64 * 40, 23
    limits = zc.DeviceLimits(malloc_heap_bytes=1 << 20)
    async with zc.open_device(0, workers=2, limits=limits) as device, device.create_stream() as stream:
        module = device.load_ptx(TEXT)
        sums, bad, blocks = device.allocate(4 * threads), device.allocate(4), device.allocate(8 * 100)
        stream.memset(bad, 0, 4)
        lists = await module.get_kernel("lists")
        for _ in range(3):
            stream.launch(lists, zc.LaunchConfig(grid=40, block=64), n, sums, bad)
        config = zc.LaunchConfig(grid=1, block=100)
        stream.launch(await module.get_kernel("take"), config, 400, blocks)
        stream.launch(await module.get_kernel("fill"), config, 100, blocks)
        stream.launch(await module.get_kernel("give"), config, 100, blocks, bad)
        result, wrong, held = np.zeros(threads, np.int32), np.zeros(1, np.int32), np.zeros(100, np.uint64)
        stream.memcpy(held, blocks)
        stream.memcpy(result, sums)
        await stream.memcpy(wrong, bad)
        assert held.all()
        assert not wrong[0]
        assert result.tolist() == list_sums(threads, n)
        give = await module.get_kernel("give")
        with pytest.raises(zc.CudaError, match=r"^cudaErrorLaunchFailure \(719\): .*PTX line"):  # freed twice
            await stream.launch(give, config, 0, blocks, bad)
        await device.reset()
        stream.launch(await module.get_kernel("take"), config, 1 << 13, blocks)
        await stream.memcpy(held, blocks)
        assert held.all()  # all of it is free again
