"""Functions that are called out of line and wait: for a barrier of their block, or in a spin loop.

A function waits if its own body does, or one that it calls.  It is a coroutine then, as the group that calls it is.
Behind the call is a pseudo-barrier: lanes wait there until their call has returned, while the others of their group
go on, and when nobody can, the calls that have stopped get a turn whenever the group does.  So lanes may wait in
several functions, and for each other.  In front of such calls lanes wait until no other can come to the call without
them, so that one call is made for all of them, and not one for each.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zcuda_async.jit.cfg import ControlFlow, build_control_flow, is_cta_barrier
from zcuda_async.jit.inline import CALL
from zcuda_async.jit.lower.group import Refuse
from zcuda_async.jit.sync import (
    CALLS_END,
    CLUSTER_BARRIER,
    Waiting,
    find_spins,
    join_before_exchanges,
    normalise_barriers,
    ways_of_waiting,
)
from zcuda_async.ptx.ir import Function, Immediate, Instruction, Label, Register, Symbol, VectorOperand

__all__ = ("Callee", "join_before_calls", "prepare_callees", "waiting_of_all")


@dataclass(frozen=True, slots=True)
class Callee:
    """A function ready to be compiled: its control flow with its spin loops, and how its body waits."""

    function: Function
    flow: ControlFlow
    waiting: Waiting

    @property
    def waits(self) -> bool:
        """Whether its own body waits for other threads of the block."""
        return self.waiting.has_barriers or self.waiting.spins


def prepare_callees(functions: Sequence[Function], threads: int, refuse: Refuse) -> tuple[list[Callee], dict[str, int]]:
    """Put barriers into their one form, and find spin loops; also the functions that wait, numbered.

    Raises:
        PtxError: A function waits for its cluster without having arrived.
    """
    normal = [_with_pauses(normalise_barriers(function, threads)) for function in functions]
    for function in normal:
        _check(function, refuse)
    waiting = _find_waiting([_prepare(function) for function in normal])
    return [_prepare(join_before_calls(function, waiting)) for function in normal], waiting


def join_before_calls(function: Function, waiting: Collection[str]) -> Function:
    """Have lanes wait for those that can still go on without them, before they call functions that wait."""
    body: list[Instruction | Label] = []
    for item in function.body:
        if isinstance(item, Instruction) and item.opcode == CALL and not _targets(item).isdisjoint(waiting):
            body.append(Instruction("bar", ("warp", "sync"), (), (_NOBODY,), item.span))
            body += [
                item,
                Instruction("barrier", (CALLS_END, "sync"), (), (_RETURN,), item.span),
                _pause(item, len(body)),
            ]
        else:
            body.append(item)
    return replace(function, body=tuple(body))


_RETURN: Final = Symbol("return")
_NOBODY: Final = Immediate(0)
"""A membermask: nobody in a spin loop is waited for, who may need what the function does."""


def _prepare(function: Function) -> Callee:
    flow = build_control_flow(function)
    spins = find_spins(function, flow)
    if spins:
        function = join_before_exchanges(function)
        flow = build_control_flow(function)
        flow = replace(flow, spins=find_spins(function, flow))
    return Callee(function, flow, ways_of_waiting(function, spins=bool(spins)))


def _with_pauses(function: Function) -> Function:
    """Something to go on to behind each barrier: the last one of a function must open before it returns."""
    body: list[Instruction | Label] = []
    for item in function.body:
        body.append(item)
        if isinstance(item, Instruction) and is_cta_barrier(item):
            body.append(_pause(item, len(body)))
    return replace(function, body=tuple(body))


def _pause(at: Instruction, number: int) -> Instruction:
    return Instruction("mov", (), ("b32",), (Register(f"pause~{number}", "b32"), Immediate(0)), at.span)


def _check(function: Function, refuse: Refuse) -> None:
    barriers = (item for item in function.body if isinstance(item, Instruction) and item.opcode in ("bar", "barrier"))
    cluster = [item for item in barriers if item.operands and item.operands[0] == Immediate(CLUSTER_BARRIER)]
    if cluster and all(item.has("cluster") for item in cluster):
        where = "in a function that is recursive, or called through a pointer, and does not arrive there,"
        raise refuse(cluster[0], f"a wait for the cluster's barrier {where} is not supported")


def _find_waiting(callees: Sequence[Callee]) -> dict[str, int]:
    """The functions that wait, numbered: by themselves, or in what they call."""
    calls = {callee.function.name: _called(callee.function) for callee in callees}
    found = {callee.function.name for callee in callees if callee.waits}
    while True:
        more = {name for name, targets in calls.items() if name not in found and not targets.isdisjoint(found)}
        if not more:
            return {name: number for number, name in enumerate(name for name in calls if name in found)}
        found |= more


def _called(function: Function) -> set[str]:
    calls = (item for item in function.body if isinstance(item, Instruction) and item.opcode == CALL)
    return {name for call in calls for name in _targets(call)}


def _targets(call: Instruction) -> set[str]:
    names = call.operands[2]
    assert isinstance(names, VectorOperand)
    return {symbol.name for symbol in names.elements if isinstance(symbol, Symbol)}


def waiting_of_all(own: Waiting, callees: Sequence[Callee], waiting: Collection[str]) -> Waiting:
    """How a kernel waits, in its own body and in what it calls; `waiting` are the functions that wait."""
    ways = [own, *(callee.waiting for callee in callees)]
    clusters = any(way.clusters for way in ways)
    if not waiting and clusters == own.clusters:
        return own
    return replace(
        own,
        has_barriers=any(way.has_barriers for way in ways),
        counted=True,
        counts_threads=any(way.counts_threads for way in ways),
        spins=any(way.spins for way in ways),
        clusters=clusters,
        calls=bool(waiting),
    )
