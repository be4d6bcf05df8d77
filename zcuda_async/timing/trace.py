"""Records as a Chrome trace: the JSON that Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zcuda_async.timing.lanes import ENGINE_NAMES, MARKS, PHASES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike

    from zcuda_async.timing.recorder import Phase, Record

__all__ = ("chrome_trace", "write_chrome_trace")


def chrome_trace(records: Iterable[Record], phases: Iterable[Phase] = ()) -> dict[str, object]:
    """The trace as plain data, times in µs.

    A process per device; in it a thread for its phases, if it has any, one per stream and one per copy engine.
    """
    lanes = _Lanes()
    events = [_phase(phase, *lanes.of(phase.device, PHASES)) for phase in phases]
    for record in records:
        events.append(_event(record, *lanes.of(record.device, record.stream)))
        if record.engine is not None:
            events.append(_event(record, *lanes.of(record.device, ENGINE_NAMES[record.engine])))
    return {"traceEvents": lanes.names + events, "displayTimeUnit": "ms"}


def write_chrome_trace(records: Iterable[Record], path: str | PathLike[str], phases: Iterable[Phase] = ()) -> None:
    """Write `chrome_trace` to a file."""
    Path(path).write_text(json.dumps(chrome_trace(records, phases)), encoding="utf-8")


def _event(record: Record, process: int, thread: int) -> dict[str, Any]:
    arguments: dict[str, Any] = {"submitted_ms": record.submitted_ms, "stream": record.stream}
    if record.size:
        arguments["size_bytes"] = record.size
    if record.error is not None:
        arguments["error"] = record.error
    event = {
        "name": record.label,
        "cat": record.kind,
        "pid": process,
        "tid": thread,
        "ts": record.started_ms * 1e3,
        "args": arguments,
    }
    if record.kind in MARKS:
        return {**event, "ph": "i", "s": "t"}
    return {**event, "ph": "X", "dur": record.duration_ms * 1e3}


def _phase(phase: Phase, process: int, thread: int) -> dict[str, Any]:
    return {
        "name": phase.label,
        "cat": "phase",
        "pid": process,
        "tid": thread,
        "ph": "X",
        "ts": phase.started_ms * 1e3,
        "dur": phase.duration_ms * 1e3,
    }


class _Lanes:
    """Numbers devices and lanes as they appear, and names them for the viewer."""

    def __init__(self) -> None:
        self._processes: dict[str, int] = {}
        self._threads: dict[tuple[int, str], int] = {}
        self.names: list[dict[str, Any]] = []

    def of(self, device: str, lane: str) -> tuple[int, int]:
        """The process and thread numbers of a lane."""
        process = self._processes.get(device)
        if process is None:
            process = self._processes[device] = len(self._processes) + 1
            self.names.append({"name": "process_name", "ph": "M", "pid": process, "args": {"name": device}})
        thread = self._threads.get((process, lane))
        if thread is None:
            thread = self._threads[process, lane] = len(self._threads) + 1
            name = {"name": "thread_name", "ph": "M", "pid": process, "tid": thread, "args": {"name": lane}}
            self.names.append(name)
        return process, thread
