"""Buffers and copies: every pair of ends, what may be reused when, and exact refusals."""

from __future__ import annotations

import gc
import re
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
import pytest
from runtime_support import ONE_THREAD, Rig, load

import zcuda_async as zc

pytestmark = pytest.mark.anyio

MIB = 1 << 20
SIZES = [1, 1000, MIB, MIB + 1, 3 * MIB]


def pattern(size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return (np.arange(size, dtype=np.uint32) * 7 % 251).astype(np.uint8)


@pytest.mark.parametrize("size", SIZES)
async def test_copies_of_every_kind_carry_the_bytes(size: int) -> None:
    async with Rig().open() as device, device.create_stream() as stream:
        first, second = device.allocate(size), device.allocate(size)
        pinned = device.allocate_pinned(size)
        data, out = pattern(size), np.zeros(size, np.uint8)
        kinds = [
            stream.memcpy(first, data).kind,
            stream.memcpy(second, first).kind,
            stream.memcpy(pinned, second).kind,
            stream.memcpy(out, pinned).kind,
        ]
        await stream.sync()
        assert kinds == ["h2d", "d2d", "d2h", "h2h"]
        assert np.array_equal(out, data)
        assert np.array_equal(np.asarray(pinned), data)


@pytest.mark.parametrize("size", SIZES)
async def test_memset_fills_exactly_what_is_asked_for(size: int) -> None:
    async with Rig().open() as device, device.create_stream() as stream:
        buffer = device.allocate(size + 2)
        stream.memset(buffer, 1)
        stream.memset(buffer.handle + 1, 255, size)
        out = np.zeros(size + 2, np.uint8)
        await stream.memcpy(out, buffer)
        assert (out[0], out[-1]) == (1, 1)
        assert (out[1:-1] == 255).all()


@pytest.mark.parametrize(
    "source",
    [
        b"abcdefgh",
        bytearray(b"abcdefgh"),
        memoryview(b"xabcdefgh")[1:],
        np.frombuffer(b"abcdefgh", np.float64),
        np.frombuffer(b"abcdefgh", np.float16).reshape(2, 2),
        np.frombuffer(b"abcdefgh", [("a", "<u4"), ("b", ">u2"), ("c", "<i2")]),
        np.frombuffer(b"abcdefgh", ">f4"),
    ],
    ids=["bytes", "bytearray", "memoryview", "float64", "float16-2d", "records", "big-endian"],
)
async def test_any_contiguous_buffer_is_a_source(source: object) -> None:
    rig = Rig()
    async with rig.open() as device, device.create_stream() as stream:
        buffer, out = device.allocate(8), bytearray(8)
        await stream.memcpy(buffer, source)
        await stream.memcpy(out, buffer)
        assert out == b"abcdefgh"
        kernel = await load(device)
        stream.memset(buffer, 0)
        stream.launch(kernel, ONE_THREAD)
        stream.memcpy(buffer, source)  # staged
        stream.memcpy(buffer, source, 4)
        op = stream.memcpy(out, buffer)
        rig.executor.end()
        await op
        assert out == b"abcdefgh"


async def test_records_are_a_destination() -> None:
    async with Rig().open() as device, device.create_stream() as stream:
        buffer = device.allocate(8)
        out = np.zeros(1, [("a", "<u4"), ("b", ">u2"), ("c", "<i2")])
        stream.memcpy(buffer, b"abcdefgh")
        await stream.memcpy(out, buffer)
        assert out.tobytes() == b"abcdefgh"


async def test_addresses_with_a_size_name_parts_of_buffers() -> None:
    async with Rig().open() as device, device.create_stream() as stream:
        buffer, out = device.allocate(16), bytearray(16)
        stream.memset(buffer, 0)
        stream.memcpy(buffer.handle + 4, b"abcdefgh", 3)
        stream.memcpy(buffer.handle + 12, buffer.handle + 4, 3)
        await stream.memcpy(out, buffer)
        assert out == b"\0\0\0\0abc\0\0\0\0\0abc\0"


async def test_size_defaults_to_the_host_end() -> None:
    async with Rig().open() as device, device.create_stream() as stream:
        large, small = device.allocate(16), device.allocate(8)
        assert stream.memcpy(large, b"abcd").size == 4
        assert stream.memcpy(bytearray(2), large).size == 2
        assert stream.memcpy(large, small).size == 8
        assert stream.memcpy(bytearray(8), b"abcd").size == 4
        assert stream.memcpy(large, b"").size == 0


async def test_size_defaults_to_the_end_that_is_no_address() -> None:
    async with Rig().open() as device, device.create_stream() as stream:
        buffer, pinned, out = device.allocate(16), device.allocate_pinned(8), bytearray(4)
        stream.memset(buffer, 1)
        assert stream.memcpy(buffer.handle + 2, b"abcdef").size == 6
        assert stream.memcpy(out, buffer.handle + 2).size == 4
        assert stream.memcpy(pinned, buffer.handle).size == 8
        assert stream.memcpy(buffer.handle + 8, pinned).size == 8
        assert stream.memcpy(pinned.handle, b"").size == 0
        await stream.sync()
        assert out == b"abcd"
        assert bytes(pinned) == b"\1\1abcdef"
        address = buffer.handle + 14
        with pytest.raises(
            zc.CudaError,
            match=rf"^cudaErrorInvalidValue \(1\): memcpy source: 4 bytes at {address:#x} run 2 bytes past the end of"
            rf" the 16-byte allocation at {buffer.handle:#x}; copy at most 2 bytes$",
        ):
            stream.memcpy(out, address)
        for arguments in ((address, buffer.handle), (address, pinned.handle)):
            with pytest.raises(
                TypeError,
                match=rf"^memcpy destination is the bare address {address:#x}, which has no size; pass size=<bytes>$",
            ):
                stream.memcpy(*arguments)


async def test_overlapping_copy_moves_like_memmove() -> None:
    size = 2 * MIB
    async with Rig().open() as device, device.create_stream() as stream:
        buffer, out, data = device.allocate(size + 1), np.zeros(size, np.uint8), pattern(size)
        stream.memcpy(buffer, data)
        stream.memcpy(buffer.handle + 1, buffer, size)
        await stream.memcpy(out, buffer.handle + 1, size)
        assert np.array_equal(out, data)


@pytest.mark.parametrize("size", [4, 64 * 1024, 2 * MIB])
async def test_pageable_source_may_be_reused_when_the_call_returns(size: int) -> None:
    rig = Rig()
    async with rig.open() as device, device.create_stream() as stream:
        kernel = await load(device)
        buffer, out = device.allocate(size), bytearray(size)
        for is_busy in (False, True):
            source = bytearray(b"a" * size)
            if is_busy:
                stream.launch(kernel, ONE_THREAD)
            stream.memcpy(buffer, source)
            source[:] = b"b" * size
            if is_busy:
                rig.executor.end()
            await stream.memcpy(out, buffer)
            assert out == b"a" * size


async def test_pinned_source_is_read_in_stream_order_also_through_numpy() -> None:
    rig = Rig()
    async with rig.open() as device, device.create_stream() as stream:
        kernel = await load(device)
        pinned = device.allocate_pinned(4)
        array = np.asarray(pinned)
        buffer, out = device.allocate(8), bytearray(8)
        array[:] = 1
        stream.launch(kernel, ONE_THREAD)
        stream.memcpy(buffer, pinned)
        stream.memcpy(buffer.handle + 4, array, 4)
        array[:] = 2
        rig.executor.end()
        await stream.memcpy(out, buffer)
        assert out == b"\2" * 8


async def test_pinned_memory_has_one_address_and_outlives_everything_while_viewed() -> None:
    async with Rig().open() as device:
        start = device.memory_info().pinned_used_bytes
        pinned = device.allocate_pinned(100)
        array = np.asarray(pinned)
        assert array.ctypes.data == pinned.handle
        assert array.nbytes == len(pinned.view()) == 100
        array[:] = 5
        pinned.close()
        with pytest.raises(anyio.ClosedResourceError, match=r"^<PinnedBuffer 100 bytes at 0x[0-9a-f]+, device 0> is"):
            pinned.view()
        assert device.memory_info().pinned_used_bytes > start
        part = array[50:]
        del array
        gc.collect()
        assert device.memory_info().pinned_used_bytes > start
        assert (part == 5).all()
        del part
        gc.collect()
        assert device.memory_info().pinned_used_bytes == start
        kept = np.asarray(device.allocate_pinned(8))
    kept[:] = 7
    assert (kept == 7).all()


async def test_a_closed_buffer_stays_until_its_operations_end() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device, "saxpy")
        start = device.memory_info().used_bytes
        stream = device.create_stream()
        x, y = device.allocate(1 << 20), device.allocate(1 << 20)
        op = stream.launch(kernel, ONE_THREAD, 0, 0.0, x, y)
        x.close()
        x.close()
        y.close()
        assert device.memory_info().used_bytes == start + (2 << 20)
        with pytest.raises(
            anyio.ClosedResourceError, match=r"^<Buffer 1048576 bytes at 0x[0-9a-f]+, device 0> is closed; allocate"
        ):
            stream.memset(x, 0)
        with pytest.raises(anyio.ClosedResourceError, match=r"^<Buffer 1048576"):
            stream.launch(kernel, ONE_THREAD, 0, 0.0, device.allocate(1), y)
        await anyio.wait_all_tasks_blocked()
        rig.executor.end()
        await op
        assert device.memory_info().used_bytes == start


