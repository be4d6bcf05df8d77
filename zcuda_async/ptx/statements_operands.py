"""Operands of ordinary instructions: everything that is not a plain name or number on its own."""

from __future__ import annotations

import struct

from zcuda_async.ptx.errors import PtxError
from zcuda_async.ptx.ir import Address, Immediate, Label, Operand, Register, Sink, Symbol, VectorOperand
from zcuda_async.ptx.lexer import is_word
from zcuda_async.ptx.parser_cursor import Cursor
from zcuda_async.ptx.parser_scope import Names

__all__ = ("address", "compound", "handle", "negated_number", "simple", "vector")

_SINK = Sink()


def simple(cursor: Cursor, names: Names, position: int) -> Operand:
    """The operand that the single token at `position` is; remembered in `names.visible`."""
    text = cursor.texts[position]
    if is_word(text):
        if text == "_":
            return _SINK
        found = names.find(text)
        if found is None:
            raise unknown_name(cursor, text, position)
        return found
    saved, cursor.position = cursor.position, position
    operand = cursor.number("an operand")
    cursor.position = saved
    names.visible[text] = operand
    return operand


def unknown_name(cursor: Cursor, text: str, position: int) -> PtxError:
    """The error for a name that nothing in scope declares."""
    if text.startswith("%") and "." in text:
        return cursor.error(f"unknown special register '{text}'", position)
    return cursor.error(
        f"'{text}' is not declared here: no register, variable, parameter or label in scope has that name", position
    )


def compound(cursor: Cursor, names: Names) -> Operand:
    """Read an operand of several tokens: an address, a vector, a signed number, ``symbol+offset``."""
    text = cursor.text
    if text == "[":
        return address(cursor, names)
    if text == "{":
        return vector(cursor, names)
    if text in ("-", "+"):
        cursor.position += 1
        value = cursor.number("a number")
        return negated_number(value) if text == "-" else value
    operand = simple(cursor, names, cursor.position)
    cursor.position += 1
    if cursor.text not in ("+", "-"):
        return operand
    if isinstance(operand, Symbol):
        return Symbol(operand.name, operand.offset + _offset(cursor))
    if isinstance(operand, Immediate) and isinstance(operand.value, int):
        return Immediate(operand.value + _offset(cursor))
    raise cursor.unexpected("',' or ';'")


def negated_number(value: Immediate) -> Immediate:
    """The number with its sign changed; for a literal of bits, the sign bit."""
    if not value.float_bits:
        return Immediate(-value.value)
    bits = value.bits ^ (1 << (value.float_bits - 1))
    return Immediate(-value.value, bits, value.float_bits)


def address(cursor: Cursor, names: Names) -> Address:
    """Read ``[base]``, ``[base+offset]``, ``[base+-offset]`` or ``[base-offset]``."""
    cursor.expect("[")
    found = handle(cursor, names)
    cursor.expect("]")
    return found


def handle(cursor: Cursor, names: Names) -> Address:
    """Read what stands between the brackets of an address, or before the coordinates of a texture."""
    position = cursor.position
    base = simple(cursor, names, position)
    if not isinstance(base, Register | Symbol | Immediate) or (isinstance(base, Immediate) and base.float_bits):
        raise cursor.unexpected("a register, a variable or an integer as the base of the address", position)
    cursor.position += 1
    return Address(base, _offset(cursor))


def _offset(cursor: Cursor) -> int:
    """A sum of signed integers, possibly empty."""
    total = 0
    while (sign := cursor.text) in ("+", "-"):
        cursor.position += 1
        value = cursor.integer("an integer offset", signed=True)
        total += -value if sign == "-" else value
    if not -(1 << 63) <= total < 1 << 64:
        raise cursor.error(f"offset {total} does not fit in 64 bits", cursor.position - 1)
    return total


def vector(cursor: Cursor, names: Names) -> Operand:
    """Read ``{a, b, …}``: registers, numbers or ``_``.  ``{a}``, which Triton writes, is just `a`."""
    start = cursor.position
    cursor.expect("{")
    elements: list[Operand] = []
    while True:
        position = cursor.position
        if cursor.text in ("{", "["):
            raise cursor.unexpected("a register or a number as an element of the vector")
        element = compound(cursor, names)
        if isinstance(element, Label):
            raise cursor.unexpected("a register or a number as an element of the vector", position)
        elements.append(element)
        if len(elements) > 8:
            raise cursor.error("a vector has at most 8 elements", start)
        if cursor.accept("}"):
            return VectorOperand(tuple(elements)) if len(elements) > 1 else element
        if not cursor.accept(","):
            raise cursor.unexpected("',' or '}'")


def float_bits(value: float, width: int) -> int:
    """The bit pattern of a number as an IEEE float of `width` bits."""
    return int.from_bytes(struct.pack(">f" if width == 32 else ">d", value))
