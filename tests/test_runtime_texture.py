"""Textures and surfaces of a device: what is made, refused, kept alive, and what their faults become."""

from __future__ import annotations

import gc
from typing import Any

import anyio
import numpy as np
import pytest

import zcuda_async as zc

ONE_THREAD = zc.LaunchConfig(1, 1)

pytestmark = [pytest.mark.anyio, pytest.mark.pool]

FLOAT = zc.ChannelFormat.of("float32")
BYTE = zc.ChannelFormat.of(np.uint8, 4)
PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry read(.param .u64 t, .param .u64 out, .param .f32 x) {
.reg .b64 %rd<3>; .reg .f32 %f<6>;
ld.param.u64 %rd1, [t]; ld.param.u64 %rd2, [out]; ld.param.f32 %f5, [x];
tex.1d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1, {%f5}];
st.global.f32 [%rd2], %f1;
ret;
}
.visible .entry write(.param .u64 s, .param .u32 x) {
.reg .b64 %rd<3>; .reg .b32 %r<3>;
ld.param.u64 %rd1, [s]; ld.param.u32 %r1, [x];
sust.b.1d.b32.trap [%rd1, {%r1}], %r1;
ret;
}
"""


async def test_textures_of_arrays_and_buffers_read_what_was_copied() -> None:
    async with zc.open_device(0, workers=1) as device, device.create_stream() as stream:
        kernel = await device.load_ptx(PTX).get_kernel("read")
        data = np.arange(8, dtype=np.float32)
        array, buffer, out = device.create_array(FLOAT, 8), device.allocate(32), device.allocate(4)
        await stream.memcpy(array.view(), data)
        await stream.memcpy(buffer, data)
        options = zc.TextureOptions(filter_mode=zc.FilterMode.LINEAR)
        textures = [
            device.create_texture(array, options),
            device.create_texture(buffer, options, format=FLOAT, size=(8, 1)),
        ]
        for texture in textures:
            stream.launch(kernel, ONE_THREAD, texture, out, 3.0)
            got = np.zeros(1, np.float32)
            await stream.memcpy(got, out)
            assert got[0] == 2.5


async def test_a_texture_keeps_its_array_and_a_launch_keeps_both() -> None:
    async with zc.open_device(0, workers=1) as device, device.create_stream() as stream:
        kernel = await device.load_ptx(PTX).get_kernel("read")
        before = device.memory_info().used_bytes
        out = device.allocate(4)
        array = device.create_array(FLOAT, 8)
        await stream.memcpy(array.view(), np.full(8, 7, np.float32))
        texture = device.create_texture(array)
        op = stream.launch(kernel, ONE_THREAD, texture, out, 1.0)
        array.close()
        texture.close()
        with pytest.raises(anyio.ClosedResourceError):
            stream.launch(kernel, ONE_THREAD, texture, out, 1.0)
        await op
        got = np.zeros(1, np.float32)
        await stream.memcpy(got, out)
        assert got[0] == 7
        out.close()
        del array, texture, op, out
        gc.collect()
        assert device.memory_info().used_bytes == before


async def test_handles_are_not_memory() -> None:
    async with zc.open_device(0, workers=1) as device, device.create_stream() as stream:
        array = device.create_array(BYTE, 4, 4, surface=True)
        for handle in (device.create_texture(array), device.create_surface(array)):
            with pytest.raises(TypeError, match="is a handle, not memory"):
                stream.memcpy(handle, bytes(16))
            with pytest.raises(TypeError, match="is a handle, not memory"):
                stream.memset(handle, 0)
            with pytest.raises(TypeError, match="is a handle, not memory"):
                handle[:16]
            with pytest.raises(TypeError, match="takes an Array or a Buffer"):
                device.create_texture(handle)


@pytest.mark.parametrize(
    ("place", "status"),
    [
        (64, zc.Status.cudaErrorLaunchFailure),
        (-4, zc.Status.cudaErrorLaunchFailure),
        (6, zc.Status.cudaErrorMisalignedAddress),
    ],
)
async def test_surface_faults_are_sticky_errors(place: int, status: zc.Status) -> None:
    async with zc.open_device(0, workers=1) as device, device.create_stream() as stream:
        kernel = await device.load_ptx(PTX).get_kernel("write")
        surface = device.create_surface(device.create_array(FLOAT, 16, surface=True))
        with pytest.raises(zc.CudaError) as caught:
            await stream.launch(kernel, ONE_THREAD, surface, place)
        assert caught.value.code is status
        assert device.fault is not None
        await device.reset()
        await stream.launch(kernel, ONE_THREAD, surface, 8)


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((0,), {}),
        ((-1,), {}),
        ((1 << 20,), {}),
        ((4, 0, 4), {}),
        ((4, 4, 4), {"layers": 2}),
        ((4, 5), {"layers": 6, "is_cubemap": True}),
        ((4, 4), {"layers": 5, "is_cubemap": True}),
        ((4, 4), {"levels": 4}),
        ((4, 4), {"levels": 0}),
        ((4, 4), {"layers": 1 << 20}),
    ],
)
async def test_arrays_that_there_are_not_are_refused(sizes: tuple[int, ...], options: dict[str, Any]) -> None:
    async with zc.open_device(0, workers=1) as device:
        with pytest.raises(zc.CudaError) as caught:
            device.create_array(BYTE, *sizes, **options)
        assert caught.value.code is zc.Status.cudaErrorInvalidValue


@pytest.mark.parametrize(
    ("kind", "bits", "channels"), [("float", 8, 1), ("unsigned", 64, 1), ("signed", 8, 3), ("color", 8, 4)]
)
def test_formats_that_there_are_not_are_refused(kind: str, bits: int, channels: int) -> None:
    with pytest.raises(zc.CudaError) as caught:
        zc.ChannelFormat(kind, bits, channels)
    assert caught.value.code is zc.Status.cudaErrorInvalidChannelDescriptor


def test_formats_are_named_by_dtypes() -> None:
    assert zc.ChannelFormat.of(np.dtype("int16"), 2) == zc.ChannelFormat("signed", 16, 2)
    assert zc.ChannelFormat.of(np.float16) == zc.ChannelFormat("float", 16)
    assert BYTE.texel_bytes == 4
    with pytest.raises(TypeError, match="numpy dtype"):
        zc.ChannelFormat.of("complex64")


@pytest.mark.parametrize(
    ("dtype", "options", "status"),
    [
        ("uint8", {"filter_mode": zc.FilterMode.LINEAR}, zc.Status.cudaErrorInvalidFilterSetting),
        ("int32", {"mipmap_filter_mode": zc.FilterMode.LINEAR}, zc.Status.cudaErrorInvalidFilterSetting),
        ("uint32", {"read_mode": zc.ReadMode.NORMALIZED_FLOAT}, zc.Status.cudaErrorInvalidNormSetting),
        ("uint8", {"srgb": True}, zc.Status.cudaErrorInvalidValue),
        ("uint8", {"border_color": (float("nan"),) * 4}, zc.Status.cudaErrorInvalidValue),
    ],
)
async def test_options_that_a_format_does_not_have_are_refused(
    dtype: str, options: dict[str, Any], status: zc.Status
) -> None:
    async with zc.open_device(0, workers=1) as device:
        array = device.create_array(zc.ChannelFormat.of(dtype), 4, 4)
        before = device.memory_info().used_bytes
        with pytest.raises(zc.CudaError) as caught:
            device.create_texture(array, zc.TextureOptions(**options))
        assert caught.value.code is status
        assert device.memory_info().used_bytes == before


async def test_textures_of_buffers_must_fit() -> None:
    async with zc.open_device(0, workers=1) as device:
        buffer = device.allocate(64)
        assert device.create_texture(buffer, format=FLOAT).resource is buffer
        device.create_texture(buffer[16:], format=FLOAT, size=12)
        device.create_texture(buffer, format=FLOAT, size=(3, 4), pitch_bytes=16)
        for size, pitch in ((17, 0), (0, 0), ((4, 5), 0), ((4, 2), 8), ((4, 2), 18), ((4, 4), 20)):
            with pytest.raises(zc.CudaError) as caught:
                device.create_texture(buffer, format=FLOAT, size=size, pitch_bytes=pitch)
            assert caught.value.code is zc.Status.cudaErrorInvalidValue
        with pytest.raises(TypeError, match="format"):
            device.create_texture(buffer)
        with pytest.raises(TypeError, match="its own format"):
            device.create_texture(device.create_array(FLOAT, 4), format=FLOAT)
        with pytest.raises(zc.CudaError, match="no filter"):
            device.create_texture(buffer, zc.TextureOptions(filter_mode=zc.FilterMode.LINEAR), format=FLOAT)


async def test_surfaces_need_arrays_that_were_made_for_them() -> None:
    async with zc.open_device(0, workers=1) as device:
        with pytest.raises(zc.CudaError, match="surface=True"):
            device.create_surface(device.create_array(FLOAT, 4))
        with pytest.raises(zc.CudaError, match="levels 0 to 1"):
            device.create_surface(device.create_array(FLOAT, 4, 4, levels=2, surface=True), level=2)
        with pytest.raises(TypeError, match="takes an Array"):
            device.create_surface(device.allocate(4))  # type: ignore[arg-type]
