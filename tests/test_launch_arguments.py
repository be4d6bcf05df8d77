"""Launch shapes and arguments: what is accepted, what bytes come out, and exact refusals."""

from __future__ import annotations

import ctypes
import re
import struct
from typing import Any

import numpy as np
import pytest
from runtime_support import ONE_THREAD, Rig, load, parameter

import zcuda_async as zc
from zcuda_async.jit.info import KernelInfo
from zcuda_async.launch import ArgumentPacker


def packer(kind: str, size: int, count: int = 1) -> ArgumentPacker:
    return ArgumentPacker(KernelInfo("k", (parameter("p", kind, size, 0, count),), size, 0))


class Pair(ctypes.Structure):
    _fields_ = (("x", ctypes.c_int), ("y", ctypes.c_float))


ACCEPTED: list[tuple[str, int, object, bytes]] = [
    ("u32", 4, 5, b"\5\0\0\0"),
    ("u32", 4, -1, b"\xff" * 4),
    ("s32", 4, 2**32 - 1, b"\xff" * 4),
    ("u32", 4, True, b"\1\0\0\0"),
    ("u32", 4, np.uint32(7), b"\7\0\0\0"),
    ("u32", 4, np.int32(-2), b"\xfe\xff\xff\xff"),
    ("u32", 4, ctypes.c_int(-2), b"\xfe\xff\xff\xff"),
    ("u64", 8, 2**64 - 1, b"\xff" * 8),
    ("u64", 8, ctypes.c_void_p(0x1234), struct.pack("<Q", 0x1234)),
    ("u64", 8, np.int64(-1), b"\xff" * 8),
    ("u16", 2, 65535, b"\xff\xff"),
    ("s8", 1, -128, b"\x80"),
    ("u8", 1, np.bool_(True), b"\1"),
    ("u8", 1, ctypes.c_bool(True), b"\1"),
    ("f32", 4, 1.5, struct.pack("<f", 1.5)),
    ("f32", 4, 0.1, struct.pack("<f", 0.1)),
    ("f32", 4, 2, struct.pack("<f", 2)),
    ("f32", 4, float("inf"), struct.pack("<f", float("inf"))),
    ("f32", 4, np.float32(0.1), struct.pack("<f", 0.1)),
    ("f32", 4, ctypes.c_float(0.5), struct.pack("<f", 0.5)),
    ("f64", 8, 0.1, struct.pack("<d", 0.1)),
    ("f64", 8, np.float64(0.1), struct.pack("<d", 0.1)),
    ("f16", 2, 0.5, struct.pack("<e", 0.5)),
    ("f16", 2, np.float16(0.5), struct.pack("<e", 0.5)),
    ("b32", 4, 3, b"\3\0\0\0"),
    ("b32", 4, 1.5, struct.pack("<f", 1.5)),
    ("b64", 8, 0.1, struct.pack("<d", 0.1)),
    ("b32", 4, np.float32(1.5), struct.pack("<f", 1.5)),
    ("b32", 4, np.uint32(9), b"\t\0\0\0"),
]


@pytest.mark.parametrize(("kind", "size", "value", "expected"), ACCEPTED)
def test_argument_becomes_exactly_these_bytes(kind: str, size: int, value: object, expected: bytes) -> None:
    assert packer(kind, size).pack((value,)) == expected


@pytest.mark.parametrize(
    "value",
    [
        struct.pack("<if", 3, 0.5),
        bytearray(struct.pack("<if", 3, 0.5)),
        Pair(3, 0.5),
        np.array([(3, 0.5)], [("x", "<i4"), ("y", "<f4")])[0],
        np.array([(3, 0.5)], [("x", "<i4"), ("y", "<f4")]),
    ],
    ids=["bytes", "bytearray", "ctypes", "record", "array"],
)
def test_struct_argument_is_any_buffer_of_its_size(value: object) -> None:
    assert packer("b8", 8, 8).pack((value,)) == struct.pack("<if", 3, 0.5)


