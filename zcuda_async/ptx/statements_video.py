"""Operands of video instructions: registers with selectors, and for ``vmad`` with signs."""

from __future__ import annotations

from zcuda_async.ptx.ir import Immediate, Operand, Register
from zcuda_async.ptx.lexer import is_word
from zcuda_async.ptx.parser_cursor import Cursor
from zcuda_async.ptx.parser_scope import Names
from zcuda_async.ptx.statements_operands import simple
from zcuda_async.ptx.table import Form
from zcuda_async.ptx.table_video import is_selector

__all__ = ("video_operands",)


def video_operands(cursor: Cursor, names: Names, form: Form) -> tuple[tuple[Operand, ...], tuple[str, ...]]:
    """Read the operands up to and including the semicolon: (operands, their selectors).

    A selector is the text after the dot, with a minus before it where the operand is negated.
    """
    opcode = cursor.position - 1
    operands: list[Operand] = []
    selectors: list[str] = []
    while True:
        start = cursor.position
        sign = "-" if cursor.accept("-") else ""
        operand, selector = _operand(cursor, names, form, len(operands))
        if sign and isinstance(operand, Immediate):
            operand, sign = Immediate(-operand.value), ""
        if sign and (form.opcode != "vmad" or "po" in form.modifiers or not operands):
            raise cursor.error("only the sources of vmad (without .po) can be negated", start)
        operands.append(operand)
        selectors.append(sign + selector)
        if cursor.accept(";"):
            break
        if not cursor.accept(","):
            raise cursor.unexpected("',' or ';'")
    _check_third_source(cursor, form, selectors, opcode)
    return tuple(operands), tuple(selectors)


def _operand(cursor: Cursor, names: Names, form: Form, index: int) -> tuple[Operand, str]:
    position, text = cursor.position, cursor.text
    stem, _, selector = text.rpartition(".")
    if not is_word(text) or not stem or names.find(text) is not None or names.find(stem) is None:
        operand = simple(cursor, names, position)
        cursor.position += 1
        return operand, ""
    found = names.find(stem)
    if not isinstance(found, Register):
        raise cursor.error(f"only a register can have a selector, not '{stem}'", position)
    if not is_selector(form.opcode, index, selector):
        raise cursor.error(f"operand {index + 1} of {form.opcode} cannot have the selector '.{selector}'", position)
    cursor.position += 1
    return found, selector


def _check_third_source(cursor: Cursor, form: Form, selectors: list[str], position: int) -> None:
    """A part of the destination, or a second operation, needs the operand c; and they exclude each other."""
    if form.opcode[-1].isdigit() or form.opcode == "vmad":
        return
    second = any(name in form.modifiers for name in ("add", "min", "max"))
    if second and selectors[0]:
        raise cursor.error(f"{form.opcode} has either a second operation or a selector at d, not both", position)
    wanted = second or bool(selectors[0])
    if wanted != (len(selectors) == 4):
        raise cursor.error(
            f"{form.opcode} takes the operand c exactly if it has a second operation or a selector at d", position
        )
