"""Awaitable outcomes: `Completion`, and the `Op` that every submission returns.

An outcome is settled once, on the event loop's thread, and can be awaited any number of times, before and
after.  The `anyio.Event` behind a wait is made only when somebody really waits, so that operations nobody
awaits cost no more than their fields.  A failure that reaches nobody is kept by the context and raised by
the next sync; *observed* means that some ``await`` or `result` raised it.
"""

from __future__ import annotations

from enum import IntEnum
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from zcuda_async.callbacks import start_soon
from zcuda_async.errors import CudaError, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from zcuda_async.context import Context
    from zcuda_async.executor.base import LaunchAhead
    from zcuda_async.stream import Stream

__all__ = ("AbandonedError", "Completion", "Op", "OpState")

R = TypeVar("R")

NS_PER_MS: Final = 1e6


class AbandonedError(anyio.ClosedResourceError):
    """The operation never finished: its device was closed by an exception or cancellation, or was reset."""


async def _raise(error: Exception) -> None:
    raise error


class OpState(IntEnum):
    """Where an operation is in its life; everything from `DONE` on is final."""

    QUEUED = 0
    RUNNING = 1
    DONE = 2
    FAILED = 3


_QUEUED: Final = OpState.QUEUED
_RUNNING: Final = OpState.RUNNING
_DONE: Final = OpState.DONE
_FAILED: Final = OpState.FAILED