REFUSED: list[tuple[str, int, int, object, type[Exception], str]] = [
    ("u32", 4, 1, 2**32, ValueError, "holds -2147483648 to 4294967295, got Python int 4294967296; pass a value in that"
     " range, or change the kernel's parameter type"),
    ("u32", 4, 1, -(2**31) - 1, ValueError, "holds -2147483648 to 4294967295, got Python int -2147483649; pass a value"
     " in that range, or change the kernel's parameter type"),
    ("u32", 4, 1, 1.0, TypeError, "takes an integer, got Python float; pass a Python int or numpy.uint32"),
    ("u32", 4, 1, np.float32(1), TypeError, "takes an integer, got numpy.float32; pass a Python int or numpy.uint32"),
    ("u32", 4, 1, np.int64(1), TypeError, "needs 4 bytes, got numpy.int64 (8 bytes); pass a Python int or"
     " numpy.uint32"),
    ("u32", 4, 1, ctypes.c_short(1), TypeError, "needs 4 bytes, got ctypes.c_short (2 bytes); pass a Python int or"
     " numpy.uint32"),
    ("u32", 4, 1, "5", TypeError, "takes an integer, got Python str; pass a Python int or numpy.uint32"),
    ("u32", 4, 1, None, TypeError, "takes an integer, got Python NoneType; pass a Python int or numpy.uint32"),
    ("u64", 8, 1, np.zeros(3), TypeError, "takes an integer, got numpy.ndarray; pass a Buffer: allocate one and copy"
     " the array into it with stream.memcpy"),
    ("u64", 8, 1, np.int32(1), TypeError, "needs 8 bytes, got numpy.int32 (4 bytes); pass a Buffer, a device address"
     " (int), a Python int, or numpy.uint64"),
    ("f32", 4, 1, 1e300, ValueError, "cannot hold 1e+300, which is beyond the largest f32; pass a smaller value, or"
     " float('inf')"),
    ("f32", 4, 1, 2**24 + 1, ValueError, "cannot hold Python int 16777217 exactly; pass float(16777217) to round it"),
    ("f32", 4, 1, 10**400, ValueError, f"cannot hold Python int {10**400} exactly; pass float({10**400}) to round it"),
    ("f32", 4, 1, np.float64(1), TypeError, "needs 4 bytes, got numpy.float64 (8 bytes); pass a Python float or"
     " numpy.float32"),
    ("f32", 4, 1, np.int32(1), TypeError, "takes a float, got numpy.int32; pass a Python float or numpy.float32"),
    ("f32", 4, 1, True, TypeError, "takes a float, got Python bool; pass a Python float or numpy.float32"),
    ("f64", 8, 1, 1j, TypeError, "takes a float, got Python complex; pass a Python float or numpy.float64"),
    ("b32", 4, 1, 1e300, ValueError, "cannot hold 1e+300, which is beyond the largest f32; pass a smaller value, or"
     " float('inf')"),
    ("b8", 1, 1, 1.0, TypeError, "needs 1 byte, got Python float; pass a Python int or numpy.uint8"),
    ("b8", 12, 12, b"abcd", TypeError, "needs 12 bytes, got bytes (4 bytes); pass bytes or a numpy record of"
     " exactly 12 bytes"),
    ("b8", 12, 12, 5, TypeError, "needs 12 bytes, got Python int; pass bytes or a numpy record of exactly 12 bytes"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "size", "count", "value", "error", "message"), REFUSED)
def test_wrong_argument_says_what_is_needed(
    kind: str, size: int, count: int, value: object, error: type[Exception], message: str
) -> None:
    array = f"[{count}]" if count > 1 else ""
    full = f"k argument 1 (p): .param .{kind}{array} {message}"
    with pytest.raises(error, match=f"^{re.escape(full)}$") as caught:
        packer(kind, size, count).pack((value,))
    assert type(caught.value) is error


