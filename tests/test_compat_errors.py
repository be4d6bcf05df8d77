"""The errors of every call: one row per function, situation and expected code; and the last error of a thread."""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compat_tools import D2D, D2H, DEFAULT, ERROR, H2D, H2H, HEAD, ONE, checked, held, kernel, load

import zcuda_compat
from zcuda_compat import cudart

pytestmark = pytest.mark.pool

NOTHING = (None, None, 0, None, None, 0)


@dataclass
class World:
    """What the situations start from; every handle in `gone` was destroyed."""

    stream: Any
    event: Any
    library: Any
    saxpy: Any
    increment: Any
    count: Any
    device: int
    pinned: int
    freed: int
    host: np.ndarray[Any, np.dtype[np.uint8]]
    gone: dict[str, Any]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    library = load()
    gone = {
        "stream": checked(cudart.cudaStreamCreate()),
        "event": checked(cudart.cudaEventCreate()),
        "library": load(),
    }
    gone["kernel"] = kernel(gone["library"], b"count")
    checked(cudart.cudaStreamDestroy(gone["stream"]))
    checked(cudart.cudaEventDestroy(gone["event"]))
    checked(cudart.cudaLibraryUnload(gone["library"]))
    freed = checked(cudart.cudaMalloc(64))
    device = checked(cudart.cudaMalloc(64))
    checked(cudart.cudaFree(freed))
    yield World(
        stream=checked(cudart.cudaStreamCreate()),
        event=checked(cudart.cudaEventCreate()),
        library=library,
        saxpy=kernel(library, b"saxpy"),
        increment=kernel(library, b"increment"),
        count=kernel(library, b"count"),
        device=device,
        pinned=checked(cudart.cudaMallocHost(64)),
        freed=freed,
        host=np.zeros(64, np.uint8),
        gone=gone,
    )
    zcuda_compat.shutdown()


def launch(w: World, grid: Any = ONE, block: Any = ONE, args: Any = None, shared: int = 0, stream: Any = 0) -> Any:
    return cudart.cudaLaunchKernel(w.count, grid, block, args, shared, stream)


def not_ready(w: World, query: Callable[[], Any]) -> Any:
    with held(w.stream):
        checked(cudart.cudaEventRecord(w.event, w.stream))
        return query()


