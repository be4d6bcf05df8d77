"""The typed form of a PTX module: what the parser makes and every later stage reads.

All values are immutable.  Registers keep their PTX names (made unique per `{}` scope), types keep
PTX's spelling without the dot (``u32``, ``f32``, ``b64``, ``pred``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = (
    "Address",
    "Function",
    "Guard",
    "Immediate",
    "Instruction",
    "Label",
    "Module",
    "Operand",
    "Param",
    "Register",
    "Sink",
    "Span",
    "SpecialRegister",
    "Symbol",
    "TYPE_BITS",
    "Variable",
    "VectorOperand",
)

TYPE_BITS: Final[dict[str, int]] = {
    "pred": 1,
    **{f"{kind}{bits}": bits for kind in "bus" for bits in (8, 16, 32, 64)},
    "b128": 128,
    "f16": 16,
    "bf16": 16,
    "f16x2": 32,
    "bf16x2": 32,
    "f32": 32,
    "f64": 64,
}


@dataclass(frozen=True, slots=True)
class Span:
    """Where something stands in the PTX text: 1-based line and column, length in characters.

    `unit` counts the texts of a linked module from 0.
    """

    line: int
    column: int
    length: int = 1
    unit: int = 0

    @property
    def site(self) -> int:
        """Line and unit as one number, as faults report them: the line in the low 32 bits."""
        return self.unit << 32 | self.line


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register, e.g. ``%r3``; `type` is its declared type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class SpecialRegister:
    """``%tid.x``, ``%laneid``, ``%clock64``…: the name as PTX spells it, with the percent sign."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant: a Python int, or for ``0f…``/``0d…`` literals the float it denotes.

    `bits` is the literal's own bit pattern for float literals (so NaN payloads survive), and
    `float_bits` its width: 32, 64, or 0 for an integer.
    """

    value: int | float
    bits: int = 0
    float_bits: int = 0


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name of a variable, parameter or function used as an operand, plus a byte offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """``[base+offset]``: base is a register, a symbol or an absolute integer."""

    base: Register | Symbol | Immediate
    offset: int = 0


@dataclass(frozen=True, slots=True)
class VectorOperand:
    """``{a, b, …}``."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Sink:
    """``_``: a result that nobody wants."""


@dataclass(frozen=True, slots=True)
class Label:
    """A branch target's name (made unique per `{}` scope)."""

    name: str


Operand = Register | SpecialRegister | Immediate | Symbol | Address | VectorOperand | Sink | Label


@dataclass(frozen=True, slots=True)
class Guard:
    """``@p`` or ``@!p`` before an instruction."""

    register: Register
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Instruction:
    """One PTX instruction, resolved against its row of the instruction table.

    `opcode` is the base opcode (``add``, ``ld``, ``bar``); `modifiers` the dotted parts other than
    the types, without dots, in the table's canonical order (``("lo",)``, ``("global", "nc", "v4")``,
    ``("sync", "down")``); `types` the type suffixes in order, (``("f32", "s32")`` for
    ``cvt.rn.f32.s32``).  `operands` holds destinations first, as written.  A ``d|p`` destination is
    a VectorOperand-free pair: `operands[0]` is d and `second_destination` is p.  A negated
    predicate source operand (``!p``) is listed by its operand index in `negated_operands`.
    Video instructions have `selectors`: for each operand the part of the register (``b0``, ``h10``),
    or "", after a minus sign if the operand is negated.
    """

    opcode: str
    modifiers: tuple[str, ...]
    types: tuple[str, ...]
    operands: tuple[Operand, ...]
    span: Span
    guard: Guard | None = None
    second_destination: Register | Sink | None = None
    negated_operands: tuple[int, ...] = ()
    selectors: tuple[str, ...] = ()

    def has(self, modifier: str) -> bool:
        """Whether the modifier is present."""
        return modifier in self.modifiers


@dataclass(frozen=True, slots=True)
class Param:
    """A kernel or function parameter: bytes `size` at `offset` of the parameter buffer.

    `type` is the element type, `count` the array length (1 for a scalar; ``.param .align 8 .b8 p[24]``
    has type ``b8`` and count 24, which is how structs by value look).
    """

    name: str
    type: str
    size: int
    align: int
    offset: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the state space `space` (``shared``, ``global``, ``const``, ``local``).

    `size` is in bytes; None for ``extern .shared x[]``, whose size the launch gives.  `initial` is the
    little-endian image (shorter than `size` means zero-filled), None where there is none.
    `relocations` are (byte offset in the image, symbol, addend): addresses to be filled in at load.
    `linkage` is ``visible``, ``weak``, ``common``, ``extern``, or empty for what its text keeps to itself.
    """

    name: str
    space: str
    type: str
    size: int | None
    align: int
    span: Span
    initial: bytes | None = None
    relocations: tuple[tuple[int, str, int], ...] = ()
    linkage: str = ""


@dataclass(frozen=True, slots=True)
class Function:
    """An ``.entry`` (kernel) or ``.func`` with a body.

    `body` is the instructions and labels in order.  `variables` are those declared inside the body.
    `directives` are performance directives: ``maxntid``, ``reqntid``, ``minnctapersm``, … → integers.
    `linkage` is as of a `Variable`.
    """

    name: str
    is_entry: bool
    params: tuple[Param, ...]
    returns: tuple[Param, ...]
    registers: tuple[Register, ...]
    variables: tuple[Variable, ...]
    body: tuple[Instruction | Label, ...]
    span: Span
    directives: tuple[tuple[str, tuple[int, ...]], ...] = ()
    linkage: str = ""


@dataclass(frozen=True, slots=True)
class Module:
    """A parsed PTX file."""

    filename: str
    version: tuple[int, int]
    target: tuple[str, ...]
    address_size: int
    variables: tuple[Variable, ...]
    functions: tuple[Function, ...]