def test_parameters_are_packed_at_their_offsets() -> None:
    info = KernelInfo(
        "k", (parameter("a", "u8", 1, 0), parameter("b", "u64", 8, 8), parameter("c", "f32", 4, 16)), 24, 0
    )
    packed = ArgumentPacker(info).pack((1, 2, 0.5))
    assert packed == struct.pack("<B7xQf4x", 1, 2, 0.5)


def test_wrong_count_shows_the_signature() -> None:
    info = KernelInfo("saxpy", (parameter("n", "u32", 4, 0), parameter("x", "u64", 8, 8)), 16, 0)
    with pytest.raises(
        TypeError,
        match=r"^saxpy takes 2 arguments \(\.param \.u32 n, \.param \.u64 x\), got 1;"
        r" pass one value per parameter after the LaunchConfig$",
    ):
        ArgumentPacker(info).pack((1,))
    with pytest.raises(TypeError, match=r"^k takes no arguments, got 2; pass only the LaunchConfig$"):
        ArgumentPacker(KernelInfo("k", (), 0, 0)).pack((1, 2))


def test_launch_config_pads_and_is_hashable() -> None:
    config = zc.LaunchConfig(grid=4, block=(8, 2))
    assert config == zc.LaunchConfig(grid=(4, 1, 1), block=(8, 2, 1), shared_bytes=0)
    assert hash(config) == hash(zc.LaunchConfig(grid=(4,), block=(8, 2, 1)))
    assert config.grid_shape == (4, 1, 1)
    assert config.block_shape == (8, 2, 1)


CONFIGS: list[tuple[Any, type[Exception], str]] = [
    ({"grid": 0, "block": 1}, zc.LaunchError, "cudaErrorInvalidConfiguration (9): LaunchConfig grid x must be 1 to"
     " 2147483647, got 0; skip the launch when there is nothing to do"),
    ({"grid": (1, 65536), "block": 1}, zc.LaunchError, "cudaErrorInvalidConfiguration (9): LaunchConfig grid y must be"
     " 1 to 65535, got 65536; change grid=(1, 65536)"),
    ({"grid": 1, "block": -2}, zc.LaunchError, "cudaErrorInvalidConfiguration (9): LaunchConfig block x must be 1 to"
     " 1024, got -2; change block=-2"),
    ({"grid": 1, "block": (1, 1, 65)}, zc.LaunchError, "cudaErrorInvalidConfiguration (9): LaunchConfig block z must be"
     " 1 to 64, got 65; change block=(1, 1, 65)"),
    ({"grid": 1, "block": (32, 33)}, zc.LaunchError, "cudaErrorInvalidConfiguration (9): LaunchConfig block (32, 33, 1)"
     " has 1056 threads, the limit is 1024; use smaller blocks and a larger grid"),
    ({"grid": True, "block": 1}, TypeError, "LaunchConfig grid is an int or a tuple of up to 3 ints, got Python bool:"
     " True"),
    ({"grid": [1], "block": 1}, TypeError, "LaunchConfig grid is an int or a tuple of up to 3 ints, got list: [1]"),
    ({"grid": 1, "block": (1, 2.0)}, TypeError, "LaunchConfig block is an int or a tuple of up to 3 ints, got Python"
     " float: (1, 2.0)"),
    ({"grid": (1, 1, 1, 1), "block": 1}, TypeError, "LaunchConfig grid has 1 to 3 dimensions, got 4: (1, 1, 1, 1)"),
    ({"grid": 1, "block": 1, "shared_bytes": -1}, zc.LaunchError, "cudaErrorInvalidValue (1): LaunchConfig shared_bytes"
     " must be at least 0, got -1"),
    ({"grid": 1, "block": 1, "shared_bytes": True}, TypeError, "LaunchConfig shared_bytes is a number of bytes (int),"
     " got Python bool"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "error", "message"), CONFIGS)
