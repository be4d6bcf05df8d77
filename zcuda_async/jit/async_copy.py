"""Asynchronous copies (PTX ISA 9.7.9.25: cp.async), as the loads and stores that they come down to.

A copy may take place at any time up to the wait for it, so it takes place at once: ``cp.async`` becomes
``ld.global`` and ``st.shared``, which the rest of the compiler knows how to make wide, and the waits
become nothing.  Bytes beyond `src-size` are zeros and are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from zcuda_async.ptx.ir import (
    Address,
    Function,
    Guard,
    Immediate,
    Instruction,
    Label,
    Operand,
    Register,
    VectorOperand,
)

__all__ = ("expand_copies",)

Item = Instruction | Label
_ZERO: Final = Immediate(0)


def expand_copies(function: Function) -> Function:
    """The function without ``cp.async``; ``cp.async.mbarrier.arrive.noinc`` becomes a plain arrival."""
    if not any(isinstance(item, Instruction) and item.opcode == "cp" for item in function.body):
        return function
    body: list[Item] = []
    for number, item in enumerate(function.body):
        if isinstance(item, Instruction) and item.opcode == "cp":
            body += _expanded(item, number)
        else:
            body.append(item)
    return replace(function, body=tuple(body))


def _expanded(item: Instruction, number: int) -> Iterator[Item]:
    if item.has("mbarrier"):
        # Without .noinc the barrier expects one arrival more, and gets it: nothing changes.
        if item.has("noinc"):
            unused = Register(f"%copy~{number}.state", "b64")
            yield Instruction(
                "mbarrier", ("arrive", "shared"), ("b64",), (unused, *item.operands), item.span, item.guard
            )
        return
    if len(item.operands) < 3:  # commit_group, wait_group and wait_all
        return
    to, source, size, *rest = item.operands
    assert isinstance(size, Immediate)
    used = rest[0] if (rest and not item.has("L2::cache_hint")) or len(rest) > 1 else size
    yield from _Copy(item, number, to, source, int(size.value)).code(used)


class _Copy:
    """One copy of 4, 8 or 16 bytes, by each thread."""

    def __init__(self, item: Instruction, number: int, to: Operand, source: Operand, size: int) -> None:
        self.item = item
        self.name = f"%copy~{number}"
        self.to = to
        self.source = source
        self.size = size
        self.words = tuple(Register(f"{self.name}.{index}", "b32") for index in range(size // 4))

    def make(
        self, opcode: str, modifiers: tuple[str, ...], kind: str, operands: tuple[Operand, ...], guard: Guard | None
    ) -> Instruction:
        return Instruction(opcode, modifiers, (kind,), operands, self.item.span, guard)

    def code(self, used: Operand) -> Iterator[Item]:
        """The copy of the first `used` bytes."""
        guard = self.item.guard
        value: Operand = VectorOperand(self.words) if len(self.words) > 1 else self.words[0]
        wide = (f"v{len(self.words)}",) if len(self.words) > 1 else ()
        if used == Immediate(self.size):
            yield self.make("ld", ("global", *wide), "b32", (value, self.source), guard)
        else:
            for word in self.words:
                yield self.make("mov", (), "b32", (word, _ZERO), None)
            if isinstance(used, Immediate):
                yield from self._known(min(int(used.value) & 0xFFFFFFFF, self.size), guard)
            else:
                yield from self._some(used, value, wide)
        yield self.make("st", ("shared", *wide), "b32", (self.to, value), guard)

    def _some(self, used: Operand, value: Operand, wide: tuple[str, ...]) -> Iterator[Item]:
        """All bytes where that is what is asked for, else one after the other."""
        whole, part = (Register(f"{self.name}.{name}", "pred") for name in ("whole", "part"))
        done, outside = Label(f"{self.name}.done"), self.item.guard
        yield self.make("setp", ("ge",), "u32", (whole, used, Immediate(self.size)), None)
        if outside is not None:
            yield self.make("mov", (), "pred", (part, outside.register), None)
            if outside.negated:
                yield self.make("not", (), "pred", (part, part), None)
            yield self.make("and", (), "pred", (whole, whole, part), None)
        yield self.make("ld", ("global", *wide), "b32", (value, self.source), Guard(whole))
        yield self.make("setp", ("ne",), "u32", (part, used, _ZERO), None)
        inverse = Register(f"{self.name}.not", "pred")
        yield self.make("not", (), "pred", (inverse, whole), None)
        yield self.make("and", (), "pred", (part, part, inverse), None)
        if outside is not None:
            allowed = Register(f"{self.name}.allowed", "pred")
            yield self.make("mov", (), "pred", (allowed, outside.register), None)
            if outside.negated:
                yield self.make("not", (), "pred", (allowed, allowed), None)
            yield self.make("and", (), "pred", (part, part, allowed), None)
        yield Instruction("bra", (), (), (done,), self.item.span, Guard(part, negated=True))
        yield from self._bytes(used)
        yield done

    def _known(self, used: int, guard: Guard | None) -> Iterator[Item]:
        """The first `used` bytes: whole words, then single bytes."""
        assert isinstance(self.source, Address)
        base, start = self.source.base, self.source.offset
        for index in range(used // 4):
            yield self.make("ld", ("global",), "b32", (self.words[index], Address(base, start + 4 * index)), guard)
        byte = Register(f"{self.name}.byte", "b32")
        for at in range(used // 4 * 4, used):
            word = self.words[at // 4]
            yield self.make("mov", (), "b32", (byte, _ZERO), None)
            yield self.make("ld", ("global",), "u8", (byte, Address(base, start + at)), guard)
            yield self.make("shl", (), "b32", (byte, byte, Immediate(at % 4 * 8)), None)
            yield self.make("or", (), "b32", (word, word, byte), None)

    def _bytes(self, used: Operand) -> Iterator[Item]:
        assert isinstance(self.source, Address)
        byte, here = Register(f"{self.name}.byte", "b32"), Register(f"{self.name}.here", "pred")
        for at in range(self.size - 1):
            place = Address(self.source.base, self.source.offset + at)
            word = self.words[at // 4]
            yield self.make("setp", ("gt",), "u32", (here, used, Immediate(at)), None)
            yield self.make("mov", (), "b32", (byte, _ZERO), None)
            yield self.make("ld", ("global",), "u8", (byte, place), Guard(here))
            yield self.make("shl", (), "b32", (byte, byte, Immediate(at % 4 * 8)), None)
            yield self.make("or", (), "b32", (word, word, byte), None)
