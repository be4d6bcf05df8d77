"""Pointers that a loop moves along, as where they were before the loop plus how far all of them have moved.

A loop's pointer differs from lane to lane in a way that does not change while the loop runs: each lane adds the same.
Written as ``start + distance``, with a distance that all lanes share, what is found out about the starts (that they lie
in a row, for instance) holds for every iteration, so LLVM asks once, before the loop.  And where a group has many
parts, one distance advances instead of a pointer for each part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from zcuda_async.jit.cfg import Block, ControlFlow, build_control_flow
from zcuda_async.jit.registers import block_instructions, live_at_entry, reads, writes
from zcuda_async.ptx.ir import Function, Immediate, Instruction, Label, Operand, Register

__all__ = ("split_pointers",)

Body = list[Instruction | Label]


@dataclass(frozen=True, slots=True)
class _Pointer:
    """One pointer of one loop: the additions that move it."""

    register: Register
    additions: tuple[Instruction, ...]
    number: int

    @property
    def start(self) -> Register:
        """Where it was before the loop."""
        return Register(f"{self.register.name}~start{self.number}", self.register.type)

    @property
    def distance(self) -> Register:
        """How far it has moved."""
        return Register(f"{self.register.name}~moved{self.number}", self.register.type)

    def sum(self, at: Instruction) -> Instruction:
        """``pointer = start + distance``."""
        return _plain(at, "add", "s64", self.register, self.start, self.distance)


def split_pointers(function: Function) -> Function:
    """The function with a start and a distance for each pointer that one of its loops moves and nobody needs later."""
    if not any(_moves_pointer(item) for item in function.body if isinstance(item, Instruction)):
        return function
    # Instructions are told apart by identity: one object that stands in two places becomes two.
    copied = tuple(replace(item) if isinstance(item, Instruction) else item for item in function.body)
    function = replace(function, body=copied)
    flow = build_control_flow(function)
    live = live_at_entry(flow)
    before: dict[int, Body] = defaultdict(list)
    after: dict[int, Body] = defaultdict(list)
    instead: dict[int, Body] = {}
    numbers = iter(range(1 << 30))
    for head in flow.regions:
        entries = _entries(flow, head)
        first = next(iter(block_instructions(flow.blocks[head])), None)
        if entries is None or first is None:
            continue
        for pointer in _pointers(flow, live, head, numbers):
            if any(id(addition) in instead for addition in pointer.additions):
                continue  # a loop around this one has it already
            for block in entries:
                make = [_plain(first, "mov", "b64", pointer.start, pointer.register)]
                make.append(_plain(first, "mov", "b64", pointer.distance, Immediate(0)))
                if block.branch is not None:
                    before[id(block.branch)] += make
                else:
                    after[id(list(block_instructions(block))[-1])] += make
            before[id(first)].append(pointer.sum(first))
            for addition in pointer.additions:
                moved = _plain(addition, "add", "s64", pointer.distance, pointer.distance, addition.operands[2])
                instead[id(addition)] = [moved, pointer.sum(addition)]
    if not instead:
        return function
    body: Body = []
    for item in function.body:
        body += [*before.get(id(item), ()), *instead.get(id(item), [item]), *after.get(id(item), ())]
    return replace(function, body=tuple(body))


def _plain(at: Instruction, opcode: str, kind: str, *operands: Operand) -> Instruction:
    return Instruction(opcode, (), (kind,), operands, at.span)


def _moves_pointer(item: Instruction) -> bool:
    """``add.s64 r, r, constant``, for every lane that comes by."""
    if item.opcode != "add" or item.types[0] not in ("s64", "u64") or item.modifiers or item.guard is not None:
        return False
    to, a, b = item.operands
    return isinstance(to, Register) and to == a and isinstance(b, Immediate)


def _entries(flow: ControlFlow, head: int) -> list[Block] | None:
    """The blocks from which a loop is entered, by its head only; None if something can not be put at their end."""
    last = flow.regions[head]
    found = []
    for block in flow.blocks:
        inside = head <= block.index <= last
        for target in block.successors:
            if inside or not head <= target <= last:
                continue
            if target != head or next(iter(block_instructions(block)), None) is None:
                return None
            found.append(block)
    return found or None


def _pointers(
    flow: ControlFlow, live: tuple[frozenset[str], ...], head: int, numbers: Iterator[int]
) -> Iterator[_Pointer]:
    last = flow.regions[head]
    inside = flow.blocks[head : last + 1]
    leaving = {target for block in inside for target in block.successors if not head <= target <= last}
    needed = frozenset().union(*(live[target] for target in leaving))
    additions: dict[Register, list[Instruction]] = defaultdict(list)
    others: set[str] = set()
    used: set[str] = set()
    for block in inside:
        for item in block_instructions(block):
            moves = _moves_pointer(item)
            for register in writes(item):
                if moves:
                    additions[register].append(item)
                else:
                    others.add(register.name)
            if not moves:
                used.update(register.name for register in reads(item))
    for register, items in additions.items():
        if register.name not in others and register.name in used and register.name not in needed:
            yield _Pointer(register, tuple(items), next(numbers))