ROWS: list[tuple[str, str, Callable[[World], Any], ERROR]] = [
    ("cudaSetDevice", "too large", lambda w: cudart.cudaSetDevice(99), ERROR.cudaErrorInvalidDevice),
    ("cudaSetDevice", "negative", lambda w: cudart.cudaSetDevice(-1), ERROR.cudaErrorInvalidDevice),
    ("cudaGetDeviceProperties", "too large", lambda w: cudart.cudaGetDeviceProperties(7), ERROR.cudaErrorInvalidDevice),
    (
        "cudaDeviceGetAttribute",
        "too large a device",
        lambda w: cudart.cudaDeviceGetAttribute(cudart.cudaDeviceAttr.cudaDevAttrWarpSize, 7),
        ERROR.cudaErrorInvalidDevice,
    ),
    (
        "cudaDeviceGetAttribute",
        "no such attribute",
        lambda w: cudart.cudaDeviceGetAttribute(5000, 0),  # type: ignore[arg-type]
        ERROR.cudaErrorInvalidValue,
    ),
    ("cudaMalloc", "more than there is", lambda w: cudart.cudaMalloc(1 << 50), ERROR.cudaErrorMemoryAllocation),
    ("cudaMallocHost", "more than there is", lambda w: cudart.cudaMallocHost(1 << 50), ERROR.cudaErrorMemoryAllocation),
    ("cudaHostAlloc", "unknown flags", lambda w: cudart.cudaHostAlloc(8, 8), ERROR.cudaErrorInvalidValue),
    ("cudaFree", "freed already", lambda w: cudart.cudaFree(w.freed), ERROR.cudaErrorInvalidValue),
    ("cudaFree", "inside an allocation", lambda w: cudart.cudaFree(w.device + 8), ERROR.cudaErrorInvalidValue),
    ("cudaFree", "pinned memory", lambda w: cudart.cudaFree(w.pinned), ERROR.cudaErrorInvalidValue),
    ("cudaFree", "host memory", lambda w: cudart.cudaFree(w.host), ERROR.cudaErrorInvalidValue),
    ("cudaFreeHost", "device memory", lambda w: cudart.cudaFreeHost(w.device), ERROR.cudaErrorInvalidValue),
    ("cudaFreeHost", "a wrong address", lambda w: cudart.cudaFreeHost(4096), ERROR.cudaErrorInvalidValue),
    (
        "cudaHostGetDevicePointer",
        "flags",
        lambda w: cudart.cudaHostGetDevicePointer(w.pinned, 1),
        ERROR.cudaErrorInvalidValue,
    ),
    (
        "cudaHostGetDevicePointer",
        "pageable memory",
        lambda w: cudart.cudaHostGetDevicePointer(w.host, 0),
        ERROR.cudaErrorInvalidValue,
    ),
    ("cudaHostGetFlags", "device memory", lambda w: cudart.cudaHostGetFlags(w.device), ERROR.cudaErrorInvalidValue),
    ("cudaPointerGetAttributes", "NULL", lambda w: cudart.cudaPointerGetAttributes(0), ERROR.cudaErrorInvalidValue),
    (
        "cudaPointerGetAttributes",
        "freed",
        lambda w: cudart.cudaPointerGetAttributes(w.freed),
        ERROR.cudaErrorInvalidValue,
    ),
    ("cudaMemcpy", "NULL destination", lambda w: cudart.cudaMemcpy(0, w.host, 8, H2D), ERROR.cudaErrorInvalidValue),
    ("cudaMemcpy", "None as source", lambda w: cudart.cudaMemcpy(w.device, None, 8, H2D), ERROR.cudaErrorInvalidValue),
    ("cudaMemcpy", "freed source", lambda w: cudart.cudaMemcpy(w.host, w.freed, 8, D2H), ERROR.cudaErrorInvalidValue),
    ("cudaMemcpy", "too long", lambda w: cudart.cudaMemcpy(w.device, w.host, 65, H2D), ERROR.cudaErrorInvalidValue),
    (
        "cudaMemcpy",
        "past the device's end",
        lambda w: cudart.cudaMemcpy(w.device + 60, w.host, 8, H2D),
        ERROR.cudaErrorInvalidValue,
    ),
    (
        "cudaMemcpy",
        "read-only destination",
        lambda w: cudart.cudaMemcpy(bytes(8), w.device, 8, D2H),
        ERROR.cudaErrorInvalidValue,
    ),
    (
        "cudaMemcpy",
        "no such kind",
        lambda w: cudart.cudaMemcpy(w.device, w.host, 8, 7),  # type: ignore[arg-type]
        ERROR.cudaErrorInvalidMemcpyDirection,
    ),
    (
        "cudaMemcpy",
        "no such kind, nothing to copy",
        lambda w: cudart.cudaMemcpy(w.device, w.host, 0, -1),  # type: ignore[arg-type]
        ERROR.cudaErrorInvalidMemcpyDirection,
    ),
    ("cudaMemcpy", "H2D to host", lambda w: cudart.cudaMemcpy(w.host, w.host, 8, H2D), ERROR(21)),
    ("cudaMemcpy", "H2D from device", lambda w: cudart.cudaMemcpy(w.device, w.device, 8, H2D), ERROR(21)),
    ("cudaMemcpy", "D2H to device", lambda w: cudart.cudaMemcpy(w.device, w.device, 8, D2H), ERROR(21)),
    ("cudaMemcpy", "D2H from host", lambda w: cudart.cudaMemcpy(w.host, w.host, 8, D2H), ERROR(21)),
    ("cudaMemcpy", "D2D from host", lambda w: cudart.cudaMemcpy(w.device, w.host, 8, D2D), ERROR(21)),
    ("cudaMemcpy", "H2H from device", lambda w: cudart.cudaMemcpy(w.host, w.device, 8, H2H), ERROR(21)),
    (
        "cudaMemcpyAsync",
        "destroyed stream",
        lambda w: cudart.cudaMemcpyAsync(w.device, w.host, 8, H2D, w.gone["stream"]),
        ERROR.cudaErrorInvalidResourceHandle,
    ),
    (
        "cudaMemcpyAsync",
        "an event as stream",
        lambda w: cudart.cudaMemcpyAsync(w.device, w.host, 8, H2D, w.event),
        ERROR.cudaErrorInvalidResourceHandle,
    ),
    (
        "cudaMemcpyAsync",
        "wrong direction",
        lambda w: cudart.cudaMemcpyAsync(w.device, w.host, 8, D2H, w.stream),
        ERROR.cudaErrorInvalidMemcpyDirection,
    ),
    (
        "cudaMemcpyAsync",
        "past the end",
        lambda w: cudart.cudaMemcpyAsync(w.device, w.host, 80, DEFAULT, w.stream),
        ERROR.cudaErrorInvalidValue,
    ),
    ("cudaMemset", "NULL", lambda w: cudart.cudaMemset(0, 0, 8), ERROR.cudaErrorInvalidValue),
    ("cudaMemset", "too long", lambda w: cudart.cudaMemset(w.device, 0, 65), ERROR.cudaErrorInvalidValue),
    ("cudaMemset", "host memory", lambda w: cudart.cudaMemset(w.host, 0, 8), ERROR.cudaErrorInvalidValue),
    ("cudaMemset", "freed", lambda w: cudart.cudaMemset(w.freed, 0, 8), ERROR.cudaErrorInvalidValue),
    (
        "cudaMemsetAsync",
        "destroyed stream",
        lambda w: cudart.cudaMemsetAsync(w.device, 0, 8, w.gone["stream"]),
        ERROR.cudaErrorInvalidResourceHandle,
    ),
    ("cudaStreamCreateWithFlags", "flags", lambda w: cudart.cudaStreamCreateWithFlags(2), ERROR.cudaErrorInvalidValue),
    (
        "cudaStreamCreateWithPriority",
        "unknown flags",
        lambda w: cudart.cudaStreamCreateWithPriority(4, 0),
        ERROR.cudaErrorInvalidValue,
    ),
    ("cudaStreamDestroy", "default", lambda w: cudart.cudaStreamDestroy(0), ERROR.cudaErrorInvalidResourceHandle),
    ("cudaStreamDestroy", "per thread", lambda w: cudart.cudaStreamDestroy(2), ERROR.cudaErrorInvalidResourceHandle),
    ("cudaStreamDestroy", "twice", lambda w: cudart.cudaStreamDestroy(w.gone["stream"]), ERROR(400)),
    ("cudaStreamDestroy", "an event", lambda w: cudart.cudaStreamDestroy(w.event), ERROR(400)),
    ("cudaStreamSynchronize", "destroyed", lambda w: cudart.cudaStreamSynchronize(w.gone["stream"]), ERROR(400)),
    ("cudaStreamSynchronize", "never made", lambda w: cudart.cudaStreamSynchronize(0xDEAD), ERROR(400)),
    ("cudaStreamQuery", "destroyed", lambda w: cudart.cudaStreamQuery(w.gone["stream"]), ERROR(400)),
    (
        "cudaStreamQuery",
        "busy",
        lambda w: not_ready(w, lambda: cudart.cudaStreamQuery(w.stream)),
        ERROR.cudaErrorNotReady,
    ),
    ("cudaStreamGetFlags", "destroyed", lambda w: cudart.cudaStreamGetFlags(w.gone["stream"]), ERROR(400)),
    ("cudaStreamGetPriority", "destroyed", lambda w: cudart.cudaStreamGetPriority(w.gone["stream"]), ERROR(400)),
    ("cudaStreamGetDevice", "destroyed", lambda w: cudart.cudaStreamGetDevice(w.gone["stream"]), ERROR(400)),
    (
        "cudaStreamWaitEvent",
        "no stream",
        lambda w: cudart.cudaStreamWaitEvent(w.gone["stream"], w.event, 0),
        ERROR(400),
    ),
    ("cudaStreamWaitEvent", "no event", lambda w: cudart.cudaStreamWaitEvent(w.stream, w.gone["event"], 0), ERROR(400)),
    ("cudaStreamWaitEvent", "NULL event", lambda w: cudart.cudaStreamWaitEvent(w.stream, 0, 0), ERROR(400)),
    ("cudaStreamWaitEvent", "flags", lambda w: cudart.cudaStreamWaitEvent(w.stream, w.event, 2), ERROR(1)),
    ("cudaLaunchHostFunc", "no stream", lambda w: cudart.cudaLaunchHostFunc(w.gone["stream"], print, 0), ERROR(400)),
    ("cudaLaunchHostFunc", "NULL function", lambda w: cudart.cudaLaunchHostFunc(w.stream, 0, 0), ERROR(1)),
    ("cudaEventCreateWithFlags", "unknown flags", lambda w: cudart.cudaEventCreateWithFlags(8), ERROR(1)),
    ("cudaEventCreateWithFlags", "interprocess, timed", lambda w: cudart.cudaEventCreateWithFlags(4), ERROR(1)),
    ("cudaEventCreateWithFlags", "interprocess", lambda w: cudart.cudaEventCreateWithFlags(6), ERROR(801)),
    ("cudaEventDestroy", "twice", lambda w: cudart.cudaEventDestroy(w.gone["event"]), ERROR(400)),
    ("cudaEventDestroy", "a stream", lambda w: cudart.cudaEventDestroy(w.stream), ERROR(400)),
    ("cudaEventRecord", "destroyed event", lambda w: cudart.cudaEventRecord(w.gone["event"], 0), ERROR(400)),
    ("cudaEventRecord", "destroyed stream", lambda w: cudart.cudaEventRecord(w.event, w.gone["stream"]), ERROR(400)),
    ("cudaEventRecordWithFlags", "flags", lambda w: cudart.cudaEventRecordWithFlags(w.event, 0, 2), ERROR(1)),
    ("cudaEventSynchronize", "destroyed", lambda w: cudart.cudaEventSynchronize(w.gone["event"]), ERROR(400)),
    ("cudaEventQuery", "destroyed", lambda w: cudart.cudaEventQuery(w.gone["event"]), ERROR(400)),
    ("cudaEventQuery", "pending", lambda w: not_ready(w, lambda: cudart.cudaEventQuery(w.event)), ERROR(600)),
    (
        "cudaEventElapsedTime",
        "never recorded",
        lambda w: cudart.cudaEventElapsedTime(*(checked(cudart.cudaEventCreate()) for _ in range(2))),
        ERROR.cudaErrorInvalidResourceHandle,
    ),
    (
        "cudaEventElapsedTime",
        "pending",
        lambda w: not_ready(w, lambda: cudart.cudaEventElapsedTime(w.event, w.event)),
        ERROR.cudaErrorNotReady,
    ),
    ("cudaEventElapsedTime", "destroyed", lambda w: cudart.cudaEventElapsedTime(w.event, w.gone["event"]), ERROR(400)),
    ("cudaLibraryLoadData", "NULL", lambda w: cudart.cudaLibraryLoadData(None, *NOTHING), ERROR(1)),
    ("cudaLibraryLoadData", "no PTX", lambda w: cudart.cudaLibraryLoadData(b"int main() {}", *NOTHING), ERROR(218)),
    (
        "cudaLibraryLoadData",
        "unknown instruction",
        lambda w: cudart.cudaLibraryLoadData(
            (HEAD + ".visible .entry k()\n{\n    frobnicate.u32;\n}\n").encode(), *NOTHING
        ),
        ERROR.cudaErrorInvalidPtx,
    ),
    ("cudaLibraryLoadData", "machine code", lambda w: cudart.cudaLibraryLoadData(b"\x7fELF...", *NOTHING), ERROR(200)),
    (
        "cudaLibraryLoadData",
        "fewer options than said",
        lambda w: cudart.cudaLibraryLoadData(b"", [], [], 1, None, None, 0),
        ERROR.cudaErrorInvalidValue,
    ),
    ("cudaLibraryLoadFromFile", "no file", lambda w: cudart.cudaLibraryLoadFromFile(b"/no/file", *NOTHING), ERROR(301)),
    ("cudaLibraryUnload", "twice", lambda w: cudart.cudaLibraryUnload(w.gone["library"]), ERROR(400)),
    ("cudaLibraryGetKernel", "no such name", lambda w: cudart.cudaLibraryGetKernel(w.library, b"nope"), ERROR(500)),
    (
        "cudaLibraryGetKernel",
        "unloaded",
        lambda w: cudart.cudaLibraryGetKernel(w.gone["library"], b"count"),
        ERROR(400),
    ),
    ("cudaLibraryGetKernelCount", "a stream", lambda w: cudart.cudaLibraryGetKernelCount(w.stream), ERROR(400)),
    ("cudaLibraryEnumerateKernels", "NULL", lambda w: cudart.cudaLibraryEnumerateKernels(1, 0), ERROR(400)),
    ("cudaLibraryGetGlobal", "no such name", lambda w: cudart.cudaLibraryGetGlobal(w.library, b"nope"), ERROR(500)),
    ("cudaFuncGetAttributes", "NULL", lambda w: cudart.cudaFuncGetAttributes(0), ERROR.cudaErrorInvalidDeviceFunction),
    ("cudaFuncGetAttributes", "unloaded", lambda w: cudart.cudaFuncGetAttributes(w.gone["kernel"]), ERROR(98)),
    (
        "cudaFuncSetAttribute",
        "too much shared memory",
        lambda w: cudart.cudaFuncSetAttribute(
            w.count, cudart.cudaFuncAttribute.cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20
        ),
        ERROR.cudaErrorInvalidValue,
    ),
    (
        "cudaFuncSetAttribute",
        "not settable",
        lambda w: cudart.cudaFuncSetAttribute(w.count, cudart.cudaFuncAttribute.cudaFuncAttributeMax, 0),
        ERROR.cudaErrorInvalidValue,
    ),
    ("cudaLaunchKernel", "NULL kernel", lambda w: cudart.cudaLaunchKernel(0, ONE, ONE, None, 0, 0), ERROR(98)),
    (
        "cudaLaunchKernel",
        "unloaded kernel",
        lambda w: cudart.cudaLaunchKernel(w.gone["kernel"], ONE, ONE, None, 0, 0),
        ERROR.cudaErrorInvalidDeviceFunction,
    ),
    ("cudaLaunchKernel", "empty grid", lambda w: launch(w, grid=0), ERROR.cudaErrorInvalidConfiguration),
    ("cudaLaunchKernel", "empty block", lambda w: launch(w, block=(32, 0)), ERROR.cudaErrorInvalidConfiguration),
    ("cudaLaunchKernel", "too large a block", lambda w: launch(w, block=1025), ERROR.cudaErrorInvalidConfiguration),
    ("cudaLaunchKernel", "too many threads", lambda w: launch(w, block=(64, 64)), ERROR.cudaErrorInvalidConfiguration),
    ("cudaLaunchKernel", "too large a grid", lambda w: launch(w, grid=(1, 65536)), ERROR.cudaErrorInvalidConfiguration),
    ("cudaLaunchKernel", "too much shared memory", lambda w: launch(w, shared=1 << 20), ERROR.cudaErrorInvalidValue),
    ("cudaLaunchKernel", "destroyed stream", lambda w: launch(w, stream=w.gone["stream"]), ERROR(400)),
    (
        "cudaLaunchKernel",
        "too few arguments",
        lambda w: cudart.cudaLaunchKernel(w.saxpy, ONE, ONE, ((1,), (ctypes.c_int,)), 0, 0),
        ERROR.cudaErrorInvalidValue,
    ),
    (
        "cudaLaunchKernel",
        "an argument of the wrong width",
        lambda w: cudart.cudaLaunchKernel(w.increment, ONE, ONE, ((1,), (ctypes.c_int,)), 0, 0),
        ERROR.cudaErrorInvalidValue,
    ),
    (
        "cudaLaunchKernel",
        "no arguments at all",
        lambda w: cudart.cudaLaunchKernel(w.saxpy, ONE, ONE, None, 0, 0),
        ERROR.cudaErrorInvalidValue,
    ),
    (
        "cudaLaunchKernel",
        "NULL among the pointers",
        lambda w: cudart.cudaLaunchKernel(w.increment, ONE, ONE, np.zeros(1, np.uint64), 0, 0),
        ERROR.cudaErrorInvalidValue,
    ),
    (
        "cudaLaunchKernelExC",
        "attributes",
        lambda w: cudart.cudaLaunchKernelExC(cudart.cudaLaunchConfig_t(numAttrs=1), w.count, None),
        ERROR.cudaErrorNotSupported,
    ),
    (
        "cudaLaunchKernelExC",
        "empty grid",
        lambda w: cudart.cudaLaunchKernelExC(cudart.cudaLaunchConfig_t(cudart.dim3(0)), w.count, None),
        ERROR.cudaErrorInvalidConfiguration,
    ),
]


