"""What finished next: an asynchronous iterator over operations, events and streams in the order of their ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from zcuda_async.event import Event
from zcuda_async.op import Completion
from zcuda_async.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("Awaited", "as_completed")

Awaited = Completion[Any] | Event | Stream
T = TypeVar("T", bound=Awaited)


def as_completed(awaited: Iterable[T]) -> AsCompleted[T]:
    """Iterate over operations, events or streams as they finish: ``async for op in zc.as_completed(ops)``.

    Each comes once for every time it was given, the very object; what is finished already comes first, in the order
    given.  An operation that failed comes like any other: ``await op``, at once, raises what it raised.  What counts is
    what each stands for at the call: an event for its latest record (one that was never recorded has finished), a
    stream for everything submitted to it so far.  Leaving the loop early, or cancelling it, leaves the operations
    alone.  One task iterates at a time.

    Args:
        awaited: anything that can be iterated over; operations of several devices of one event loop may be mixed.

    Raises:
        TypeError: one of them is something else.
        RuntimeError: one of them belongs to another thread's event loop.
    """
    return AsCompleted(awaited)


class AsCompleted(Generic[T]):
    """What `as_completed` returns."""

    __slots__ = ("_finished", "_left", "_woken")

    def __init__(self, awaited: Iterable[T]) -> None:
        things = list(awaited)
        ends = [_end_of(thing) for thing in things]
        self._finished: deque[T] = deque()
        self._left = len(things)
        self._woken: anyio.Event | None = None
        for end in ends:
            if end is not None:
                end.check_waiter()
        for thing, end in zip(things, ends, strict=True):
            if end is None:
                self._finished.append(thing)
            else:
                end.add_done_callback(self._finish(thing))

    def _finish(self, thing: T) -> Callable[[], None]:
        def finish() -> None:
            self._finished.append(thing)
            if self._woken is not None:
                self._woken.set()

        return finish

    def __len__(self) -> int:
        """How many are still to come."""
        return self._left

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if not self._left:
            await checkpoint()
            raise StopAsyncIteration
        if self._finished:
            await checkpoint()
        while not self._finished:
            self._woken = anyio.Event()
            await self._woken.wait()
        self._left -= 1
        return self._finished.popleft()


def _end_of(thing: Awaited) -> Completion[Any] | None:
    """The operation that a thing stands for now; None if it has nothing to wait for."""
    if isinstance(thing, Completion):
        return thing
    if isinstance(thing, Event):
        return thing.latest_record
    if isinstance(thing, Stream):
        return thing.tail
    raise TypeError(f"as_completed takes operations, events and streams, got {type(thing).__name__}")
