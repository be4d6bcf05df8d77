"""The recorder: what ran where and when, for timelines and traces."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from os import PathLike

    from zcuda_async.event import Event
    from zcuda_async.op import Op

__all__ = ("Phase", "Record", "Recorder")


@dataclass(frozen=True, slots=True)
class Record:
    """One finished operation.  Times are milliseconds of the device's clock since the device was opened."""

    device: str
    stream: str
    kind: str
    label: str
    size: int
    submitted_ms: float
    started_ms: float
    finished_ms: float
    engine: str | None = None
    error: str | None = None

    @property
    def duration_ms(self) -> float:
        """How long it ran."""
        return self.finished_ms - self.started_ms


@dataclass(frozen=True, slots=True)
class Phase:
    """A named part of a device's time, made by `Recorder.mark`.  Times are those of a `Record`."""

    device: str
    label: str
    started_ms: float
    finished_ms: float

    @property
    def duration_ms(self) -> float:
        """How long it was."""
        return self.finished_ms - self.started_ms


class Recorder:
    """Keeps a `Record` of every operation that finishes on the devices opened with it.

    Args:
        limit: how many records are kept, and how many phases; older ones are dropped.  `dropped` counts the records.
    """

    def __init__(self, *, limit: int = 1_000_000) -> None:
        if limit < 1:
            raise ValueError(f"limit must be at least 1 record, got {limit}")
        self._records: deque[Record] = deque(maxlen=limit)
        self._phases: deque[Phase] = deque(maxlen=limit)
        self._limit = limit
        self.dropped = 0

    @property
    def records(self) -> tuple[Record, ...]:
        """Everything recorded, in the order in which it finished."""
        return tuple(self._records)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """What `mark` named, in the order of its calls."""
        return tuple(self._phases)

    def clear(self) -> None:
        """Forget everything recorded, and all phases."""
        self._records.clear()
        self._phases.clear()
        self.dropped = 0

    def add(self, op: Op[Any]) -> None:
        """Record an operation that has just finished; the device calls this."""
        context = op.context
        started, finished = op.started_ms, op.finished_ms
        assert started is not None
        assert finished is not None
        self.dropped += len(self._records) == self._limit
        self._records.append(
            Record(
                context.name,
                op.stream.name,
                op.kind,
                op.label,
                op.size,
                op.submitted_ms,
                started,
                finished,
                op.engine,
                None if op.error is None else str(op.error),
            )
        )

    def mark(self, label: str, start: Event, end: Event) -> Phase:
        """Name the time between two events: a shaded band in the picture, and a lane `phases` in the trace.

        Raises:
            CudaError: as for ``end - start``: `cudaErrorInvalidResourceHandle` if one was never recorded, has no
                timing, or the two are of different devices; `cudaErrorNotReady` if one was not reached yet.
            ValueError: `end` was reached before `start`, or their device was opened without this recorder.
        """
        duration_ms, context = end - start, start.context
        if duration_ms < 0:
            raise ValueError(
                f"phase {label!r} ends {-duration_ms:.4g} ms before it starts; pass the earlier event first"
            )
        if context.recorder is not self:
            raise ValueError(
                f"phase {label!r} is of {context.name}, which has another recorder or none;"
                " pass this one to open_device(recorder=...)"
            )
        phase = Phase(context.name, label, start.time_ms, end.time_ms)
        self._phases.append(phase)
        return phase

    def to_chrome_trace(self) -> dict[str, object]:
        """The records and phases as a Chrome trace, which Perfetto opens too."""
        from zcuda_async.timing.trace import chrome_trace

        return chrome_trace(self.records, self.phases)

    def write_chrome_trace(self, path: str | PathLike[str]) -> None:
        """Write the Chrome trace as JSON.  Blocks for the file; use a thread in a service."""
        from zcuda_async.timing.trace import write_chrome_trace

        write_chrome_trace(self.records, path, self.phases)

    def write_timeline(self, path: str | PathLike[str], *, title: str | None = None) -> None:
        """Draw the timeline into a picture (the file's ending says which kind).  Blocks; use a thread in a service.

        Raises:
            ImportError: matplotlib is missing; it comes with ``pip install zcuda-async[timeline]``.
            ValueError: nothing that takes time was recorded.
        """
        from zcuda_async.timing.timeline import write_timeline

        write_timeline(self.records, path, phases=self.phases, title=title)
