"""The process that compiles: reads requests from a socket, answers them in order, never runs a loop.

The main thread compiles.  A second thread receives, so that requests pile up here and not in the
parent, and so that the end of the parent (end of file on the socket, or its pidfd turning readable
where another process inherited the socket) ends this process at once, also in the middle of LLVM.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import select
import signal
import socket
import threading
import traceback
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from zcuda_async.executor.frames import FrameReader, Header, encode_frame
from zcuda_async.jit.cache import CacheError, ObjectCache, cache_key
from zcuda_async.jit.info import KernelCode, ModuleInfo
from zcuda_async.ptx.errors import PtxError

__all__ = ("main",)

_Message = tuple[Header, bytes]


def main(arguments: Sequence[str]) -> None:
    """Serve requests: `arguments` are the socket's descriptor, the parent's pid, the compiler module.

    The compiler module offers ``inspect_module`` and ``compile_kernel`` as `zcuda_async.jit` does.
    """
    descriptor, parent, jit_module = arguments
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()  # an abort in LLVM leaves a trace for the parent's message
    connection = socket.socket(fileno=int(descriptor))
    requests: SimpleQueue[_Message] = SimpleQueue()
    threading.Thread(target=_receive, args=(connection, int(parent), requests), daemon=True).start()
    compiler = _Compiler(jit_module)
    compiler.warm_up()
    with suppress(BrokenPipeError, ConnectionResetError):  # nobody is left to answer
        while True:
            connection.sendall(encode_frame(*compiler.answer(*requests.get())))


def _receive(connection: socket.socket, parent: int, requests: SimpleQueue[_Message]) -> None:
    frames = FrameReader()
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    watched = _watch(poller, parent)
    while True:
        ready = {descriptor for descriptor, _ in poller.poll()}
        data = b"" if watched in ready else _received(connection)
        if not data:
            os._exit(0)  # the main thread may be deep in LLVM; nothing here needs tidying up
        for message in frames.feed(data):
            requests.put(message)


def _received(connection: socket.socket) -> bytes:
    with suppress(ConnectionResetError):
        return connection.recv(1 << 18)
    return b""


def _watch(poller: select.poll, parent: int) -> int:
    """Have `poller` report the end of process `parent`; return what it will report."""
    try:
        descriptor = os.pidfd_open(parent)
    except ProcessLookupError:
        os._exit(0)
    except OSError:  # a kernel or sandbox without pidfds: end of file on the socket has to do
        return -1
    if os.getppid() != parent:  # it ended before, and its number went to another process
        os._exit(0)
    poller.register(descriptor, select.POLLIN)
    return descriptor


class _Compiler:
    """The compiler and its cache, both made ready at the first chance."""

    def __init__(self, jit_module: str) -> None:
        self._jit_module = jit_module
        self._jit: Any = None
        self._failure: Header | None = None
        self._cache: ObjectCache | None = None
        self._notice = ""

    def warm_up(self) -> None:
        """Import the compiler and open the cache; what fails is told with the first answer."""
        try:
            self._cache = ObjectCache.open()
            cache_key("")
        except CacheError as exc:
            self._notice = f"{exc} (kernels are compiled anew in every process until then)"
        try:
            self._jit = importlib.import_module(self._jit_module)
        except Exception as exc:  # noqa: BLE001 - whatever is wrong with the installation, the user must hear it
            self._failure = _internal_error(exc)

    def answer(self, request: Header, body: bytes) -> _Message:
        """Carry out one request; a failure is an answer too."""
        if self._failure is not None:
            return {"id": request["id"], **self._failure}, b""
        try:
            payload, cached = self._look_up_or_make(request, body.decode())
        except PtxError as exc:
            return {"id": request["id"], "ptx_error": _ptx_error(exc)}, b""
        except Exception as exc:  # noqa: BLE001 - one kernel that trips the compiler must not fail the others waiting
            return {"id": request["id"], **_internal_error(exc)}, b""
        return {"id": request["id"], "cached": cached, "notice": self._take_notice()}, payload

    def _look_up_or_make(self, request: Header, text: str) -> tuple[bytes, bool]:
        kernel, block = request.get("kernel", ""), tuple(request.get("block", ()))
        if self._cache is None:
            return self._make(request, text), False
        key = cache_key(text, kernel, block)
        payload = self._cache.get(key)
        if payload is not None:
            return payload, True
        payload = self._make(request, text)
        self._store(key, payload)
        return payload, False

    def _make(self, request: Header, text: str) -> bytes:
        filename = request["filename"]
        if "kernel" not in request:
            module: ModuleInfo = self._jit.inspect_module(text, filename)
            return module.to_bytes()
        code: KernelCode = self._jit.compile_kernel(text, filename, request["kernel"], tuple(request["block"]))
        return code.to_bytes()

    def _store(self, key: str, payload: bytes) -> None:
        if self._cache is None:
            return
        try:
            self._cache.put(key, payload)
        except CacheError as exc:  # said once; the kernel itself is fine
            self._notice = str(exc)
            self._cache.close()
            self._cache = None

    def _take_notice(self) -> str:
        notice, self._notice = self._notice, ""
        return notice


def _ptx_error(exc: PtxError) -> Header:
    return {
        "message": exc.message,
        "filename": exc.filename,
        "span": [exc.span.line, exc.span.column, exc.span.length],
        "source_line": exc.source_line,
    }


def _internal_error(exc: Exception) -> Header:
    trace = "".join(traceback.format_exception(exc))
    return {"internal_error": f"{type(exc).__name__}: {exc}", "traceback": trace}