async def test_buffers_give_their_memory_back_with_a_block_or_when_collected() -> None:
    async with Rig().open() as device:
        start = device.memory_info().used_bytes
        with device.allocate(1000) as buffer:
            assert device.memory_info().used_bytes == start + 1024
            assert buffer.size == len(buffer) == 1000
        assert buffer.is_closed
        assert device.memory_info().used_bytes == start
        dropped = device.allocate(1000)
        del dropped
        gc.collect()
        assert device.memory_info().used_bytes == start


async def test_free_and_find_by_address() -> None:
    async with Rig().open() as device:
        buffer, pinned = device.allocate(1000), device.allocate_pinned(10)
        assert device.find_buffer(buffer.handle + 999) is buffer
        assert device.find_buffer(buffer.handle + 1000) is None
        assert device.find_buffer(pinned.handle) is pinned
        assert device.find_buffer(12) is None
        device.free(buffer.handle)
        assert buffer.is_closed
        with pytest.raises(
            zc.CudaError,
            match=rf"^cudaErrorInvalidValue \(1\): free: no open buffer of device 0 starts at {buffer.handle:#x};",
        ):
            device.free(buffer.handle)
        device.free(pinned)
        device.free(pinned)


async def test_allocation_works_from_any_thread() -> None:
    async with Rig().open() as device:
        start = device.memory_info().used_bytes

        def churn() -> None:
            for size in range(1, 200):
                device.allocate(size).close()

        async with anyio.create_task_group() as task_group:
            for _ in range(4):
                task_group.start_soon(anyio.to_thread.run_sync, churn)
        assert device.memory_info().used_bytes == start


