"""Operands of instructions on textures and surfaces: ``d|p, [handle, {x, y}], …``."""

from __future__ import annotations

from zcuda_async.ptx.ir import Operand, Register, Sink
from zcuda_async.ptx.parser_cursor import Cursor
from zcuda_async.ptx.parser_scope import Names
from zcuda_async.ptx.statements_operands import compound, handle, simple

__all__ = ("texture_operands",)


def texture_operands(cursor: Cursor, names: Names) -> tuple[tuple[Operand, ...], Register | Sink | None]:
    """Read the operands up to and including the semicolon: (operands, the `p` of ``d|p``).

    A handle and its coordinates, which share brackets, become two operands.
    """
    operands: list[Operand] = []
    second: Register | Sink | None = None
    while True:
        if cursor.text == "[":
            operands += _place(cursor, names)
        else:
            operands.append(compound(cursor, names))
        if cursor.text == "|" and len(operands) == 1:
            cursor.position += 1
            second = _predicate(cursor, names)
        if cursor.accept(";"):
            return tuple(operands), second
        if not cursor.accept(","):
            raise cursor.unexpected("',' or ';'")


def _predicate(cursor: Cursor, names: Names) -> Register | Sink:
    operand = simple(cursor, names, cursor.position)
    if not isinstance(operand, Register | Sink):
        raise cursor.unexpected("a predicate register")
    cursor.position += 1
    return operand


def _place(cursor: Cursor, names: Names) -> list[Operand]:
    cursor.expect("[")
    found: list[Operand] = [handle(cursor, names)]
    if not cursor.accept(","):
        raise cursor.unexpected("',' and the coordinates")
    found.append(compound(cursor, names))
    if cursor.text == ",":
        raise cursor.error("a sampler of its own is not supported; use the texture's (.texmode_unified)")
    cursor.expect("]")
    return found
