"""How a kernel's threads wait for each other: barriers put into one form, and loops that only wait.

Three rewritings, done on the function's text before its control flow is built:

* ``@p bar.sync 0`` becomes a branch around the barrier;
* ``bar.red.or.pred p, 0, q`` becomes a barrier that counts q, and ``bar.result`` behind it that reads
  the outcome, so that every barrier is a plain place to wait;
* in kernels with spin loops (below), a warp-level instruction gets a ``bar.warp.sync`` of its own
  membermask in front: there lanes may run ahead of each other, and must meet first.

A *spin loop* is one that is left when another thread has written something: waiting for a lock or a
flag.  Lanes that spin must let all others go on, in their own group, their block and other blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from zcuda_async.jit.cfg import ControlFlow, is_cta_barrier, is_warp_barrier
from zcuda_async.jit.registers import block_instructions, reads, writes
from zcuda_async.ptx.ir import (
    Address,
    Function,
    Guard,
    Immediate,
    Instruction,
    Label,
    Operand,
    Register,
    SpecialRegister,
)

__all__ = (
    "CALLS_END",
    "CLUSTER_BARRIER",
    "RESULT",
    "Waiting",
    "barrier_operands",
    "find_spins",
    "is_block_wide",
    "join_before_exchanges",
    "normalise_barriers",
    "ways_of_waiting",
)

RESULT: Final = "bar.result"
"""Pseudo-instruction: ``d, id``, modifiers say which of the counts; reads the barrier before it."""

CLUSTER_BARRIER: Final = 16
"""Barriers 0 to 15 belong to a block, this one to a cluster."""

CALLS_END: Final = "calls"
"""Modifier of a pseudo-barrier behind calls of functions that wait: lanes wait there until theirs has returned."""

Item = Instruction | Label

_FULL: Final = Immediate(0xFFFFFFFF)


# ---------------------------------------------------------------------- constants


class _Constants:
    """Registers that hold one known integer in the whole function, through chains of ``mov``."""

    def __init__(self, function: Function) -> None:
        self._sources: dict[str, set[Operand | None]] = {}
        for item in function.body:
            if isinstance(item, Instruction):
                for register in writes(item):
                    is_move = item.opcode == "mov" and item.guard is None and len(item.operands) == 2
                    self._sources.setdefault(register.name, set()).add(item.operands[1] if is_move else None)

    def of(self, operand: Operand, depth: int = 8) -> Operand:
        """The operand, as an immediate if it is known to be one."""
        if not isinstance(operand, Register) or depth == 0:
            return operand
        sources = self._sources.get(operand.name, {None})
        if len(sources) != 1:
            return operand
        source = next(iter(sources))
        found = self.of(source, depth - 1) if source is not None else operand
        return found if isinstance(found, Immediate) else operand


# ---------------------------------------------------------------------- barriers


def barrier_operands(barrier: Instruction) -> tuple[Operand, Operand | None, int | None]:
    """(id, thread count or None for all threads, index of the predicate or None) of a CTA barrier."""
    votes = barrier.has("vote")
    operands = barrier.operands
    count = operands[1] if len(operands) > (2 if votes else 1) else None
    return operands[0], count, len(operands) - 1 if votes else None


def is_block_wide(barrier: Instruction) -> bool:
    """Whether all threads of the block (or cluster) wait for each other, at a barrier whose name is known."""
    name, count, _ = barrier_operands(barrier)
    return count is None and isinstance(name, Immediate)


def _cluster_form(item: Instruction) -> Instruction:
    """``barrier.cluster.arrive`` and ``.wait`` as barrier 16; the wait does not arrive again."""
    role = ("arrive",) if item.has("arrive") else ("sync", "cluster")
    return replace(item, modifiers=role, operands=(Immediate(CLUSTER_BARRIER),))


def normalise_barriers(function: Function, threads: int) -> Function:
    """Unguarded barriers, each ``(id[, count][, predicate])``, with constants filled in where they are known.

    Args:
        function: A kernel whose calls have been expanded.
        threads: Threads of a block, if a count of that many warps is the same as none, else 0.
    """
    constants = _Constants(function)
    body: list[Item] = []
    number = 0
    for item in function.body:
        if isinstance(item, Instruction) and _arrives(item):
            body.append(_arrival(item, constants))
            continue
        if isinstance(item, Label) or not (is_cta_barrier(item) or is_warp_barrier(item)):
            body.append(item)
            continue
        number += 1
        label = Label(f"barrier~{number}")
        if item.guard is not None:
            skip = Guard(item.guard.register, not item.guard.negated)
            body.append(Instruction("bra", (), (), (label,), item.span, skip))
        body += _one_barrier(replace(item, guard=None), constants, threads)
        if item.guard is not None:
            body.append(label)
    return replace(function, body=tuple(body))


def _arrival(item: Instruction, constants: _Constants) -> Instruction:
    if item.has("cluster"):
        return _cluster_form(item)
    return replace(item, operands=tuple(constants.of(operand) for operand in item.operands))


def _one_barrier(item: Instruction, constants: _Constants, threads: int) -> Iterator[Instruction]:
    if is_warp_barrier(item):
        yield replace(item, operands=(constants.of(item.operands[0]),))
        return
    if item.has("cluster"):
        yield _cluster_form(item)
        return
    reduces = item.has("red")
    operands = [constants.of(operand) for operand in item.operands]
    destination = operands.pop(0) if reduces else None
    predicate = [operands.pop()] if reduces else []
    name, *count = operands
    if threads and count == [Immediate(-(-threads // 32) * 32)]:
        count = []
    kept = tuple(part for part in item.modifiers if part not in ("red", "popc", "and", "or", "sync"))
    negated = (len(count) + 1,) if item.negated_operands else ()
    modifiers = (*kept, "sync", *(("vote",) if reduces else ()))
    yield Instruction(item.opcode, modifiers, (), (name, *count, *predicate), item.span, None, None, negated)
    if destination is not None:
        kind = next(part for part in ("popc", "and", "or") if item.has(part))
        scope = () if count or not isinstance(name, Immediate) else ("all",)
        yield Instruction(RESULT, (kind, *scope), item.types, (destination, name), item.span)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a kernel needs in order to wait.

    `has_barriers`: its blocks have barriers.  `counted`: they need the table of arrivals (several
    barriers, thread counts, votes), else passing one means that every group has come to it.
    `counts_threads`: some barrier names a number of threads.  `spins`: it has spin loops.  `clusters`: it
    asks for its place in a cluster of blocks, or waits for them.  `calls`: it calls functions that wait
    out of line.
    """

    has_barriers: bool
    counted: bool
    counts_threads: bool
    spins: bool
    clusters: bool = False
    calls: bool = False

    @property
    def needs_state(self) -> bool:
        """Whether the groups of a block share a `blockstate`."""
        return self.counted or self.spins or self.clusters


