"""Libraries and launches through `zcuda_compat.cudart`: loading, argument conventions, attributes, faults."""

from __future__ import annotations

import ctypes
import enum
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compat_tools import D2H, ERROR, H2D, HEAD, ONE, PTX, ROOT, checked, held, kernel, load, numbers, pointers

import zcuda_compat
from zcuda_compat import cudart
from zcuda_compat.bridge import BRIDGE

pytestmark = pytest.mark.pool

N = 1000


@pytest.fixture(scope="module", autouse=True)
def _shutdown() -> Iterator[None]:
    yield
    zcuda_compat.shutdown()


@pytest.fixture(scope="module")
def library() -> Any:
    return load()


@pytest.fixture
def memory() -> Iterator[int]:
    address = checked(cudart.cudaMalloc(64))
    checked(cudart.cudaMemset(address, 0, 64))
    yield address
    checked(cudart.cudaFree(address))


@pytest.mark.parametrize("path", [ROOT / "benchmarks/kernels.ptx", None], ids=["nvcc", "hand-written"])
def test_saxpy_end_to_end(path: Path | None) -> None:
    saxpy = kernel(load(PTX if path is None else path.read_bytes()), b"saxpy")
    rng = np.random.default_rng(1)
    x, y = rng.random(N, np.float32), rng.random(N, np.float32)
    out = np.empty_like(y)
    device_x, device_y = checked(cudart.cudaMalloc(x.nbytes)), checked(cudart.cudaMalloc(y.nbytes))
    checked(cudart.cudaMemcpy(device_x, x, x.nbytes, H2D))
    checked(cudart.cudaMemcpy(device_y, y, y.nbytes, H2D))
    types = (ctypes.c_int, ctypes.c_float, ctypes.c_void_p, ctypes.c_void_p)
    args = ((N, 2.0, device_x, device_y), types)
    checked(cudart.cudaLaunchKernel(saxpy, cudart.dim3(4), cudart.dim3(256), args, 0, 0))
    checked(cudart.cudaMemcpy(out, device_y, out.nbytes, D2H))
    np.testing.assert_allclose(out, 2 * x + y, rtol=1e-6)
    checked(cudart.cudaFree(device_x))
    checked(cudart.cudaFree(device_y))


def test_a_library_lists_its_kernels(library: Any) -> None:
    assert checked(cudart.cudaLibraryGetKernelCount(library)) == 6
    kernels = checked(cudart.cudaLibraryEnumerateKernels(2, library))
    assert kernels == [kernel(library, b"saxpy"), kernel(library, b"increment")]
    assert len(checked(cudart.cudaLibraryEnumerateKernels(99, library))) == 6


def test_a_library_loads_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "kernels.ptx"
    path.write_bytes(PTX)
    library = checked(cudart.cudaLibraryLoadFromFile(str(path).encode(), None, None, 0, None, None, 0))
    kernel(library, b"count")
    checked(cudart.cudaLibraryUnload(library))


def test_a_library_loads_from_an_address() -> None:
    text = ctypes.create_string_buffer(PTX)
    address = ctypes.addressof(text)
    library = checked(cudart.cudaLibraryLoadData(address, [], [], 0, [], [], 0))
    kernel(library, b"count")
    checked(cudart.cudaLibraryUnload(library))


def test_malformed_ptx_says_where(library: Any) -> None:
    text = (HEAD + ".visible .entry k()\n{\n    frobnicate.u32;\n}\n").encode()
    assert cudart.cudaLibraryLoadData(text, None, None, 0, None, None, 0) == (ERROR.cudaErrorInvalidPtx, None)
    assert "<library>:6:5" in str(zcuda_compat.last_failure())
    cudart.cudaGetLastError()


