"""Which registers an instruction reads and writes, and which are live where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from zcuda_async.jit.cfg import Block, ControlFlow
from zcuda_async.ptx.ir import Address, Instruction, Operand, Register, VectorOperand

__all__ = ("CARRY", "live_at_entry", "reads", "reads_carry", "sources", "writes")

_NO_RESULT: Final = frozenset(
    {"bar", "barrier", "bra", "brkpt", "call", "call.out", "cp", "discard", "exit", "fence", "free", "membar"}
    | {"applypriority", "nanosleep", "pmevent", "prefetch", "prefetchu", "red", "ret", "st", "stmatrix", "trap"}
    | {"sured", "sust"}
    | {"stackrestore"}
)


_MBARRIER_RESULTS: Final = ("arrive", "arrive_drop", "test_wait", "try_wait", "pending_count")

CARRY: Final = Register("%cc.cf", "pred")
"""The carry flag, which ``add.cc`` and friends set and ``addc`` and friends read, as a register."""


def reads_carry(instruction: Instruction) -> bool:
    """Whether the instruction adds or subtracts the carry flag."""
    return instruction.opcode in ("addc", "subc", "madc")


def has_result(instruction: Instruction) -> bool:
    """Whether operand 0 is a destination."""
    if instruction.opcode in ("bar", "barrier"):
        return instruction.has("red")
    if instruction.opcode == "wmma":
        return not instruction.has("store")
    if instruction.opcode == "mbarrier":
        return any(map(instruction.has, _MBARRIER_RESULTS))
    return bool(instruction.operands) and instruction.opcode not in _NO_RESULT


def sources(instruction: Instruction) -> tuple[Operand, ...]:
    """The source operands, in order."""
    return instruction.operands[1:] if has_result(instruction) else instruction.operands


def _registers(operand: object) -> Iterator[Register]:
    if isinstance(operand, Register):
        yield operand
    elif isinstance(operand, Address):
        if isinstance(operand.base, Register):
            yield operand.base
    elif isinstance(operand, VectorOperand):
        for element in operand.elements:
            yield from _registers(element)


def writes(instruction: Instruction) -> list[Register]:
    """Registers that the instruction sets."""
    found = list(_registers(instruction.operands[0])) if has_result(instruction) else []
    if isinstance(instruction.second_destination, Register):
        found.append(instruction.second_destination)
    if instruction.has("cc"):
        found.append(CARRY)
    return found


def reads(instruction: Instruction) -> list[Register]:
    """Registers that the instruction uses, its guard included."""
    found = [register for operand in sources(instruction) for register in _registers(operand)]
    if instruction.guard is not None:
        found.append(instruction.guard.register)
    if reads_carry(instruction):
        found.append(CARRY)
    return found


def block_instructions(block: Block) -> Iterable[Instruction]:
    """Every instruction of a block, the barrier and the branch at its end included."""
    yield from block.instructions
    if block.barrier is not None:
        yield block.barrier
    if block.branch is not None:
        yield block.branch


def _summary(block: Block) -> tuple[frozenset[str], frozenset[str]]:
    """(read before any write, surely written) in the block, by register name."""
    used: set[str] = set()
    killed: set[str] = set()
    for instruction in block_instructions(block):
        used.update(register.name for register in reads(instruction) if register.name not in killed)
        if instruction.guard is None:
            killed.update(register.name for register in writes(instruction))
    return frozenset(used), frozenset(killed)


def live_at_entry(flow: ControlFlow) -> tuple[frozenset[str], ...]:
    """For each block, the names of the registers whose value on entry may still be read."""
    summaries = [_summary(block) for block in flow.blocks]
    live = [used for used, _ in summaries]
    predecessors: list[list[int]] = [[] for _ in flow.blocks]
    for block in flow.blocks:
        for target in block.successors:
            predecessors[target].append(block.index)
    work = list(range(len(flow.blocks)))
    while work:
        index = work.pop()
        used, killed = summaries[index]
        after: frozenset[str] = frozenset().union(*(live[target] for target in flow.blocks[index].successors))
        now = used | (after - killed)
        if now != live[index]:
            live[index] = now
            work.extend(predecessors[index])
    return tuple(live)