@pytest.mark.parametrize(("name", "situation", "call", "expected"), ROWS, ids=[f"{row[0]}-{row[1]}" for row in ROWS])
def test_call_returns_the_documented_error(
    world: World, name: str, situation: str, call: Callable[[World], Any], expected: ERROR
) -> None:
    cudart.cudaGetLastError()
    result = call(world)
    assert result[0] == expected, zcuda_compat.last_failure()
    assert set(result[1:]) <= {None}
    failure = zcuda_compat.last_failure()
    assert failure is not None
    assert failure.code == expected
    assert len(failure.detail) > 20
    assert cudart.cudaGetLastError() == (expected,)
    checked(cudart.cudaDeviceSynchronize())  # nothing was left behind


def test_last_error_is_kept_through_success_and_cleared_by_get(world: World) -> None:
    assert cudart.cudaFree(12)[0] == ERROR.cudaErrorInvalidValue
    checked(cudart.cudaDeviceSynchronize())
    checked(cudart.cudaGetDevice())
    assert cudart.cudaPeekAtLastError() == (ERROR.cudaErrorInvalidValue,)
    assert cudart.cudaPeekAtLastError() == (ERROR.cudaErrorInvalidValue,)
    assert cudart.cudaGetLastError() == (ERROR.cudaErrorInvalidValue,)
    assert cudart.cudaGetLastError() == (ERROR.cudaSuccess,)
    assert zcuda_compat.last_failure() is None


