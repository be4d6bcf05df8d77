"""The two statements with an operand syntax of their own: ``call`` and ``brx.idx``.

``call.uni (r0), f, (a0, a1);`` becomes an Instruction with the operands
``VectorOperand((Symbol r0,)), Symbol f, VectorOperand((Symbol a0, Symbol a1))``: always these three, with
empty vectors for what is absent.  For an indirect call the second is a Register and a fourth operand,
a Symbol, names the ``.callprototype`` (or list of targets).

``brx.idx i, list;`` becomes ``i, VectorOperand((Label, …))``: the labels of the ``.branchtargets`` list.
"""

from __future__ import annotations

from zcuda_async.ptx.ir import Label, Operand, Register, Symbol, VectorOperand
from zcuda_async.ptx.parser_cursor import Cursor
from zcuda_async.ptx.parser_scope import Names
from zcuda_async.ptx.statements_operands import simple, unknown_name

__all__ = ("branch_targets", "call_operands")


def call_operands(cursor: Cursor, names: Names) -> tuple[Operand, ...]:
    """Read what stands between ``call`` and its semicolon."""
    returns = VectorOperand(())
    if cursor.text == "(":
        returns = _list(cursor, names)
        cursor.expect(",")
    position = cursor.position
    callee = simple(cursor, names, position)
    if not isinstance(callee, Symbol | Register):
        raise cursor.unexpected("a function or a register that holds its address", position)
    cursor.position += 1
    arguments = VectorOperand(())
    operands: list[Operand] = [returns, callee]
    if cursor.text == "," and cursor.following == "(":
        cursor.position += 1
        arguments = _list(cursor, names)
    operands.append(arguments)
    if cursor.accept(","):
        operands.append(Symbol(cursor.name("the name of a .callprototype")))
    return tuple(operands)


def _list(cursor: Cursor, names: Names) -> VectorOperand:
    cursor.expect("(")
    operands: list[Operand] = []
    while not cursor.accept(")"):
        if operands:
            cursor.expect(",")
        operands.append(simple(cursor, names, cursor.position))
        cursor.position += 1
    return VectorOperand(tuple(operands))


def branch_targets(cursor: Cursor, names: Names, known: dict[int, VectorOperand]) -> tuple[Operand, ...]:
    """Read the operands of ``brx.idx``; `known` keeps the lists that were read before."""
    index = simple(cursor, names, cursor.position)
    cursor.position += 1
    cursor.expect(",")
    position = names.branch_targets(cursor.text)
    if position is None:
        raise cursor.unexpected("the name of a .branchtargets list")
    cursor.position += 1
    if position not in known:
        known[position] = _targets(cursor, names, position)
    return index, known[position]


def _targets(cursor: Cursor, names: Names, position: int) -> VectorOperand:
    targets: list[Operand] = []
    while True:
        text = cursor.texts[position]
        target = names.find(text)
        if not isinstance(target, Label):
            raise unknown_name(cursor, text, position)
        targets.append(target)
        if cursor.texts[position + 1] == ";":
            return VectorOperand(tuple(targets))
        if cursor.texts[position + 1] != ",":
            raise cursor.unexpected("',' or ';'", position + 1)
        position += 2
