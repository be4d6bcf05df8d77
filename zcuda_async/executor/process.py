"""One worker process as the parent holds it: its socket, its loaded kernels, its end."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from subprocess import Popen
from typing import TYPE_CHECKING, Final

import anyio

from zcuda_async.callbacks import start_soon
from zcuda_async.executor.child import spawn_child
from zcuda_async.executor.protocol import REPLY, WorkerArguments
from zcuda_async.executor.readiness import notify_closing, watch_readable
from zcuda_async.threads import run_blocking

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from zcuda_async.memory.arena import Arena
    from zcuda_async.memory.mapping import WorkerRegion

__all__ = ("SpawnedWorker", "WorkerProcess", "discard_workers", "spawn_workers")

_RECEIVE: Final = REPLY.size * 128
"""Replies handled at a time, few enough that other tasks of the loop get their turn."""


@dataclass(frozen=True, slots=True)
class SpawnedWorker:
    """A process just started, not yet attached to an event loop."""

    index: int
    process: Popen[bytes]
    socket: socket.socket


def spawn_workers(arena: Arena, indices: Sequence[int]) -> tuple[int, list[SpawnedWorker]]:
    """Start one process per worker region; blocks for a few milliseconds each.

    Returns the write end of their death pipe, which must stay open as long as they are to live, and
    the processes.  They have not come up yet, but can be sent commands.

    Raises:
        OSError: a process could not be made; none is left.
    """
    death_read, death_write = os.pipe()
    spawned: list[SpawnedWorker] = []
    try:
        for index in indices:
            spawned.append(_spawn(arena, index, death_read))  # noqa: PERF401 - kept when a later one fails
    except BaseException:
        discard_workers(death_write, spawned)
        raise
    finally:
        os.close(death_read)
    return death_write, spawned


def discard_workers(death_fd: int, spawned: Sequence[SpawnedWorker]) -> None:
    """End processes that nobody will use, and wait for them."""
    os.close(death_fd)
    for worker in spawned:
        worker.socket.close()
        worker.process.kill()
        worker.process.wait()


def _spawn(arena: Arena, index: int, death_fd: int) -> SpawnedWorker:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    layout = arena.layout
    arguments = WorkerArguments(
        index, arena.fd, theirs.fileno(), death_fd, os.getpid(), layout.base, layout.host_bytes, layout.device_bytes
    )
    try:
        process = spawn_child(
            "zcuda_async.executor.worker",
            arguments.to_strings(),
            pass_fds=(arena.fd, theirs.fileno(), death_fd),
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return SpawnedWorker(index, process, ours)


class WorkerProcess:
    """A worker as seen from the event loop.  Commands go out in order and never block.

    `load` counts the launches it takes part in, `loaded` holds the ids of the code it has.
    """

    def __init__(self, spawned: SpawnedWorker, region: WorkerRegion, task_group: TaskGroup) -> None:
        self.index: Final = spawned.index
        self.pid: Final = spawned.process.pid
        self.region: Final = region
        self.load = 0
        self.loaded: set[int] = set()
        self._socket = spawned.socket
        self._process = spawned.process
        self._task_group = task_group
        self._unsent = bytearray()
        self._received = b""
        self._is_closing = False
        self._waiting: set[anyio.Event] = set()

    @property
    def returncode(self) -> int | None:
        """As `Popen.returncode`: negative for death by a signal, None until reaped."""
        return self._process.returncode

    def send(self, message: bytes) -> None:
        """Send a command, or queue it behind those that the socket had no room for."""
        if self._unsent:
            self._unsent += message
            return
        try:
            sent = self._socket.send(message)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # The worker died; `receive` sees that and ends.
        if sent < len(message):
            self._unsent += message[sent:]
            start_soon(self._task_group, self._flush)

    async def _flush(self) -> None:
        with self._waits():
            try:
                while self._unsent and not self._is_closing:
                    await anyio.wait_writable(self._socket)
                    del self._unsent[: self._socket.send(self._unsent)]
            except (OSError, anyio.ClosedResourceError):
                pass  # As in `send`.

    async def receive(self, on_reply: Callable[[int, int], None]) -> None:
        """Call `on_reply(kind, address)` for each reply until the worker is gone or `close` is called."""
        with self._waits():
            if not self._is_closing:
                await watch_readable(self._socket, partial(self._drain, on_reply))

    def _drain(self, on_reply: Callable[[int, int], None]) -> bool:
        """Hand on what has arrived; return False once nothing can arrive any more."""
        try:
            data = self._socket.recv(_RECEIVE)
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        if not data:
            return False
        data = self._received + data
        whole = len(data) // REPLY.size * REPLY.size
        self._received = data[whole:]
        for kind, _, address in REPLY.iter_unpack(data[:whole]):
            on_reply(kind, address)
        return True

    @contextmanager
    def _waits(self) -> Iterator[None]:
        """Mark a task that waits for the socket, which must not be closed under it."""
        finished = anyio.Event()
        self._waiting.add(finished)
        try:
            yield
        finally:
            self._waiting.discard(finished)
            finished.set()

    def kill(self) -> None:
        """Send SIGKILL; harmless if the process is gone."""
        self._process.kill()

    async def reap(self) -> None:
        """Wait for the process to end and collect its status, without blocking the loop."""
        if self._process.poll() is not None:
            return
        try:
            fd = os.pidfd_open(self.pid)
        except OSError:
            await run_blocking(self._process.wait)
            return
        try:
            while self._process.poll() is None:
                await anyio.wait_readable(fd)
        finally:
            os.close(fd)

    async def close(self) -> None:
        """End the tasks that wait for the socket, then close it."""
        self._is_closing = True
        if self._waiting:
            notify_closing(self._socket)
            for finished in tuple(self._waiting):
                await finished.wait()
        self._socket.close()
