"""Text to tokens, numbers and strings."""

from __future__ import annotations

import math
import re

import pytest

from zcuda_async.ptx import PtxError
from zcuda_async.ptx.ir import Immediate, Span
from zcuda_async.ptx.lexer import Source, is_word, number, string_bytes, tokenize


def tokens(text: str) -> list[str]:
    return tokenize(Source(text, "x.ptx")).texts[:-2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ld.global.nc.v4.f32 \t{%f1,%f2},[%rd1+-48];", "ld.global.nc.v4.f32 { %f1 , %f2 } , [ %rd1 + - 48 ] ;"),
        (".reg.b16 h;", ".reg .b16 h ;"),
        (".reg .pred %p<5>;", ".reg .pred %p < 5 > ;"),
        ("@!%p1 bra $L__BB0_2;", "@ ! %p1 bra $L__BB0_2 ;"),
        ("st.shared::cta.L2::128B.b32 [x],_;", "st.shared::cta.L2::128B.b32 [ x ] , _ ;"),
        ("a /* b ; \n * / */ c // d\n e", "a c e"),
        ("%tid.x %r1|%p2", "%tid.x %r1 | %p2"),
        ("9.0 1e5 1.5e-3 0x1e+5 0f3F800000-1", "9.0 1e5 1.5e-3 0x1e + 5 0f3F800000 - 1"),
        ('.file 1 "a \\" b"', '.file 1 "a \\" b"'),
        ("ret;}", "ret ; }"),
        ("", ""),
        ("// only a comment", ""),
    ],
)
def test_text_is_split_into_tokens(text: str, expected: str) -> None:
    assert " ".join(tokens(text)) == expected


def test_spans_are_one_based_lines_and_columns() -> None:
    found = tokenize(Source("a\n  bcd;", "x.ptx"))
    assert [found.span(index) for index in range(3)] == [Span(1, 1, 1), Span(2, 3, 3), Span(2, 6, 1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a ` b", "x.ptx:1:3: error: unexpected character '`'\n    a ` b\n      ^"),
        ("a\n/* b", "x.ptx:2:1: error: comment without its closing '*/'\n    /* b\n    ^"),
        ('\t"abc', "x.ptx:1:2: error: string without its closing '\"' on this line\n    \t\"abc\n    \t^"),
        ("a . b", "x.ptx:1:3: error: a '.' must be followed by a name\n    a . b\n      ^"),
        ("a \x00 b", "x.ptx:1:3: error: unexpected character '\\x00'\n    a \x00 b\n      ^"),
        ("é", "x.ptx:1:1: error: unexpected character 'é'\n    é\n    ^"),
    ],
)
def test_bad_characters_are_named(text: str, message: str) -> None:
    with pytest.raises(PtxError, match=f"^{re.escape(message)}$"):
        tokens(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("42", 42),
        ("42U", 42),
        ("0x1F", 31),
        ("0XffU", 255),
        ("017", 15),
        ("0b101", 5),
        ("18446744073709551615", 2**64 - 1),
    ],
)
def test_integers_have_c_notation(text: str, value: int) -> None:
    assert number(text) == Immediate(value)


@pytest.mark.parametrize(
    ("text", "value", "bits", "width"),
    [
        ("0f3F800000", 1.0, 0x3F800000, 32),
        ("0Fff800000", -math.inf, 0xFF800000, 32),
        ("0d4009_21FB".replace("_", "") + "54442D18", math.pi, 0x400921FB54442D18, 64),
        ("0D8000000000000000", -0.0, 1 << 63, 64),
        ("1.5", 1.5, 0x3FF8000000000000, 64),
        ("2.5e-1", 0.25, 0x3FD0000000000000, 64),
        ("1e3", 1000.0, 0x408F400000000000, 64),
    ],
)
def test_floating_point_literals_keep_their_bits(text: str, value: float, bits: int, width: int) -> None:
    assert number(text) == Immediate(value, bits, width)


def test_a_nan_keeps_its_payload() -> None:
    found = number("0f7F812345")
    assert found is not None
    assert math.isnan(found.value)
    assert found.bits == 0x7F812345


@pytest.mark.parametrize(
    "text", ["0x", "0f3F80", "0f3F8000000", "0d1", "18446744073709551616", "0b2", "089", "12abc", "9" * 5000, "1.5.2"]
)
def test_malformed_numbers_have_no_value(text: str) -> None:
    assert number(text) is None


@pytest.mark.parametrize(
    ("token", "expected"),
    [('"abc"', b"abc"), (r'"a\n\"\\"', b'a\n"\\'), (r'"\x41\101\0"', b"AA\0"), ('"é"', "é".encode())],
)
def test_strings_have_c_escapes(token: str, expected: bytes) -> None:
    assert string_bytes(token) == expected


@pytest.mark.parametrize(("text", "expected"), [("%r1", True), ("_", True), ("$L", True), (".b", False), ("", False)])
def test_words_start_with_a_letter_or_sign(text: str, expected: bool) -> None:
    assert is_word(text) is expected
