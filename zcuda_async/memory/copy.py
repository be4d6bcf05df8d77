"""Raw copies and fills that leave the interpreter lock to others while they run.

Nothing here checks addresses or waits for streams: callers have planned and validated the work.
Each function blocks for as long as the memory traffic takes, so large ones belong in a thread.
"""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt
    from typing_extensions import Buffer

__all__ = ("copy", "copy_2d", "fill", "fill_2d", "locked_buffer")

_CONTIGUOUS: Final = 0x10 | 0x08 | 0x80  # PyBUF_ANY_CONTIGUOUS
_WRITABLE: Final = 0x01

_libc = ctypes.CDLL(None)
_memmove = _libc.memmove
_memmove.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
_memmove.restype = None
_memset = _libc.memset
_memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
_memset.restype = None


class _PyBuffer(ctypes.Structure):
    """CPython's ``Py_buffer``."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_PyBuffer)]
_release_buffer.restype = None


@contextmanager
def locked_buffer(data: Buffer | npt.NDArray[Any], *, writable: bool = False) -> Iterator[tuple[int, int]]:
    """Hold the memory of a buffer-protocol object in place: yields its (address, size in bytes).

    Raises:
        TypeError: the object offers no buffer.
        BufferError: its memory is not contiguous, or not writable though `writable` was asked for.
    """
    view = _PyBuffer()
    _get_buffer(data, view, _CONTIGUOUS | (_WRITABLE if writable else 0))
    try:
        yield view.buf or 0, view.len
    finally:
        _release_buffer(view)


def copy(destination: int, source: int, size: int) -> None:
    """Copy `size` bytes between addresses; they may overlap."""
    _memmove(destination, source, size)


def copy_2d(destination: int, destination_pitch: int, source: int, source_pitch: int, width: int, height: int) -> None:
    """Copy `height` rows of `width` bytes; a pitch is the distance in bytes from row to row."""
    if width == destination_pitch == source_pitch or height == 1:
        _memmove(destination, source, width * height)
        return
    import numpy as np

    target = _array(destination, "|u1", (height, width), (destination_pitch, 1))
    np.copyto(target, _array(source, "|u1", (height, width), (source_pitch, 1)))


def fill(address: int, value: int, count: int, width: int = 1) -> None:
    """Set `count` elements of `width` bytes (1, 2, 4 or 8; aligned) to the unsigned `value`."""
    if width == 1:
        _memset(address, value, count)
    else:
        _array(address, f"<u{width}", (count,), (width,)).fill(value)


def fill_2d(address: int, pitch: int, value: int, columns: int, rows: int, width: int = 1) -> None:
    """Set `rows` rows of `columns` elements of `width` bytes each; `pitch` is in bytes."""
    if columns * width == pitch or rows == 1:
        fill(address, value, columns * rows, width)
    else:
        _array(address, f"<u{width}", (rows, columns), (pitch, width))[...] = value


class _Memory:
    """Presents bare memory to numpy."""

    def __init__(self, interface: dict[str, object]) -> None:
        self.__array_interface__ = interface


def _array(address: int, typestr: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> npt.NDArray[Any]:
    import numpy as np

    interface = {"data": (address, False), "typestr": typestr, "shape": shape, "strides": strides, "version": 3}
    return np.asarray(_Memory(interface))
