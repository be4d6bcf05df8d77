"""Events: creating, recording, waiting, timing."""

from __future__ import annotations

from typing import Final, SupportsIndex

from zcuda_async import CudaError, EventOptions, Status
from zcuda_compat.cudart.constants import cudaEventBlockingSync, cudaEventDisableTiming, cudaEventInterprocess
from zcuda_compat.cudart.results import status_call, value_call
from zcuda_compat.cudart.stream import find_stream
from zcuda_compat.handles import HANDLES, HandleLike, cudaEvent_t
from zcuda_compat.numbers import c_uint
from zcuda_compat.primary import current
from zcuda_compat.stream import Event

__all__ = (
    "cudaEventCreate",
    "cudaEventCreateWithFlags",
    "cudaEventDestroy",
    "cudaEventElapsedTime",
    "cudaEventQuery",
    "cudaEventRecord",
    "cudaEventRecordWithFlags",
    "cudaEventSynchronize",
)

_FLAGS: Final = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess


@value_call
def cudaEventCreate() -> cudaEvent_t:
    """Create an event on the current device, complete until it is recorded."""
    return _create(0)


@value_call
def cudaEventCreateWithFlags(flags: SupportsIndex) -> cudaEvent_t:
    """Create an event; with `cudaEventDisableTiming` it keeps no time.  Events between processes are not supported."""
    return _create(flags)


def _create(flags: SupportsIndex) -> cudaEvent_t:
    flags = c_uint(flags)
    if flags & ~_FLAGS or (flags & cudaEventInterprocess and not flags & cudaEventDisableTiming):
        raise CudaError(
            Status.cudaErrorInvalidValue,
            f"an event has no flags {flags:#x}; combine cudaEventBlockingSync and cudaEventDisableTiming",
        )
    if flags & cudaEventInterprocess:
        raise CudaError(Status.cudaErrorNotSupported, "events cannot be shared between processes")
    options = EventOptions(
        timing_enabled=not flags & cudaEventDisableTiming, blocking_sync=bool(flags & cudaEventBlockingSync)
    )
    return cudaEvent_t(HANDLES.add(Event(current(), options)))


@status_call
def cudaEventDestroy(event: HandleLike) -> None:
    """Destroy an event at once; those who wait for it are not disturbed."""
    HANDLES.remove(event, Event)


@status_call
def cudaEventRecord(event: HandleLike, stream: HandleLike) -> None:
    """Make the event stand for all work submitted to the stream so far; both are of one device."""
    found = HANDLES.get(event, Event)
    found.record(find_stream(stream))


@status_call
def cudaEventRecordWithFlags(event: HandleLike, stream: HandleLike, flags: SupportsIndex) -> None:
    """As `cudaEventRecord`; flags matter only in stream capture."""
    if c_uint(flags) not in (0, 1):
        raise CudaError(Status.cudaErrorInvalidValue, f"cudaEventRecordWithFlags has no flags {flags!r}")
    found = HANDLES.get(event, Event)
    found.record(find_stream(stream))


@status_call
def cudaEventSynchronize(event: HandleLike) -> None:
    """Wait for the event's latest record."""
    HANDLES.get(event, Event).synchronize()


@status_call
def cudaEventQuery(event: HandleLike) -> None:
    """Return `cudaErrorNotReady` if the event's latest record was not reached yet."""
    if not HANDLES.get(event, Event).is_done:
        raise CudaError(
            Status.cudaErrorNotReady, "the event was not reached yet; wait for it with cudaEventSynchronize"
        )


@value_call
def cudaEventElapsedTime(start: HandleLike, end: HandleLike) -> float:
    """Return the milliseconds between the records of two events of one device."""
    first = HANDLES.get(start, Event)
    return first.elapsed_ms(HANDLES.get(end, Event))
