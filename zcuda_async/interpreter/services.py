"""CUDA's device runtime: the functions that kernels call and no module defines."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from zcuda_async.formatting import render
from zcuda_async.interpreter.memory import access
from zcuda_async.interpreter.thread import MemoryFaultError, Thread

__all__ = ("SERVICES", "Service")

Service = Callable[..., int]
"""A thread and its arguments' bits to the result's bits."""


class _Arguments:
    """The arguments of a ``vprintf`` call, in the memory where the thread put them: each at its own alignment."""

    def __init__(self, thread: Thread, address: int) -> None:
        self._thread = thread
        self._address = address
        self.count = 0

    def integer(self, size: int) -> int:
        """The next integer."""
        self._address += -self._address % size
        data = _load(self._thread, self._address, size)
        self._address += size
        self.count += 1
        return int.from_bytes(data, "little")

    def double(self) -> float:
        """The next floating-point number."""
        number: float = struct.unpack("<d", self.integer(8).to_bytes(8, "little"))[0]
        return number

    def string(self) -> bytes | None:
        """The string that the next pointer points to."""
        pointer = self.integer(8)
        return _text(self._thread, pointer) if pointer else None


def _load(thread: Thread, address: int, size: int) -> bytes:
    try:
        return access(thread, "", address, size)
    except IndexError as error:
        raise MemoryFaultError(f"vprintf: {error}") from None


def _text(thread: Thread, address: int) -> bytes:
    text = bytearray()
    while (byte := _load(thread, address + len(text), 1)) != b"\0":
        text += byte
    return bytes(text)


def _vprintf(thread: Thread, text: int, values: int) -> int:
    """Prints at once; the number of arguments, or -1 where there is no format."""
    if not text:
        return (1 << 32) - 1
    arguments = _Arguments(thread, values)
    thread.block.launch.output(render(_text(thread, text), arguments))
    return arguments.count


def _malloc(thread: Thread, size: int) -> int:
    """The first gap that is large enough, at a multiple of 16."""
    launch = thread.block.launch
    at, end = launch.heap
    at += -at % 16
    for start, length in sorted(launch.allocated.items()):
        if start - at >= size:
            break
        at = start + length + -length % 16
    if size > end - at:
        return 0
    launch.allocated[at] = max(size, 1)
    return at


def _free(thread: Thread, address: int) -> int:
    if address and thread.block.launch.allocated.pop(address, None) is None:
        raise MemoryFaultError(f"free: nothing is allocated at {address:#x}")
    return 0


SERVICES: Final[dict[str, tuple[Service, tuple[int, ...], int]]] = {
    "vprintf": (_vprintf, (8, 8), 4),
    "malloc": (_malloc, (8,), 8),
    "free": (_free, (8,), 0),
}
"""By name: what it does, the sizes of its parameters, and the size of its result (0 for none)."""
