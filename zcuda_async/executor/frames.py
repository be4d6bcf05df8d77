"""Messages between a process and its child: a JSON header and raw bytes, each with its length."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

__all__ = ("FrameReader", "Header", "encode_frame", "encode_head")

Header: TypeAlias = dict[str, Any]

_LENGTHS: Final = struct.Struct("<IQ")


def encode_frame(header: Header, body: bytes = b"") -> bytes:
    """Return the bytes of one message."""
    return encode_head(header, len(body)) + body


def encode_head(header: Header, body_size: int) -> bytes:
    """Return the bytes of one message up to its body, for a large body that is sent without copying it."""
    text = json.dumps(header, separators=(",", ":")).encode()
    return _LENGTHS.pack(len(text), body_size) + text


class FrameReader:
    """Takes the pieces of a byte stream as they come and gives the messages in it."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Header, bytes]]:
        """Add `data`; yield each message that is now complete."""
        self._buffer += data
        while len(self._buffer) >= _LENGTHS.size:
            header_size, body_size = _LENGTHS.unpack_from(self._buffer)
            body_start = _LENGTHS.size + header_size
            end = body_start + body_size
            if len(self._buffer) < end:
                return
            header = json.loads(self._buffer[_LENGTHS.size : body_start])
            body = bytes(self._buffer[body_start:end])
            del self._buffer[:end]
            yield header, body
