"""PTX instructions to LLVM IR: one table from opcode to lowering function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.registers import reads_carry
from zcuda_async.ptx.ir import Instruction

if TYPE_CHECKING:
    from zcuda_async.jit.lower.group import Group

Lowering = Callable[["Group", Instruction], None]
"""Emits one instruction for all parts of a group."""

from zcuda_async.jit.lower.address import ADDRESS  # noqa: E402
from zcuda_async.jit.lower.atomic import ATOMIC  # noqa: E402
from zcuda_async.jit.lower.barrier import BARRIER  # noqa: E402
from zcuda_async.jit.lower.bitfield import BITFIELD  # noqa: E402
from zcuda_async.jit.lower.calls import CALLS  # noqa: E402
from zcuda_async.jit.lower.carry import EXTENDED  # noqa: E402
from zcuda_async.jit.lower.cluster import CLUSTER  # noqa: E402
from zcuda_async.jit.lower.compare import COMPARE, predicate_logic  # noqa: E402
from zcuda_async.jit.lower.convert import CONVERT  # noqa: E402
from zcuda_async.jit.lower.faults import FAULTS  # noqa: E402
from zcuda_async.jit.lower.floating import FLOATING  # noqa: E402
from zcuda_async.jit.lower.halfmath import HALF, HALF_TYPES  # noqa: E402
from zcuda_async.jit.lower.integer import INTEGER  # noqa: E402
from zcuda_async.jit.lower.match import MATCH  # noqa: E402
from zcuda_async.jit.lower.matrix import MATRIX  # noqa: E402
from zcuda_async.jit.lower.mbarrier import MBARRIER  # noqa: E402
from zcuda_async.jit.lower.memory import MEMORY  # noqa: E402
from zcuda_async.jit.lower.services import SERVICES  # noqa: E402
from zcuda_async.jit.lower.surface import SURFACES  # noqa: E402
from zcuda_async.jit.lower.texture import TEXTURES  # noqa: E402
from zcuda_async.jit.lower.video import VIDEO  # noqa: E402
from zcuda_async.jit.lower.warp import WARP, WARP_OPCODES  # noqa: E402

__all__ = ("LOWER", "WARP_OPCODES", "Lowering", "lowering_of")

LOWER: Final[Mapping[str, Mapping[str, Lowering]]] = MappingProxyType(
    {
        "float": FLOATING,
        "half": HALF,
        "integer": {
            **INTEGER,
            **COMPARE,
            **CONVERT,
            **MEMORY,
            **ATOMIC,
            **WARP,
            **MATCH,
            **BARRIER,
            **CLUSTER,
            **MBARRIER,
            **MATRIX,
            **FAULTS,
            **TEXTURES,
            **SURFACES,
            **VIDEO,
            **BITFIELD,
            **ADDRESS,
            **SERVICES,
            **CALLS,
        },
        "extended": EXTENDED,
        "predicate": {opcode: predicate_logic(opcode) for opcode in ("and", "or", "xor", "not", "mov")},
    }
)
"""Lowerings by what an instruction's type is, then by opcode."""

_FLOATS: Final = frozenset({"f32", "f64"})
_ANY_TYPE: Final = frozenset({"mov", "cvt", "ld", "st", "ldu", "selp", "setp", "set", "atom", "red"})
"""Opcodes whose one lowering takes half-precision types too."""


def lowering_of(instruction: Instruction) -> Lowering | None:
    """The lowering of an instruction, or None where there is none yet."""
    first = instruction.types[0] if instruction.types else ""
    if first == "pred" and instruction.opcode in LOWER["predicate"]:
        return LOWER["predicate"][instruction.opcode]
    if instruction.opcode in MATRIX:
        return MATRIX[instruction.opcode]
    if instruction.has("cc") or reads_carry(instruction):
        return EXTENDED[instruction.opcode]
    if instruction.opcode in TEXTURES:
        return TEXTURES[instruction.opcode]
    if first in _FLOATS and instruction.opcode in FLOATING:
        return FLOATING[instruction.opcode]
    if first in HALF_TYPES and instruction.opcode not in _ANY_TYPE:
        return HALF.get(instruction.opcode)
    return LOWER["integer"].get(instruction.opcode)
