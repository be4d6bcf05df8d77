"""Runs a kernel: clusters (or blocks) one after another, the threads of their blocks in turn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Final

from zcuda_async.interpreter.calls import leave
from zcuda_async.interpreter.cluster import release_cluster
from zcuda_async.interpreter.memory import SHARED_WINDOW, Memory, shared_base
from zcuda_async.interpreter.program import Programs
from zcuda_async.interpreter.steps import make_step
from zcuda_async.interpreter.thread import (
    WARP,
    AtBarrier,
    AtWarp,
    Block,
    Cluster,
    DeadlockError,
    Frame,
    InterpreterError,
    Launch,
    Thread,
    line_of,
)
from zcuda_async.ptx.addresses import function_addresses
from zcuda_async.ptx.ir import Function, Guard, Instruction, Label, Module

__all__ = ("Interpreter", "supports")

_TURN: Final = 10_000
"""Steps after which a thread lets the others run, so that one may wait for another in a loop."""


def supports(instruction: Instruction) -> bool:
    """Whether the interpreter has an instruction."""
    labels = {operand.name: 0 for operand in instruction.operands if isinstance(operand, Label)}
    try:
        make_step(instruction, 0, labels)
    except LookupError:
        return False
    return True


class Interpreter:
    """Runs the kernels of one module, for people who want to know what they should have computed."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._functions = function_addresses(module)
        self._programs: dict[str, Programs] = {}
        self._launches = 0

    def launch(
        self,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        params: bytes,
        memory: Memory,
        *,
        dynamic_shared: int = 0,
        symbols: Mapping[str, int] | None = None,
        shared_window: int = SHARED_WINDOW,
        strict: bool = True,
        step_limit: int | None = None,
        output: Callable[[bytes], object] = lambda _: None,
        heap: tuple[int, int] = (0, 0),
        cluster: tuple[int, int, int] | None = None,
    ) -> None:
        """Run a whole grid and return when it is through.

        Args:
            kernel: Name of the ``.entry``.
            grid: Blocks, (x, y, z).
            block: Threads per block, (x, y, z).
            params: The packed parameters.
            memory: Global memory.
            dynamic_shared: Bytes of dynamic shared memory.
            symbols: Addresses of the module's ``.global`` and ``.const`` variables.
            shared_window: Where shared memory lies in the generic address space.
            strict: Whether reading a register that was never written is an error (else it is 0).
            step_limit: The most instructions that one thread may run; None for no limit.
            output: Called with the text of every ``printf``.
            heap: First address and end of the global memory that ``malloc`` takes from.
            cluster: Blocks of a cluster, (x, y, z); None for those that the kernel requires, or one.

        Raises:
            KeyError: The module has no such kernel.
            ValueError: The grid is no multiple of the cluster.
            InterpreterError: The program did something that has no meaning; see its subclasses.
        """
        function = next((f for f in self._module.functions if f.name == kernel and f.is_entry), None)
        if function is None:
            raise KeyError(kernel)
        shape = cluster or _required_cluster(function)
        if any(size % part for size, part in zip(grid, shape, strict=True)):
            raise ValueError(f"the grid {grid} is no multiple of the cluster {shape}")
        self._launches += 1
        programs = self._programs.setdefault(kernel, Programs(self._module, function))
        launch = Launch(
            kernel=programs.codes[kernel],
            codes=programs.codes,
            grid=grid,
            block=block,
            params=params,
            memory=memory,
            symbols={**self._functions, **(symbols or {})},
            shared_size=programs.shared_size,
            dynamic_shared=dynamic_shared,
            local_size=programs.local_size,
            shared_window=shared_window,
            strict=strict,
            constants=tuple((v.name, v.size or 0) for v in self._module.variables if v.space == "const"),
            output=output,
            heap=heap,
            functions={address: name for name, address in self._functions.items()},
            cluster=shape,
            number=self._launches,
        )
        for z, y, x in product(*(range(0, size, part) for size, part in zip(grid[::-1], shape[::-1], strict=True))):
            _ClusterRun(launch, (x, y, z), step_limit).run()


