"""The runtime's side of the compiler process: ask, wait, get code or a `CompileError`.

A `CompilerClient` keeps one `_Connection` at a time.  A connection is one compiler process with the
requests made of it; its task starts the process, moves bytes, and at the end (closed, cancelled, or
the process died) reaps the process and finishes every request that is still open.  Requests are
answered in order, so after a crash the oldest open one is the one that was being compiled.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import warnings
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Final

import anyio
import anyio.abc
import anyio.lowlevel

from zcuda_async.errors import CompileError, Status
from zcuda_async.executor.child import spawn_child
from zcuda_async.executor.frames import FrameReader, Header, encode_head
from zcuda_async.jit.info import KernelCode, ModuleInfo
from zcuda_async.threads import import_in_thread, run_blocking

__all__ = ("CompilerClient", "CompilerStatistics")

_CHUNK: Final = 1 << 18
_MOST_COMPILED: Final = 500
"""LLVM's optimiser leaves about 0.3 MB behind for each kernel, so the process is exchanged now and then."""
_LAST_WORDS: Final = 4000  # bytes of a crashed process's output that its error repeats


@dataclass(frozen=True, slots=True)
class CompilerStatistics:
    """What a compiler was asked so far: answers made, answers read from the cache, processes started."""

    made: int = 0
    cached: int = 0
    processes: int = 0


@dataclass(slots=True, eq=False)
class _Request:
    header: Header
    body: bytes
    subject: str
    done: anyio.Event = field(default_factory=anyio.Event)
    answer: Header | None = None
    payload: bytes = b""
    failure: Exception | None = None

    def finish(self, answer: Header, payload: bytes) -> None:
        self.answer, self.payload = answer, payload
        self.done.set()

    def fail(self, failure: Exception) -> None:
        self.failure = failure
        self.done.set()


class CompilerClient:
    """Compiles PTX in a process of its own; made by `CompilerClient.start`.

    The event loop is never blocked.  All methods belong to the event-loop thread.  Cancelling a call
    gives up waiting; what was sent is still compiled, and cached.
    """

    def __init__(self, task_group: anyio.abc.TaskGroup, jit_module: str) -> None:
        self._task_group = task_group
        self._jit_module = jit_module
        self._connection: _Connection | None = None
        self._made = self._cached = self._processes = 0
        self._is_closed = False

    @classmethod
    async def start(cls, task_group: anyio.abc.TaskGroup, *, jit_module: str = "zcuda_async.jit") -> CompilerClient:
        """Return a client whose process is coming up in the background.

        Args:
            task_group: Owns the client's background tasks; closing or cancelling it ends the process.
            jit_module: The module that compiles, with ``inspect_module`` and ``compile_kernel`` as
                `zcuda_async.jit` has them; another one serves tests and other compilers.
        """
        client = cls(task_group, jit_module)
        client._open_connection()
        await anyio.lowlevel.checkpoint()
        return client

    @property
    def is_closed(self) -> bool:
        """Whether `aclose` was called."""
        return self._is_closed

    @property
    def statistics(self) -> CompilerStatistics:
        """Counts since the start."""
        return CompilerStatistics(self._made, self._cached, self._processes)

    async def inspect(self, text: str, filename: str = "<ptx>") -> ModuleInfo:
        """Read a module's kernels and variables.

        Raises:
            CompileError: The text is not valid PTX; the cause is the `PtxError` with its position.
            anyio.ClosedResourceError: The client is closed.
        """
        return ModuleInfo.from_bytes(await self._ask({"filename": filename}, text, f"module {filename}"))

    async def compile(self, text: str, filename: str, kernel: str, block: tuple[int, int, int]) -> KernelCode:
        """Compile one kernel for one block shape (x, y, z), or fetch it from the cache.

        Raises:
            CompileError: The kernel cannot be compiled; the cause is the `PtxError` with its position.
            anyio.ClosedResourceError: The client is closed.
        """
        header: Header = {"filename": filename, "kernel": kernel, "block": list(block)}
        subject = f"kernel {kernel} of {filename} for block {block}"
        return KernelCode.from_bytes(await self._ask(header, text, subject))

    async def aclose(self) -> None:
        """End the process; open requests raise `anyio.ClosedResourceError`.  Idempotent."""
        self._is_closed = True
        if self._connection is not None:
            await self._connection.aclose()
        await anyio.lowlevel.checkpoint()

    def _open_connection(self) -> _Connection:
        connection = _Connection(self._jit_module)
        self._task_group.start_soon(connection.run, name="zcuda compiler")
        self._connection = connection  # only now: `aclose` waits for what runs
        self._processes += 1
        return connection

    async def _ask(self, header: Header, text: str, subject: str) -> bytes:
        if self._is_closed:
            raise anyio.ClosedResourceError(f"the compiler is closed; it cannot take {subject}")
        connection = self._connection
        if connection is not None and connection.is_worn:
            connection.retire()
        if connection is None or connection.is_over:
            connection = self._open_connection()
        request = _Request(header, text.encode(), subject)
        connection.submit(request)
        try:
            await request.done.wait()
        finally:
            connection.forget(request)
        if request.answer is not None and "ptx_error" in request.answer:
            await import_in_thread("zcuda_async.ptx.errors")  # brings the whole front end, so only when needed
        return self._result(request)

    def _result(self, request: _Request) -> bytes:
        if request.failure is not None:
            raise request.failure
        answer = request.answer
        assert answer is not None
        _raise_compile_error(answer, request.subject)
        if answer["cached"]:
            self._cached += 1
        else:
            self._made += 1
            if self._connection is not None:
                self._connection.made += 1
        if answer["notice"]:
            warnings.warn(answer["notice"], RuntimeWarning, stacklevel=4)
        return request.payload


