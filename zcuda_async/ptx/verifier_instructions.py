"""Rules about whole instructions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from zcuda_async.ptx.ir import Address, Immediate, Instruction, Register, Symbol, VectorOperand
from zcuda_async.ptx.matrix import matrix_rule
from zcuda_async.ptx.table import form_of
from zcuda_async.ptx.table_syntax import TYPE_WIDTHS
from zcuda_async.ptx.table_texture import TEXTURE_OPCODES
from zcuda_async.ptx.texture import handle_rule, texture_rule
from zcuda_async.ptx.verifier_context import Context

__all__ = ("COMMON_RULES", "INSTRUCTION_RULES", "InstructionRule")

InstructionRule: TypeAlias = Callable[[Instruction, Context], str | None]

_WARP: Final = 32
_WIDEST: Final = 256
"""Widest vector access, in bits."""


def _guard(item: Instruction, _context: Context) -> str | None:
    if item.guard is None or item.guard.register.type == "pred":
        return None
    return (
        f"the guard must be a predicate register, got '{item.guard.register.name}' of type .{item.guard.register.type}"
    )


def _second_destination(item: Instruction, _context: Context) -> str | None:
    second = item.second_destination
    slots = form_of(item).row.operands
    if second is None:
        needed = bool(slots) and slots[0].second_required
        return f"the destination must be a pair {slots[0].name}|{slots[0].second}" if needed else None
    if not slots or not slots[0].second:
        return "the destination cannot be a pair"
    if isinstance(second, Register) and second.type != "pred":
        return f"the second destination must be a predicate register, got '{second.name}' of type .{second.type}"
    return None


def _negation(item: Instruction, _context: Context) -> str | None:
    if not item.negated_operands:
        return None
    expected = form_of(item).by_count[len(item.operands)]
    for index in item.negated_operands:
        wanted = expected[index]
        if wanted.kind != "value" or wanted.type != "pred" or wanted.is_destination:
            return f"operand {wanted.slot.name} cannot be negated with '!'"
    return None


def _thread_count(item: Instruction, _context: Context) -> str | None:
    """``bar.sync a, b``: b threads take part, whole warps only."""
    expected = form_of(item).by_count[len(item.operands)]
    for operand, wanted in zip(item.operands, expected, strict=True):
        if wanted.slot.name == "b" and isinstance(operand, Immediate) and operand.value % _WARP:
            return f"the number of threads must be a multiple of {_WARP}, got {operand.value}"
    return None


def _parameter_bounds(item: Instruction, context: Context) -> str | None:
    """A kernel that reads past its parameters would read someone else's memory."""
    operand = item.operands[1]
    if not item.has("param") or not isinstance(operand, Address) or not isinstance(operand.base, Symbol):
        return None
    param = context.params.get(operand.base.name)
    if param is None:
        return None
    lanes = len(item.operands[0].elements) if isinstance(item.operands[0], VectorOperand) else 1
    start = param.offset + operand.offset
    end = start + lanes * TYPE_WIDTHS[item.types[0]] // 8
    if start >= 0 and end <= context.param_bytes:
        return None
    return f"reads bytes {start} to {end} of the parameters, which are {context.param_bytes} bytes"


def _call(item: Instruction, context: Context) -> str | None:
    returns, callee, arguments = item.operands[:3]
    assert isinstance(returns, VectorOperand)
    assert isinstance(arguments, VectorOperand)
    for operand in (*returns.elements, *arguments.elements):
        if isinstance(operand, Symbol) and context.space(operand.name) != "param":
            return f"'{operand.name}' is not a .param variable"
        if not isinstance(operand, Symbol | Register | Immediate):
            return "arguments must be .param variables, registers or constants"
    if not isinstance(callee, Symbol) or callee.name not in context.signatures:
        return None
    wanted = context.signatures[callee.name]
    given = (len(returns.elements), len(arguments.elements))
    if given == wanted:
        return None
    return (
        f"'{callee.name}' has {wanted[0]} return values and {wanted[1]} parameters, "
        f"the call has {given[0]} and {given[1]}"
    )


def _vector_size(item: Instruction, _context: Context) -> str | None:
    lanes = next((int(part[1:]) for part in item.modifiers if part in ("v2", "v4", "v8")), 1)
    width = TYPE_WIDTHS[item.types[0]] * lanes
    if width <= _WIDEST:
        return None
    return f"accesses {width // 8} bytes at once; at most {_WIDEST // 8} are possible"


def _copy_size(item: Instruction, _context: Context) -> str | None:
    """``cp.async.ca`` copies 4, 8 or 16 bytes."""
    size = item.operands[2] if len(item.operands) > 2 else None
    if not isinstance(size, Immediate) or size.value in (4, 8, 16):
        return None
    return f"copies 4, 8 or 16 bytes, not {size.value}"


COMMON_RULES: Final[tuple[InstructionRule, ...]] = (_guard, _second_destination, _negation)

INSTRUCTION_RULES: Final[Mapping[str, tuple[InstructionRule, ...]]] = {
    "bar": (_thread_count,),
    "barrier": (_thread_count,),
    "call": (_call,),
    "cp": (_copy_size,),
    **dict.fromkeys(("mma", "wmma", "ldmatrix", "stmatrix"), (matrix_rule,)),
    **dict.fromkeys(TEXTURE_OPCODES, (texture_rule,)),
    **dict.fromkeys(("txq", "suq"), (handle_rule,)),
    "ld": (_parameter_bounds, _vector_size),
    "st": (_vector_size,),
}
