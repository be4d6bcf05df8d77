"""C's ``printf`` formatting, for what kernels print (CUDA C++ Programming Guide, "Formatted Output").

A format is bytes, as kernels hold it; so is the result.  Where the arguments come from is the caller's
business: he gives an `Arguments`, which is asked for one after another.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Protocol

__all__ = ("Arguments", "Conversion", "Literal", "format_pieces", "render")

_LONGEST: Final = 1 << 16
"""Widths and precisions are cut to this, so that a wild one costs no memory."""

_CONVERSION: Final = re.compile(
    rb"%([-+ #0]*)(\*|[0-9]*)(\.(?:\*|[0-9]*))?(hh|h|ll|l|j|z|t|q|L)?([diouxXcspaAeEfFgG%])"
)
_WIDE: Final = frozenset(("l", "ll", "j", "z", "t", "q"))
_NARROW: Final = {"hh": 8, "h": 16}
_INTEGERS: Final = "diouxX"


class Arguments(Protocol):
    """The values that a format asks for, in order."""

    def integer(self, size: int) -> int:
        """The next integer of `size` bytes (4 or 8), unsigned."""

    def double(self) -> float:
        """The next floating-point number."""

    def string(self) -> bytes | None:
        """The next string without its NUL; None for a null pointer."""


@dataclass(frozen=True, slots=True)
class Literal:
    """Text that stands for itself."""

    text: bytes


@dataclass(frozen=True, slots=True)
class Conversion:
    """One ``%`` directive.  `width` and `precision` are None where absent, and ``"*"`` where an argument gives them."""

    flags: str
    width: int | str | None
    precision: int | str | None
    length: str
    kind: str

    @property
    def size(self) -> int:
        """Bytes of the argument."""
        narrow = self.kind == "c" or (self.kind in _INTEGERS and self.length not in _WIDE)
        return 4 if narrow else 8


def _number(text: bytes) -> int | str | None:
    if text == b"*":
        return "*"
    return min(int(text), _LONGEST) if text else None


def format_pieces(text: bytes) -> Iterator[Literal | Conversion]:
    """Split a format; what is no directive that kernels may use stands for itself."""
    at = 0
    for match in _CONVERSION.finditer(text):
        if match.start() > at:
            yield Literal(text[at : match.start()])
        at = match.end()
        flags, width, precision, length, kind = match.groups()
        if kind == b"%":
            yield Literal(b"%")
            continue
        yield Conversion(
            flags.decode(),
            _number(width),
            None if precision is None else (_number(precision[1:]) or 0),
            (length or b"").decode(),
            kind.decode(),
        )
    if at < len(text):
        yield Literal(text[at:])


@lru_cache(maxsize=256)
def _remembered(text: bytes) -> tuple[Literal | Conversion, ...]:
    """The pieces of a format, which threads use over and over."""
    return tuple(format_pieces(text))


def render(text: bytes, arguments: Arguments) -> bytes:
    """The formatted text."""
    return b"".join(
        piece.text if isinstance(piece, Literal) else _convert(_with_stars(piece, arguments), arguments)
        for piece in _remembered(text)
    )


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _with_stars(piece: Conversion, arguments: Arguments) -> Conversion:
    """The directive with the widths that its arguments give: a negative one means ``-``, or no precision."""
    if piece.width == "*":
        width = _signed(arguments.integer(4), 32)
        flags = piece.flags + "-" if width < 0 else piece.flags
        piece = replace(piece, width=min(abs(width), _LONGEST), flags=flags)
    if piece.precision == "*":
        precision = _signed(arguments.integer(4), 32)
        piece = replace(piece, precision=None if precision < 0 else min(precision, _LONGEST))
    return piece


def _convert(piece: Conversion, arguments: Arguments) -> bytes:
    assert not isinstance(piece.width, str)
    assert not isinstance(piece.precision, str)
    width, precision = piece.width or 0, piece.precision
    if piece.kind == "s":
        text = arguments.string()
        return _padded(piece, width, _text(text, precision))
    if piece.kind == "c":
        return _padded(piece, width, bytes([arguments.integer(4) & 0xFF]))
    if piece.kind == "p":
        address = arguments.integer(8)
        return _padded(piece, width, f"{address:#x}".encode() if address else b"(nil)")
    if piece.kind in _INTEGERS:
        return _integer(piece, width, precision, arguments.integer(piece.size))
    return _double(piece, width, precision, arguments.double())


def _text(text: bytes | None, precision: int | None) -> bytes:
    if text is None:
        return b"(null)" if precision is None or precision >= 6 else b""
    return text if precision is None else text[:precision]


def _padded(piece: Conversion, width: int, text: bytes) -> bytes:
    return text.ljust(width) if "-" in piece.flags else text.rjust(width)


def _assembled(piece: Conversion, width: int, sign: str, digits: str, *, zeros: bool) -> bytes:
    """Sign (or ``0x``) and digits, with zeros between them or spaces around them."""
    if zeros and "-" not in piece.flags and "0" in piece.flags:
        digits = digits.rjust(width - len(sign), "0")
    return _padded(piece, width, (sign + digits).encode())


def _sign(piece: Conversion, *, negative: bool) -> str:
    if negative:
        return "-"
    return "+" if "+" in piece.flags else " " if " " in piece.flags else ""


def _integer(piece: Conversion, width: int, precision: int | None, value: int) -> bytes:
    bits = _NARROW.get(piece.length, piece.size * 8)
    sign = ""
    if piece.kind in "di":
        value = _signed(value, bits)
        sign = _sign(piece, negative=value < 0)
        value = abs(value)
    else:
        value &= (1 << bits) - 1
    base = {"o": "o", "x": "x", "X": "X"}.get(piece.kind, "d")
    digits = format(value, base)
    if precision is not None:
        digits = "" if value == precision == 0 else digits.rjust(precision, "0")
    if "#" in piece.flags and piece.kind == "o" and not digits.startswith("0"):
        digits = "0" + digits
    if "#" in piece.flags and piece.kind in "xX" and value:
        sign = "0" + piece.kind
    return _assembled(piece, width, sign, digits, zeros=precision is None)


def _double(piece: Conversion, width: int, precision: int | None, value: float) -> bytes:
    sign = _sign(piece, negative=math.copysign(1, value) < 0)
    upper, value = piece.kind.isupper(), abs(value)
    kind = piece.kind.lower()
    if not math.isfinite(value):
        text = "nan" if math.isnan(value) else "inf"
        return _assembled(piece, width, sign, text.upper() if upper else text, zeros=False)
    if kind == "a":
        sign, digits = sign + "0x", _hexadecimal(value, precision, alternate="#" in piece.flags)
    else:
        alternate = "#" if "#" in piece.flags else ""
        digits = format(value, f"{alternate}.{6 if precision is None else precision}{kind}")
    if upper:
        sign, digits = sign.upper(), digits.upper()
    return _assembled(piece, width, sign, digits, zeros=True)


def _hexadecimal(value: float, precision: int | None, *, alternate: bool) -> str:
    """The digits of ``%a`` after ``0x``: a first digit of 0 or 1, as the C library's for 64-bit numbers."""
    if value == 0:
        mantissa, exponent = 0, 0
    else:
        fraction, exponent = math.frexp(value)
        shift = max(-1022 - (exponent - 1), 0)  # a subnormal keeps the smallest normal's exponent
        mantissa, exponent = int(math.ldexp(fraction, 53 - shift)), exponent - 1 + shift
    if precision is not None and precision < 13:
        unit = 1 << 4 * (13 - precision)
        down, rest = divmod(mantissa, unit)
        mantissa = (down + (rest * 2 > unit or (rest * 2 == unit and down % 2))) * unit
    first, digits = mantissa >> 52, f"{mantissa & ((1 << 52) - 1):013x}"
    digits = digits.rstrip("0") if precision is None else digits[:precision].ljust(precision, "0")
    point = "." if digits or alternate else ""
    return f"{first}{point}{digits}p{exponent:+d}"
