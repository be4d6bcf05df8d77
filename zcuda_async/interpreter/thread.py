"""A thread, a block and a launch: the state that instructions work on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from zcuda_async.interpreter.memory import Memory
from zcuda_async.ptx.ir import Instruction, Operand, Param

__all__ = (
    "AtBarrier",
    "AtCluster",
    "AtWarp",
    "Block",
    "Cluster",
    "DeadlockError",
    "Exited",
    "Frame",
    "FunctionCode",
    "InterpreterError",
    "Launch",
    "MemoryFaultError",
    "Place",
    "Reader",
    "Step",
    "Thread",
    "TrapError",
    "UndefinedRegisterError",
    "Wait",
    "Writer",
    "line_of",
)

WARP: Final = 32


class InterpreterError(Exception):
    """The program did something that has no meaning; the message says what, and at which line."""


class UndefinedRegisterError(InterpreterError):
    """A register was read that nothing had been written to."""


class MemoryFaultError(InterpreterError):
    """A load or store outside of memory, or at a misaligned address."""


class TrapError(InterpreterError):
    """A thread ran into ``trap``."""


class DeadlockError(InterpreterError):
    """Every thread of a block waits for another."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a variable is: an offset in its state space, or in a function's frame of that space."""

    space: str
    offset: int
    size: int = 0
    in_frame: bool = False


@dataclass(slots=True)
class FunctionCode:
    """A function: its instructions, and the places of the variables that it can name.

    `first_place` numbers its first instruction within the module.  A call takes `frame_size` bytes of
    local memory and `param_size` bytes for parameters, return values and ``.param`` variables.
    """

    name: str
    instructions: list[Instruction]
    first_place: int
    variables: dict[str, Place]
    params: tuple[Param, ...]
    returns: tuple[Param, ...]
    frame_size: int
    param_size: int

    def step(self, at: int) -> Step:
        """The step of instruction `at`."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Launch:
    """What all blocks of a launch share; `symbols` are the addresses of module variables.

    `constants` are the names and sizes of the ``.const`` ones; `output` takes what threads print.
    `heap` is where ``malloc`` may take from, from its first address to its end, and `allocated` what it has given.
    `functions` are the device functions by their addresses; `cluster` is the blocks of a cluster, and `number` counts
    launches.
    """

    kernel: FunctionCode
    codes: Mapping[str, FunctionCode]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    params: bytes
    memory: Memory
    symbols: Mapping[str, int]
    shared_size: int
    dynamic_shared: int
    local_size: int
    shared_window: int
    strict: bool
    output: Callable[[bytes], object]
    constants: tuple[tuple[str, int], ...] = ()
    heap: tuple[int, int] = (0, 0)
    functions: Mapping[int, str] = field(default_factory=dict)
    allocated: dict[int, int] = field(default_factory=dict)
    cluster: tuple[int, int, int] = (1, 1, 1)
    number: int = 0


@dataclass(slots=True, eq=False)
class Cluster:
    """The blocks that run together, in the order of their ranks; `phase` counts how often its barrier has opened."""

    blocks: list[Block] = field(default_factory=list)
    phase: int = 0


@dataclass(slots=True, eq=False)
class Block:
    """A thread block; `arrivals` are the threads that went through ``bar.arrive``, by barrier.

    `shared_base` is where its shared memory begins in the addresses of the cluster's.
    """

    launch: Launch
    index: tuple[int, int, int]
    shared: bytearray
    cluster: Cluster
    rank: int = 0
    shared_base: int = 0
    threads: list[Thread] = field(default_factory=list)
    arrivals: dict[int, list[Thread]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exited:
    """The thread is through."""


@dataclass(frozen=True, slots=True)
class AtBarrier:
    """The thread waits at a barrier of its block; `count` is 0 for all threads.

    `vote` and `finish` belong to ``bar.red``: the thread's own truth, and what to do with all of them.
    """

    name: int
    count: int
    vote: bool = False
    finish: Callable[[Thread, list[bool]], None] | None = None


@dataclass(frozen=True, slots=True)
class AtCluster:
    """The thread waits until all threads of the cluster have arrived at its barrier."""


@dataclass(frozen=True, slots=True)
class AtWarp:
    """The thread waits for the lanes in `members` to reach the same instruction.

    `exchange` is called once, with the operands of each lane that takes part, and gives each its result.
    `members` None is ``activemask``, which takes whoever is there.
    """

    place: int
    members: int | None
    operands: tuple[int, ...]
    exchange: Callable[[dict[int, tuple[int, ...]]], dict[int, tuple[int, ...]]]
    finish: Callable[[Thread, tuple[int, ...]], None]


Wait = Exited | AtBarrier | AtCluster | AtWarp


@dataclass(slots=True, eq=False)
class Frame:
    """One call of a function: its registers, and where its part of local and param memory begins."""

    code: FunctionCode
    local_base: int
    param_base: int
    registers: dict[str, int] = field(default_factory=dict)
    pc: int = 0
    results: tuple[Operand, ...] = ()


@dataclass(slots=True, eq=False)
class Thread:
    """One thread; `index` is its place in the block, `carry` the condition-code register.

    `frames` are the calls it is in, the innermost last; `frame` and `registers` belong to that one.
    """

    block: Block
    index: int
    tid: tuple[int, int, int]
    local: bytearray
    params: bytearray
    frame: Frame
    frames: list[Frame] = field(default_factory=list)
    carry: int = 0
    steps: int = 0
    waiting: Wait | None = None
    cluster_phase: int | None = None
    """Phase of the cluster's barrier that the thread has arrived at, until it has waited there."""
    is_idle: bool = False
    """Set by an instruction that found nothing to go on with: the others get their turn."""

    @property
    def registers(self) -> dict[str, int]:
        """The registers of the function that the thread is in."""
        return self.frame.registers

    @property
    def lane(self) -> int:
        """Place in the warp."""
        return self.index % WARP

    @property
    def has_exited(self) -> bool:
        """Whether the thread is through."""
        return isinstance(self.waiting, Exited)


Step = Callable[[Thread], Wait | None]
Reader = Callable[[Thread], int]
Writer = Callable[[Thread, int], None]


def line_of(instruction: Instruction) -> str:
    """For messages."""
    return f"line {instruction.span.line}: {instruction.opcode}"
