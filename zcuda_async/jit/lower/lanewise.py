"""Instructions that compute each lane from the same lane of their operands.

A lane-wise lowering gets values that are all vectors, or all scalars: for a uniform or affine result
it runs once on the bases, which is right because such instructions are linear (see `shapes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from zcuda_async.jit.builder import Builder, Type, llvm_type
from zcuda_async.jit.registers import sources
from zcuda_async.ptx.ir import Instruction

if TYPE_CHECKING:
    from zcuda_async.jit.lower.group import Group

__all__ = ("Compute", "lanewise")

Compute = Callable[[Builder, Instruction, Type, Sequence[str]], str]
"""(builder, instruction, operand type, operand values) → the result's value."""


def lanewise(
    compute: Compute,
    *,
    source_types: Callable[[Instruction], Sequence[str]] | None = None,
    result_type: Callable[[Instruction], str] | None = None,
) -> Callable[[Group, Instruction], None]:
    """A lowering from a computation on one part.

    `source_types` gives each source's PTX type, `result_type` the result's; the default for both is
    the instruction's first type.
    """

    def lower(group: Group, instruction: Instruction) -> None:
        operands = sources(instruction)
        kinds = source_types(instruction) if source_types else [instruction.types[0]] * len(operands)
        kind_of_result = result_type(instruction) if result_type else instruction.types[0]
        result = llvm_type(kind_of_result)
        shape = group.plain(instruction)
        vector = shape.stride is None
        kind = Type(llvm_type(kinds[0]), group.lanes if vector else 0)
        values = []
        for part in range(group.count(shape)):
            arguments = [
                group.read(operand, llvm_type(source), part, vector=vector)
                for operand, source in zip(operands, kinds, strict=True)
            ]
            values.append(compute(group.builder, instruction, kind, arguments))
        signed = kind_of_result.startswith("s")
        group.write(instruction.operands[0], values, result, shape, instruction.guard, signed=signed)

    return lower