def _raise_compile_error(answer: Header, subject: str) -> None:
    if "ptx_error" in answer:
        from zcuda_async.ptx.errors import PtxError
        from zcuda_async.ptx.ir import Span

        fields = answer["ptx_error"]
        cause = PtxError(fields["message"], fields["filename"], Span(*fields["span"]), fields["source_line"])
        raise CompileError(Status.cudaErrorInvalidPtx, str(cause)) from cause
    if "internal_error" in answer:
        detail = f"internal compiler error on {subject}: {answer['internal_error']}; please report it with the PTX text"
        error = CompileError(Status.cudaErrorUnknown, detail)
        error.add_note(answer["traceback"])
        raise error


class _Connection:
    """One compiler process and the requests made of it."""

    def __init__(self, jit_module: str) -> None:
        self._jit_module = jit_module
        self._number = 0
        self._open: dict[int, _Request] = {}
        self._unsent: deque[_Request] = deque()
        self._something_unsent = anyio.Event()
        self._scope = anyio.CancelScope()
        self._finished = anyio.Event()
        self._output = ""
        self.made = 0
        """What it has compiled, and not found in the cache."""
        self.is_over = False

    @property
    def is_worn(self) -> bool:
        """Whether the process is idle and has compiled so much that a new one should take over."""
        return not self._open and self.made >= _MOST_COMPILED

    def retire(self) -> None:
        """End the process, without waiting for that."""
        self.is_over = True
        self._scope.cancel()

    def submit(self, request: _Request) -> None:
        """Queue `request`; it will finish, whatever happens."""
        self._number += 1
        request.header["id"] = self._number
        self._open[self._number] = request
        self._unsent.append(request)
        self._something_unsent.set()

    def forget(self, request: _Request) -> None:
        """Nobody waits for `request` any more: do not send it if that has not happened yet."""
        with suppress(ValueError):
            self._unsent.remove(request)
            self._open.pop(request.header["id"], None)

    async def aclose(self) -> None:
        """End the process and wait until nothing of it is left, also when cancelled."""
        self._scope.cancel()
        with anyio.CancelScope(shield=True):
            await self._finished.wait()

    async def run(self) -> None:
        """Start the process, serve until it or the client ends, and leave nothing behind."""
        failure = ""
        try:
            with self._scope:
                failure = await self._run_process()
        except OSError as exc:
            failure = f"could not be started ({exc.strerror})"
        finally:
            self.is_over = True
            self._finish(failure)

    async def _run_process(self) -> str:
        """Serve the requests until the process ends by itself; return how it ended."""
        output = os.memfd_create("zcuda-compiler-output")
        ours, theirs = socket.socketpair()
        with os.fdopen(output, "rb") as output_file, ours:
            ours.setblocking(False)
            with theirs, anyio.CancelScope(shield=True):  # a process that nobody knows of could not be reaped
                process = await self._spawn(theirs.fileno(), output)
            try:
                await self._serve(ours)
                self.is_over = True
                return _describe_end(await _reap(process))
            finally:
                process.kill()
                with anyio.CancelScope(shield=True):
                    await _reap(process)
                self._output = _tail(output_file)

    async def _spawn(self, descriptor: int, output: int) -> subprocess.Popen[bytes]:
        arguments = [str(descriptor), str(os.getpid()), self._jit_module]
        module = "zcuda_async.executor.compiler_process"
        start = partial(spawn_child, module, arguments, pass_fds=[descriptor], output=output)
        return await run_blocking(start)

    async def _serve(self, connection: socket.socket) -> None:
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(self._send, connection)
            await self._receive(connection)
            task_group.cancel_scope.cancel()

    async def _send(self, connection: socket.socket) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # `_receive` sees the end as well
            while True:
                while self._unsent:
                    request = self._unsent.popleft()
                    await _send_all(connection, encode_head(request.header, len(request.body)))
                    await _send_all(connection, request.body)
                    request.body = b""
                self._something_unsent = anyio.Event()
                await self._something_unsent.wait()

    async def _receive(self, connection: socket.socket) -> None:
        frames = FrameReader()
        while True:
            await anyio.wait_readable(connection)
            try:
                data = connection.recv(_CHUNK)
            except BlockingIOError:
                continue
            except ConnectionResetError:
                return
            if not data:
                return
            for answer, payload in frames.feed(data):
                self._open.pop(answer["id"]).finish(answer, payload)

    def _finish(self, failure: str) -> None:
        """Fail what is still open; `failure` is empty if the client ended the process."""
        output = self._output
        requests, self._open = list(self._open.values()), {}
        self._unsent.clear()
        for position, request in enumerate(requests):
            request.fail(
                _process_error(request.subject, position, failure, output)
                if failure
                else anyio.ClosedResourceError(f"the compiler was closed before it finished {request.subject}")
            )
        if output and not (failure and requests):  # no error carries it, so it is shown as it is
            sys.stderr.write(output)
        self._finished.set()


async def _send_all(connection: socket.socket, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[connection.send(rest) :]
        except BlockingIOError:
            await anyio.wait_writable(connection)


async def _reap(process: subprocess.Popen[bytes]) -> int:
    """Wait, in a thread, for a process that is ending; return its exit status."""
    return await run_blocking(process.wait)


def _describe_end(status: int) -> str:
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"ended with exit status {status}"


def _tail(file: IO[bytes]) -> str:
    file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST_WORDS))
    return file.read().decode(errors="replace")


def _process_error(subject: str, position: int, failure: str, output: str) -> CompileError:
    # Answers come in order, so the oldest request is the one that was being compiled.
    when = "while it compiled" if position == 0 else "before it came to"
    detail = f"the compiler process {failure} {when} {subject}; the next request starts a new one"
    error = CompileError(Status.cudaErrorUnknown, detail)
    if output:
        error.add_note(f"its last output:\n{output}")
    return error
