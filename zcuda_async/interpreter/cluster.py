"""Clusters of blocks (PTX ISA 5.1.7, 9.7.9 and 9.7.13.4): who is where, and the barrier that all of them share.

Each block's shared memory has a part of the cluster's shared addresses to itself, see `memory.shared_window`: a block's
``shared::cta`` addresses are ``shared::cluster`` addresses too, and name the same place for whoever uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from zcuda_async.interpreter.memory import shared_window
from zcuda_async.interpreter.operands import reader, writer
from zcuda_async.interpreter.thread import (
    AtCluster,
    Block,
    Cluster,
    InterpreterError,
    MemoryFaultError,
    Reader,
    Step,
    Thread,
    Wait,
    line_of,
)
from zcuda_async.ptx.ir import Instruction
from zcuda_async.ptx.table_syntax import TYPE_WIDTHS

__all__ = ("CLUSTER_STEPS", "cluster_barrier_step", "release_cluster")


def _shared_address(instruction: Instruction) -> tuple[Reader, Callable[[Thread], int]]:
    """(how to read operand a, where the window of its addresses begins)."""
    read = reader(instruction.operands[1], instruction.types[0])
    if instruction.has("shared::cluster"):
        return read, lambda _: 0
    return read, lambda thread: thread.block.launch.shared_window


def _owner(instruction: Instruction, thread: Thread, address: int) -> tuple[Block, int]:
    try:
        return shared_window(thread, address)
    except IndexError as error:
        raise MemoryFaultError(f"{line_of(instruction)}: {error}") from None


def _mapa_step(instruction: Instruction, _: int, __: Mapping[str, int]) -> Step:
    """``mapa``: the same place in the shared memory of the block of rank b."""
    read, base = _shared_address(instruction)
    rank, write = reader(instruction.operands[2], "u32"), writer(instruction.operands[0], instruction.types[0])
    ones = (1 << TYPE_WIDTHS[instruction.types[0]]) - 1

    def step(thread: Thread) -> None:
        blocks, to = len(thread.block.cluster.blocks), rank(thread)
        if to >= blocks:
            raise InterpreterError(f"{line_of(instruction)}: no block of rank {to}, the cluster has {blocks}")
        at = read(thread)
        block, _ = _owner(instruction, thread, at - base(thread))
        write(thread, (at - block.shared_base + thread.block.cluster.blocks[to].shared_base) & ones)

    return step


def _getctarank_step(instruction: Instruction, _: int, __: Mapping[str, int]) -> Step:
    """``getctarank``: the rank of the block that an address belongs to."""
    read, base = _shared_address(instruction)
    write = writer(instruction.operands[0], "u32")

    def step(thread: Thread) -> None:
        block, _ = _owner(instruction, thread, read(thread) - base(thread))
        write(thread, block.rank)

    return step


def cluster_barrier_step(instruction: Instruction) -> Step:
    """``barrier.cluster.arrive`` and ``.wait``."""
    return (_arrive if instruction.has("arrive") else _wait)(instruction)


def _arrive(instruction: Instruction) -> Step:
    def step(thread: Thread) -> None:
        phase = thread.block.cluster.phase
        if thread.cluster_phase == phase:
            raise InterpreterError(f"{line_of(instruction)}: thread {thread.tid} arrives twice without waiting")
        thread.cluster_phase = phase

    return step


def _wait(instruction: Instruction) -> Step:
    def step(thread: Thread) -> Wait | None:
        if thread.cluster_phase is None:
            raise InterpreterError(f"{line_of(instruction)}: thread {thread.tid} waits without having arrived")
        if thread.cluster_phase == thread.block.cluster.phase:
            return AtCluster()
        thread.cluster_phase = None
        return None

    return step


def release_cluster(cluster: Cluster) -> bool:
    """Begin the barrier's next phase if every thread that has not exited has arrived; whether anybody waited."""
    threads = [thread for block in cluster.blocks for thread in block.threads]
    if any(not thread.has_exited and thread.cluster_phase != cluster.phase for thread in threads):
        return False
    waiting = [thread for thread in threads if isinstance(thread.waiting, AtCluster)]
    cluster.phase += 1
    for thread in waiting:
        thread.cluster_phase = thread.waiting = None
    return bool(waiting)


CLUSTER_STEPS: Final[dict[str, Callable[[Instruction, int, Mapping[str, int]], Step]]] = {
    "mapa": _mapa_step,
    "getctarank": _getctarank_step,
}
