"""From an instruction to the step it makes a thread take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from zcuda_async.interpreter.addressing import Place
from zcuda_async.interpreter.bits import Factory, is_float, mask, number
from zcuda_async.interpreter.calls import call_step, ret_step
from zcuda_async.interpreter.cluster import CLUSTER_STEPS, cluster_barrier_step
from zcuda_async.interpreter.compare import COMPARE
from zcuda_async.interpreter.convert import CONVERT
from zcuda_async.interpreter.floating import FLOATING
from zcuda_async.interpreter.integer import INTEGER
from zcuda_async.interpreter.matrix import MATRIX_STEPS
from zcuda_async.interpreter.mbarrier import copy_step, mbarrier_step
from zcuda_async.interpreter.memory import LOCAL_WINDOW, PARAM_WINDOW, space_of, update_of
from zcuda_async.interpreter.operands import reader, writer
from zcuda_async.interpreter.spaces import CACHE_POLICY, isspacep_step
from zcuda_async.interpreter.texture import TEXTURE_STEPS
from zcuda_async.interpreter.thread import (
    AtBarrier,
    AtWarp,
    Exited,
    InterpreterError,
    MemoryFaultError,
    Reader,
    Step,
    Thread,
    TrapError,
    Wait,
    Writer,
    line_of,
)
from zcuda_async.interpreter.video import VIDEO
from zcuda_async.interpreter.warp import EXCHANGES
from zcuda_async.ptx.ir import Instruction, Label, Operand, VectorOperand
from zcuda_async.ptx.table import form_of
from zcuda_async.ptx.table_syntax import TYPE_WIDTHS

__all__ = ("make_step",)

StepFactory = Callable[[Instruction, int, Mapping[str, int]], Step]


def make_step(instruction: Instruction, place: int, labels: Mapping[str, int]) -> Step:
    """The step of an instruction at index `place`; `labels` are the indices that labels stand for.

    Raises:
        LookupError: The interpreter has no such instruction.
    """
    special = _SPECIAL_STEPS.get(instruction.opcode)
    if special is not None:
        return special(instruction, place, labels)
    if instruction.opcode in _CARRY or instruction.has("cc"):
        return _carry_step(instruction)
    return _compute_step(instruction)


def _operand_types(instruction: Instruction) -> list[str]:
    expected = form_of(instruction).by_count[len(instruction.operands)]
    return [entry.type for entry in expected]


def _sources(instruction: Instruction) -> list[Reader]:
    types, first = _operand_types(instruction), form_of(instruction).row.destinations
    return [
        reader(operand, types[at], negated=at in instruction.negated_operands)
        for at, operand in enumerate(instruction.operands)
        if at >= first
    ]


def _destinations(instruction: Instruction) -> list[Writer]:
    return [
        writer(instruction.operands[0], _operand_types(instruction)[0]),
        writer(instruction.second_destination, "pred"),
    ]


# ---------------------------------------------------------------------- computing


def _copy(_: Instruction) -> Callable[[int], int]:
    return lambda a: a


def _factory(instruction: Instruction) -> Factory:
    opcode = instruction.opcode
    for table in (COMPARE, CONVERT, VIDEO):
        if opcode in table:
            return table[opcode]
    if opcode == "mov":
        return _copy
    floating = bool(instruction.types) and is_float(instruction.types[0])
    return (FLOATING if floating else INTEGER)[opcode]


def _compute_step(instruction: Instruction) -> Step:
    compute = _factory(instruction)(instruction)
    sources = _sources(instruction)
    first, second = _destinations(instruction)

    def step(thread: Thread) -> None:
        result = compute(*[read(thread) for read in sources])
        if isinstance(result, int):
            first(thread, result)
        else:
            first(thread, result[0])
            second(thread, result[1])

    return step


_CARRY: Final = frozenset(("addc", "subc", "madc"))


def _carry_step(instruction: Instruction) -> Step:
    """Extended precision: the carry goes in and out through a register of its own.

    A difference is ``a + ~b + 1``, so its flag is 1 where nothing is borrowed.  The manual speaks of a borrow, which no
    sequence of ``sub.cc`` and ``subc`` can tell from that; but nvcc's own 128-bit division reads it by ``addc``.
    """
    opcode, kind, sets = instruction.opcode, instruction.types[0], instruction.has("cc")
    width = TYPE_WIDTHS[kind]
    takes = opcode in _CARRY
    sources = _sources(instruction)
    first, _ = _destinations(instruction)

    def step(thread: Thread) -> None:
        a, b, *rest = (read(thread) for read in sources)
        carry = thread.carry if takes else 0
        if opcode.startswith("mad"):
            product = number(a, kind) * number(b, kind)
            low = (product >> width if instruction.has("hi") else product) & mask(width)
            total = low + rest[0] + carry
        elif opcode.startswith("sub"):
            total = a + (mask(width) - b) + (carry if takes else 1)
        else:
            total = a + b + carry
        if sets:
            thread.carry = int(total > mask(width))
        first(thread, total & mask(width))

    return step


# ---------------------------------------------------------------------- memory


def _elements(operand: Operand) -> tuple[Operand, ...]:
    return operand.elements if isinstance(operand, VectorOperand) else (operand,)


def _load_step(instruction: Instruction, _: int, __: Mapping[str, int]) -> Step:
    kind = instruction.types[0]
    size = TYPE_WIDTHS[kind] // 8
    where = Place(instruction, instruction.operands[1])
    writers = [writer(element, kind) for element in _elements(instruction.operands[0])]

    def step(thread: Thread) -> None:
        data = where.load(thread, where.address(thread), size * len(writers))
        for at, write in enumerate(writers):
            write(thread, int.from_bytes(data[at * size : (at + 1) * size], "little"))

    return step


def _store_step(instruction: Instruction, _: int, __: Mapping[str, int]) -> Step:
    kind = instruction.types[0]
    size = TYPE_WIDTHS[kind] // 8
    where = Place(instruction, instruction.operands[0])
    readers = [reader(element, kind) for element in _elements(instruction.operands[1])]

    def step(thread: Thread) -> None:
        data = b"".join(read(thread).to_bytes(size, "little") for read in readers)
        where.store(thread, where.address(thread), data)

    return step


def _atomic_step(instruction: Instruction, _: int, __: Mapping[str, int]) -> Step:
    """``atom`` and ``red``: nothing else runs meanwhile, so loads and stores are atomic."""
    has_result = instruction.opcode == "atom"
    kind = instruction.types[0]
    size = TYPE_WIDTHS[kind] // 8
    at = 1 if has_result else 0
    where = Place(instruction, instruction.operands[at])
    count = 2 if instruction.has("cas") else 1
    columns = [
        [reader(element, kind) for element in _elements(operand)]
        for operand in instruction.operands[at + 1 : at + 1 + count]
    ]
    writers = [writer(element, kind) for element in _elements(instruction.operands[0])] if has_result else []
    update = update_of(instruction)

    def step(thread: Thread) -> None:
        to = where.address(thread)
        rows = [[read(thread) for read in row] for row in zip(*columns, strict=True)]
        olds = []
        for index, row in enumerate(rows):
            at = to + index * size
            old = int.from_bytes(where.load(thread, at, size), "little")
            where.store(thread, at, update(old, *row).to_bytes(size, "little"))
            olds.append(old)
        for write, old in zip(writers, olds, strict=False):
            write(thread, old)

    return step


def _cvta_step(instruction: Instruction, _: int, __: Mapping[str, int]) -> Step:
    """Between an address in a space and the generic one: the windows have bases, the rest is flat."""
    space = space_of(instruction)
    read, write = _sources(instruction)[0], _destinations(instruction)[0]
    sign = -1 if instruction.has("to") else 1

    def step(thread: Thread) -> None:
        windows = {"shared": thread.block.launch.shared_window, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}
        write(thread, (read(thread) + sign * windows.get(space.partition("::")[0], 0)) & mask(64))

    return step


def _policy_step(instruction: Instruction, _: int, __: Mapping[str, int]) -> Step:
    """``createpolicy``: caches take no advice here."""
    write = _destinations(instruction)[0]
    return lambda thread: write(thread, CACHE_POLICY)


# ---------------------------------------------------------------------- control


def _branch_step(instruction: Instruction, _: int, labels: Mapping[str, int]) -> Step:
    target = instruction.operands[0]
    assert isinstance(target, Label)
    place = labels[target.name]

    def step(thread: Thread) -> None:
        thread.frame.pc = place

    return step


def _switch_step(instruction: Instruction, _: int, labels: Mapping[str, int]) -> Step:
    """``brx.idx``: to the label of that index."""
    index, targets = reader(instruction.operands[0], "u32"), instruction.operands[1]
    assert isinstance(targets, VectorOperand)
    names = [target.name for target in targets.elements if isinstance(target, Label)]

    def step(thread: Thread) -> None:
        chosen = index(thread)
        if chosen >= len(names):
            raise InterpreterError(f"{line_of(instruction)}: index {chosen} of {len(names)} targets")
        thread.frame.pc = labels[names[chosen]]

    return step


def _alloca_step(instruction: Instruction, _: int, __: Mapping[str, int]) -> Step:
    """``alloca``: local memory from the end of what the function has; it goes when the function returns."""
    size, write = reader(instruction.operands[1], "u64"), writer(instruction.operands[0], "u64")
    align = reader(instruction.operands[2], "u64") if len(instruction.operands) > 2 else lambda _thread: 8

    def step(thread: Thread) -> None:
        amount = size(thread)
        start = -(-len(thread.local) // align(thread)) * align(thread)
        if start + amount > _MOST_LOCAL:
            raise MemoryFaultError(f"{line_of(instruction)}: {amount} bytes are more than the stack has")
        thread.local.extend(bytes(start + amount - len(thread.local)))
        write(thread, start)

    return step


def _stacksave_step(instruction: Instruction, _: int, __: Mapping[str, int]) -> Step:
    write = writer(instruction.operands[0], "u64")
    return lambda thread: write(thread, len(thread.local))


def _stackrestore_step(instruction: Instruction, _: int, __: Mapping[str, int]) -> Step:
    read = reader(instruction.operands[0], "u64")

    def step(thread: Thread) -> None:
        del thread.local[read(thread) :]

    return step


_MOST_LOCAL: Final = 512 << 10


def _exit_step(_: Instruction, __: int, ___: Mapping[str, int]) -> Step:
    return lambda _thread: Exited()


def _trap_step(instruction: Instruction, _: int, __: Mapping[str, int]) -> Step:
    def step(thread: Thread) -> None:
        raise TrapError(f"{line_of(instruction)}: thread {thread.tid} of block {thread.block.index}")

    return step


def _nothing_step(_: Instruction, __: int, ___: Mapping[str, int]) -> Step:
    return lambda _thread: None


# ---------------------------------------------------------------------- synchronisation


def _barrier_step(instruction: Instruction, place: int, labels: Mapping[str, int]) -> Step:
    if instruction.has("warp"):
        return _warp_step(instruction, place, labels)
    if instruction.has("cluster"):
        return cluster_barrier_step(instruction)
    has_result = instruction.has("red")
    operands = _sources(instruction)
    name, *others = operands
    vote = others.pop() if has_result else None
    count = others[0] if others else None
    finish = _vote_finisher(instruction) if has_result else None

    def step(thread: Thread) -> Wait | None:
        number_of, at = (count(thread) if count else 0), name(thread)
        if instruction.has("arrive"):
            thread.block.arrivals.setdefault(at, []).append(thread)
            return None
        return AtBarrier(at, number_of, bool(vote(thread)) if vote else False, finish)

    return step


def _vote_finisher(instruction: Instruction) -> Callable[[Thread, list[bool]], None]:
    write = _destinations(instruction)[0]
    rules: dict[str, Callable[[list[bool]], int]] = {
        "popc": sum,
        "and": lambda votes: int(all(votes)),
        "or": lambda votes: int(any(votes)),
    }
    rule = next(rule for name, rule in rules.items() if instruction.has(name))
    return lambda thread, votes: write(thread, rule(votes))


_ANY_PLACE: Final = -1
"""Lanes may meet at different ``bar.warp.sync`` instructions, if only the masks agree."""


def _warp_step(instruction: Instruction, place: int, _: Mapping[str, int]) -> Step:
    exchange = EXCHANGES[instruction.opcode](instruction)
    sources = _sources(instruction)
    has_result = bool(form_of(instruction).row.destinations)
    writers = _destinations(instruction) if has_result else []
    is_free = instruction.opcode == "activemask"
    where = _ANY_PLACE if instruction.has("warp") else place

    def finish(thread: Thread, results: tuple[int, ...]) -> None:
        for write, result in zip(writers, results, strict=False):
            write(thread, result)

    def step(thread: Thread) -> Wait:
        operands = tuple(read(thread) for read in sources)
        return AtWarp(where, None if is_free else operands[-1], operands, exchange, finish)

    return step


_SPECIAL_STEPS: Final[dict[str, StepFactory]] = {
    **MATRIX_STEPS, **CLUSTER_STEPS, **TEXTURE_STEPS, "cp": copy_step, "mbarrier": mbarrier_step,
    "ld": _load_step, "ldu": _load_step, "st": _store_step, "atom": _atomic_step, "red": _atomic_step,
    "isspacep": isspacep_step, "createpolicy": _policy_step,
    "cvta": _cvta_step, "bra": _branch_step, "brx": _switch_step, "alloca": _alloca_step,
    "stacksave": _stacksave_step, "stackrestore": _stackrestore_step, "ret": ret_step, "call": call_step,
    "exit": _exit_step,
    "trap": _trap_step, "bar": _barrier_step, "barrier": _barrier_step, "shfl": _warp_step, "vote": _warp_step,
    "match": _warp_step,
    "redux": _warp_step, "elect": _warp_step, "activemask": _warp_step,
    **dict.fromkeys(
        (
            "membar", "fence", "prefetch", "prefetchu", "nanosleep", "brkpt", "pmevent", "griddepcontrol", "discard",
            "applypriority",
        ),
        _nothing_step,
    ),
}  # fmt: skip
