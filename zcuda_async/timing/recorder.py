"""The recorder: what ran where and when, for timelines and traces."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from os import PathLike

    from zcuda_async.op import Op

__all__ = ("Record", "Recorder")


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


class Recorder:
    """Keeps a `Record` of every operation that finishes on the devices opened with it.

    Args:
        limit: how many records are kept; older ones are dropped, and counted in `dropped`.
    """

    def __init__(self, *, limit: int = 1_000_000) -> None:
        if limit < 1:
            raise ValueError(f"limit must be at least 1 record, got {limit}")
        self._records: deque[Record] = deque(maxlen=limit)
        self._limit = limit
        self.dropped = 0

    @property
    def records(self) -> tuple[Record, ...]:
        """Everything recorded, in the order in which it finished."""
        return tuple(self._records)

    def clear(self) -> None:
        """Forget everything recorded."""
        self._records.clear()
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

    def to_chrome_trace(self) -> dict[str, object]:
        """The records as a Chrome trace, which Perfetto opens too."""
        from zcuda_async.timing.trace import chrome_trace

        return chrome_trace(self.records)

    def write_chrome_trace(self, path: str | PathLike[str]) -> None:
        """Write the Chrome trace as JSON.  Blocks for the file; use a thread in a service."""
        from zcuda_async.timing.trace import write_chrome_trace

        write_chrome_trace(self.records, path)

    def write_timeline(self, path: str | PathLike[str], *, title: str | None = None) -> None:
        """Draw the timeline into a picture (the file's ending says which kind).  Blocks; use a thread in a service.

        Raises:
            ImportError: matplotlib is missing; it comes with ``pip install zcuda-async[timeline]``.
            ValueError: nothing that takes time was recorded.
        """
        from zcuda_async.timing.timeline import write_timeline

        write_timeline(self.records, path, title=title)
