"""How large a kernel becomes when its calls are expanded, and which functions are better left as functions.

Unoptimised code (``nvcc -G``) is many small functions that call each other: one ``__pipeline_memcpy_async`` is a
switch over 120 others, and a kernel with a few such calls would grow to hundreds of thousands of instructions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from zcuda_async.jit.callgraph import CallGraph
from zcuda_async.ptx.ir import Function, Instruction, Module, Symbol

__all__ = ("functions_to_keep",)

_LARGE: Final = 10_000
"""Instructions from which on a kernel is made smaller: what LLVM takes some seconds for."""


def functions_to_keep(module: Module, kernel: Function, graph: CallGraph) -> frozenset[str]:
    """Functions that are called more than once and, expanded everywhere, would make the kernel too large."""
    sizes = _Sizes(module, kernel, graph)
    kept: set[str] = set()
    while True:
        uses, expanded, total = sizes.measure(kept)
        if total <= _LARGE:
            return frozenset(kept)
        savings = {name: (uses[name] - 1) * expanded[name] for name in uses if name not in sizes.bound}
        best = max(savings, key=savings.__getitem__, default="")
        if not savings.get(best):
            return frozenset(kept)
        kept.add(best)


class _Sizes:
    """Sizes of the functions that a kernel reaches, and who calls whom how often."""

    def __init__(self, module: Module, kernel: Function, graph: CallGraph) -> None:
        functions = {function.name: function for function in module.functions}
        self.kernel = kernel.name
        self.apart = graph.recursive | graph.addressed
        self.own: dict[str, int] = {}
        self.calls: dict[str, Counter[str]] = {}
        self.order: list[str] = []
        """Callees before their callers, but for recursive ones."""
        self._visit(kernel, functions, set())
        self.bound = frozenset(self._bound(functions)) | self.apart | {kernel.name}

    def _visit(self, function: Function, functions: Mapping[str, Function], entered: set[str]) -> None:
        # A stack of its own: chains of calls may be longer than Python's.
        waiting = [(function, False)]
        while waiting:
            function, is_done = waiting.pop()
            if is_done:
                self.order.append(function.name)
                continue
            if function.name in entered:
                continue
            entered.add(function.name)
            items = [item for item in function.body if isinstance(item, Instruction)]
            called = Counter(name for name in _called(items) if name in functions)
            self.own[function.name], self.calls[function.name] = len(items), called
            waiting.append((function, True))
            waiting += [(functions[name], False) for name in called]

    def _bound(self, functions: Mapping[str, Function]) -> Iterator[str]:
        """Functions that have to be expanded: a wait for the cluster's barrier is refused in others."""
        found: set[str] = set()
        for name in self.order:
            items = (item for item in functions[name].body if isinstance(item, Instruction))
            if found & self.calls[name].keys() or any(i.opcode == "barrier" and i.has("cluster") for i in items):
                found.add(name)
        yield from found

    def measure(self, kept: set[str]) -> tuple[Counter[str], dict[str, int], int]:
        """How often each function would be expanded, its size with what it calls, and the whole program's size."""
        apart = self.apart | kept
        expanded: dict[str, int] = {}
        for name in self.order:
            inner = ((callee, times) for callee, times in self.calls[name].items() if callee not in apart)
            expanded[name] = self.own[name] + sum(expanded.get(callee, 0) * times for callee, times in inner)
        uses: Counter[str] = Counter()
        for name in reversed(self.order):
            times = 1 if name == self.kernel or name in apart else uses[name]
            for callee, count in self.calls[name].items():
                uses[callee] += times * count
        roots = [name for name in self.order if name == self.kernel or name in apart]
        candidates = Counter({name: times for name, times in uses.items() if name not in apart})
        return candidates, expanded, sum(expanded[name] for name in roots)


def _called(items: list[Instruction]) -> Iterator[str]:
    for item in items:
        if item.opcode == "call" and isinstance(item.operands[1], Symbol):
            yield item.operands[1].name