class Completion(Generic[R]):
    """A result or an exception that arrives once and may be awaited by any number of tasks."""

    __slots__ = ("__weakref__", "_callbacks", "_error", "_event", "_is_observed", "_state", "_value", "_waiting")

    def __init__(self) -> None:
        self._state = _QUEUED
        self._value: R | None = None
        self._error: BaseException | None = None
        self._event: anyio.Event | None = None
        self._callbacks: list[Callable[[], None]] | None = None
        self._waiting = 0
        self._is_observed = False

    @property
    def is_done(self) -> bool:
        """Whether it has finished, with a result or with an exception."""
        return self._state >= _DONE

    def result(self) -> R:
        """The result; raises what the operation raised, or `cudaErrorNotReady` if it has not finished."""
        if self._state < _DONE:
            raise CudaError(Status.cudaErrorNotReady, f"{self!r} has not finished; await it first")
        if self._error is not None:
            self._is_observed = True
            self._note_observed(self._error)
            raise self._error.with_traceback(None)
        return self._value  # type: ignore[return-value]

    def exception(self) -> BaseException | None:
        """What the operation raised, or None; `cudaErrorNotReady` if it has not finished."""
        if self._state < _DONE:
            raise CudaError(Status.cudaErrorNotReady, f"{self!r} has not finished; await it first")
        if self._error is not None:
            self._is_observed = True
            self._note_observed(self._error)
        return self._error

    def __await__(self) -> Generator[Any, Any, R]:
        return self._wait().__await__()

    async def _wait(self) -> R:
        await self.settled()
        return self.result()

    async def settled(self) -> None:
        """Wait until it has finished, however it ended; a checkpoint in any case."""
        if self._state >= _DONE:
            await checkpoint()
            return
        self.check_waiter()
        event = self._event
        if event is None:
            event = self._event = anyio.Event()
        self._waiting += 1
        try:
            await event.wait()
        finally:
            self._waiting -= 1

    @property
    def is_unobserved(self) -> bool:
        """Whether it failed, nobody was told, and nobody is about to be."""
        return self._state == _FAILED and not self._is_observed and not self._waiting

    @property
    def is_kept(self) -> bool:
        """Whether it failed and nobody was told yet, though somebody may be about to be."""
        return self._state == _FAILED and not self._is_observed

    @property
    def error(self) -> BaseException | None:
        """What it failed with, if it did; looking does not count as being told."""
        return self._error

    def mark_observed(self) -> None:
        """Count the failure as told."""
        self._is_observed = True

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Call `callback` on the loop thread when it settles; at once if it has.

        What it raises then closes the device, as an exception of its ``async with`` block does.
        """
        if self._state >= _DONE:
            callback()
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def resolve(self, value: R) -> None:
        """Settle with a result, unless settled already."""
        if self._state < _DONE:
            self._value = value
            self._state = _DONE
            self._settle()

    def fail(self, error: BaseException) -> None:
        """Settle with an exception, unless settled already."""
        if self._state < _DONE:
            self._error = error
            self._state = _FAILED
            self._settle()

    def _settle(self) -> None:
        if self._event is not None:
            self._event.set()
            self._event = None
        callbacks, self._callbacks = self._callbacks, None
        if callbacks is not None:
            for callback in callbacks:
                try:
                    callback()
                except Exception as error:  # noqa: BLE001 - the others must hear of it too, and the stream goes on
                    self._callback_failed(error)

    def _callback_failed(self, error: Exception) -> None:
        """Raise what a done callback raised where it can be heard."""
        raise error

    def check_waiter(self) -> None:
        """Raise if whoever is about to wait would never hear of the end."""

    def _note_observed(self, error: BaseException) -> None:
        """Tell the owner that `error` reached somebody."""


class Op(Completion[R]):
    """One operation on a stream, submitted already; made by the methods of `Stream`.

    ``await op`` waits for it and gives its result, or raises why it failed.  Awaiting twice, from several
    tasks, or after completion works, and is always a checkpoint.  Cancelling an ``await`` stops only the
    waiting: the operation goes on.  A failed operation that nobody awaits raises at the next sync of its
    stream or device, or when the device closes.
    """

    __slots__ = (
        "_blockers",
        "_finished_ns",
        "_next",
        "_sequence",
        "_started_ns",
        "_submitted_ns",
        "is_physical",
        "kind",
        "stream",
    )

    def __init__(self, stream: Stream, kind: str) -> None:
        # Spelt out rather than super().__init__(): this runs for every submission.
        self._state = _QUEUED
        self._value = None
        self._error = None
        self._event = None
        self._callbacks = None
        self._waiting = 0
        self._is_observed = False
        self.stream = stream
        self.kind = kind
        self.is_physical = False  # a worker or thread may still touch the operands
        self._next: Op[Any] | None = None
        self._blockers = 0
        self._sequence = 0
        self._submitted_ns = 0
        self._started_ns: int | None = None
        self._finished_ns: int | None = None

    @property
    def context(self) -> Context:
        """The context the operation belongs to."""
        return self.stream.context

    @property
    def sequence(self) -> int:
        """The number of its submission on its device, counted from 1."""
        return self._sequence

    @property
    def label(self) -> str:
        """A few words for timelines and messages."""
        return self.kind

    @property
    def size(self) -> int:
        """Bytes moved, 0 for operations that move none."""
        return 0

    @property
    def engine(self) -> str | None:
        """The copy engine that serves the operation, if one does."""
        return None

    @property
    def submitted_ms(self) -> float:
        """When it was submitted: milliseconds of the device's clock since the device was opened."""
        return self.context.to_ms(self._submitted_ns)

    @property
    def started_ms(self) -> float | None:
        """When it started, as `submitted_ms`; None before that."""
        return None if self._started_ns is None else self.context.to_ms(self._started_ns)

    @property
    def finished_ms(self) -> float | None:
        """When it finished, as `submitted_ms`; None before that."""
        return None if self._finished_ns is None else self.context.to_ms(self._finished_ns)

    @property
    def has_started(self) -> bool:
        """Whether its turn has come."""
        return self._state >= _RUNNING

    @property
    def finish_ns(self) -> int:
        """When it finished, in nanoseconds of the clock; only once it has."""
        assert self._finished_ns is not None
        return self._finished_ns

    def submitted(self, sequence: int, now_ns: int) -> None:
        """Note when it was submitted; its stream calls this once."""
        self._sequence = sequence
        self._submitted_ns = now_ns

    @property
    def following(self) -> Op[Any] | None:
        """The next operation of the stream, if it was submitted yet."""
        return self._next

    def send_behind(self, executor: LaunchAhead) -> bool:
        """Hand a launch to the executor before its turn; False for anything else."""
        del executor
        return False

    def followed_by(self, op: Op[Any]) -> None:
        """Link the next operation of the stream."""
        self._next = op

    def take_next(self) -> Op[Any] | None:
        """Unlink and return the next operation of the stream."""
        following, self._next = self._next, None
        return following

    def block_on(self, other: Op[Any]) -> None:
        """Do not start before `other` has settled, however it ends."""
        if other._state < _DONE:
            self._blockers += 1
            other.add_done_callback(self._unblock)

    def _unblock(self) -> None:
        self._blockers -= 1
        if not self._blockers and self.stream.head is self:
            self.stream.context.make_ready(self.stream)

    @property
    def can_start(self) -> bool:
        """Whether nothing but its turn keeps it from starting."""
        return self._state == _QUEUED and not self._blockers

    def start(self) -> None:
        """Begin the work; it may complete at once or later."""
        self._state = _RUNNING
        try:
            self._start()
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to whoever awaits this operation
            self.finish(error=error)

    def _start(self) -> None:
        raise NotImplementedError

    def finish(self, value: R | None = None, error: BaseException | None = None) -> None:
        """Settle a running operation and let its stream go on."""
        if self._state >= _DONE:
            return
        context = self.stream.context
        if self._finished_ns is None:
            self._finished_ns = context.now_ns()
        if self._started_ns is None:
            self._started_ns = self._finished_ns
        if not self.is_physical:
            self.release()
        if error is None:
            self._value = value
            self._state = _DONE
        else:
            self._error = error
            self._state = _FAILED
            context.note_failure(self)
        if context.recorder is not None:
            context.recorder.add(self)
        self._settle()
        self.stream.head_done(self)

    def cut_off(self, error: BaseException) -> None:
        """Settle a pending operation because its context failed or ends; its stream is emptied by the caller."""
        if self._state >= _DONE:
            return
        self._finished_ns = self.stream.context.now_ns()
        if not self.is_physical:
            self.release()
        self._error = error
        self._state = _FAILED
        self._settle()

    def release(self) -> None:
        """Let go of the operands: nothing touches them any more."""

    def _note_observed(self, error: BaseException) -> None:
        self.stream.context.note_observed(error)

    def check_waiter(self) -> None:
        """Raise for a thread whose event loop never hears of the end."""
        context = self.stream.context
        if get_ident() != context.thread:
            raise RuntimeError(
                f"{self!r} belongs to the event loop of thread {context.thread}, but thread {get_ident()} awaits it;"
                " await it there (anyio.from_thread.run)"
            )

    def _callback_failed(self, error: Exception) -> None:
        start_soon(self.stream.context.task_group, _raise, error)

    def __repr__(self) -> str:
        return f"<Op {self.label} on {self.stream.name}: {OpState(self._state).name.lower()}>"
