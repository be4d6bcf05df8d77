"""What the functions that read textures are written with: vectors of N lanes, and the header as scalars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zcuda_async.jit.builder import Builder, Type
from zcuda_async.jit.texture_header import HEADER_FIELDS, LEVEL_FIELDS, LEVEL_SIZE, LEVELS_OFFSET

__all__ = ("CHANNELS", "Code", "call_channels", "channels_type", "header_field", "level_field")

CHANNELS: Final = 4


def channels_type(lanes: int) -> str:
    """LLVM's type of what such a function gives: four vectors."""
    return "{" + ", ".join([str(Type("i32", lanes))] * CHANNELS) + "}"


def header_field(b: Builder, header: str, name: str) -> str:
    """A field of the header, as a scalar."""
    offset, kind = HEADER_FIELDS[name]
    at = b.op(f"getelementptr i8, ptr {header}, i64 {offset}")
    return b.op(f"load {kind}, ptr {at}, align 4, !tbaa !3")


def level_field(b: Builder, header: str, name: str) -> str:
    """A field of the first level, as a scalar."""
    offset, kind = LEVEL_FIELDS[name]
    at = b.op(f"getelementptr i8, ptr {header}, i64 {LEVELS_OFFSET + offset}")
    return b.op(f"load {kind}, ptr {at}, align 4, !tbaa !3")


class Code:
    """One function: ``channels @name(ptr %header, vectors…)``."""

    def __init__(self, features: str, lanes: int) -> None:
        self.b = Builder(features)
        self.lanes = lanes
        self.ints = Type("i32", lanes)
        self.longs = Type("i64", lanes)
        self.floats = Type("float", lanes)
        self.truth = Type("i1", lanes)
        self._fields: dict[str, str] = {}

    def text(self, name: str, arguments: Sequence[tuple[Type, str]], results: Sequence[str]) -> str:
        """The function's text, given what it returns."""
        kind = channels_type(self.lanes)
        value = "poison"
        for index, result in enumerate(results):
            value = self.b.op(f"insertvalue {kind} {value}, {self.ints} {result}, {index}")
        given = "".join(f", {kind} {argument}" for kind, argument in arguments)
        return "\n".join(
            [
                f'define internal {kind} @"{name}"(ptr noalias readonly %header{given}) #0 {{',
                "entry:",
                *self.b.entry_allocas,
                *self.b.prologue,
                *self.b.lines,
                f"  ret {kind} {value}",
                "}",
            ]
        )

    def call(self, name: str, arguments: Sequence[tuple[Type, str]], header: str = "%header") -> list[str]:
        """Call such a function; its four vectors."""
        return call_channels(self.b, self.lanes, name, arguments, header)

    # ------------------------------------------------------------------ the header

    def field(self, name: str) -> str:
        """A field of the header, read once, where the function begins."""
        if name not in self._fields:
            offset, kind = HEADER_FIELDS[name]
            at = self.b.hoist(f"getelementptr i8, ptr %header, i64 {offset}")
            self._fields[name] = self.b.hoist(f"load {kind}, ptr {at}, align 4, !tbaa !3")
        return self._fields[name]

    def is_set(self, name: str) -> str:
        """Whether a field is not 0, as an i1."""
        return self.b.hoist(f"icmp ne i32 {self.field(name)}, 0")

    def has(self, name: str, value: int) -> str:
        """Whether a field has a value, as an i1."""
        return self.b.hoist(f"icmp eq i32 {self.field(name)}, {value}")

    def splat_field(self, name: str) -> str:
        """A field in every lane."""
        return self.b.splat(Type(HEADER_FIELDS[name][1], self.lanes), self.field(name))

    def level(self, number: str | None) -> dict[str, str]:
        """The fields of a level in every lane; `number` is a vector, None for the first level."""
        found = {}
        for name, (offset, elem) in LEVEL_FIELDS.items():
            kind = Type(elem, self.lanes)
            if number is None:
                found[name] = self.b.splat(kind, level_field(self.b, "%header", name))
                continue
            bytes_ = self.b.binary("mul", self.ints, number, self.ints.const(LEVEL_SIZE))
            bytes_ = self.b.binary("add", self.ints, bytes_, self.ints.const(LEVELS_OFFSET + offset))
            at = self.b.op(f"getelementptr i8, ptr %header, {self.ints} {bytes_}")
            found[name] = self.gather(kind, at, 4)
        return found

    # ------------------------------------------------------------------ shorthands

    def gather(self, kind: Type, pointers: str, align: int) -> str:
        """What lies at each lane's pointer."""
        return self.b.call(
            kind,
            f"llvm.masked.gather.{kind.suffix}.v{self.lanes}p0",
            [
                (Type("ptr", self.lanes), pointers),
                ("i32", str(align)),
                (self.truth, self.truth.const(1)),
                (kind, "poison"),
            ],
            ", !tbaa !3",
        )

    def either(self, condition: str, kind: Type, a: str, b: str) -> str:
        """A choice by a scalar condition."""
        return self.b.op(f"select i1 {condition}, {kind} {a}, {kind} {b}")

    def clamp(self, value: str, most: str) -> str:
        """0 <= value <= most, of signed integers."""
        value = self.b.intrinsic("smax", self.ints, value, self.ints.const(0))
        return self.b.intrinsic("smin", self.ints, value, most)

    def as_float(self, bits: str) -> str:
        """Bits as f32."""
        return self.b.cast("bitcast", self.ints, bits, self.floats)

    def as_bits(self, value: str) -> str:
        """An f32's bits."""
        return self.b.cast("bitcast", self.floats, value, self.ints)

    def wide_product(self, a: str, b: str) -> str:
        """The product of two u32 as u64."""
        wide = [self.b.cast("zext", self.ints, value, self.longs) for value in (a, b)]
        return self.b.binary("mul", self.longs, *wide)


def call_channels(b: Builder, lanes: int, name: str, arguments: Sequence[tuple[Type, str]], header: str) -> list[str]:
    """Call a function that gives four vectors."""
    kind = channels_type(lanes)
    given = "".join(f", {kind} {value}" for kind, value in arguments)
    value = b.op(f'call {kind} @"{name}"(ptr {header}{given})')
    return [b.op(f"extractvalue {kind} {value}, {index}") for index in range(CHANNELS)]
