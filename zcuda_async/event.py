"""Events: awaitable, re-recordable, timed marks in streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anyio.lowlevel import checkpoint

from zcuda_async.errors import CudaError, Status
from zcuda_async.op import NS_PER_MS

if TYPE_CHECKING:
    from collections.abc import Generator

    from zcuda_async.context import Context
    from zcuda_async.options import EventOptions
    from zcuda_async.work import MarkerOp

__all__ = ("Event", "elapsed_ms")


class Event:
    """A point in a stream, made by `Device.create_event` or `Stream.record`.

    ``await event`` waits for the latest record at the moment of the await; recording again meanwhile does not
    change what is waited for.  `Stream.wait` orders another stream after it and never waits itself.  A never
    recorded event is complete.
    """

    __slots__ = ("__weakref__", "_context", "_is_timed", "_name", "_record")

    def __init__(self, context: Context, options: EventOptions | None = None) -> None:
        self._context = context
        self._is_timed = options is None or options.timing_enabled
        self._name = None if options is None else options.name
        self._record: MarkerOp | None = None

    @property
    def name(self) -> str:
        """What messages call the event."""
        return self._name or "event"

    @property
    def context(self) -> Context:
        """The context of the event's device."""
        return self._context

    @property
    def is_timed(self) -> bool:
        """Whether it keeps the time of its record."""
        return self._is_timed

    @property
    def is_done(self) -> bool:
        """Whether the latest record was reached; True if there is none."""
        return self._record is None or self._record.is_done

    @property
    def latest_record(self) -> MarkerOp | None:
        """The operation that recorded it last, None if it never was."""
        return self._record

    def recorded_by(self, op: MarkerOp) -> None:
        """Make `op` the latest record; `Stream.record` calls this."""
        self._record = op

    def __await__(self) -> Generator[Any, Any, None]:
        return self.sync().__await__()

    async def sync(self) -> None:
        """Wait for the latest record; a checkpoint in any case.

        Cancelling stops only the waiting.

        Raises:
            CudaError: the context's sticky error, if the record was lost to one.
            AbandonedError: the device was closed or reset before the record was reached.
        """
        record = self._record
        if record is None:
            await checkpoint()
        else:
            await record

    @property
    def time_ms(self) -> float:
        """When the latest record was reached: milliseconds of the device's clock since it was opened.

        Raises:
            CudaError: `cudaErrorInvalidResourceHandle` if it was never recorded or has no timing,
                `cudaErrorNotReady` if the record was not reached yet.
        """
        return self._context.to_ms(self.time_ns)

    @property
    def time_ns(self) -> int:
        """As `time_ms`, in nanoseconds of the clock itself."""
        if not self._is_timed:
            raise CudaError(
                Status.cudaErrorInvalidResourceHandle,
                f"{self.name} was made with timing_enabled=False, so it has no time; make it with timing",
            )
        if self._record is None:
            raise CudaError(
                Status.cudaErrorInvalidResourceHandle,
                f"{self.name} was never recorded, so it has no time; call stream.record(event) first",
            )
        if not self._record.is_done:
            raise CudaError(Status.cudaErrorNotReady, f"{self.name} was recorded but not reached yet; await it first")
        self._record.result()
        return self._record.time_ns

    def __sub__(self, start: Event) -> float:
        if not isinstance(start, Event):
            return NotImplemented
        return elapsed_ms(start, self)

    def __repr__(self) -> str:
        state = "never recorded" if self._record is None else "done" if self._record.is_done else "pending"
        return f"<Event {self.name}: {state}>"


def elapsed_ms(start: Event, end: Event) -> float:
    """Milliseconds from one event's record to another's, by the device's clock; also ``end - start``.

    Raises:
        CudaError: `cudaErrorInvalidResourceHandle` if one was never recorded, has no timing, or the two are of
            different devices; `cudaErrorNotReady` if one was not reached yet.
    """
    if start.context is not end.context:
        raise CudaError(
            Status.cudaErrorInvalidResourceHandle,
            f"{start.name} and {end.name} belong to different open devices; time an interval with events of one",
        )
    start_ns = start.time_ns
    return (end.time_ns - start_ns) / NS_PER_MS
