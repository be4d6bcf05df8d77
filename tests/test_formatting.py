"""Formatting against the C library's snprintf, directive by directive."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zcuda_async.formatting import render

_libc = ctypes.CDLL(None)
FLAGS = st.lists(st.sampled_from("-+ #0"), max_size=5).map("".join)
WIDTHS = st.one_of(st.just(""), st.integers(1, 40).map(str))
PRECISIONS = st.one_of(st.just(""), st.integers(0, 30).map(".{}".format), st.just("."))
DOUBLES = st.one_of(
    st.floats(),
    st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0]),
    st.sampled_from([0.0, -0.0, 0.5, 1.5, 2.5, 1e15, 1e16, 123456.5, 9.9999995, 5e-324, 2.2250738585072014e-308]),
)


class Values:
    """Arguments from a list."""

    def __init__(self, *values: object) -> None:
        self._values: Iterator[object] = iter(values)

    def integer(self, size: int) -> int:
        value = next(self._values)
        assert isinstance(value, int)
        return value & ((1 << 8 * size) - 1)

    def double(self) -> float:
        value = next(self._values)
        assert isinstance(value, float)
        return value

    def string(self) -> bytes | None:
        value = next(self._values)
        assert value is None or isinstance(value, bytes)
        return value


def in_c(text: str, *arguments: object) -> bytes:
    out = ctypes.create_string_buffer(4096)
    size = _libc.snprintf(out, ctypes.c_size_t(len(out)), text.encode(), *arguments)
    return out.raw[:size]


@given(
    FLAGS, WIDTHS, PRECISIONS, st.sampled_from(["", "hh", "h"]), st.sampled_from("diouxX"), st.integers(0, 2**32 - 1)
)
def test_integers(flags: str, width: str, precision: str, length: str, kind: str, value: int) -> None:
    text = f"<%{flags}{width}{precision}{length}{kind}>"
    assert render(text.encode(), Values(value)) == in_c(text, ctypes.c_uint(value))


@given(
    FLAGS, WIDTHS, PRECISIONS, st.sampled_from(["l", "ll", "z", "j", "t"]), st.sampled_from("diouxX"),
    st.integers(0, 2**64 - 1),
)  # fmt: skip
def test_long_integers(flags: str, width: str, precision: str, length: str, kind: str, value: int) -> None:
    text = f"<%{flags}{width}{precision}{length}{kind}>"
    assert render(text.encode(), Values(value)) == in_c(text, ctypes.c_ulonglong(value))


@given(FLAGS, WIDTHS, PRECISIONS, st.sampled_from("eEfFgGaA"), DOUBLES)
def test_doubles(flags: str, width: str, precision: str, kind: str, value: float) -> None:
    text = f"<%{flags}{width}{precision}{kind}>"
    assert render(text.encode(), Values(value)) == in_c(text, ctypes.c_double(value))


@given(st.sampled_from(["", "-"]), WIDTHS, PRECISIONS, st.binary(max_size=20).filter(lambda text: 0 not in text))
def test_strings(flags: str, width: str, precision: str, value: bytes) -> None:
    text = f"<%{flags}{width}{precision}s>"
    assert render(text.encode(), Values(value)) == in_c(text, ctypes.c_char_p(value))


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("%d %% %s|%c", (5, b"ab", 65), b"5 % ab|A"),
        ("%*d|%-*d|%.*f", (5, 42, 5, 42, 2, 3.14159), b"   42|42   |3.14"),
        ("%*d|%.*f", (-5, 42, -1, 0.5), b"42   |0.500000"),
        ("%p %p", (0x7F00, 0), b"0x7f00 (nil)"),
        ("%s|%.3s", (None, None), b"(null)|"),
        ("100%, %y, %5-d %", (), b"100%, %y, %5-d %"),
        ("%hhd %hd %lld", (511, 65535, -1), b"-1 -1 -1"),
    ],
)
def test_examples(text: str, values: tuple[object, ...], expected: bytes) -> None:
    assert render(text.encode(), Values(*values)) == expected


def test_a_wild_width_is_cut() -> None:
    assert len(render(b"%*d", Values(2**31 - 1, 1))) == 1 << 16