def test_unloading_waits_for_launches_that_were_submitted(memory: int) -> None:
    library = load()
    stream = checked(cudart.cudaStreamCreate())
    increment = kernel(library, b"increment")
    with held(stream):
        checked(cudart.cudaLaunchKernel(increment, ONE, ONE, pointers(memory), 0, stream))
        checked(cudart.cudaLibraryUnload(library))
    checked(cudart.cudaStreamSynchronize(stream))
    assert numbers(memory, 1).tolist() == [1]
    checked(cudart.cudaStreamDestroy(stream))


def test_globals_have_an_address_and_a_size(library: Any) -> None:
    address, size = checked(cudart.cudaLibraryGetGlobal(library, b"counter"))
    assert size == 4
    before = int(numbers(address, 1)[0])
    checked(cudart.cudaLaunchKernel(kernel(library, b"count"), ONE, ONE, None, 0, 0))
    assert numbers(address, 1).tolist() == [before + 1]


class Word(ctypes.Structure):
    _fields_ = (("value", ctypes.c_uint64),)


class Color(enum.Enum):
    RED = 3


STORED = [
    (ctypes.c_void_p, 5, 5),
    (ctypes.c_void_p, ctypes.c_void_p(6), 6),
    (ctypes.c_uint64, 7, 7),
    (ctypes.c_size_t, ctypes.c_size_t(8), 8),
    (ctypes.c_longlong, -1, 2**64 - 1),
    (ctypes.c_ulonglong, np.uint64(9), 9),
    (ctypes.c_double, 1.5, 0x3FF8000000000000),
    (ctypes.c_double, ctypes.c_float(1.5), 0x3FF8000000000000),
    (None, Word(10), 10),
    (None, cudart.cudaStream_t(11), 11),
]


@pytest.mark.parametrize(("kind", "value", "expected"), STORED)
def test_tuple_arguments_are_converted_like_ctypes_does(
    library: Any, memory: int, kind: Any, value: Any, expected: int
) -> None:
    args = ((memory, value), (ctypes.c_void_p, kind))
    checked(cudart.cudaLaunchKernel(kernel(library, b"store"), ONE, ONE, args, 0, 0))
    assert numbers(memory, 2).view(np.uint64).tolist() == [expected]


def test_an_objects_address_is_passed_for_void_pointers(library: Any, memory: int) -> None:
    handle = cudart.cudaStream_t(5)
    args = ((memory, handle), (ctypes.c_void_p, ctypes.c_void_p))
    checked(cudart.cudaLaunchKernel(kernel(library, b"store"), ONE, ONE, args, 0, 0))
    assert numbers(memory, 2).view(np.uint64).tolist() == [handle.getPtr()]


def test_arguments_by_an_array_of_pointers(library: Any, memory: int) -> None:
    out, value = np.array([memory], np.uint64), np.array([0x1234567890], np.uint64)
    array = np.array([out.ctypes.data, value.ctypes.data], np.uint64)
    for args in (array, array.ctypes.data):
        checked(cudart.cudaMemset(memory, 0, 8))
        checked(cudart.cudaLaunchKernel(kernel(library, b"store"), ONE, ONE, args, 0, 0))
        value_was, value[0] = int(value[0]), 0  # read before the call returned
        assert numbers(memory, 2).view(np.uint64).tolist() == [value_was]
        value[0] = value_was


def test_floats_keep_their_bits(library: Any) -> None:
    saxpy = kernel(library, b"saxpy")
    address = checked(cudart.cudaMalloc(8))
    for value in (float("inf"), -0.0, 1e-45):
        checked(cudart.cudaMemcpy(address, np.array([1, 0], np.float32), 8, H2D))
        args = ((1, value, address, address + 4), (ctypes.c_uint, ctypes.c_float, ctypes.c_void_p, ctypes.c_void_p))
        checked(cudart.cudaLaunchKernel(saxpy, ONE, ONE, args, 0, 0))
        assert numbers(address + 4, 1).view(np.float32)[0] == np.float32(value)
    checked(cudart.cudaFree(address))


