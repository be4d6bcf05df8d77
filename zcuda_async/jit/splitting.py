"""Names of their own for definitions of a register that some code reads and no other definition reaches.

nvcc lets a loop's variable start in the register of what it starts from: ``%r1`` is the thread's index before
the loop and whatever the loop makes of it afterwards.  One register has one shape, so the index would count
as varying everywhere.  Here the first definition gets a new register, from which the old one is copied for
whoever reads it together with other definitions.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

from zcuda_async.jit.cfg import ControlFlow, build_control_flow
from zcuda_async.jit.registers import block_instructions, has_result, reads, writes
from zcuda_async.ptx.ir import Address, Function, Instruction, Label, Operand, Register, VectorOperand

__all__ = ("split_definitions",)


@dataclass(slots=True)
class _Definition:
    """One instruction's value for one register; `bit` stands for it in sets of definitions."""

    instruction: Instruction
    register: Register
    bit: int
    own_uses: list[Instruction] = field(default_factory=list)
    is_shared: bool = False


def split_definitions(function: Function) -> Function:
    """The function with a register of its own for every integer value that part of its readers know to be theirs."""
    counts: dict[str, int] = defaultdict(int)
    instructions = [item for item in function.body if isinstance(item, Instruction)]
    for item in instructions:
        for register in writes(item):
            counts[register.name] += _may_be_split(register)
    several = {name for name, count in counts.items() if count > 1}
    if not several:
        return function
    # Instructions are told apart by identity: one object that stands in two places becomes two.
    copied = tuple(replace(item) if isinstance(item, Instruction) else item for item in function.body)
    function = replace(function, body=copied)
    split = [d for d in _Reaching(build_control_flow(function), several).definitions if d.own_uses]
    return _rewritten(function, split)


def _may_be_split(register: Register) -> bool:
    return register.type[0] in "bsu" and register.type[1:] in ("32", "64")


class _Reaching:
    """Which definitions of some registers reach which readers."""

    def __init__(self, flow: ControlFlow, names: set[str]) -> None:
        self._flow = flow
        self._by_key: dict[tuple[int, str], _Definition] = {}
        # What a register holds before anything is written counts as a definition too, with a bit of its own.
        self._start = {name: 1 << at for at, name in enumerate(sorted(names))}
        self._all = dict(self._start)
        for block in flow.blocks:
            for item in block_instructions(block):
                for register in writes(item):
                    self._define(item, register)
        self._by_bit = {definition.bit: definition for definition in self._by_key.values()}
        for index, reaching in enumerate(self._solve(sum(self._start.values()))):
            self._visit(index, reaching)

    @property
    def definitions(self) -> list[_Definition]:
        return list(self._by_key.values())

    def _define(self, item: Instruction, register: Register) -> None:
        if register.name in self._start:
            bit = 1 << (len(self._start) + len(self._by_key))
            self._by_key[id(item), register.name] = _Definition(item, register, bit)
            self._all[register.name] |= bit

    def _after(self, item: Instruction, reaching: int) -> int:
        for register in writes(item):
            definition = self._by_key.get((id(item), register.name))
            if definition is not None:
                if item.guard is None:
                    reaching &= ~self._all[register.name]
                reaching |= definition.bit
        return reaching

    def _solve(self, entry: int) -> list[int]:
        """The definitions that reach each block's start."""
        blocks = self._flow.blocks
        reaching = [0] * len(blocks)
        reaching[0] = entry
        work = [0]
        seen = {0}
        while work:
            block = blocks[work.pop()]
            state = reaching[block.index]
            for item in block_instructions(block):
                state = self._after(item, state)
            for target in block.successors:
                if target not in seen or state | reaching[target] != reaching[target]:
                    seen.add(target)
                    reaching[target] |= state
                    work.append(target)
        return reaching

    def _visit(self, index: int, reaching: int) -> None:
        """Note whose uses a block's instructions are."""
        for item in block_instructions(self._flow.blocks[index]):
            for name in {register.name for register in reads(item)} & self._start.keys():
                here = reaching & self._all[name]
                only = self._by_bit.get(here)
                if only is not None and only.instruction.guard is None:
                    only.own_uses.append(item)
                    continue
                while here:
                    lowest = here & -here
                    if lowest in self._by_bit:
                        self._by_bit[lowest].is_shared = True
                    here ^= lowest
            reaching = self._after(item, reaching)


def _rewritten(function: Function, split: list[_Definition]) -> Function:
    """The function with new registers for these definitions."""
    results: dict[int, dict[str, str]] = defaultdict(dict)
    sources: dict[int, dict[str, str]] = defaultdict(dict)
    copies: dict[int, list[Instruction]] = defaultdict(list)
    for number, definition in enumerate(split):
        old = definition.register
        new = Register(f"{old.name}~{number}", old.type)
        results[id(definition.instruction)][old.name] = new.name
        for reader in definition.own_uses:
            sources[id(reader)][old.name] = new.name
        if definition.is_shared:
            copies[id(definition.instruction)].append(_copy(definition.instruction, old, new))
    body: list[Instruction | Label] = []
    for item in function.body:
        if isinstance(item, Instruction):
            body.append(_renamed(item, results[id(item)], sources[id(item)]))
            body += copies[id(item)]
        else:
            body.append(item)
    return replace(function, body=tuple(body))


def _copy(at: Instruction, to: Register, source: Register) -> Instruction:
    return Instruction("mov", (), (to.type,), (to, source), at.span)


def _renamed(item: Instruction, results: dict[str, str], sources: dict[str, str]) -> Instruction:
    if not results and not sources:
        return item
    first = 1 if has_result(item) else 0
    operands = [_operand(operand, results if at < first else sources) for at, operand in enumerate(item.operands)]
    second = item.second_destination
    if isinstance(second, Register):
        second = replace(second, name=results.get(second.name, second.name))
    return replace(item, operands=tuple(operands), second_destination=second)


def _operand(operand: Operand, names: dict[str, str]) -> Operand:
    if isinstance(operand, Register):
        return replace(operand, name=names.get(operand.name, operand.name))
    if isinstance(operand, Address) and isinstance(operand.base, Register):
        return replace(operand, base=_operand(operand.base, names))  # type: ignore[arg-type]
    if isinstance(operand, VectorOperand):
        return replace(operand, elements=tuple(_operand(element, names) for element in operand.elements))
    return operand