def test_last_error_is_the_latest(world: World) -> None:
    cudart.cudaFree(12)
    cudart.cudaSetDevice(99)
    assert cudart.cudaGetLastError() == (ERROR.cudaErrorInvalidDevice,)


def test_last_error_is_per_thread(world: World) -> None:
    cudart.cudaFree(12)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(cudart.cudaGetLastError()))
    thread.start()
    thread.join()
    assert seen == [(ERROR.cudaSuccess,)]
    assert cudart.cudaGetLastError() == (ERROR.cudaErrorInvalidValue,)


def test_last_failure_says_what_where_and_what_to_do(world: World) -> None:
    cudart.cudaLaunchKernel(world.increment, ONE, ONE, ((1,), (ctypes.c_int,)), 0, 0)
    message = (
        r"^cudaErrorInvalidValue \(1\): increment argument 1 \(out\): \.param \.u64 needs 8 bytes,"
        r" got c_int \(4 bytes\)$"
    )
    assert re.match(message, str(zcuda_compat.last_failure()))
    cudart.cudaMemcpy(world.host, world.device, 8, H2D)
    message = (
        r"^cudaErrorInvalidMemcpyDirection \(21\): cudaMemcpy with cudaMemcpyHostToDevice: src 0x[0-9a-f]+ is device"
        r" memory; pass the kind that fits, or cudaMemcpyDefault$"
    )
    assert re.match(message, str(zcuda_compat.last_failure()))
    cudart.cudaGetLastError()


def test_error_strings_tell_what_the_code_means() -> None:
    for code in cudart.cudaError_t:
        error, text = cudart.cudaGetErrorString(code)
        assert error == ERROR.cudaSuccess
        assert len(text) > 5
    assert cudart.cudaGetErrorString(12345) == (ERROR.cudaSuccess, b"unrecognized error code")


def test_no_devices_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZCUDA_DEVICE_COUNT", "0")
    assert cudart.cudaGetDeviceCount() == (ERROR.cudaErrorNoDevice, None)
    cudart.cudaGetLastError()


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, world: World) -> None:
    path = tmp_path / "missing.ptx"
    cudart.cudaLibraryLoadFromFile(str(path).encode(), *NOTHING)
    assert str(zcuda_compat.last_failure()) == (
        f"cudaErrorFileNotFound (301): {path} cannot be read: No such file or directory"
    )
    cudart.cudaGetLastError()
