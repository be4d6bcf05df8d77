"""What parent and workers say to each other: fixed structs over a socket, and a page of state in the arena.

The parent sends `COMMAND`s, which a worker handles in order; a worker sends `REPLY`s.  Everything
larger than a number travels through the arena.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from zcuda_async.jit.abi import LAUNCH_FIELDS, WORKER_FIELDS, WORKER_SIZE

__all__ = (
    "BLOCK_OFFSET",
    "COMMAND",
    "CURRENT",
    "CURRENT_OFFSET",
    "NO_BLOCK",
    "REPLY",
    "SIGNAL",
    "SIGNAL_OFFSET",
    "STACK",
    "STACK_OFFSET",
    "STAMPS",
    "STAMPS_OFFSET",
    "TEXT_LIMIT",
    "Command",
    "Reply",
    "WorkerArguments",
    "loading_kernel",
    "loading_text",
    "read_text",
    "write_text",
)

COMMAND: Final = struct.Struct("<IIQII")
"""Kind, code id, address, size of the entry's name, size of the object code (both 0 unless LOAD)."""

REPLY: Final = struct.Struct("<IIQ")
"""Kind, 0, launch address."""


class Command(IntEnum):
    """What a worker can be asked to do."""

    RUN = 1  # run the launch at `address`
    LOAD = 2  # load object code: its entry's name, then the object, from `address`
    UNLOAD = 3  # forget code


class Reply(IntEnum):
    """What a worker reports."""

    DONE = 1  # the launch at this address has finished, on all its workers


# The worker's state page: the compiled code's Worker struct, then what only the pool reads.
NO_BLOCK: Final = (1 << 64) - 1
"""In the Worker struct's `block`: no block was begun."""
BLOCK_OFFSET: Final = WORKER_FIELDS["block"][0]
SIGNAL: Final = struct.Struct("<ii")
SIGNAL_OFFSET: Final = WORKER_SIZE
"""Signal number and si_code, written by the signal handler."""
CURRENT: Final = struct.Struct("<Q")
CURRENT_OFFSET: Final = WORKER_SIZE + 8
"""The launch now running, 0 between launches."""
STACK: Final = struct.Struct("<QQ")
STACK_OFFSET: Final = WORKER_SIZE + 16
"""Lowest and highest address of the stack that kernels run on."""
_LOADING: Final = "cannot load kernel "
_CRASHED: Final = ": the loader crashed"
_TEXT_OFFSET: Final = 256
_TEXT_LENGTH: Final = struct.Struct("<I")
TEXT_LIMIT: Final = 3072

STAMPS: Final = struct.Struct("<QQ")
STAMPS_OFFSET: Final = LAUNCH_FIELDS["started_ns"][0]
"""started_ns and finished_ns in a launch."""


@dataclass(frozen=True, slots=True)
class WorkerArguments:
    """A worker's command line; descriptors keep their numbers across the start."""

    index: int
    arena_fd: int
    socket_fd: int
    death_fd: int
    parent_pid: int
    base: int
    host_bytes: int
    device_bytes: int

    def to_strings(self) -> list[str]:
        """Spell the arguments out for a command line."""
        return [str(getattr(self, name)) for name in self.__slots__]

    @classmethod
    def from_strings(cls, strings: list[str]) -> WorkerArguments:
        """Read back what `to_strings` wrote."""
        return cls(*map(int, strings))


def loading_text(kernel: str) -> str:
    """What a worker leaves in its state page while it loads a kernel, should that end it."""
    return f"{_LOADING}{kernel}{_CRASHED}"


def loading_kernel(text: str) -> str | None:
    """The kernel of a `loading_text`, None for any other text."""
    if not (text.startswith(_LOADING) and text.endswith(_CRASHED)):
        return None
    return text.removeprefix(_LOADING).removesuffix(_CRASHED)


def write_text(page: memoryview, text: str) -> None:
    """Leave a message for the parent in the state page, cut to `TEXT_LIMIT` bytes."""
    data = text.encode(errors="replace")[:TEXT_LIMIT]
    _TEXT_LENGTH.pack_into(page, _TEXT_OFFSET, len(data))
    start = _TEXT_OFFSET + _TEXT_LENGTH.size
    page[start : start + len(data)] = data


def read_text(page: memoryview) -> str:
    """Return the message a worker left, or the empty string."""
    (length,) = _TEXT_LENGTH.unpack_from(page, _TEXT_OFFSET)
    start = _TEXT_OFFSET + _TEXT_LENGTH.size
    return bytes(page[start : start + min(length, TEXT_LIMIT)]).decode(errors="replace")