def ways_of_waiting(function: Function, *, spins: bool) -> Waiting:
    """Look at a function that `normalise_barriers` made."""
    items = [item for item in function.body if isinstance(item, Instruction)]
    barriers = [item for item in items if (is_cta_barrier(item) or _arrives(item)) and not item.has(CALLS_END)]
    parts = [barrier_operands(item) for item in barriers]
    counts = any(count is not None for _, count, _ in parts)
    names = {name for name, _, _ in parts}
    plain = len(names) <= 1 and all(isinstance(name, Immediate) for name in names)
    votes = any(vote is not None for _, _, vote in parts)
    clusters = any(map(_concerns_clusters, items))
    counted = bool(barriers) and (counts or votes or not plain or spins or clusters)
    return Waiting(bool(barriers), counted, counts or not plain, spins, clusters)


def _concerns_clusters(item: Instruction) -> bool:
    if item.opcode in ("mapa", "getctarank") or any("::cluster" in name for name in item.modifiers):
        return True
    if item.operands and item.opcode in ("bar", "barrier") and item.operands[0] == Immediate(CLUSTER_BARRIER):
        return True
    named = (operand.name for operand in item.operands if isinstance(operand, SpecialRegister))
    return any("cluster" in name for name in named)


def _arrives(item: Instruction) -> bool:
    return item.opcode in ("bar", "barrier") and item.has("arrive")


# ---------------------------------------------------------------------- warps


_EXCHANGES: Final[Mapping[str, int]] = {"shfl": -1, "vote": -1, "match": -1, "redux": -1, "elect": -1}
"""Warp-level instructions with a membermask, and where it is among the operands."""

_WHOLE_WARP: Final = frozenset({"mma", "ldmatrix", "stmatrix", "movmatrix", "wmma"})


def join_before_exchanges(function: Function) -> Function:
    """A ``bar.warp.sync`` of the same lanes before every warp-level instruction."""
    body: list[Item] = []
    for item in function.body:
        if isinstance(item, Instruction):
            mask = _members_of(item)
            if mask is not None:
                guard = item.guard
                number = len(body)
                if guard is not None:
                    skip = Guard(guard.register, not guard.negated)
                    body.append(Instruction("bra", (), (), (Label(f"apart~{number}"),), item.span, skip))
                body.append(Instruction("bar", ("warp", "sync"), (), (mask,), item.span))
                if guard is not None:
                    body.append(replace(item, guard=None))
                    body.append(Label(f"apart~{number}"))
                    continue
        body.append(item)
    return replace(function, body=tuple(body))


def _members_of(item: Instruction) -> Operand | None:
    if item.opcode in _WHOLE_WARP:
        return _FULL
    position = _EXCHANGES.get(item.opcode)
    return None if position is None else item.operands[position]


# ---------------------------------------------------------------------- spin loops


