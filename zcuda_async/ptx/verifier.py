"""Checks a parsed module against the instruction table: types, widths, spaces, labels, calls.

Two tables of rules.  `OPERAND_RULES` has one rule per class of operand; `INSTRUCTION_RULES` are about
whole instructions.  A rule returns what is wrong, or None.  The first complaint is raised as a
`PtxError` at the operand, which is found again in the text (only then: most modules are right).

The rules follow what ptxas accepts: a ``.b`` operand takes any register of its size; loads, stores
and conversions also take wider registers; integer constants are truncated to the instruction's
type and floating-point ones rounded to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zcuda_async.ptx.ir import Function, Instruction, Module, Register, Span, Variable
from zcuda_async.ptx.lexer import Source, tokenize
from zcuda_async.ptx.table import Expected, form_of
from zcuda_async.ptx.verifier_context import Context
from zcuda_async.ptx.verifier_instructions import COMMON_RULES, INSTRUCTION_RULES
from zcuda_async.ptx.verifier_operands import OPERAND_RULES

__all__ = ("verify",)


def verify(module: Module, source: Source, signatures: Mapping[str, tuple[int, int]]) -> None:
    """Check every function and every initial value of a module.

    `signatures` are the numbers of return values and parameters of all declared functions.

    Raises:
        PtxError: The first thing that is wrong.
    """
    context = Context.of_module(module, signatures)
    _verify_initial_values(module.variables, context, source)
    for function in module.functions:
        inner = context.of_function(function)
        _verify_initial_values(function.variables, inner, source)
        _verify_function(function, inner, source)


def _verify_initial_values(variables: Iterable[Variable], context: Context, source: Source) -> None:
    for variable in variables:
        for _, symbol, _ in variable.relocations:
            if context.space(symbol) is None:
                message = f"'{symbol}', in the initial value of '{variable.name}', is not declared"
                raise source.error(message, variable.span)


def _verify_function(function: Function, context: Context, source: Source) -> None:
    for item in function.body:
        if not isinstance(item, Instruction):
            continue
        _verify_operands(item, form_of(item).by_count[len(item.operands)], context, source)
        for rule in (*COMMON_RULES, *INSTRUCTION_RULES.get(item.opcode, ())):
            message = rule(item, context)
            if message is not None:
                raise source.error(f"'{_spelling(item, source)}': {message}", item.span)


def _verify_operands(item: Instruction, expected: tuple[Expected, ...], context: Context, source: Source) -> None:
    for index, (operand, wanted) in enumerate(zip(item.operands, expected, strict=True)):
        # By far the commonest case; its rule would say the same.
        if type(operand) is Register and operand.type in wanted.registers and not wanted.lanes:
            continue
        message = OPERAND_RULES[type(operand)](operand, wanted, item, context)
        if message is not None:
            raise source.error(f"'{_spelling(item, source)}': {message}", _operand_span(item, index, source))


def _spelling(item: Instruction, source: Source) -> str:
    start = source.offset(item.span)
    return source.text[start : start + item.span.length]


def _operand_span(item: Instruction, index: int, source: Source) -> Span:
    """Where operand number `index` stands: the statement is split into tokens once more."""
    start = source.offset(item.span) + item.span.length
    end = source.text.find(";", start)
    tokens = tokenize(source, start, end if end >= 0 else None)
    position, depth = 0, 0
    if item.opcode == "call" and tokens.texts[0] != "(":
        index -= 1  # the list of return values, operand 0, was left out
    while index > 0 and tokens.texts[position]:
        text = tokens.texts[position]
        depth += (text in "([{") - (text in ")]}")
        index -= text == "," and depth == 0
        position += 1
    last = position
    while tokens.texts[last] and not (tokens.texts[last] == "," and depth == 0):
        depth += (tokens.texts[last] in "([{") - (tokens.texts[last] in ")]}")
        last += 1
    begin, finish = tokens.span(position), tokens.span(max(position, last - 1))
    if begin.line != finish.line:
        return begin
    return Span(begin.line, begin.column, finish.column + finish.length - begin.column)
