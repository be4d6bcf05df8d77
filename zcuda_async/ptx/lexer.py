"""Text to tokens.

A token is a plain string; what kind it is shows in its first character: a letter or ``_ $ %`` starts
a word (an opcode with all its dotted parts is one word), a dot a directive, a digit a number, a quote
a string, anything else is punctuation of one character.  The empty string ends the text.  Keeping
tokens as strings in one list, and their offsets in another, is what makes the parser fast: most
operands become one dictionary lookup.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from typing import Final

from zcuda_async.ptx.errors import PtxError
from zcuda_async.ptx.ir import Immediate, Span

__all__ = ("MAX_TEXT", "Source", "Tokens", "is_word", "number", "string_bytes", "tokenize")

MAX_TEXT: Final = 1 << 26
"""Longest PTX text accepted, in characters."""

# Possessive quantifiers (``*+``): nothing is ever re-scanned, so lexing is linear in any text.
_TOKEN: Final = re.compile(
    r"""
    (?: [ \t\r\n\f\v]++ | //[^\n]*+ | /\* (?: [^*] | \*(?!/) )*+ \*/ )*+
    (?:
      ( [A-Za-z_$%] [\w$]*+ (?: \.[\w$]++ (?: ::\w++ )*+ )*+    # word: name, opcode.mod::level.type
      | \. [A-Za-z_] [\w$]*+ (?: ::\w++ )*+                     # directive or type
      | 0[xXbBfFdD] \w*+
      | [0-9] (?: \w | \.(?=[0-9]) | (?<=[0-9][eE]) [+-] (?=[0-9]) )*+   # number, checked in number()
      | " (?: [^"\\\n] | \\[^\n] )*+ "
      | [][{}(),;:<>+\-|!@=]
      )
    | ( \Z )
    | ( . )
    )
    """,
    re.VERBOSE | re.ASCII | re.DOTALL,
)

_WORD_START: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$%")

_INTEGER: Final = re.compile(r"(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0([0-7]+)|(0|[1-9][0-9]*))[uU]?\Z")
_HEX_FLOAT: Final = re.compile(r"0(?:[fF]([0-9a-fA-F]{8})|[dD]([0-9a-fA-F]{16}))\Z")
_DECIMAL_FLOAT: Final = re.compile(r"[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)\Z")
_MAX_DIGITS: Final = 80
"""Longest number looked at: the 64 bits of a binary literal and room for leading zeros."""

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\", '"': '"', "'": "'", "a": "\a"}
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)


class Source:
    """A PTX text and its name; turns offsets into spans and errors."""

    __slots__ = ("_line_starts", "filename", "text")

    def __init__(self, text: str, filename: str) -> None:
        self.text = text
        self.filename = filename
        self._line_starts: list[int] | None = None

    def span(self, offset: int, length: int = 1) -> Span:
        """The span that starts at a character offset."""
        starts = self._line_starts
        if starts is None:
            starts = self._line_starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        line = bisect_right(starts, offset)
        return Span(line, offset - starts[line - 1] + 1, length)

    def line(self, number: int) -> str:
        """The text of a 1-based line, without its line end."""
        self.span(0)
        assert self._line_starts is not None
        start = self._line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : len(self.text) if end < 0 else end].rstrip("\r")

    def offset(self, span: Span) -> int:
        """The character offset at which a span starts."""
        self.span(0)
        assert self._line_starts is not None
        return self._line_starts[span.line - 1] + span.column - 1

    def error(self, message: str, span: Span) -> PtxError:
        """A `PtxError` about a place in this text, to be raised."""
        return PtxError(message, self.filename, span, self.line(span.line))


class Tokens:
    """The tokens of one text: `texts[i]` begins at character `starts[i]`.

    Two empty strings end the list, so that looking one token ahead is always allowed.
    """

    __slots__ = ("source", "starts", "texts")

    def __init__(self, source: Source, texts: list[str], starts: list[int]) -> None:
        self.source = source
        self.texts = texts
        self.starts = starts

    def span(self, position: int) -> Span:
        """Where token number `position` stands."""
        return self.source.span(self.starts[position], max(1, len(self.texts[position])))


def tokenize(source: Source, start: int = 0, end: int | None = None) -> Tokens:
    """Split the text, or the piece of it from `start` to `end`, into tokens.

    Raises:
        PtxError: A character, string or comment that PTX does not have; the text is too long.
    """
    text = source.text
    if len(text) > MAX_TEXT:
        raise source.error(f"PTX text of {len(text)} characters; at most {MAX_TEXT} are accepted", Span(1, 1))
    texts: list[str] = []
    starts: list[int] = []
    for match in _TOKEN.finditer(text, start, len(text) if end is None else end):
        group = match.lastindex
        if group == 1:
            texts.append(match[1])
            starts.append(match.start(1))
        elif group == 2:
            break
        else:
            raise _bad_character(source, match.start(3))
    texts += ("", "")
    stop = len(text) if end is None else end
    starts += (stop, stop)
    return Tokens(source, texts, starts)


def _bad_character(source: Source, offset: int) -> PtxError:
    character = source.text[offset]
    if source.text.startswith("/*", offset):
        message = "comment without its closing '*/'"
    elif character == '"':
        message = "string without its closing '\"' on this line"
    elif character == ".":
        message = "a '.' must be followed by a name"
    else:
        message = f"unexpected character {character!r}"
    return source.error(message, source.span(offset))


def is_word(text: str) -> bool:
    """Whether a token is an identifier or an opcode."""
    return text[:1] in _WORD_START and text != ""


def number(text: str) -> Immediate | None:
    """The value of a number token; None when it is malformed or does not fit in 64 bits."""
    if len(text) > _MAX_DIGITS:
        return None
    if match := _INTEGER.match(text):
        value = _integer(match)
        return Immediate(value) if value < 1 << 64 else None
    if match := _HEX_FLOAT.match(text):
        if match[1] is not None:
            return Immediate(struct.unpack(">f", bytes.fromhex(match[1]))[0], int(match[1], 16), 32)
        return Immediate(struct.unpack(">d", bytes.fromhex(match[2]))[0], int(match[2], 16), 64)
    if _DECIMAL_FLOAT.match(text):
        real = float(text)
        return Immediate(real, int.from_bytes(struct.pack(">d", real)), 64)
    return None


def _integer(match: re.Match[str]) -> int:
    for group, base in ((1, 16), (2, 2), (3, 8)):
        if match[group] is not None:
            return int(match[group], base)
    return int(match[4])


def string_bytes(token: str) -> bytes:
    """The bytes of a string token (without a terminating zero); escapes as in C, text as UTF-8."""
    pieces: list[bytes] = []
    last = 1
    for match in _ESCAPE.finditer(token, 1, len(token) - 1):
        pieces.append(token[last : match.start()].encode("utf-8", "surrogatepass"))
        pieces.append(_escape(match))
        last = match.end()
    pieces.append(token[last:-1].encode("utf-8", "surrogatepass"))
    return b"".join(pieces)


def _escape(match: re.Match[str]) -> bytes:
    if match[1] is not None:
        return bytes([int(match[1], 16)])
    if match[2] is not None:
        return bytes([int(match[2], 8) & 255])
    return _ESCAPES.get(match[3], match[3]).encode("utf-8", "surrogatepass")
