"""Streams and events as host threads use them: submit from any thread, wait on a native primitive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import zcuda_async as zc
from zcuda_async import CudaError, Status
from zcuda_compat.bridge import BRIDGE

if TYPE_CHECKING:
    from collections.abc import Callable

    from zcuda_compat.primary import Primary

__all__ = ("GREATEST_PRIORITY", "LEAST_PRIORITY", "Event", "Stream")

GREATEST_PRIORITY: Final = -5
LEAST_PRIORITY: Final = 0
"""The priorities that `zcuda_async.StreamOptions` has; lower numbers are more urgent."""

T = TypeVar("T")

_DEPTH: Final = 1024
"""Submissions between two looks at how far the stream is; twice as many may be unfinished."""


class Stream:
    """One stream of a device; made by `Primary.create_stream`."""

    def __init__(self, primary: Primary, stream: zc.Stream, *, is_legacy: bool = False) -> None:
        self.primary = primary
        self.stream = stream
        self._is_legacy = is_legacy
        self._submitted = 0
        self._mark: zc.Op[Any] | None = None
        self._late: Exception | None = None

    def submit(self, submission: Callable[[zc.Stream], object]) -> None:
        """Have something submitted to the stream; does not wait, except for room.

        The caller has checked its arguments, so the submission can only fail for what happened meanwhile; the
        next sync reports that.
        """
        self._submitted += 1
        if not self._submitted % _DEPTH:
            self._wait_for_room()
        BRIDGE.post(lambda: self._submit(submission))

    def _submit(self, submission: Callable[[zc.Stream], object]) -> None:
        try:
            submission(self.stream)
        except Exception as error:  # noqa: BLE001 - the next sync raises it
            self._late = self._late or error

    def _wait_for_room(self) -> None:
        """Wait for what was submitted last time this was called."""
        mark = self._mark
        self._mark = BRIDGE.call(lambda: self.stream.tail)
        if mark is not None:
            BRIDGE.settle(lambda: [mark])

    def complete(self, submission: Callable[[zc.Stream], zc.Op[T]]) -> T:
        """Have an operation submitted, and wait until it has finished; raises why it failed."""
        return BRIDGE.complete(lambda: submission(self.stream))

    @property
    def is_done(self) -> bool:
        """Whether everything submitted so far has finished; raises what a sync would raise then."""
        BRIDGE.flush()
        self.primary.check()
        if not self.stream.is_done:
            return False
        self.synchronize()
        return True

    def synchronize(self) -> None:
        """Wait for everything submitted so far; raises what failed."""
        context = self.primary.context
        is_busy = not self.stream.is_done or (self._is_legacy and context.busy_blocking)
        if is_busy or not BRIDGE.is_quiet:
            self.primary.settle(self._pending)
        self.primary.check()
        if context.has_failures:
            BRIDGE.run(self.stream.sync)
        late, self._late = self._late, None
        if late is not None:
            raise late

    def _pending(self) -> list[zc.Op[Any]]:
        """On the loop: the operations that a sync waits for."""
        if self._is_legacy and self.primary.context.busy_blocking:
            self.stream.record()  # the legacy default stream stands for all blocking streams
        tail = self.stream.tail
        return [] if tail is None else [tail]

    def close(self) -> None:
        """Refuse further work; what was submitted still runs."""
        BRIDGE.post(self.stream.close)


class Event:
    """One event of a device."""

    def __init__(self, primary: Primary, options: zc.EventOptions) -> None:
        primary.check()
        self.primary = primary
        self.event = BRIDGE.call(lambda: primary.device.create_event(options))

    def record(self, stream: Stream) -> None:
        """Make the event stand for all work submitted to `stream` so far."""
        if stream.primary is not self.primary:
            raise CudaError(
                Status.cudaErrorInvalidResourceHandle,
                f"the event is of device {self.primary.ordinal}, the stream of device {stream.primary.ordinal};"
                " create the event while the stream's device is current",
            )
        stream.submit(lambda target: target.record(self.event))

    @property
    def is_done(self) -> bool:
        """Whether the latest record was reached."""
        BRIDGE.flush()
        self.primary.check()
        return self.event.is_done

    def synchronize(self) -> None:
        """Wait for the latest record."""
        record = BRIDGE.call(lambda: self.event.latest_record) if not BRIDGE.is_quiet else self.event.latest_record
        if record is not None and not record.is_done:
            self.primary.settle(lambda: [record])
        self.primary.check()
        if record is not None and record.error is not None:
            BRIDGE.run(self.event.sync)

    def elapsed_ms(self, end: Event) -> float:
        """Milliseconds from this event to another."""
        BRIDGE.flush()
        self.primary.check()
        return zc.elapsed_ms(self.event, end.event)
