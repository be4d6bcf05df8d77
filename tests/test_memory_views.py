"""Views: parts of buffers, used as buffers, and refused as soon as their buffer is closed."""

from __future__ import annotations

import gc
import re
import struct
from collections.abc import Callable
from typing import Any

import anyio
import numpy as np
import pytest
from runtime_support import ONE_THREAD, Rig, load

import zcuda_async as zc

pytestmark = pytest.mark.anyio

MIB = 1 << 20


@pytest.mark.parametrize(
    ("part", "start", "size"),
    [
        (slice(None), 0, 16),
        (slice(4, 12), 4, 8),
        (slice(4, None), 4, 12),
        (slice(None, 12), 0, 12),
        (slice(-4, None), 12, 4),
        (slice(-16, -12), 0, 4),
        (slice(3, 4, 1), 3, 1),
        (slice(5, 5), 5, 0),
        (slice(16, None), 16, 0),
        (slice(np.int64(2), np.uint8(3)), 2, 1),
    ],
)
async def test_a_slice_is_what_python_would_cut(part: slice, start: int, size: int) -> None:
    async with Rig().open() as device:
        for buffer in (device.allocate(16), device.allocate_pinned(16)):
            view = buffer[part]
            assert (view.handle, view.size, len(view)) == (buffer.handle + start, size, size)
            assert view.heap is buffer.heap
            assert not view.is_closed
            assert isinstance(view, zc.PinnedBuffer) == isinstance(buffer, zc.PinnedBuffer)
            assert repr(view) == f"<{type(buffer).__name__}View {size} bytes at {view.handle:#x}, device 0>"


async def test_slices_that_do_not_fit_are_refused_not_cut_short() -> None:
    async with Rig().open() as device:
        buffer = device.allocate(16)
        name = f"<Buffer 16 bytes at {buffer.handle:#x}, device 0>"
        cases: list[tuple[Any, type[Exception], str]] = [
            (slice(4, 17), IndexError, f"a part of {name} cannot stop at 17, outside its 16 bytes; pass -16 to 16"),
            (slice(17, None), IndexError, f"a part of {name} cannot start at 17, outside its 16 bytes; pass -16 to 16"),
            (slice(-17, 4), IndexError, f"a part of {name} cannot start at -17, outside its 16 bytes; pass -16 to 16"),
            (
                slice(8, -9),
                IndexError,
                f"a part of {name} cannot stop at byte 7, before its start 8; swap the two",
            ),
            (slice(0, 8, 2), ValueError, f"a part of {name} is contiguous, got step 2; leave the step out"),
            (slice(None, None, -1), ValueError, f"a part of {name} is contiguous, got step -1; leave the step out"),
            (3, TypeError, f"{name} is cut by a slice of bytes, got int; write buffer[start:stop]"),
            (
                slice(0, 8.0),
                TypeError,
                f"a part of {name} has a stop in bytes (int), got float; convert it with int()",
            ),
        ]
        for part, error, message in cases:
            with pytest.raises(error, match=f"^{re.escape(message)}$"):
                buffer[part]
        for consume in (list, bytearray):
            with pytest.raises(TypeError, match=rf"^{re.escape(name)} is cut by a slice of bytes, got int; write "):
                consume(buffer)  # type: ignore[call-overload]


@pytest.mark.parametrize("size", [16, 3 * MIB])
async def test_views_are_both_ends_of_copies_and_of_fills(size: int) -> None:
    async with Rig().open() as device, device.create_stream() as stream:
        buffer, pinned = device.allocate(size), device.allocate_pinned(size)
        quarter = size // 4
        stream.memset(buffer, 0)
        stream.memset(buffer[quarter : 2 * quarter], 1)
        stream.memcpy(buffer[-quarter:], bytes([2]) * quarter)
        stream.memset(buffer[2 * quarter :][:quarter], 3)
        stream.memcpy(pinned[quarter:], buffer[quarter:])
        stream.memcpy(pinned[:quarter], pinned[-quarter:])
        stream.memset(buffer[size:], 9)  # nothing
        out = bytearray(size)
        await stream.memcpy(out, pinned)
        assert out == bytes(value for value in (2, 1, 3, 2) for _ in range(quarter))


async def test_the_sizes_of_views_are_what_copies_default_to_and_are_held_to() -> None:
    async with Rig().open() as device, device.create_stream() as stream:
        buffer = device.allocate(16)
        assert stream.memcpy(buffer, buffer[4:10]).size == 6
        assert stream.memcpy(buffer[4:10], b"abcd").size == 4
        view = buffer[4:8]
        name = re.escape(f"<BufferView 4 bytes at {view.handle:#x}, device 0>")
        with pytest.raises(
            zc.CudaError,
            match=rf"^cudaErrorInvalidValue \(1\): memcpy destination: 8 bytes run 4 bytes past the end of {name};"
            r" pass size=\.\.\. of at most 4 bytes, or a larger destination$",
        ):
            stream.memcpy(view, bytes(8))
        with pytest.raises(
            zc.CudaError, match=rf"^cudaErrorInvalidValue \(1\): memset destination: 5 bytes run 1 bytes .* {name};"
        ):
            stream.memset(view, 0, 5)
        with pytest.raises(IndexError, match=rf"^a part of {name} cannot stop at 5, outside its 4 bytes; pass -4 to 4"):
            view[:5]


