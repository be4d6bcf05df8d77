"""Streams: creating, waiting, ordering, host functions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final, SupportsIndex

from zcuda_async import CudaError, Status, StreamOptions
from zcuda_compat.cudart.constants import (
    cudaEventWaitExternal,
    cudaStreamNonBlocking,
    cudaStreamPerThread,
)
from zcuda_compat.cudart.results import status_call, value_call
from zcuda_compat.handles import HANDLES, HandleLike, cudaStream_t, handle_value
from zcuda_compat.numbers import c_int, c_uint
from zcuda_compat.primary import current
from zcuda_compat.stream import GREATEST_PRIORITY, LEAST_PRIORITY, Event, Stream
from zcuda_compat.thread import THREAD

__all__ = (
    "cudaLaunchHostFunc",
    "cudaStreamCreate",
    "cudaStreamCreateWithFlags",
    "cudaStreamCreateWithPriority",
    "cudaStreamDestroy",
    "cudaStreamGetDevice",
    "cudaStreamGetFlags",
    "cudaStreamGetPriority",
    "cudaStreamQuery",
    "cudaStreamSynchronize",
    "cudaStreamWaitEvent",
)

_HOST_FUNCTION: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def find_stream(handle: HandleLike) -> Stream:
    """The stream of a handle: 0 and 1 are the legacy default stream, 2 is the thread's.

    Raises:
        CudaError: `cudaErrorInvalidResourceHandle` if there is none; the sticky error of its device.
    """
    number = handle_value(handle)
    if number > cudaStreamPerThread:
        stream = HANDLES.get(number, Stream)
    elif number == cudaStreamPerThread:
        stream = current().per_thread_stream()
    else:
        stream = current().legacy
    stream.primary.check()
    return stream


@value_call
def cudaStreamCreate() -> cudaStream_t:
    """Create a stream on the current device; it is ordered against the legacy default stream."""
    return _create(0, LEAST_PRIORITY)


@value_call
def cudaStreamCreateWithFlags(flags: SupportsIndex) -> cudaStream_t:
    """Create a stream; `cudaStreamNonBlocking` keeps it apart from the legacy default stream."""
    return _create(flags, LEAST_PRIORITY)


@value_call
def cudaStreamCreateWithPriority(flags: SupportsIndex, priority: SupportsIndex) -> cudaStream_t:
    """Create a stream whose launches go first if `priority` is lower; it is brought into the device's range."""
    return _create(flags, priority)


def _create(flags: SupportsIndex, priority: SupportsIndex) -> cudaStream_t:
    flags = c_uint(flags)
    if flags not in (0, cudaStreamNonBlocking):
        raise CudaError(
            Status.cudaErrorInvalidValue,
            f"a stream's flags are cudaStreamDefault (0) or cudaStreamNonBlocking (1), got {flags:#x}",
        )
    urgency = min(max(c_int(priority), GREATEST_PRIORITY), LEAST_PRIORITY)
    stream = current().create_stream(StreamOptions(nonblocking=bool(flags), priority=urgency))
    return cudaStream_t(HANDLES.add(stream))


@status_call
def cudaStreamDestroy(stream: HandleLike) -> None:
    """Destroy a stream at once; what was submitted to it still runs."""
    HANDLES.remove(stream, Stream).close()


@status_call
def cudaStreamSynchronize(stream: HandleLike) -> None:
    """Wait until everything submitted to the stream has finished; returns what failed."""
    find_stream(stream).synchronize()


@status_call
def cudaStreamQuery(stream: HandleLike) -> None:
    """Return `cudaErrorNotReady` if the stream has unfinished work, else success or what failed."""
    found = find_stream(stream)
    if not found.is_done:
        raise CudaError(
            Status.cudaErrorNotReady, "the stream has unfinished work; wait for it with cudaStreamSynchronize"
        )


@status_call
def cudaStreamWaitEvent(stream: HandleLike, event: HandleLike, flags: SupportsIndex) -> None:
    """Order later work on the stream after the event's latest record; the host does not wait."""
    if c_uint(flags) not in (0, cudaEventWaitExternal):
        raise CudaError(Status.cudaErrorInvalidValue, f"cudaStreamWaitEvent's flags must be 0, got {flags!r}")
    found, awaited = find_stream(stream), HANDLES.get(event, Event)
    found.submit(lambda queue: queue.wait(awaited.event))


@value_call
def cudaStreamGetPriority(hStream: HandleLike) -> int:
    """Return the stream's priority."""
    return find_stream(hStream).stream.priority


@value_call
def cudaStreamGetFlags(hStream: HandleLike) -> int:
    """Return the flags the stream was created with."""
    return int(find_stream(hStream).stream.is_nonblocking)


@value_call
def cudaStreamGetDevice(hStream: HandleLike) -> int:
    """Return the stream's device."""
    return find_stream(hStream).primary.ordinal


@status_call
def cudaLaunchHostFunc(stream: HandleLike, fn: HandleLike | Callable[[object], object], userData: object) -> None:
    """Call ``fn(userData)`` in a thread after all earlier work on the stream; later work waits for it.

    `fn` is a `cudaHostFn_t`, the address of a C function ``void (void *)``, or any Python callable (which
    cuda.bindings does not take).  It must not call CUDA.
    """
    found = find_stream(stream)
    function = _host_function(fn)
    name = getattr(fn, "__name__", "host function")
    found.submit(lambda queue: queue.host_callback(lambda: _run_host_function(function, name, userData)))


def _host_function(fn: HandleLike | Callable[[object], object]) -> Callable[..., object]:
    if callable(fn):
        return fn
    address = handle_value(fn)
    if address == 0:
        raise CudaError(Status.cudaErrorInvalidValue, "cudaLaunchHostFunc fn is NULL; pass a function")
    return _HOST_FUNCTION(address)


def _run_host_function(function: Callable[..., object], name: str, data: object) -> None:
    THREAD.in_callback = True
    try:
        function(data)
    except Exception as error:
        raise CudaError(
            Status.cudaErrorUnknown, f"the host function {name} raised {type(error).__name__}: {error}"
        ) from error
    finally:
        THREAD.in_callback = False
