"""Registers that never hold a signalling NaN, whatever a kernel loads.

``vrangeps`` is PTX's ``min`` and ``max`` in one instruction, but for signalling NaNs, which win there instead of
losing.  Operands that may be one are made quiet first; those named here need not be.  Sums and products are not
among them: LLVM drops one that is an identity (x * 1), and with it what would have made a NaN quiet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zcuda_async.jit.cfg import ControlFlow
from zcuda_async.jit.registers import sources, writes
from zcuda_async.ptx.ir import Immediate, Instruction, Operand, Register

__all__ = ("quiet_registers",)

_MAKE_QUIET: Final = frozenset(("min", "max", "ex2", "lg2", "sin", "cos", "tanh", "rsqrt"))
_PASS_ON: Final = frozenset(("mov", "selp", "shfl"))
_EXPONENT: Final = 0x7F800000
_QUIET_BIT: Final = 0x00400000


def quiet_registers(flow: ControlFlow) -> frozenset[str]:
    """The names of 32-bit registers that are only written quiet values."""
    loud: set[str] = set()
    definitions = list(_definitions(flow))
    while True:
        found = {name for name, item in definitions if name not in loud and not _is_quiet(item, loud)}
        if not found:
            return frozenset(name for name, _ in definitions if name not in loud)
        loud |= found


def _definitions(flow: ControlFlow) -> Iterator[tuple[str, Instruction]]:
    for block in flow.blocks:
        for item in block.instructions:
            for register in writes(item):
                yield register.name, item


def _is_quiet(item: Instruction, loud: set[str]) -> bool:
    if item.opcode in _MAKE_QUIET:
        return item.types[0] == "f32"
    if item.opcode == "cvt":
        return item.types[0] == "f32" and item.types[1] != "f32"
    if item.opcode not in _PASS_ON or item.types[0] not in ("f32", "b32"):
        return False
    values = sources(item)[:1] if item.opcode in ("mov", "shfl") else sources(item)[:2]
    return isinstance(item.operands[0], Register) and all(_is_quiet_value(value, loud) for value in values)


def _is_quiet_value(value: Operand, loud: set[str]) -> bool:
    if isinstance(value, Register):
        return value.name not in loud
    if not isinstance(value, Immediate):
        return False
    bits = (value.bits if value.float_bits else int(value.value)) & 0xFFFFFFFF
    return bits & 0x7FFFFFFF <= _EXPONENT or bool(bits & _QUIET_BIT)
