"""Control-flow graph of one PTX function, and the order its blocks are laid out in.

The layout is what makes masked execution work: every loop is contiguous, and apart from edges back
to the head of a loop all edges point forward.  So running the blocks in layout order, skipping those
no lane waits for, and going back to a loop's head at the end of its region while lanes wait there,
runs every lane through its own path, whatever the graph (irreducible ones included).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from zcuda_async.ptx.ir import Function, Instruction, Label

__all__ = ("EXIT", "Block", "ControlFlow", "build_control_flow", "components", "is_cta_barrier", "is_warp_barrier")

EXIT = -1
"""The successor of a block that ends its threads."""

_ENDS = frozenset({"ret", "exit", "trap"})
_BARRIERS = frozenset({"bar", "barrier"})


@dataclass(frozen=True, slots=True)
class Block:
    """A basic block: straight-line `instructions`, then a transfer of control.

    `branch` is the guarded branch or exit that ends it (None: it just goes on to `taken`).  Lanes for
    which the guard holds go to `taken`, the others to `fallthrough` (None when the transfer is
    unconditional).  `barrier` is the CTA or warp barrier that stands between the instructions and the transfer.
    """

    index: int
    instructions: tuple[Instruction, ...]
    branch: Instruction | None
    taken: int
    fallthrough: int | None
    barrier: Instruction | None = None

    @property
    def successors(self) -> tuple[int, ...]:
        """Indices of the blocks that may run next; EXIT left out."""
        pair = (self.taken,) if self.fallthrough is None else (self.taken, self.fallthrough)
        return tuple(dict.fromkeys(target for target in pair if target != EXIT))


@dataclass(frozen=True, slots=True)
class ControlFlow:
    """Blocks in layout order (a block's index is its position; 0 is the entry).

    `regions` maps each loop head to the position of the last block of its loop.  `spins` are the heads
    of loops in which threads wait for others (see `sync`): lanes may be left behind in those.
    """

    blocks: tuple[Block, ...]
    regions: dict[int, int]
    spins: frozenset[int] = frozenset()

    def heads_ending_at(self, position: int) -> list[int]:
        """Heads of the loops whose last block stands at `position`, innermost first."""
        return sorted((head for head, last in self.regions.items() if last == position), reverse=True)


def is_cta_barrier(instruction: Instruction) -> bool:
    """Whether the instruction makes a thread wait for other threads of its block (or cluster)."""
    return instruction.opcode in _BARRIERS and not instruction.has("warp") and not instruction.has("arrive")


def is_warp_barrier(instruction: Instruction) -> bool:
    """Whether the instruction makes a thread wait for other threads of its warp."""
    return instruction.opcode in _BARRIERS and instruction.has("warp")


def _is_barrier(instruction: Instruction) -> bool:
    return is_cta_barrier(instruction) or is_warp_barrier(instruction)


def _split(function: Function) -> list[Block]:
    """Cut the body into blocks, in text order."""
    labels: dict[str, int] = {}
    pieces: list[list[Instruction]] = [[]]
    for item in function.body:
        if isinstance(item, Label):
            if pieces[-1]:
                pieces.append([])
            labels[item.name] = len(pieces) - 1
            continue
        pieces[-1].append(item)
        if item.opcode in _ENDS or item.opcode == "bra" or _is_barrier(item):
            pieces.append([])
    return [_make_block(index, piece, labels, len(pieces)) for index, piece in enumerate(pieces)]


def _make_block(index: int, piece: Sequence[Instruction], labels: dict[str, int], count: int) -> Block:
    following = index + 1 if index + 1 < count else EXIT
    last = piece[-1] if piece else None
    if last is None:
        return Block(index, (), None, following, None)
    if last.opcode == "bra":
        target = last.operands[0]
        assert isinstance(target, Label)
        taken = labels[target.name]
        if last.guard is None or taken == following:
            return Block(index, tuple(piece[:-1]), None, taken, None)
        return Block(index, tuple(piece[:-1]), last, taken, following)
    if last.opcode in _ENDS:
        body = tuple(piece) if last.opcode == "trap" else tuple(piece[:-1])
        if last.guard is None:
            return Block(index, body, None, EXIT, None)
        return Block(index, body, last, EXIT, following)
    if _is_barrier(last):
        return Block(index, tuple(piece[:-1]), None, following, None, barrier=last)
    return Block(index, tuple(piece), None, following, None)


def components(nodes: Iterable[int], edges: dict[int, list[int]]) -> list[list[int]]:
    """Strongly connected components of the graph, in topological order (Tarjan, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    found: list[list[int]] = []
    for root in sorted(nodes, reverse=True):
        if root in index:
            continue
        work: list[tuple[int, int]] = [(root, 0)]
        while work:
            node, position = work.pop()
            if position == 0:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
            advanced = False
            targets = edges[node]
            for at in range(position, len(targets)):
                target = targets[at]
                if target not in index:
                    work.append((node, at + 1))
                    work.append((target, 0))
                    advanced = True
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            if advanced:
                continue
            if low[node] == index[node]:
                component = []
                while True:
                    member = stack.pop()
                    on_stack.discard(member)
                    component.append(member)
                    if member == node:
                        break
                found.append(component)
            if work:
                parent = work[-1][0]
                low[parent] = min(low[parent], low[node])
    found.reverse()
    return found


def _layout(nodes: list[int], edges: dict[int, list[int]], entry: int) -> tuple[list[int], dict[int, int]]:
    """Order `nodes` so that loops are contiguous; also each loop's head and last node."""
    order: list[int] = []
    last_of: dict[int, int] = {}
    # What is still to be placed, top first: a node, a set of nodes to be ordered, or the end of a loop.
    work: list[tuple[str, list[int]]] = [("nodes", nodes)]
    while work:
        kind, members = work.pop()
        if kind == "node":
            order.append(members[0])
        elif kind == "close":
            last_of[members[0]] = order[-1]
        else:
            inside = set(members)
            local = {node: [target for target in edges[node] if target in inside] for node in members}
            for component in reversed(components(members, local)):
                if len(component) == 1 and component[0] not in local[component[0]]:
                    work.append(("node", component))
                    continue
                head = _head_of(component, edges, entry)
                rest = sorted(node for node in component if node != head)
                work += [("close", [head]), ("nodes", rest), ("node", [head])]
    return order, last_of


def _head_of(component: list[int], edges: dict[int, list[int]], entry: int) -> int:
    """The block of a loop that is entered from outside it; for several, the one first in text."""
    members = set(component)
    if entry in members:
        return entry
    outside = (node for node in edges if node not in members)
    entered = {target for node in outside for target in edges[node] if target in members}
    return min(entered or members)


def _placed(block: Block, index: int, position: dict[int, int]) -> Block:
    """The block with its own and its targets' places in the layout."""
    other = block.fallthrough
    fallthrough = None if other is None else position[other]
    return replace(block, index=index, taken=position[block.taken], fallthrough=fallthrough)


def build_control_flow(function: Function) -> ControlFlow:
    """Blocks of `function` that can be reached, in layout order, with their loops."""
    raw = _split(function)
    edges = {block.index: list(block.successors) for block in raw}
    reachable: list[int] = []
    seen = {0}
    work = [0]
    while work:
        node = work.pop()
        reachable.append(node)
        for target in edges[node]:
            if target not in seen:
                seen.add(target)
                work.append(target)
    reachable.sort()
    order, last_of = _layout(reachable, {node: edges[node] for node in reachable}, 0)
    position = {node: at for at, node in enumerate(order)}
    position[EXIT] = EXIT
    blocks = tuple(_placed(raw[node], at, position) for at, node in enumerate(order))
    return ControlFlow(blocks, {position[head]: position[last] for head, last in last_of.items()})