@pytest.mark.parametrize("args", [None, 0, ((), ())])
def test_a_kernel_without_parameters_takes_no_arguments(library: Any, args: Any) -> None:
    checked(cudart.cudaLaunchKernel(kernel(library, b"count"), ONE, ONE, args, 0, 0))
    checked(cudart.cudaDeviceSynchronize())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (((1,), (ctypes.c_int, ctypes.c_int)), r"^args has 1 values but 2 types$"),
        (((1, 2),), r"^args as tuples are \(values, ctypes types\), both of them tuples$"),
        (((1, 2), (int, int)), r"^<class 'int'> is not a ctypes scalar type; pass None for structures$"),
        (
            ((1, 2), (None, None)),
            r"^an argument of type None is a ctypes structure, an enum or an object with getPtr\(\), got int$",
        ),
        ("abc", r"^a pointer is an int, an object with the buffer protocol or None, got str$"),
    ],
)
def test_misused_arguments_raise(library: Any, args: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        cudart.cudaLaunchKernel(kernel(library, b"store"), ONE, ONE, args, 0, 0)


def test_enums_are_four_bytes(library: Any, memory: int) -> None:
    args = ((memory, Color.RED), (ctypes.c_void_p, None))
    assert cudart.cudaLaunchKernel(kernel(library, b"store"), ONE, ONE, args, 0, 0)[0] == ERROR.cudaErrorInvalidValue
    assert str(zcuda_compat.last_failure()) == (
        "cudaErrorInvalidValue (1): store argument 2 (value): .param .u64 needs 8 bytes, got Color (4 bytes)"
    )
    cudart.cudaGetLastError()


def test_launches_by_configuration(library: Any, memory: int) -> None:
    stream = checked(cudart.cudaStreamCreate())
    config = cudart.cudaLaunchConfig_t(gridDim=cudart.dim3(1), blockDim=cudart.dim3(1), stream=stream)
    checked(cudart.cudaLaunchKernelExC(config, kernel(library, b"increment"), pointers(memory)))
    checked(cudart.cudaStreamSynchronize(stream))
    assert numbers(memory, 1).tolist() == [1]
    checked(cudart.cudaStreamDestroy(stream))


def test_function_attributes(library: Any) -> None:
    function = kernel(library, b"count")
    attributes = checked(cudart.cudaFuncGetAttributes(function))
    assert (attributes.maxThreadsPerBlock, attributes.sharedSizeBytes) == (1024, 0)
    assert attributes.maxDynamicSharedSizeBytes == 48 << 10
    setting = cudart.cudaFuncAttribute.cudaFuncAttributeMaxDynamicSharedMemorySize
    checked(cudart.cudaFuncSetAttribute(function, setting, 64 << 10))
    assert checked(cudart.cudaFuncGetAttributes(function)).maxDynamicSharedSizeBytes == 64 << 10
    checked(cudart.cudaLaunchKernel(function, ONE, ONE, None, 64 << 10, 0))
    checked(cudart.cudaDeviceSynchronize())


def test_a_kernel_that_does_not_compile_is_refused_by_the_launch() -> None:
    """The error is the launch's own, not that of a later call."""
    library = load((HEAD + ".visible .entry k()\n.reqntid 8, 1, 1\n{\n    ret;\n}\n").encode())
    function = kernel(library, b"k")
    assert cudart.cudaLaunchKernel(function, ONE, ONE, None, 0, 0) == (ERROR.cudaErrorInvalidValue,)
    checked(cudart.cudaLaunchKernel(function, ONE, cudart.dim3(8), None, 0, 0))
    checked(cudart.cudaDeviceSynchronize())
    cudart.cudaGetLastError()


FAULTS = [(b"fail", None, ERROR.cudaErrorLaunchFailure), (b"increment", pointers(0x10), ERROR.cudaErrorIllegalAddress)]


@pytest.mark.parametrize(("name", "args", "expected"), FAULTS)
def test_a_fault_is_sticky_until_reset(name: bytes, args: Any, expected: ERROR) -> None:
    library = load()
    count = kernel(library, b"count")
    memory = checked(cudart.cudaMalloc(64))
    stream, event = checked(cudart.cudaStreamCreate()), checked(cudart.cudaEventCreate())
    checked(cudart.cudaLaunchKernel(kernel(library, name), ONE, ONE, args, 0, stream))
    assert cudart.cudaStreamSynchronize(stream) == (expected,)
    for _ in range(2):
        assert cudart.cudaMalloc(8) == (expected, None)
        assert cudart.cudaFree(memory) == (expected,)
        assert cudart.cudaMemcpy(memory, bytes(8), 8, H2D) == (expected,)
        assert cudart.cudaMemset(memory, 0, 8) == (expected,)
        assert cudart.cudaMemGetInfo() == (expected, None, None)
        assert cudart.cudaLaunchKernel(count, ONE, ONE, None, 0, 0) == (expected,)
        assert cudart.cudaLibraryGetKernel(library, b"saxpy") == (expected, None)
        assert cudart.cudaStreamCreate() == (expected, None)
        assert cudart.cudaStreamQuery(stream) == (expected,)
        assert cudart.cudaEventCreate() == (expected, None)
        assert cudart.cudaEventRecord(event, stream) == (expected,)
        assert cudart.cudaEventQuery(event) == (expected,)
        assert cudart.cudaEventSynchronize(event) == (expected,)
        assert cudart.cudaDeviceSynchronize() == (expected,)
        assert cudart.cudaGetLastError() == (expected,)
    checked(cudart.cudaGetDevice())
    checked(cudart.cudaDeviceReset())
    cudart.cudaGetLastError()
    assert cudart.cudaGetLastError() == (ERROR.cudaSuccess,)
    assert cudart.cudaFree(memory) == (ERROR.cudaErrorInvalidValue,)
    assert cudart.cudaStreamQuery(stream) == (ERROR.cudaErrorInvalidResourceHandle,)
    assert cudart.cudaEventQuery(event) == (ERROR.cudaErrorInvalidResourceHandle,)
    checked(cudart.cudaLaunchKernel(count, ONE, ONE, None, 0, 0))
    checked(cudart.cudaDeviceSynchronize())
    cudart.cudaGetLastError()


def test_a_reset_frees_memory_and_gives_variables_their_first_values() -> None:
    library = load()
    free, _ = checked(cudart.cudaMemGetInfo())
    checked(cudart.cudaMalloc(1 << 20))
    checked(cudart.cudaLaunchKernel(kernel(library, b"count"), ONE, ONE, None, 0, 0))
    assert numbers(checked(cudart.cudaLibraryGetGlobal(library, b"counter"))[0], 1).tolist() == [42]
    checked(cudart.cudaDeviceReset())
    assert numbers(checked(cudart.cudaLibraryGetGlobal(library, b"counter"))[0], 1).tolist() == [41]
    assert checked(cudart.cudaMemGetInfo())[0] >= free


def test_a_reset_cuts_off_those_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = checked(cudart.cudaStreamCreate())
    flag = checked(cudart.cudaMalloc(4))
    checked(cudart.cudaMemset(flag, 0, 4))
    checked(cudart.cudaLaunchKernel(kernel(load(), b"spin"), ONE, ONE, pointers(flag), 0, stream))
    results: list[Any] = []
    waiting = threading.Event()

    settle = BRIDGE.settle

    def noted_settle(find: Any) -> None:
        def noted() -> Any:
            waiting.set()
            return find()

        settle(noted)

    monkeypatch.setattr(BRIDGE, "settle", noted_settle)
    thread = threading.Thread(target=lambda: results.append(cudart.cudaStreamSynchronize(stream)))
    thread.start()
    assert waiting.wait(10)
    checked(cudart.cudaDeviceReset())
    thread.join()
    assert results == [(ERROR.cudaErrorContextIsDestroyed,)]