def test_launch_config_refuses(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        zc.LaunchConfig(**arguments)


@pytest.mark.anyio
async def test_launch_refuses_what_the_kernel_does_not_allow() -> None:
    async with Rig().open() as device:
        stream = device.create_stream()
        small, exact = await load(device, "small"), await device.load_ptx("").get_kernel("exact")
        invalid = r"^cudaErrorInvalidValue \(1\): "
        with pytest.raises(
            zc.LaunchError,
            match=invalid + r"small allows at most 256 threads per block \(\.maxntid\), got \(512, 1, 1\) = 512;"
            r" use smaller blocks and a larger grid$",
        ):
            stream.launch(small, zc.LaunchConfig(grid=1, block=512))
        with pytest.raises(
            zc.LaunchError,
            match=invalid + r"exact requires blocks of exactly \(8, 8, 1\) \(\.reqntid\), got \(64, 1, 1\);"
            r" pass block=\(8, 8, 1\)$",
        ):
            stream.launch(exact, zc.LaunchConfig(grid=1, block=64))
        with pytest.raises(
            zc.LaunchError,
            match=invalid + r"small may use 48128 bytes of dynamic shared memory besides its 1024 static ones,"
            r" got 50000; set kernel\.max_dynamic_shared_bytes = 50000 first$",
        ):
            stream.launch(small, zc.LaunchConfig(grid=1, block=1, shared_bytes=50000))
        with pytest.raises(
            zc.LaunchError, match=invalid + r"small may use 48128 .* use at most 100352, and set kernel"
        ):
            stream.launch(small, zc.LaunchConfig(grid=1, block=1, shared_bytes=200000))
        with pytest.raises(
            zc.LaunchError,
            match=invalid + r"small may use 0 to 100352 bytes of dynamic shared memory \(101376 less 1024 static\),"
            r" got 100353$",
        ):
            small.max_dynamic_shared_bytes = 100353
        assert stream.is_done


@pytest.mark.anyio
async def test_opting_in_allows_more_shared_memory() -> None:
    rig = Rig()
    async with rig.open() as device:
        small = await load(device, "small")
        small.max_dynamic_shared_bytes = 100352
        rig.executor.is_open = True
        await device.create_stream().launch(small, zc.LaunchConfig(grid=1, block=1, shared_bytes=100352))


@pytest.mark.anyio
async def test_buffers_become_addresses() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device, "saxpy")
        x, y = device.allocate(4), device.allocate_pinned(4)
        device.create_stream().launch(kernel, ONE_THREAD, 1, 2.0, x, y)
        assert rig.executor.end().params == struct.pack("<IfQQ", 1, 2.0, x.handle, y.handle)
        with pytest.raises(
            TypeError,
            match=r"^saxpy argument 1 \(n\): \.param \.u32 needs 4 bytes, got a Buffer \(8-byte address\);"
            r" pass a Python int or numpy\.uint32$",
        ):
            device.create_stream().launch(kernel, ONE_THREAD, x, 2.0, x, y)


@pytest.mark.anyio
async def test_kernel_and_stream_must_be_of_one_device() -> None:
    async with Rig().open() as device, Rig().open() as other:
        kernel = await load(device)
        with pytest.raises(
            zc.CudaError,
            match=r"^cudaErrorInvalidResourceHandle \(400\): kernel empty was loaded on another open device"
            r" than stream 1's; load its module on that device too$",
        ):
            other.create_stream().launch(kernel, ONE_THREAD)
        with pytest.raises(zc.CudaError, match=r"^cudaErrorInvalidValue \(1\): saxpy argument 3 \(x\): <Buffer"):
            saxpy = await load(device, "saxpy")
            device.create_stream().launch(saxpy, ONE_THREAD, 1, 2.0, other.allocate(4), 0)