def _required_cluster(function: Function) -> tuple[int, int, int]:
    x, y, z = (*dict(function.directives).get("reqnctapercluster", ()), 1, 1, 1)[:3]
    return x, y, z


class _ClusterRun:
    """The blocks of one cluster, a single one as a rule, and the progress of their threads."""

    def __init__(self, launch: Launch, first: tuple[int, int, int], step_limit: int | None) -> None:
        self.cluster = Cluster()
        self.runs: list[_BlockRun] = []
        for z, y, x in product(*(range(size) for size in reversed(launch.cluster))):
            index = first[0] + x, first[1] + y, first[2] + z
            shared = bytearray(launch.shared_size + launch.dynamic_shared)
            rank = len(self.runs)
            block = Block(launch, index, shared, self.cluster, rank, shared_base(rank, launch.cluster))
            self.cluster.blocks.append(block)
            self.runs.append(_BlockRun(block, step_limit))

    def run(self) -> None:
        """Let threads run until they wait, then see who can go on; until all are through."""
        while True:
            running = [run.turn() for run in self.runs]
            if all(run.has_ended for run in self.runs):
                return
            released = [run.release() for run in self.runs]
            released.append(release_cluster(self.cluster))
            if any(running) or any(released):
                continue
            if not any(run.release_active() for run in self.runs):
                raise DeadlockError("; ".join(run.describe() for run in self.runs if not run.has_ended))