async def test_allocation_refusals() -> None:
    async with Rig().open(memory_bytes=4 * MIB) as device:
        with pytest.raises(
            zc.CudaError, match=r"^cudaErrorMemoryAllocation \(2\): device memory: asked for 8388608 by"
        ):
            device.allocate(8 * MIB)
        with pytest.raises(zc.CudaError, match=r"^cudaErrorInvalidValue \(1\): cannot allocate -1 bytes; pass a size"):
            device.allocate(-1)
        with pytest.raises(TypeError, match=r"^an allocation's size is a number of bytes \(int\), got float$"):
            device.allocate(1.5)  # type: ignore[arg-type]
        empty = device.allocate(0)
        assert (empty.handle, empty.size) == (0, 0)
        await device.create_stream().memset(empty, 0)
        assert device.allocate_pinned(0).view().nbytes == 0


async def test_copy_refusals_say_what_where_and_how_to_fix_it() -> None:
    async with Rig().open() as device, Rig().open() as other:
        stream = device.create_stream()
        buffer = device.allocate(1000)
        address = buffer.handle
        name = f"<Buffer 1000 bytes at {address:#x}, device 0>"
        cases: list[tuple[tuple[Any, ...], str]] = [
            (
                (buffer, bytes(1004)),
                f"memcpy destination: 1004 bytes run 4 bytes past the end of {name};"
                " pass size=... of at most 1000 bytes, or a larger destination",
            ),
            (
                (bytearray(4), buffer, 5),
                "memcpy destination: 5 bytes run 1 bytes past the end of the 4-byte host object;"
                " pass size=... of at most 4 bytes, or a larger destination",
            ),
            (
                (buffer, b"abcd", 8),
                "memcpy source: 8 bytes run 4 bytes past the end of the 4-byte host object;"
                " pass size=... of at most 4 bytes, or a larger source",
            ),
            (
                (address + 996, b"abcdefgh", 8),
                f"memcpy destination: 8 bytes at {address + 996:#x} run 4 bytes past the end of the 1000-byte"
                f" allocation at {address:#x}; copy at most 4 bytes",
            ),
            (
                (16, b"abcd", 4),
                "memcpy destination: 0x10 is in no allocation of device 0; pass a Buffer, an address inside one,"
                " or host memory as a buffer object",
            ),
            ((buffer, b"abcd", -1), "memcpy size must be at least 0 bytes, got -1"),
            (
                (b"abcd", buffer),
                "memcpy destination: the bytes is read-only; pass a bytearray or a writable array",
            ),
            (
                (buffer, np.zeros((4, 4), np.uint8)[:, :2]),
                "memcpy source: the ndarray is not C-contiguous (shape (4, 2), strides (4, 1));"
                " pass numpy.ascontiguousarray(...)",
            ),
            (
                (np.zeros((4, 4), np.uint8).T[1:], buffer),
                "memcpy destination: the ndarray is not C-contiguous (shape (3, 4), strides (1, 4));"
                " copy into a contiguous array first",
            ),
        ]
        for arguments, message in cases:
            with pytest.raises(zc.CudaError, match=rf"^cudaErrorInvalidValue \(1\): {re.escape(message)}$"):
                stream.memcpy(*arguments)
        with pytest.raises(zc.CudaError, match=r"^cudaErrorInvalidValue \(1\): memcpy source: <Buffer 4 bytes at "):
            stream.memcpy(buffer, other.allocate(4))
        with pytest.raises(
            TypeError,
            match=r"^memcpy source must be a Buffer, an address \(int\) or an object with the buffer protocol, got ",
        ):
            stream.memcpy(buffer, [1, 2])
        with pytest.raises(TypeError, match=r"^memcpy size is a number of bytes \(int\), got float$"):
            stream.memcpy(buffer, b"abcd", 4.0)  # type: ignore[arg-type]
        assert stream.is_done
        await stream.sync()


