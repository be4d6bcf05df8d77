"""The buffer that kernels print into, as the host reads it (see `jit.abi.RING`)."""

from __future__ import annotations

import struct
from typing import Final

from zcuda_async.formatting import render
from zcuda_async.jit.abi import RING, RING_DATA, RING_GRANULE, RING_RECORD

__all__ = ("PrintRing", "ring_bytes")

_WORD: Final = struct.Struct("<Q")


def ring_bytes(size: int) -> int:
    """Bytes that a ring of `size` bytes of records takes; `size` is rounded up to whole granules."""
    return RING_DATA + _rounded(size)


def _rounded(size: int) -> int:
    return -(-max(size, RING_GRANULE) // RING_GRANULE) * RING_GRANULE


class PrintRing:
    """Collects what kernels have printed; made over the ring's memory, which it empties first."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._size = len(view) - RING_DATA
        view[:] = bytes(len(view))
        RING.pack_into(view, 0, 0, self._size)
        self._position = 0
        self.lost = 0
        """Bytes of records that were overwritten before they were collected."""

    @property
    def is_empty(self) -> bool:
        """Whether everything printed so far has been collected."""
        return self._reserved == self._position

    @property
    def _reserved(self) -> int:
        position: int = _WORD.unpack_from(self._view, 0)[0]
        return position

    def collect(self, *, final: bool = False) -> bytes:
        """The text printed since the last time, in the order of the calls.

        Stops at a record that is still being written, unless `final` says that no kernel runs any more: then
        such records were left behind by one that has died, and are skipped.
        """
        pieces: list[bytes] = []
        searching = False
        while (reserved := self._reserved) > self._position:
            if reserved - self._position > self._size:
                self._lose(reserved - self._size)
                searching = True
            record = self._record()
            if record is None and not (searching or final):
                break
            if record is None:
                self._position += RING_GRANULE
                continue
            searching = False
            piece, total = record
            if self._reserved - self._position > self._size:
                continue  # overwritten while it was read
            pieces.append(piece)
            self._position += total
        return b"".join(pieces)

    def _lose(self, oldest: int) -> None:
        self.lost += oldest - self._position
        self._position = oldest

    def _record(self) -> tuple[bytes, int] | None:
        """The text and the size of the record at the position; None if there is none (yet)."""
        at = RING_DATA + self._position % self._size
        if at + RING_RECORD.size > len(self._view):
            return None
        mark, total, text_size, used, strings, _ = RING_RECORD.unpack_from(self._view, at)
        if mark != self._position + 1 or not total or total % RING_GRANULE or at + total > len(self._view):
            return None
        if not text_size:
            return b"", total
        record = bytes(self._view[at : at + total])
        start = RING_RECORD.size + (text_size + 7 & -8)
        text = record[RING_RECORD.size : RING_RECORD.size + text_size]
        arguments = record[start : start + used]
        start += used + 7 & -8
        return render(text, _Record(arguments, record[start : start + strings])), total

    def close(self) -> None:
        """Let go of the memory."""
        self._view.release()


class _Record:
    """The arguments of one record, in the form of `formatting.Arguments`; what is missing reads as zero."""

    def __init__(self, data: bytes, strings: bytes) -> None:
        self._data = data
        self._strings = strings
        self._at = 0

    def _take(self, size: int) -> bytes:
        start = -(-self._at // size) * size
        self._at = start + size
        return self._data[start : self._at].ljust(size, b"\0")

    def integer(self, size: int) -> int:
        """The next integer."""
        return int.from_bytes(self._take(size), "little")

    def double(self) -> float:
        """The next floating-point number."""
        number: float = struct.unpack("<d", self._take(8))[0]
        return number

    def string(self) -> bytes | None:
        """The next string, which follows the arguments."""
        if not self.integer(8):
            return None
        text, _, self._strings = self._strings.partition(b"\0")
        return text