class _BlockRun:
    """One block's threads and their progress."""

    def __init__(self, block: Block, step_limit: int | None) -> None:
        self.step_limit = step_limit
        self.block = block
        self.block.threads.extend(self._threads(block.launch))

    @property
    def has_ended(self) -> bool:
        """Whether all threads are through."""
        return all(thread.has_exited for thread in self.block.threads)

    def _threads(self, launch: Launch) -> Iterator[Thread]:
        code = launch.kernel
        params = launch.params + bytes(max(0, code.param_size - len(launch.params)))
        for index, (z, y, x) in enumerate(product(*(range(size) for size in reversed(launch.block)))):
            local = bytearray(launch.local_size + code.frame_size)
            frame = Frame(code, launch.local_size, 0)
            yield Thread(self.block, index, (x, y, z), local, bytearray(params), frame)

    def turn(self) -> bool:
        """Let the threads that do not wait run until they do; whether there were any."""
        running = [thread for thread in self.block.threads if thread.waiting is None]
        for thread in running:
            self._run_thread(thread)
        return bool(running)

    def _run_thread(self, thread: Thread) -> None:
        """Run a thread until it waits, ends, or has had its turn."""
        for _ in range(_TURN):
            frame = thread.frame
            if frame.pc >= len(frame.code.instructions):
                thread.waiting = leave(thread)
                if thread.waiting is not None:
                    return
                continue
            if thread.steps == self.step_limit:
                raise InterpreterError(f"thread {thread.tid} has run {thread.steps} instructions, which is the limit")
            instruction, step = frame.code.instructions[frame.pc], frame.code.step(frame.pc)
            frame.pc += 1
            thread.steps += 1
            if instruction.guard is not None and not self._holds(thread, instruction.guard, instruction):
                continue
            try:
                thread.waiting = step(thread)
            except InterpreterError as error:
                error.add_note(f"{line_of(instruction)}, thread {thread.tid} of block {self.block.index}")
                raise
            except LookupError as error:
                raise InterpreterError(f"{line_of(instruction)}: {error}") from error
            if thread.waiting is not None or thread.is_idle:
                thread.is_idle = False
                return

    def _holds(self, thread: Thread, guard: Guard, instruction: Instruction) -> bool:
        value = thread.registers.get(guard.register.name)
        if value is None:
            raise InterpreterError(f"{line_of(instruction)}: guard {guard.register.name} was never written")
        return bool(value) != guard.negated

    # ------------------------------------------------------------------ waiting threads

    def release(self) -> bool:
        """Let threads go on whose barrier or exchange is complete; whether there were any."""
        released = [self._release_barrier(name) for name in self._barriers()]
        released += [self._release_warp(start) for start in range(0, len(self.block.threads), WARP)]
        return any(released)

    def _barriers(self) -> list[int]:
        return sorted({t.waiting.name for t in self.block.threads if isinstance(t.waiting, AtBarrier)})

    def _release_barrier(self, name: int) -> bool:
        """Open barrier `name` if everyone is there: the number it names, or all that have not exited."""
        threads = self.block.threads
        waits = [(t, t.waiting) for t in threads if isinstance(t.waiting, AtBarrier) and t.waiting.name == name]
        here = [thread for thread, _ in waits] + self.block.arrivals.get(name, [])
        count = max(wait.count for _, wait in waits)
        arrived = len(here) + (self._gone_with(here) if count else 0)
        wanted = count or sum(not thread.has_exited for thread in threads)
        if arrived < wanted:
            return False
        self.block.arrivals.pop(name, None)
        votes = [wait.vote for _, wait in waits]
        for thread, wait in waits:
            if wait.finish is not None:
                wait.finish(thread, votes)
            thread.waiting = None
        return True

    def _gone_with(self, here: list[Thread]) -> int:
        """How many lanes the warps of some threads lack: a number of threads counts those that have exited too."""
        warps = {thread.index // WARP for thread in here}
        fellows = (thread for thread in self.block.threads if thread.index // WARP in warps)
        return len(warps) * WARP - sum(not thread.has_exited or thread in here for thread in fellows)

    def _release_warp(self, start: int) -> bool:
        """Do the exchanges of one warp that all their members have come to."""
        warp = self.block.threads[start : start + WARP]
        alive = sum(1 << thread.lane for thread in warp if not thread.has_exited)
        groups: dict[tuple[int, int], list[Thread]] = defaultdict(list)
        for thread in warp:
            if isinstance(thread.waiting, AtWarp) and thread.waiting.members is not None:
                if not thread.waiting.members >> thread.lane & 1:
                    raise InterpreterError(
                        f"{self._place(thread)}: lane {thread.lane} is not in its own mask {thread.waiting.members:#x}"
                    )
                groups[thread.waiting.place, thread.waiting.members].append(thread)
        released = False
        for (_, members), threads in groups.items():
            here = sum(1 << thread.lane for thread in threads)
            if members & alive & ~here == 0:
                _exchange(threads)
                released = True
        return released

    def release_active(self) -> bool:
        """``activemask``, once nobody can do anything else: the lanes of a warp that stand together."""
        groups: dict[tuple[int, int], list[Thread]] = defaultdict(list)
        for thread in self.block.threads:
            if isinstance(thread.waiting, AtWarp) and thread.waiting.members is None:
                groups[thread.index // WARP, thread.waiting.place].append(thread)
        for threads in groups.values():
            _exchange(threads)
        return bool(groups)

    def _place(self, thread: Thread) -> str:
        return line_of(thread.frame.code.instructions[thread.frame.pc - 1])

    def describe(self) -> str:
        """Where the threads wait that have not exited."""
        places: dict[str, int] = defaultdict(int)
        for thread in self.block.threads:
            if not thread.has_exited:
                places[self._place(thread)] += 1
        waiting = ", ".join(f"{count} at {place}" for place, count in places.items())
        return f"block {self.block.index}: no thread can go on; {waiting}"


def _exchange(threads: list[Thread]) -> None:
    waits = {thread.lane: thread.waiting for thread in threads}
    first = threads[0].waiting
    assert isinstance(first, AtWarp)
    results = first.exchange({lane: wait.operands for lane, wait in waits.items() if isinstance(wait, AtWarp)})
    for thread in threads:
        assert isinstance(thread.waiting, AtWarp)
        thread.waiting.finish(thread, results[thread.lane])
        thread.waiting = None