async def test_memset_refusals() -> None:
    async with Rig().open() as device:
        stream = device.create_stream()
        buffer = device.allocate(10)
        with pytest.raises(
            zc.CudaError, match=r"^cudaErrorInvalidValue \(1\): memset value must be 0 to 255 \(one byt"
        ):
            stream.memset(buffer, 256)
        with pytest.raises(TypeError, match=r"^memset value is an int from 0 to 255, got bytes$"):
            stream.memset(buffer, b"a")  # type: ignore[arg-type]
        with pytest.raises(
            zc.CudaError, match=r"^cudaErrorInvalidValue \(1\): memset destination: 11 bytes run 1 bytes"
        ):
            stream.memset(buffer, 0, 11)
        with pytest.raises(TypeError, match=r"^memset destination is the bare address 0x[0-9a-f]+, which has no size;"):
            stream.memset(buffer.handle, 0)
        with pytest.raises(
            TypeError, match=r"^memset destination is a Buffer or a device address \(int\), got bytearray"
        ):
            stream.memset(bytearray(4), 0)  # type: ignore[arg-type]


async def test_destination_is_held_in_place_while_a_copy_is_pending() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        stream = device.create_stream()
        stream.launch(kernel, ONE_THREAD)
        out = bytearray(4)
        op = stream.memcpy(out, device.allocate(4))
        with pytest.raises(BufferError):
            out.clear()
        rig.executor.end()
        await op
        out.clear()


