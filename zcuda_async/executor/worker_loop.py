"""What a worker does all day: loads kernels and runs launches, in the order they come.

Imports no event loop and no numpy.  The interpreter lock is free while a kernel runs.
"""

from __future__ import annotations

import ctypes
import os
import resource
import socket
from contextlib import suppress
from pathlib import Path
from time import monotonic_ns
from typing import Final

from zcuda_async.executor.native import LoadError, NativeCode, install_fault_handler
from zcuda_async.executor.protocol import (
    BLOCK_OFFSET,
    COMMAND,
    CURRENT,
    CURRENT_OFFSET,
    NO_BLOCK,
    REPLY,
    STACK,
    STACK_OFFSET,
    STAMPS,
    STAMPS_OFFSET,
    Command,
    Reply,
    WorkerArguments,
    loading_text,
    write_text,
)
from zcuda_async.jit.abi import WORKER, WORKER_FIELDS
from zcuda_async.memory.mapping import PAGE, ArenaLayout

__all__ = ("serve",)

_INVALID_KERNEL_IMAGE: Final = 200
_FAULT_CODE: Final = WORKER_FIELDS["fault_code"][0]
_STACK_SLOP: Final = 1 << 20
_STACK_BYTES: Final = 96 << 20


def serve(arguments: WorkerArguments) -> None:
    """Map the arena, take over crashes, and handle commands until the socket closes."""
    layout = ArenaLayout(arguments.base, arguments.host_bytes, arguments.device_bytes)
    region = layout.map_for_worker(arguments.arena_fd, arguments.index)
    os.close(arguments.arena_fd)
    page = _window(region.page, PAGE)
    _grow_stack()
    low, high = _stack_bounds()
    floor = low + 2 * _STACK_SLOP if high else 0
    WORKER.pack_into(page, 0, region.shared, region.scratch, region.scratch_size, NO_BLOCK, 0, 0, 0, floor)
    STACK.pack_into(page, STACK_OFFSET, low, high)
    handler = install_fault_handler(region.page)
    # The parent may be killed while messages are under way.
    with socket.socket(fileno=arguments.socket_fd) as channel, suppress(ConnectionError):
        _Loop(channel, region.page, page, layout).run()
    handler.close()


class _Loop:
    """The command loop and the kernels it has loaded."""

    def __init__(self, channel: socket.socket, worker: int, page: memoryview, layout: ArenaLayout) -> None:
        self._channel = channel
        self._worker = worker
        self._page = page
        self._host_base = layout.host_base
        self._host = _window(layout.host_base, layout.host_bytes)
        self._codes: dict[int, NativeCode] = {}

    def run(self) -> None:
        rest = b""
        size = COMMAND.size
        while data := self._channel.recv(size * 1024):
            data = rest + data
            whole = len(data) // size * size
            rest = data[whole:]
            for kind, code, address, name_size, code_size in COMMAND.iter_unpack(data[:whole]):
                if kind == Command.RUN:
                    self._launch(code, address)
                elif kind == Command.LOAD:
                    self._load(code, address, name_size, code_size)
                else:
                    self._codes.pop(code).close()

    def _launch(self, code: int, address: int) -> None:
        page = self._page
        stamps = address - self._host_base + STAMPS_OFFSET
        CURRENT.pack_into(page, BLOCK_OFFSET, NO_BLOCK)
        CURRENT.pack_into(page, CURRENT_OFFSET, address)
        # Two workers may both find it unstamped; their clocks then differ by less than a message takes.
        started, _ = STAMPS.unpack_from(self._host, stamps)
        if not started:
            CURRENT.pack_into(self._host, stamps, monotonic_ns())
        is_last = self._codes[code].entry(address, self._worker)
        CURRENT.pack_into(page, CURRENT_OFFSET, 0)
        # Unless this call was the last one out, the launch's memory may by now serve another launch.
        if is_last:
            CURRENT.pack_into(self._host, stamps + CURRENT.size, monotonic_ns())
            self._channel.send(REPLY.pack(Reply.DONE, 0, address))

    def _load(self, code: int, address: int, name_size: int, code_size: int) -> None:
        offset = address - self._host_base
        name = bytes(self._host[offset : offset + name_size]).decode()
        object_code = bytes(self._host[offset + name_size : offset + name_size + code_size])
        # Stands should LLVM end this process, as it does on some malformed code.
        self._report(_INVALID_KERNEL_IMAGE, loading_text(name))
        try:
            self._codes[code] = NativeCode(object_code, name)
        except LoadError as error:
            self._report(_INVALID_KERNEL_IMAGE, f"cannot load kernel {name}: {error}")
            os._exit(1)
        self._report(0, "")

    def _report(self, code: int, text: str) -> None:
        """Leave what the parent is to say if this process ends."""
        write_text(self._page, text)
        CURRENT.pack_into(self._page, _FAULT_CODE, code)


def _window(address: int, size: int) -> memoryview:
    return memoryview((ctypes.c_ubyte * size).from_address(address)).cast("B")


def _grow_stack() -> None:
    """Let the main thread's stack, which kernels run on, grow further than programs may by default.

    Linux leaves at least 128 MiB of addresses below it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    wanted = _STACK_BYTES if hard == resource.RLIM_INFINITY else min(_STACK_BYTES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_STACK, (wanted, hard))


def _stack_bounds() -> tuple[int, int]:
    """Where an access means that the main thread's stack overflowed; (0, 0) if it has no limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_STACK)
    if limit == resource.RLIM_INFINITY:
        return 0, 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("[stack]"):
            high = int(line.partition(" ")[0].partition("-")[2], 16)
            return high - limit - _STACK_SLOP, high
    return 0, 0
