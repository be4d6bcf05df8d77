"""The loop bridge: one background thread runs the event loop on which the async runtime lives.

Threads that call CUDA hand functions to that loop and, if they must, wait for the answer on a plain lock,
which Ctrl-C interrupts.  Functions run in the order in which they were handed over, whoever did.

The loop thread is no daemon, so nothing is torn down under it.  A second thread, the keeper, waits until the main
thread and all other non-daemon threads have ended, then stops the loop: what it holds (devices, their workers) is
gone before the interpreter is.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from concurrent.futures import Future
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from zcuda_async import CudaError, Op, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from contextlib import AbstractAsyncContextManager

__all__ = ("BRIDGE", "Bridge")

T = TypeVar("T")

_BATCH: Final = 256
"""Functions run in one go before the loop looks at its sockets again."""


class _Reply(Generic[T]):
    """An answer that one thread waits for."""

    __slots__ = ("_claims", "_error", "_lock", "_value", "is_abandoned")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._claims = [None]  # popped by whoever answers first
        self._value: T | None = None
        self._error: BaseException | None = None
        self.is_abandoned = False

    @property
    def is_settled(self) -> bool:
        return not self._claims

    def resolve(self, value: T) -> None:
        if self._claim():
            self._value = value
            self._lock.release()

    def fail(self, error: BaseException) -> None:
        if self._claim():
            self._error = error
            self._lock.release()

    def _claim(self) -> bool:
        try:
            self._claims.pop()
        except IndexError:
            return False
        return True

    def wait(self) -> T:
        self._lock.acquire()
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]


class Bridge:
    """The loop thread and the ways to reach it; everything public is for any thread."""

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._queue: deque[Callable[[], None]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started: Future[asyncio.AbstractEventLoop] | None = None
        self._thread: threading.Thread | None = None
        self._loop_thread = 0
        self._stop: asyncio.Event
        self._has_keeper = False
        self._is_final = False
        self._wakeup: asyncio.Future[None]
        self._is_pumping = False
        self._refusal: CudaError | None = None
        self._replies: set[_Reply[Any]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: list[asyncio.Task[None]] = []
        os.register_at_fork(after_in_child=self._forked)

    # -- for any thread -----------------------------------------------------------------------------------

    @property
    def has_ended(self) -> bool:
        """Whether the loop has stopped, or is just stopping."""
        return self._refusal is not None

    @property
    def is_quiet(self) -> bool:
        """Whether every function handed over so far has run."""
        return not self._queue

    def post(self, function: Callable[[], None]) -> None:
        """Have `function`, which must not raise, called on the loop; does not wait.

        Raises:
            CudaError: `cudaErrorCudartUnloading` when the interpreter is shutting down,
                `cudaErrorInitializationError` in a forked child.
        """
        loop = self._ready_loop()
        self._queue.append(function)
        if self._is_pumping:
            return  # it looks at the queue again before it stops
        try:
            loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            raise self._unloading() from None

    def call(self, function: Callable[[], T]) -> T:
        """Call `function` on the loop, and return its result or raise its exception."""
        self._refuse_loop_thread()
        reply: _Reply[T] = _Reply()

        def run() -> None:
            try:
                reply.resolve(function())
            except Exception as error:  # noqa: BLE001 - the caller gets it
                reply.fail(error)

        return self._ask(reply, run)

    def run(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run an async function on the loop, and return its result or raise its exception.

        An interrupt of the waiting cancels the function.
        """
        self._refuse_loop_thread()
        reply: _Reply[T] = _Reply()
        task: asyncio.Task[None] | None = None

        def start() -> None:
            nonlocal task
            task = asyncio.get_running_loop().create_task(_answer(reply, function))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        def cancel() -> None:
            if task is not None:
                task.cancel()

        try:
            return self._ask(reply, start)
        finally:
            if reply.is_abandoned:
                self.post(cancel)

    def complete(self, submission: Callable[[], Op[T]]) -> T:
        """Submit an operation on the loop, and wait until it has finished.

        If the waiting is interrupted the operation goes on, and its failure goes to the next sync.
        """
        self._refuse_loop_thread()
        reply: _Reply[T] = _Reply()

        def submit() -> None:
            try:
                op = submission()
            except Exception as error:  # noqa: BLE001 - the caller gets it
                reply.fail(error)
            else:
                op.add_done_callback(lambda: _tell(reply, op))

        return self._ask(reply, submit)

    def settle(self, find: Callable[[], Iterable[Op[Any]]]) -> None:
        """Wait until every operation that `find`, called on the loop, gives has ended, well or not.

        Nobody counts as told of a failure.
        """
        self._refuse_loop_thread()
        reply: _Reply[None] = _Reply()

        def look() -> None:
            try:
                pending = [op for op in find() if not op.is_done]
            except Exception as error:  # noqa: BLE001 - the caller gets it
                reply.fail(error)
                return
            left = len(pending)

            def ended() -> None:
                nonlocal left
                left -= 1
                if left <= 0:
                    reply.resolve(None)

            for op in pending:
                op.add_done_callback(ended)
            if not pending:
                ended()

        self._ask(reply, look)

    def flush(self) -> None:
        """Wait until every function handed over so far has run."""
        if self._queue:
            self.call(_nothing)

    def hold(self, scope: AbstractAsyncContextManager[T]) -> T:
        """Enter an async scope on the loop and return what it gives; it is left when the loop stops."""
        self._refuse_loop_thread()
        reply: _Reply[T] = _Reply()

        def start() -> None:
            self._held.append(asyncio.get_running_loop().create_task(_hold(reply, scope)))

        return self._ask(reply, start)

    def shutdown(self) -> None:
        """Leave what is held and stop the loop; waits for that.  The next use starts a new one."""
        self._refuse_loop_thread()
        with self._starting:
            if self._thread is None or self._is_final:
                return
            loop = self._loop
            if loop is not None:
                loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
            self._thread = self._started = self._refusal = None

    # -- inside -------------------------------------------------------------------------------------------

    def _ask(self, reply: _Reply[T], function: Callable[[], None]) -> T:
        self._replies.add(reply)
        try:
            self.post(function)
            if self._refusal is not None:
                reply.fail(self._unloading())
            return reply.wait()
        except BaseException:  # Ctrl-C, if the reply is not there
            reply.is_abandoned = not reply.is_settled
            raise
        finally:
            self._replies.discard(reply)

    def _refuse_loop_thread(self) -> None:
        if get_ident() == self._loop_thread:
            raise RuntimeError(
                "a blocking CUDA call was made on the thread of the runtime's own event loop, which it would wait for"
                " forever; make it in another thread (asyncio.to_thread), or await the zcuda_async call instead"
            )

    def _ready_loop(self) -> asyncio.AbstractEventLoop:
        loop = self._loop
        if loop is not None:
            return loop
        with self._starting:
            if self._refusal is not None:
                raise self._unloading()
            if self._started is None:
                self._started = Future()
                self._thread = threading.Thread(target=self._run, args=(self._started,), name="zcuda loop")
                self._thread.start()
            return self._started.result()

    def _unloading(self) -> CudaError:
        if self._refusal is None:
            self._refusal = CudaError(
                Status.cudaErrorCudartUnloading, "the interpreter is shutting down; finish CUDA work before that"
            )
        return self._refusal

    def _run(self, started: Future[asyncio.AbstractEventLoop]) -> None:
        asyncio.run(self._main(started))

    async def _main(self, started: Future[asyncio.AbstractEventLoop]) -> None:
        self._stop = asyncio.Event()
        self._loop_thread = get_ident()
        self._loop = asyncio.get_running_loop()
        if not self._has_keeper:
            self._has_keeper = True
            threading.Thread(target=self._keep, name="zcuda keeper").start()
        self._is_pumping = True
        pump = self._loop.create_task(self._pump())
        pump.add_done_callback(lambda _: self._stop.set())
        started.set_result(self._loop)
        await self._stop.wait()
        error = self._unloading()
        self._loop = None
        tasks = [pump, *self._tasks, *self._held]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._held.clear()
        self._queue.clear()
        self._loop_thread = 0
        for reply in list(self._replies):
            reply.fail(error)
        if not pump.cancelled():
            pump.result()  # a function raised, which none may: show it

    def _keep(self) -> None:
        threading.main_thread().join()
        while others := [thread for thread in threading.enumerate() if self._may_call(thread)]:
            for thread in others:
                thread.join()
        self._is_final = True
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._stop.set)

    def _may_call(self, thread: threading.Thread) -> bool:
        """Whether a thread that the interpreter waits for may still make calls."""
        if thread.daemon or thread in (threading.main_thread(), threading.current_thread(), self._thread):
            return False
        return type(thread).__module__.partition(".")[0] != "anyio"  # its workers end with their loop, such as ours

    async def _pump(self) -> None:
        """Run what is handed over: in a task, as the async runtime expects to be used."""
        queue, loop = self._queue, asyncio.get_running_loop()
        while True:
            self._run_batch()
            if queue:
                await asyncio.sleep(0)
                continue
            self._wakeup = loop.create_future()
            self._is_pumping = False
            if not queue:
                await self._wakeup
            self._is_pumping = True

    def _run_batch(self) -> None:
        queue = self._queue
        for _ in range(_BATCH):
            if not queue:
                return
            try:
                queue[0]()
            finally:
                queue.popleft()  # only now, so that an empty queue means that everything has run

    def _wake(self) -> None:
        if not self._wakeup.done():
            self._wakeup.set_result(None)

    def _forked(self) -> None:
        """In a forked child, the loop's thread does not exist."""
        if self._started is None:
            return
        self._starting = threading.Lock()
        self._loop = None
        self._loop_thread = 0
        self._refusal = CudaError(
            Status.cudaErrorInitializationError,
            "this process was forked from one that used CUDA, which does not work; start it with the 'spawn' method",
        )


def _nothing() -> None:
    """A function whose call shows that all earlier ones have run."""


def _tell(reply: _Reply[T], op: Op[T]) -> None:
    if reply.is_abandoned:
        return
    error = op.exception()
    if error is None:
        reply.resolve(op.result())
    else:
        reply.fail(error)


async def _answer(reply: _Reply[T], function: Callable[[], Coroutine[Any, Any, T]]) -> None:
    try:
        reply.resolve(await function())
    except Exception as error:  # noqa: BLE001 - the caller gets it
        reply.fail(error)


async def _hold(reply: _Reply[T], scope: AbstractAsyncContextManager[T]) -> None:
    try:
        async with scope as value:
            reply.resolve(value)
            await asyncio.Event().wait()  # cancelled when the loop stops
    except Exception as error:
        if reply.is_settled:
            raise
        reply.fail(error)


BRIDGE: Final = Bridge()
"""The process's bridge; its threads start with the first use."""
