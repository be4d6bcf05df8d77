"""Which device functions cannot be expanded in place: recursive ones, and those called through pointers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from zcuda_async.jit.cfg import components
from zcuda_async.ptx.ir import Address, Function, Instruction, Module, Operand, Symbol, VectorOperand

__all__ = ("CallGraph", "build_call_graph", "symbols")


@dataclass(frozen=True, slots=True)
class CallGraph:
    """`recursive` functions call themselves, by whatever way; those in `addressed` may be called through pointers.

    `may_exit` says that some function ends threads with ``exit``.
    """

    recursive: frozenset[str]
    addressed: frozenset[str]
    may_exit: bool


def symbols(operand: Operand) -> Iterator[str]:
    """The names that an operand mentions."""
    match operand:
        case Symbol(name):
            yield name
        case Address(Symbol(name)):
            yield name
        case VectorOperand(elements):
            for element in elements:
                yield from symbols(element)


def build_call_graph(module: Module) -> CallGraph:
    """Look at all functions and initialisers of a module.

    A function whose address is taken may be called by every call through a pointer.
    """
    functions = {function.name: function for function in module.functions if not function.is_entry}
    addressed = {symbol for variable in module.variables for _, symbol, _ in variable.relocations}
    addressed.update(name for function in module.functions for name in _mentioned(_items(function)))
    addressed &= functions.keys()
    order = {name: index for index, name in enumerate(functions)}
    names = list(functions)
    edges = {
        order[name]: sorted(order[target] for target in _called(function, addressed) if target in order)
        for name, function in functions.items()
    }
    cycles = (found for found in components(edges, edges) if len(found) > 1 or found[0] in edges[found[0]])
    recursive = frozenset(names[index] for found in cycles for index in found)
    exits = any(item.opcode == "exit" for function in functions.values() for item in _items(function))
    return CallGraph(recursive, frozenset(addressed), exits)


def _items(function: Function) -> list[Instruction]:
    return [item for item in function.body if isinstance(item, Instruction)]


def _mentioned(items: Iterable[Instruction]) -> Iterator[str]:
    for item in items:
        for index, operand in enumerate(item.operands):
            if not (item.opcode == "call" and index in (1, 3)):
                yield from symbols(operand)


def _called(function: Function, addressed: set[str]) -> set[str]:
    targets: set[str] = set()
    for item in _items(function):
        if item.opcode == "call":
            callee = item.operands[1]
            targets |= {callee.name} if isinstance(callee, Symbol) else addressed
    return targets