_PURE: Final = frozenset(
    {"mov", "add", "sub", "mul", "mad", "cvt", "cvta", "shl", "shr", "and", "or", "xor", "not", "setp", "selp"}
    | {"bfe", "bfi", "neg", "min", "max", "abs", "div", "rem"}
)
_ORDERED: Final = ("volatile", "relaxed", "acquire", "mmio", "cv")
_PAUSES: Final = frozenset({"membar", "fence", "nanosleep"})
"""What a loop that waits by plain loads has, or the compiler that made it could have kept the first value."""
_WAITS: Final = frozenset({"try_wait", "test_wait"})


def find_spins(function: Function, flow: ControlFlow) -> frozenset[int]:
    """Heads of the loops in which threads wait for what other threads write."""
    if not flow.regions:
        return frozenset()
    local, constants = _local_addresses(flow), _Constants(function)
    return frozenset(head for head in flow.regions if _Loop(flow, head, local, constants).is_spin())


def _local_addresses(flow: ControlFlow) -> set[str]:
    """Registers that may hold generic addresses of local memory, which no other thread writes to."""
    items = [item for block in flow.blocks for item in block.instructions if item.opcode in _PURE]
    found: set[str] = set()
    changed = True
    while changed:
        changed = False
        for item in items:
            starts = item.opcode == "cvta" and item.has("local")
            if starts or not found.isdisjoint(register.name for register in reads(item)):
                new = {register.name for register in writes(item)} - found
                changed |= bool(new)
                found |= new
    return found


class _Loop:
    """One loop, without the loops inside of it."""

    def __init__(self, flow: ControlFlow, head: int, local: set[str], constants: _Constants) -> None:
        self.local = local
        self.constants = constants
        last = flow.regions[head]
        inner = {
            index for other, end in flow.regions.items() if head < other <= last for index in range(other, end + 1)
        }
        blocks = [flow.blocks[index] for index in range(head, last + 1)]
        self.own = [block for block in blocks if block.index not in inner]
        self.items = [item for block in self.own for item in block_instructions(block)]
        self.everything = [item for block in blocks for item in block_instructions(block)]
        self.varying = self._varying()
        self.pauses = any(item.opcode in _PAUSES for item in self.items)

    def _varying(self) -> set[str]:
        """Registers that may change from one time round to the next."""
        defined: dict[str, list[Instruction]] = {}
        for item in self.everything:
            for register in writes(item):
                defined.setdefault(register.name, []).append(item)
        fixed: set[str] = set()
        changed = True
        while changed:
            changed = False
            for name, items in defined.items():
                if name not in fixed and all(self._is_fixed(item, defined, fixed) for item in items):
                    fixed.add(name)
                    changed = True
        return set(defined) - fixed

    @staticmethod
    def _is_fixed(item: Instruction, defined: Mapping[str, object], fixed: set[str]) -> bool:
        loads = item.opcode == "ld" and any(map(item.has, ("param", "const", "local")))
        ticks = any(isinstance(operand, SpecialRegister) and "clock" in operand.name for operand in item.operands)
        if ticks or not (loads or item.opcode in _PURE):
            return False
        return all(register.name not in defined or register.name in fixed for register in reads(item))

    def is_spin(self) -> bool:
        """Whether a branch in the loop depends on what a waiting instruction read."""
        tainted = {register.name for item in self.items if self._waits(item) for register in writes(item)}
        if not tainted:
            return False
        changed = True
        while changed:
            changed = False
            for item in self.items:
                if tainted.isdisjoint(register.name for register in reads(item)):
                    continue
                for register in writes(item):
                    changed |= register.name not in tainted
                    tainted.add(register.name)
        branches = (block.branch for block in self.own if block.branch is not None and block.branch.guard is not None)
        return any(branch.guard is not None and branch.guard.register.name in tainted for branch in branches)

    def _waits(self, item: Instruction) -> bool:
        """Whether the instruction reads, time after time, what other threads may write."""
        if item.opcode == "mbarrier":
            return not _WAITS.isdisjoint(item.modifiers)
        if item.opcode == "ld" and not (item.has("param") or item.has("const") or item.has("local")):
            if any(map(item.has, _ORDERED)):
                return True
            return self.pauses and _name(item.operands[1]) not in self.local and self._stays(item.operands[1:2])
        if item.opcode != "atom" or not self._stays(item.operands[1:2]):
            return False
        if item.has("cas"):  # a retry with what was there before is not waiting: somebody else got through
            return self._stays(item.operands[2:3])
        if item.has("exch"):
            return self._stays(item.operands[2:3])
        value = self.constants.of(item.operands[2])
        neutral = -1 if item.has("and") else 0
        return isinstance(value, Immediate) and value.value in (neutral, neutral & 0xFFFFFFFF)

    def _stays(self, operands: Iterable[Operand]) -> bool:
        names = (_name(operand) for operand in operands)
        return all(name not in self.varying for name in names if name is not None)


def _name(operand: Operand) -> str | None:
    if isinstance(operand, Address):
        operand = operand.base
    return operand.name if isinstance(operand, Register) else None
