"""Streams and events through `zcuda_compat.cudart`: order, default streams, waiting, timing, host functions."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from compat_tools import ERROR, H2D, ONE, PTX, checked, held, kernel, load, numbers, pointers

import zcuda_compat
from zcuda_async import StreamOptions
from zcuda_compat import cudart

pytestmark = pytest.mark.pool


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
def event() -> Iterator[Any]:
    event = checked(cudart.cudaEventCreate())
    yield event
    checked(cudart.cudaEventDestroy(event))


@pytest.fixture
def record() -> list[str]:
    return []


def note(record: list[str], text: str, stream: Any) -> None:
    checked(cudart.cudaLaunchHostFunc(stream, lambda _: record.append(text), None))


def test_a_stream_runs_in_order_and_query_tells_when_it_is_done(stream: Any, record: list[str]) -> None:
    checked(cudart.cudaStreamQuery(stream))
    with held(stream):
        note(record, "first", stream)
        note(record, "second", stream)
        assert cudart.cudaStreamQuery(stream) == (ERROR.cudaErrorNotReady,)
        assert record == []
    checked(cudart.cudaStreamSynchronize(stream))
    assert record == ["first", "second"]
    checked(cudart.cudaStreamQuery(stream))
    cudart.cudaGetLastError()


def test_a_destroyed_stream_finishes_its_work(record: list[str]) -> None:
    stream = checked(cudart.cudaStreamCreate())
    with held(stream):
        note(record, "late", stream)
        checked(cudart.cudaStreamDestroy(stream))
    checked(cudart.cudaDeviceSynchronize())
    assert record == ["late"]


@pytest.mark.parametrize("default", [0, None, cudart.cudaStreamLegacy, cudart.cudaStream_t()])
def test_the_legacy_default_stream_waits_for_blocking_streams(stream: Any, record: list[str], default: Any) -> None:
    with held(stream):
        note(record, "blocking", stream)
        note(record, "default", default)
    checked(cudart.cudaStreamSynchronize(default))
    assert record == ["blocking", "default"]


def test_blocking_streams_wait_for_the_legacy_default_stream(stream: Any, record: list[str]) -> None:
    with held(0):
        note(record, "default", 0)
        note(record, "blocking", stream)
    checked(cudart.cudaStreamSynchronize(stream))
    assert record == ["default", "blocking"]


def test_nonblocking_streams_are_independent_of_the_legacy_default_stream(record: list[str]) -> None:
    stream = checked(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
    assert checked(cudart.cudaStreamGetFlags(stream)) == cudart.cudaStreamNonBlocking
    with held(0):
        note(record, "nonblocking", stream)
        checked(cudart.cudaStreamSynchronize(stream))
        assert record == ["nonblocking"]
    checked(cudart.cudaStreamDestroy(stream))


def test_synchronizing_the_default_stream_waits_for_blocking_streams(stream: Any, record: list[str]) -> None:
    gate = threading.Event()
    checked(cudart.cudaLaunchHostFunc(stream, lambda _: gate.wait(), None))
    note(record, "blocking", stream)
    releaser = threading.Timer(0.01, gate.set)
    releaser.start()
    checked(cudart.cudaStreamSynchronize(0))
    assert record == ["blocking"]
    releaser.join()


def test_each_thread_has_a_default_stream_of_its_own(record: list[str]) -> None:
    own = cudart.cudaStreamPerThread

    def other() -> None:
        note(record, "other thread", own)
        checked(cudart.cudaStreamSynchronize(own))

    with held(own):
        note(record, "this thread", own)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert record == ["other thread"]
    checked(cudart.cudaStreamSynchronize(own))
    assert record == ["other thread", "this thread"]


def test_the_per_thread_stream_is_ordered_against_the_legacy_one(record: list[str]) -> None:
    with held(cudart.cudaStreamPerThread):
        note(record, "per thread", cudart.cudaStreamPerThread)
        note(record, "legacy", cudart.cudaStreamLegacy)
    checked(cudart.cudaStreamSynchronize(cudart.cudaStreamLegacy))
    assert record == ["per thread", "legacy"]


def test_the_priorities_are_those_of_the_runtime() -> None:
    least, greatest = checked(cudart.cudaDeviceGetStreamPriorityRange())
    for priority in (least, greatest):
        assert StreamOptions(priority=priority).priority == priority
    for priority in (least + 1, greatest - 1):
        with pytest.raises(ValueError, match="priority"):
            StreamOptions(priority=priority)


def test_priorities_are_brought_into_range() -> None:
    least, greatest = checked(cudart.cudaDeviceGetStreamPriorityRange())
    assert least > greatest
    for asked, got in ((least + 5, least), (greatest - 5, greatest), (least, least)):
        stream = checked(cudart.cudaStreamCreateWithPriority(0, asked))
        assert checked(cudart.cudaStreamGetPriority(stream)) == got
        assert checked(cudart.cudaStreamGetDevice(stream)) == 0
        checked(cudart.cudaStreamDestroy(stream))


def test_an_event_orders_streams(stream: Any, event: Any, record: list[str]) -> None:
    other = checked(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
    with held(stream):
        note(record, "before the event", stream)
        checked(cudart.cudaEventRecord(event, stream))
        checked(cudart.cudaStreamWaitEvent(other, event, 0))
        note(record, "after the wait", other)
        assert cudart.cudaStreamQuery(other) == (ERROR.cudaErrorNotReady,)
    checked(cudart.cudaStreamSynchronize(other))
    assert record == ["before the event", "after the wait"]
    checked(cudart.cudaStreamDestroy(other))
    cudart.cudaGetLastError()


def test_a_never_recorded_event_is_complete(stream: Any, event: Any) -> None:
    checked(cudart.cudaEventQuery(event))
    checked(cudart.cudaEventSynchronize(event))
    checked(cudart.cudaStreamWaitEvent(stream, event, 0))
    checked(cudart.cudaStreamSynchronize(stream))


def test_event_synchronize_waits_for_the_record_only(stream: Any, event: Any, record: list[str]) -> None:
    note(record, "before", stream)
    checked(cudart.cudaEventRecord(event, stream))
    with held(stream):
        note(record, "after", stream)
        checked(cudart.cudaEventSynchronize(event))
        assert record == ["before"]
    checked(cudart.cudaStreamSynchronize(stream))


def test_elapsed_time_is_in_milliseconds(stream: Any) -> None:
    start, end = checked(cudart.cudaEventCreate()), checked(cudart.cudaEventCreate())
    checked(cudart.cudaEventRecord(start, stream))
    checked(cudart.cudaEventRecord(end, stream))
    checked(cudart.cudaEventSynchronize(end))
    elapsed = checked(cudart.cudaEventElapsedTime(start, end))
    assert isinstance(elapsed, float)
    assert 0 <= elapsed < 60_000
    assert checked(cudart.cudaEventElapsedTime(end, start)) == -elapsed


def test_events_without_timing_have_no_time(stream: Any) -> None:
    event = checked(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming | cudart.cudaEventBlockingSync))
    checked(cudart.cudaEventRecord(event, stream))
    checked(cudart.cudaEventSynchronize(event))
    assert cudart.cudaEventElapsedTime(event, event)[0] == ERROR.cudaErrorInvalidResourceHandle
    cudart.cudaGetLastError()


def test_c_functions_are_host_functions(stream: Any) -> None:
    seen: list[int | None] = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(seen.append)
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    checked(cudart.cudaLaunchHostFunc(stream, function, 11))
    checked(cudart.cudaLaunchHostFunc(stream, address, 12))
    checked(cudart.cudaLaunchHostFunc(stream, cudart.cudaHostFn_t(address), 13))
    checked(cudart.cudaStreamSynchronize(stream))
    assert seen == [11, 12, 13]


def test_cuda_calls_are_not_permitted_in_a_host_function(stream: Any) -> None:
    seen: list[Any] = []

    def callback(_: object) -> None:
        seen.append(cudart.cudaMalloc(8))
        seen.append(cudart.cudaStreamSynchronize(stream))

    checked(cudart.cudaLaunchHostFunc(stream, callback, None))
    checked(cudart.cudaStreamSynchronize(stream))
    assert seen == [(ERROR.cudaErrorNotPermitted, None), (ERROR.cudaErrorNotPermitted,)]


def test_a_host_functions_exception_is_returned_by_the_next_sync(stream: Any) -> None:
    def broken(_: object) -> None:
        raise ValueError("no such file")

    checked(cudart.cudaLaunchHostFunc(stream, broken, None))
    assert cudart.cudaStreamSynchronize(stream) == (ERROR.cudaErrorUnknown,)
    assert str(zcuda_compat.last_failure()) == (
        "cudaErrorUnknown (999): the host function broken raised ValueError: no such file"
    )
    cudart.cudaGetLastError()
    checked(cudart.cudaStreamSynchronize(stream))


def test_many_submissions_are_taken_with_bounded_room(stream: Any) -> None:
    address = checked(cudart.cudaMalloc(4))
    checked(cudart.cudaMemset(address, 0, 4))
    increment = kernel(load(PTX), b"increment")
    for _ in range(5000):
        checked(cudart.cudaLaunchKernel(increment, ONE, ONE, pointers(address), 0, stream))
    checked(cudart.cudaStreamSynchronize(stream))
    assert numbers(address, 1).tolist() == [5000]
    checked(cudart.cudaFree(address))


def test_streams_overlap(stream: Any) -> None:
    """A kernel waits for a flag that a copy on another stream sets."""
    other = checked(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
    flag = checked(cudart.cudaMalloc(4))
    checked(cudart.cudaMemset(flag, 0, 4))
    checked(cudart.cudaDeviceSynchronize())
    checked(cudart.cudaLaunchKernel(kernel(load(PTX), b"spin"), ONE, ONE, pointers(flag), 0, stream))
    assert cudart.cudaStreamQuery(stream) == (ERROR.cudaErrorNotReady,)
    checked(cudart.cudaMemcpyAsync(flag, np.ones(1, np.uint32), 4, H2D, other))
    checked(cudart.cudaStreamSynchronize(stream))
    checked(cudart.cudaStreamDestroy(other))
    checked(cudart.cudaFree(flag))
    cudart.cudaGetLastError()
