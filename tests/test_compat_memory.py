"""Memory through `zcuda_compat.cudart`: allocation, every kind of copy, when copies wait, fills, attributes."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from compat_tools import D2D, D2H, DEFAULT, ERROR, H2D, H2H, checked, held

import zcuda_compat
from zcuda_compat import cudart

pytestmark = pytest.mark.pool

MIB = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def _shutdown() -> Iterator[None]:
    yield
    zcuda_compat.shutdown()


@pytest.fixture
def stream() -> Iterator[Any]:
    stream = checked(cudart.cudaStreamCreate())
    yield stream
    checked(cudart.cudaStreamDestroy(stream))


@pytest.fixture
def device() -> Iterator[int]:
    address = checked(cudart.cudaMalloc(4 * MIB))
    yield address
    checked(cudart.cudaFree(address))


def pattern(size: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def on_device(address: int, size: int) -> bytes:
    out = bytearray(size)
    checked(cudart.cudaMemcpy(out, address, size, D2H))
    return bytes(out)


def pinned_bytes(address: int, size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def test_malloc_gives_aligned_memory_and_free_gives_it_back() -> None:
    checked(cudart.cudaFree(0))
    before, total = checked(cudart.cudaMemGetInfo())
    address = checked(cudart.cudaMalloc(1000))
    assert address % 256 == 0
    assert checked(cudart.cudaMemGetInfo()) == (before - 1024, total)
    checked(cudart.cudaFree(address))
    assert checked(cudart.cudaMemGetInfo()) == (before, total)


def test_size_zero_and_null_are_allowed() -> None:
    assert checked(cudart.cudaMalloc(0)) == 0
    assert checked(cudart.cudaMallocHost(0)) == 0
    checked(cudart.cudaFree(0))
    checked(cudart.cudaFree(None))
    checked(cudart.cudaFreeHost(0))
    checked(cudart.cudaMemcpy(0, None, 0, H2D))
    checked(cudart.cudaMemset(0, 1, 0))


def test_an_over_large_request_changes_nothing() -> None:
    before = checked(cudart.cudaMemGetInfo())
    assert cudart.cudaMalloc(1 << 45) == (ERROR.cudaErrorMemoryAllocation, None)
    assert checked(cudart.cudaMemGetInfo()) == before
    cudart.cudaGetLastError()


@pytest.mark.parametrize("size", [1, 64 << 10, 3 * MIB])
@pytest.mark.parametrize("kind", [None, DEFAULT])
def test_bytes_survive_the_round_trip(device: int, size: int, kind: Any) -> None:
    data = pattern(size)
    checked(cudart.cudaMemcpy(device, data, size, kind or H2D))
    out = np.zeros_like(data)
    checked(cudart.cudaMemcpy(out, device, size, kind or D2H))
    assert np.array_equal(out, data)


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda data: (ctypes.c_char * 16)(*data.tobytes())])
def test_any_buffer_object_is_a_pointer(device: int, wrap: Any) -> None:
    data = pattern(16)
    checked(cudart.cudaMemcpy(device, wrap(data), 16, H2D))
    assert on_device(device, 16) == data.tobytes()


def test_integers_are_addresses(device: int) -> None:
    data, out = pattern(100), np.zeros(100, np.uint8)
    checked(cudart.cudaMemcpy(device, data.ctypes.data, 100, H2D))
    checked(cudart.cudaMemcpy(out.ctypes.data, device, 100, D2H))
    assert np.array_equal(out, data)


def test_copies_may_start_inside_an_allocation(device: int) -> None:
    data = pattern(64)
    checked(cudart.cudaMemcpy(device, data, 64, H2D))
    checked(cudart.cudaMemcpy(device + 100, device + 8, 16, D2D))
    assert on_device(device + 100, 16) == data[8:24].tobytes()


def test_host_to_host_copies() -> None:
    data, out = pattern(100), bytearray(100)
    checked(cudart.cudaMemcpy(out, data, 100, H2H))
    assert bytes(out) == data.tobytes()


def test_pinned_memory_counts_as_host_and_as_device(device: int) -> None:
    pinned = checked(cudart.cudaHostAlloc(64, cudart.cudaHostAllocMapped))
    view = pinned_bytes(pinned, 64)
    view[:] = 7
    checked(cudart.cudaMemcpy(device, pinned, 64, H2D))
    assert on_device(device, 64) == bytes([7]) * 64
    checked(cudart.cudaMemset(device, 9, 64))
    checked(cudart.cudaMemcpy(pinned, device, 64, D2D))
    checked(cudart.cudaDeviceSynchronize())
    assert view.tolist() == [9] * 64
    assert checked(cudart.cudaHostGetDevicePointer(pinned, 0)) == pinned
    assert checked(cudart.cudaHostGetFlags(pinned)) == cudart.cudaHostAllocMapped
    checked(cudart.cudaFreeHost(pinned))


def test_async_copy_reads_a_pageable_source_before_it_returns(stream: Any, device: int) -> None:
    data = pattern(1000)
    kept = data.tobytes()
    with held(stream):
        checked(cudart.cudaMemcpyAsync(device, data, 1000, H2D, stream))
        data[:] = 0
    checked(cudart.cudaStreamSynchronize(stream))
    assert on_device(device, 1000) == kept


def test_async_copy_reads_a_pinned_source_in_stream_order(stream: Any, device: int) -> None:
    pinned = checked(cudart.cudaMallocHost(64))
    view = pinned_bytes(pinned, 64)
    view[:] = 1
    with held(stream):
        checked(cudart.cudaMemcpyAsync(device, pinned, 64, H2D, stream))
        view[:] = 2
    checked(cudart.cudaStreamSynchronize(stream))
    assert on_device(device, 64) == bytes([2]) * 64
    checked(cudart.cudaFreeHost(pinned))


@pytest.mark.parametrize("size", [16, 3 * MIB])
def test_async_copy_to_pageable_memory_waits(stream: Any, device: int, size: int) -> None:
    checked(cudart.cudaMemsetAsync(device, 5, size, stream))
    out = np.zeros(size, np.uint8)
    checked(cudart.cudaMemcpyAsync(out, device, size, D2H, stream))
    assert (out == 5).all()


def test_async_copy_of_a_large_pageable_source_waits(stream: Any, device: int) -> None:
    data = pattern(3 * MIB)
    kept = data.tobytes()
    checked(cudart.cudaMemcpyAsync(device, data, data.nbytes, H2D, stream))
    data[:] = 0
    assert on_device(device, 3 * MIB) == kept


def test_async_copy_to_pinned_memory_does_not_wait(stream: Any, device: int) -> None:
    pinned = checked(cudart.cudaMallocHost(64))
    view = pinned_bytes(pinned, 64)
    view[:] = 0
    checked(cudart.cudaMemset(device, 3, 64))
    with held(stream):
        checked(cudart.cudaMemcpyAsync(pinned, device, 64, D2H, stream))
        assert cudart.cudaStreamQuery(stream) == (ERROR.cudaErrorNotReady,)
        assert not view.any()
    checked(cudart.cudaStreamSynchronize(stream))
    assert (view == 3).all()
    checked(cudart.cudaFreeHost(pinned))
    cudart.cudaGetLastError()


def test_copies_on_the_default_stream_wait_for_earlier_work(stream: Any, device: int) -> None:
    gate = threading.Event()
    checked(cudart.cudaMemset(device, 1, 64))
    checked(cudart.cudaLaunchHostFunc(stream, lambda _: gate.wait(), None))
    checked(cudart.cudaMemsetAsync(device, 2, 64, stream))
    releaser = threading.Timer(0.01, gate.set)
    releaser.start()
    assert on_device(device, 64) == bytes([2]) * 64
    releaser.join()


@pytest.mark.parametrize(("value", "byte"), [(0, 0), (255, 255), (-1, 255), (0x1234, 0x34)])
def test_memset_uses_the_low_byte(device: int, value: int, byte: int) -> None:
    checked(cudart.cudaMemset(device, value, 100))
    assert on_device(device, 100) == bytes([byte]) * 100


def test_memset_of_pinned_memory_waits() -> None:
    pinned = checked(cudart.cudaMallocHost(3 * MIB))
    checked(cudart.cudaMemset(pinned, 6, 3 * MIB))
    assert (pinned_bytes(pinned, 3 * MIB) == 6).all()
    checked(cudart.cudaFreeHost(pinned))


def test_free_waits_for_work_that_uses_the_memory(stream: Any) -> None:
    address = checked(cudart.cudaMalloc(64))
    order: list[str] = []
    gate = threading.Event()

    def callback(_: object) -> None:
        gate.wait()
        order.append("callback")

    checked(cudart.cudaLaunchHostFunc(stream, callback, None))
    checked(cudart.cudaMemsetAsync(address, 1, 64, stream))
    releaser = threading.Timer(0.01, gate.set)
    releaser.start()
    checked(cudart.cudaFree(address))
    order.append("freed")
    releaser.join()
    assert order == ["callback", "freed"]


def test_pointer_attributes_tell_what_memory_is(device: int) -> None:
    kinds = cudart.cudaMemoryType
    pinned = checked(cudart.cudaMallocHost(64))
    host = np.zeros(8)
    on_the_device = checked(cudart.cudaPointerGetAttributes(device + 8))
    assert (on_the_device.type, on_the_device.device) == (kinds.cudaMemoryTypeDevice, 0)
    assert (on_the_device.devicePointer, on_the_device.hostPointer) == (device + 8, 0)
    on_the_host = checked(cudart.cudaPointerGetAttributes(pinned))
    assert (on_the_host.type, on_the_host.hostPointer) == (kinds.cudaMemoryTypeHost, pinned)
    pageable = checked(cudart.cudaPointerGetAttributes(host))
    assert (pageable.type, pageable.hostPointer) == (kinds.cudaMemoryTypeUnregistered, host.ctypes.data)
    checked(cudart.cudaFreeHost(pinned))


def test_numpy_views_of_device_addresses_are_device_memory(device: int) -> None:
    view = (ctypes.c_uint8 * 64).from_address(device)
    assert checked(cudart.cudaPointerGetAttributes(view)).type == cudart.cudaMemoryType.cudaMemoryTypeDevice
