"""Writes LLVM IR text: one function's lines, fresh names, and the vector shorthands LLVM lacks.

Text, not llvmlite's IR classes: it is several times faster to make, and the coroutine intrinsics
need types (token) that those classes do not have.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ("Builder", "Type", "float_literal", "llvm_type")

_LLVM = {
    "pred": "i1",
    "f16": "half",
    "bf16": "bfloat",
    "f32": "float",
    "f64": "double",
    "f16x2": "i32",
    "bf16x2": "i32",
    "u16x2": "i32",
    "s16x2": "i32",
}


def llvm_type(ptx_type: str) -> str:
    """The LLVM scalar that holds a PTX type."""
    return _LLVM.get(ptx_type) or f"i{ptx_type[1:]}"


def _as_single(value: float) -> float:
    """The nearest f32; what is too large for one becomes infinity."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def float_literal(elem: str, value: float) -> str:
    """A constant in LLVM's hexadecimal spelling, exact for every value."""
    if elem == "half":
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if elem == "float":
        value = _as_single(value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


@dataclass(frozen=True, slots=True)
class Type:
    """An LLVM scalar (`lanes` 0) or vector type."""

    elem: str
    lanes: int = 0

    def __str__(self) -> str:
        return f"<{self.lanes} x {self.elem}>" if self.lanes else self.elem

    @property
    def suffix(self) -> str:
        """How intrinsic names spell the type: ``v16f32``, ``i64``."""
        short = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16", "ptr": "p0"}.get(
            self.elem, self.elem
        )
        return f"v{self.lanes}{short}" if self.lanes else short

    @property
    def bits(self) -> int:
        """Width of one element."""
        widths = {"float": 32, "double": 64, "half": 16, "bfloat": 16, "ptr": 64}
        return widths.get(self.elem) or int(self.elem[1:])

    @property
    def is_float(self) -> bool:
        """Whether elements are floating point."""
        return self.elem[0] != "i" and self.elem != "ptr"

    def of(self, elem: str) -> Type:
        """The same lanes with another element."""
        return Type(elem, self.lanes)

    def const(self, value: int | float) -> str:
        """A constant of this type with `value` in every lane."""
        text = float_literal(self.elem, value) if self.is_float else str(int(value))
        if self.elem == "i1":
            text = "true" if value else "false"
        return f"splat ({self.elem} {text})" if self.lanes else text

    def vector(self, values: Sequence[int | float]) -> str:
        """A constant vector."""
        scalar = Type(self.elem)
        return "<" + ", ".join(f"{self.elem} {scalar.const(value)}" for value in values) + ">"


class Builder:
    """Lines of one function, and the intrinsics that it needs declared."""

    def __init__(self, features: str = "") -> None:
        self.features = features
        self.lines: list[str] = []
        self.entry_allocas: list[str] = []
        self.prologue: list[str] = []
        self.entry_stores: list[str] = []
        self._hoisted: dict[str, str] = {}
        self.declarations: set[str] = set()
        self.quiet: set[str] = set()
        """Values of 32-bit floats that are no signalling NaNs (see `quiet`)."""
        self._count = 0

    def name(self) -> str:
        """A fresh local name."""
        self._count += 1
        return f"%v{self._count}"

    def block_name(self, hint: str) -> str:
        """A fresh block name, without the percent sign."""
        self._count += 1
        return f"{hint}.{self._count}"

    def line(self, text: str) -> None:
        """Append an instruction without a result."""
        self.lines.append("  " + text)

    def op(self, text: str) -> str:
        """Append an instruction; the name of its result."""
        name = self.name()
        self.lines.append(f"  {name} = {text}")
        return name

    def label(self, name: str) -> None:
        """Start a basic block."""
        self.lines.append(f"{name}:")

    def alloca(self, type_text: str, align: int = 64) -> str:
        """A stack slot in the entry block."""
        name = self.name()
        self.entry_allocas.append(f"  {name} = alloca {type_text}, align {align}")
        return name

    def hoist(self, text: str) -> str:
        """An instruction in the function's prologue, once however often it is asked for."""
        if text not in self._hoisted:
            name = self._hoisted[text] = self.name()
            self.prologue.append(f"  {name} = {text}")
        return self._hoisted[text]

    def call(self, result: Type | str, function: str, args: Iterable[tuple[Type | str, str]], tail: str = "") -> str:
        """Call an intrinsic, declaring it; the name of the result ("" for void)."""
        pairs = list(args)
        signature = ", ".join(str(kind) for kind, _ in pairs)
        self.declarations.add(f"declare {result} @{function}({signature})")
        text = f"call {result} @{function}({', '.join(f'{kind} {value}' for kind, value in pairs)}){tail}"
        if str(result) == "void":
            self.line(text)
            return ""
        return self.op(text)

    def binary(self, opcode: str, kind: Type, a: str, b: str) -> str:
        """``opcode type a, b``."""
        return self.op(f"{opcode} {kind} {a}, {b}")

    def compare(self, opcode: str, kind: Type, a: str, b: str) -> str:
        """An ``icmp``/``fcmp``, e.g. ``compare("icmp slt", …)``."""
        return self.op(f"{opcode} {kind} {a}, {b}")

    def select(self, kind: Type, condition: str, a: str, b: str) -> str:
        """Lane-wise (or scalar) choice; the condition has the same lanes as `kind`."""
        return self.op(f"select {kind.of('i1')} {condition}, {kind} {a}, {kind} {b}")

    def cast(self, opcode: str, source: Type, value: str, to: Type) -> str:
        """A conversion instruction."""
        return value if source == to else self.op(f"{opcode} {source} {value} to {to}")

    def intrinsic(self, name: str, kind: Type, *args: str) -> str:
        """``llvm.<name>.<type>`` of arguments that all have that type."""
        return self.call(kind, f"llvm.{name}.{kind.suffix}", [(kind, arg) for arg in args])

    def splat(self, kind: Type, scalar: str) -> str:
        """The scalar in every lane of vector type `kind`."""
        if not scalar.startswith("%"):
            return f"splat ({kind.elem} {scalar})"
        one = self.op(f"insertelement {kind} poison, {kind.elem} {scalar}, i32 0")
        return self.op(f"shufflevector {kind} {one}, {kind} poison, <{kind.lanes} x i32> zeroinitializer")

    def shuffle(self, kind: Type, a: str, b: str, indices: Sequence[int]) -> str:
        """``shufflevector`` with constant indices."""
        mask = ", ".join(f"i32 {index}" for index in indices)
        return self.op(f"shufflevector {kind} {a}, {kind} {b}, <{len(indices)} x i32> <{mask}>")

    def concat(self, kind: Type, parts: Sequence[str]) -> tuple[Type, str]:
        """Parts (a power of two of them) side by side in one wider vector."""
        values, lanes = list(parts), kind.lanes
        while len(values) > 1:
            wide = range(2 * lanes)
            values = [
                self.shuffle(Type(kind.elem, lanes), values[i], values[i + 1], wide) for i in range(0, len(values), 2)
            ]
            lanes *= 2
        return Type(kind.elem, lanes), values[0]

    def slice(self, kind: Type, value: str, start: int, lanes: int) -> str:
        """`lanes` consecutive lanes of a vector."""
        return self.shuffle(kind, value, "poison", range(start, start + lanes))