async def test_a_view_is_an_argument_of_a_launch_and_keeps_its_buffer_until_the_end() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device, "saxpy")
        start = device.memory_info().used_bytes
        x, y = device.allocate(1024), device.allocate(1024)
        op = device.create_stream().launch(kernel, ONE_THREAD, 0, 0.0, x[256:], y[-4:])
        expected = struct.pack("<IfQQ", 0, 0.0, x.handle + 256, y.handle + 1020)
        x.close()
        del y
        gc.collect()
        assert device.memory_info().used_bytes == start + 2048
        await anyio.wait_all_tasks_blocked()
        assert rig.executor.end().params == expected
        await op
        del op
        gc.collect()
        assert device.memory_info().used_bytes == start


async def test_a_view_keeps_its_buffer_alive() -> None:
    async with Rig().open() as device, device.create_stream() as stream:
        view = device.allocate(1024)[256:][:8]
        gc.collect()
        assert device.memory_info().used_bytes == 1024
        found = device.find_buffer(view.handle)
        assert found is not None
        assert (found.handle, found.size) == (view.handle - 256, 1024)
        del found
        await stream.memset(view, 0)
        del view
        gc.collect()
        assert device.memory_info().used_bytes == 0


@pytest.mark.parametrize("is_pinned", [False, True])
async def test_views_of_a_closed_buffer_are_refused_everywhere(is_pinned: bool) -> None:
    async with Rig().open() as device, device.create_stream() as stream:
        kernel = await load(device, "saxpy")
        start = device.memory_info()
        allocate = device.allocate_pinned if is_pinned else device.allocate
        buffer, other = allocate(16), allocate(16)
        view = buffer[4:8]
        buffer.close()
        assert view.is_closed
        uses: list[Callable[[], object]] = [
            lambda: stream.memcpy(view, other, 4),
            lambda: stream.memcpy(other, view),
            lambda: stream.memset(view, 0),
            lambda: stream.launch(kernel, ONE_THREAD, 0, 0.0, other, view),
            lambda: view[1:2],
        ]
        if isinstance(view, zc.PinnedBuffer):
            uses += [view.view, lambda: bytes(view)]
        for use in uses:
            match = f"^{re.escape(f'{view!r} is a view of {buffer!r}, which is closed; allocate a new one')}$"
            with pytest.raises(anyio.ClosedResourceError, match=match):
                use()
        with pytest.raises(anyio.ClosedResourceError, match=f"^{re.escape(repr(buffer))} is closed; allocate a new o"):
            buffer[:]
        other.close()
        assert device.memory_info() == start


async def test_a_view_is_not_closed_for_its_buffer() -> None:
    async with Rig().open() as device:
        buffer = device.allocate(16)
        view = buffer[:8]
        message = (
            r"^cudaErrorInvalidValue \(1\): "
            + re.escape(f"{view!r} is a view and owns no memory; close {buffer!r} instead")
            + "$"
        )
        with pytest.raises(zc.CudaError, match=message):
            view.close()
        with pytest.raises(zc.CudaError, match=message):
            device.free(view)
        with pytest.raises(zc.CudaError, match=message), view:
            pass
        assert not buffer.is_closed


async def test_a_view_of_another_device_is_refused() -> None:
    async with Rig().open() as device, Rig().open() as other:
        with pytest.raises(
            zc.CudaError, match=r"^cudaErrorInvalidValue \(1\): memcpy source: <BufferView 4 bytes at .* belongs to"
        ):
            device.create_stream().memcpy(bytearray(4), other.allocate(8)[4:])


async def test_the_host_sees_pinned_views_and_no_others() -> None:
    async with Rig().open() as device, device.create_stream() as stream:
        pinned = device.allocate_pinned(16)
        view = pinned[4:12][2:]
        array = np.asarray(view)
        assert (array.ctypes.data, array.nbytes) == (pinned.handle + 6, 6)
        assert np.asarray(pinned[16:]).nbytes == 0
        await stream.memset(pinned, 1)
        array[:] = 5
        view.view()[0] = 7
        assert bytes(view) == b"\7\5\5\5\5\5"
        assert bytes(pinned) == b"\1" * 6 + b"\7\5\5\5\5\5" + b"\1" * 4
        pinned.close()
        del pinned, view
        gc.collect()
        assert device.memory_info().pinned_used_bytes == 256
        assert array[0] == 7
        del array
        gc.collect()
        assert device.memory_info().pinned_used_bytes == 0
        part = device.allocate(16)[:4]
        match = rf"^<BufferView 4 bytes at {part.handle:#x}, device 0> is device memory, which the host does not see;"
        with pytest.raises(TypeError, match=match):
            np.asarray(part)
