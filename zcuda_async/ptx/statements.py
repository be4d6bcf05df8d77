"""Instruction statements: ``@!%p1 ld.global.v2.f32 {%f1, %f2}, [%rd1+8];`` to `ir.Instruction`.

This is the parser's hot loop: an operand that is one name or number is one look-up in
`Names.visible`, and an opcode's spelling is resolved once per module.
"""

from __future__ import annotations

from typing import Final

from zcuda_async.ptx.errors import PtxError
from zcuda_async.ptx.ir import Guard, Instruction, Operand, Register, Sink, VectorOperand
from zcuda_async.ptx.parser_cursor import Cursor
from zcuda_async.ptx.parser_scope import Names
from zcuda_async.ptx.statements_calls import branch_targets, call_operands
from zcuda_async.ptx.statements_operands import compound, simple
from zcuda_async.ptx.statements_texture import texture_operands
from zcuda_async.ptx.statements_video import video_operands
from zcuda_async.ptx.table import Form, resolve
from zcuda_async.ptx.table_explain import explain_count, explain_spelling
from zcuda_async.ptx.table_texture import TEXTURE_OPCODES
from zcuda_async.ptx.table_video import SELECTORS

__all__ = ("Statements",)

_ENDS: Final = frozenset((",", ";"))


class Statements:
    """Parses the instructions of one function.  `forms` is shared by all functions of a module."""

    __slots__ = ("_cursor", "_forms", "_names", "_target_lists")

    def __init__(self, cursor: Cursor, names: Names, forms: dict[str, Form]) -> None:
        self._cursor = cursor
        self._names = names
        self._forms = forms
        self._target_lists: dict[int, VectorOperand] = {}

    def instruction(self) -> Instruction:
        """Read one instruction with its guard and semicolon."""
        cursor = self._cursor
        guard = self._guard() if cursor.text == "@" else None
        position = cursor.position
        spelling = cursor.texts[position]
        form = self._forms.get(spelling) or self._resolve(spelling)
        cursor.position = position + 1
        if form.opcode in ("call", "brx"):
            return self._special(form, guard, position)
        if form.opcode in SELECTORS:
            return self._video(form, spelling, guard, position)
        if form.opcode in TEXTURE_OPCODES:
            return self._texture(form, spelling, guard, position)
        negated: list[int] = []
        operands: list[Operand] = []
        second = self._operands(operands, negated)
        if len(operands) not in form.by_count:
            raise cursor.error(explain_count(spelling, form, len(operands)), position)
        return Instruction(
            form.opcode,
            form.modifiers,
            form.types,
            tuple(operands),
            cursor.tokens.span(position),
            guard,
            second,
            tuple(negated),
        )

    def _operands(self, operands: list[Operand], negated: list[int]) -> Register | Sink | None:
        """Read the operands up to and including the semicolon; returns the `p` of ``d|p``."""
        cursor, texts = self._cursor, self._cursor.texts
        second: Register | Sink | None = None
        if cursor.accept(";"):
            return None
        while True:
            position = cursor.position
            text, following = texts[position], texts[position + 1] if texts[position] else ""
            if following in _ENDS:
                operand = self._names.visible.get(text)
                operands.append(simple(cursor, self._names, position) if operand is None else operand)
                cursor.position = position + 2
                if following == ";":
                    return second
                continue
            if text == "!":
                negated.append(len(operands))
                cursor.position += 1
            operands.append(compound(cursor, self._names))
            if cursor.text == "|" and len(operands) == 1:
                second = self._second()
            if cursor.accept(";"):
                return second
            if not cursor.accept(","):
                raise cursor.unexpected("',' or ';'")

    def _second(self) -> Register | Sink:
        cursor = self._cursor
        cursor.expect("|")
        operand = simple(cursor, self._names, cursor.position)
        if not isinstance(operand, Register | Sink):
            raise cursor.unexpected("a predicate register")
        cursor.position += 1
        return operand

    def _special(self, form: Form, guard: Guard | None, position: int) -> Instruction:
        cursor = self._cursor
        if form.opcode == "call":
            operands = call_operands(cursor, self._names)
        else:
            operands = branch_targets(cursor, self._names, self._target_lists)
        cursor.expect(";")
        return Instruction(form.opcode, form.modifiers, form.types, operands, cursor.tokens.span(position), guard=guard)

    def _video(self, form: Form, spelling: str, guard: Guard | None, position: int) -> Instruction:
        cursor = self._cursor
        operands, selectors = video_operands(cursor, self._names, form)
        if len(operands) not in form.by_count:
            raise cursor.error(explain_count(spelling, form, len(operands)), position)
        span = cursor.tokens.span(position)
        return Instruction(form.opcode, form.modifiers, form.types, operands, span, guard, selectors=selectors)

    def _texture(self, form: Form, spelling: str, guard: Guard | None, position: int) -> Instruction:
        cursor = self._cursor
        operands, second = texture_operands(cursor, self._names)
        if len(operands) not in form.by_count:
            raise cursor.error(explain_count(spelling, form, len(operands)), position)
        span = cursor.tokens.span(position)
        return Instruction(form.opcode, form.modifiers, form.types, operands, span, guard, second)

    def _guard(self) -> Guard:
        cursor = self._cursor
        cursor.expect("@")
        negated = cursor.accept("!")
        register = simple(cursor, self._names, cursor.position)
        if not isinstance(register, Register) or register.type != "pred":
            raise cursor.unexpected("a predicate register as the guard")
        cursor.position += 1
        return Guard(register, negated)

    def _resolve(self, spelling: str) -> Form:
        form = resolve(spelling)
        if form is None:
            raise self._unknown(spelling)
        self._forms[spelling] = form
        return form

    def _unknown(self, spelling: str) -> PtxError:
        if not spelling[:1].isalpha():
            return self._cursor.unexpected("an instruction")
        return self._cursor.error(explain_spelling(spelling))
