"""Asynchronous copies and the barrier objects of shared memory, done at once and one thread at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from zcuda_async.interpreter.addressing import Place
from zcuda_async.interpreter.operands import reader, writer
from zcuda_async.interpreter.thread import InterpreterError, Thread, line_of
from zcuda_async.ptx.ir import Immediate, Instruction, Operand, Sink

__all__ = ("copy_step", "mbarrier_step")

Step = Callable[[Thread], None]


# ---------------------------------------------------------------------- copies


def copy_step(instruction: Instruction, place: int, labels: Mapping[str, int]) -> Step:
    """``cp.async``: the copy is over when the instruction is, so there is nothing to wait for."""
    if instruction.has("mbarrier"):
        if not instruction.has("noinc"):
            return lambda _: None  # one arrival more is expected, and takes place
        arrival = Instruction(
            "mbarrier", ("arrive", "shared"), ("b64",), (Sink(), *instruction.operands), instruction.span
        )
        return mbarrier_step(arrival, place, labels)
    if len(instruction.operands) < 3:
        return lambda _: None
    to, source, length, *rest = instruction.operands
    assert isinstance(length, Immediate)
    size = int(length.value)
    if instruction.has("L2::cache_hint"):
        rest = rest[:-1]
    used = reader(rest[0], "u32") if rest else None
    target, origin = Place(instruction, to, "shared"), Place(instruction, source, "global")

    def step(thread: Thread) -> None:
        count = size if used is None else min(used(thread), size)
        start = origin.address(thread)
        if count == size:
            data = origin.load(thread, start, size)
        else:
            data = b"".join(origin.load(thread, start + at, 1) for at in range(count))
        target.store(thread, target.address(thread), data + bytes(size - count))

    return step


# ---------------------------------------------------------------------- barrier objects


@dataclass(slots=True)
class _Object:
    """What the 64-bit word stands for; the layout is the code generator's, so that words can be compared."""

    pending: int
    first: int
    owed: int
    phase: int

    @classmethod
    def of(cls, word: int) -> _Object:
        return cls(word & 0xFFFFF, word >> 20 & 0xFFFFF, word >> 40 & 0x7FFFFF, word >> 63)

    def word(self) -> int:
        return (
            self.pending & 0xFFFFF
            | (self.first & 0xFFFFF) << 20
            | (self.owed & 0x7FFFFF) << 40
            | (self.phase & 1) << 63
        )

    def settle(self) -> None:
        """Go on to the next phase if this one is complete."""
        if self.pending == 0 and self.owed & 0x7FFFFF == 0:
            self.phase ^= 1
            self.pending = self.first


_ARRIVALS: Final = ("arrive", "arrive_drop")


def mbarrier_step(instruction: Instruction, _: int, __: Mapping[str, int]) -> Step:
    """``mbarrier``."""
    if instruction.has("pending_count"):
        read, write = reader(instruction.operands[1], "b64"), writer(instruction.operands[0], "u32")
        return lambda thread: write(thread, read(thread) & 0xFFFFF)
    has_result = any(map(instruction.has, (*_ARRIVALS, "test_wait", "try_wait")))
    where = Place(instruction, instruction.operands[1 if has_result else 0])
    rest = instruction.operands[2 if has_result else 1 :]
    change = _change_of(instruction, rest)

    def step(thread: Thread) -> None:
        place = where.address(thread)
        word = int.from_bytes(where.load(thread, place, 8), "little")
        new = change(thread, word)
        if new is not None:
            where.store(thread, place, new.to_bytes(8, "little"))

    return step


def _change_of(instruction: Instruction, rest: tuple[Operand, ...]) -> Callable[[Thread, int], int | None]:
    """What becomes of the word; results are written on the way."""
    if instruction.has("test_wait") or instruction.has("try_wait"):
        return _test_of(instruction, rest)
    number = reader(rest[0], "u32") if rest else None
    result = instruction.operands[0] if any(map(instruction.has, _ARRIVALS)) else Sink()
    write = None if isinstance(result, Sink) else writer(result, "b64")

    def change(thread: Thread, word: int) -> int | None:
        value = number(thread) if number is not None else 1
        if instruction.has("inval"):
            return None
        if instruction.has("init"):
            return _Object(value, value, 0, 0).word()
        state = _Object.of(word)
        if instruction.has("expect_tx"):
            state.owed += value
        if instruction.has("complete_tx"):
            state.owed -= value
        if write is not None and not instruction.has("expect_tx"):
            write(thread, word)
        elif write is not None:
            write(thread, state.word())
        if any(map(instruction.has, _ARRIVALS)):
            arrivals = 1 if instruction.has("expect_tx") else value
            if arrivals > state.pending:
                raise InterpreterError(f"{line_of(instruction)}: {arrivals} arrivals, {state.pending} are expected")
            state.pending -= arrivals
            state.first -= arrivals if instruction.has("arrive_drop") else 0
        state.settle()
        return state.word()

    return change


def _test_of(instruction: Instruction, rest: tuple[Operand, ...]) -> Callable[[Thread, int], int | None]:
    is_parity = instruction.has("parity")
    asked = reader(rest[0], "u32" if is_parity else "b64")
    write = writer(instruction.operands[0], "pred")

    def test(thread: Thread, word: int) -> None:
        value = asked(thread)
        phase = value & 1 if is_parity else value >> 63
        thread.is_idle = phase == word >> 63
        write(thread, int(not thread.is_idle))

    return test