async def test_closing_a_buffer_twice_spares_whoever_has_its_address_now() -> None:
    async with Rig().open() as device:
        for allocate in (device.allocate, device.allocate_pinned):
            old = allocate(4096)
            old.close()
            new = allocate(4096)
            assert new.handle == old.handle
            old.close()
            assert device.find_buffer(new.handle) is new
            await device.create_stream().memset(new, 7)
            new.close()
            assert device.memory_info().used_bytes == device.memory_info().pinned_used_bytes == 0


async def test_what_the_runtime_itself_allocated_is_no_target() -> None:
    async with Rig().open() as device:
        inner = device.context.arena.host_heap.allocate(4096)
        match = rf"^cudaErrorInvalidValue \(1\): memcpy destination: {inner:#x} is in no allocation of device 0; "
        with pytest.raises(zc.CudaError, match=match):
            device.create_stream().memcpy(inner, bytes(16), 16)
        device.context.arena.host_heap.free(inner)


async def test_a_written_gigabyte_goes_back_off_the_event_loop() -> None:
    size = 256 << 20
    async with Rig().open() as device:
        arena = device.context.arena
        start = arena.resident_bytes
        stream, buffer = device.create_stream(), device.allocate(size)
        await stream.memset(buffer, 1)
        assert arena.resident_bytes >= start + size
        buffer.close()
        assert device.memory_info().used_bytes == 0
        assert arena.resident_bytes <= start + (64 << 10)


async def test_numpys_integers_are_sizes_and_shapes() -> None:
    async with Rig().open() as device:
        buffer = device.allocate(np.int64(64))
        stream = device.create_stream()
        stream.memset(buffer, np.uint8(7), np.int32(32))
        out = bytearray(64)
        await stream.memcpy(out, buffer, np.uint64(48))
        assert out == bytes([7]) * 32 + bytes(32)
        sizes: tuple[Any, ...] = (np.int64(3), (np.int32(4), np.uint8(2)), np.int64(16))
        assert zc.LaunchConfig(*sizes) == zc.LaunchConfig(3, (4, 2), 16)


async def test_the_host_is_told_how_to_see_device_memory() -> None:
    async with Rig().open() as device:
        buffer = device.allocate(64)
        match = (
            rf"^<Buffer 64 bytes at {buffer.handle:#x}, device 0> is device memory, which the host does not see;"
            r" copy it: await stream\.memcpy\(array, buffer\)$"
        )
        for look in (np.asarray, bytes):
            with pytest.raises(TypeError, match=match):
                look(buffer)
        pinned = device.allocate_pinned(4)
        pinned.view()[:] = b"abcd"
        assert bytes(pinned) == b"abcd"


async def test_memory_info_counts_what_the_user_has() -> None:
    async with zc.open_device(0, executor="stub") as device:
        arena = device.context.arena
        inner = arena.host_heap.allocate(1000)  # as the pool does for its launches
        assert device.memory_info().pinned_used_bytes == 0
        kept = [device.allocate_pinned(300), device.allocate(1)]
        assert (device.memory_info().pinned_used_bytes, device.memory_info().used_bytes) == (512, 256)
        for buffer in kept:
            buffer.close()
        device.free(0)
        assert (device.memory_info().pinned_used_bytes, device.memory_info().used_bytes) == (0, 0)
        arena.host_heap.free(inner)
