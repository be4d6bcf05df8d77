"""Where lanes may be waiting while a block runs, and which jumps may be taken directly.

Blocks run in layout order (see `cfg`).  A lane that must go to a block that is not next *waits* for
it: its bit is set in that block's mask.  This pass finds, for every block, the set of blocks that
lanes may be waiting for while it runs.  From that follow

* which registers must be blended when they are written (a waiting lane may still need its value),
* where all lanes are known to be together, so that no mask is needed at all,
* which jumps can be real jumps, because they pass over no block that lanes wait for.

States are bit sets: bit b, lanes wait for block b; bit n+b, lanes wait at a CTA barrier and will go
on to block b; bit 2n+b, the same at a warp barrier; bit 3n, lanes may have exited (or never existed,
in a group wider than the block).

Lanes in a spin loop stay behind at its head when the others go on (the head's bit remains set after
the loop); at the end of the layout everybody who still waits gets another turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from zcuda_async.jit.cfg import EXIT, Block, ControlFlow, is_warp_barrier
from zcuda_async.jit.sync import is_block_wide

__all__ = ("Pending", "find_pending")


@dataclass(frozen=True, slots=True)
class Pending:
    """The result: states on entry to each block's body and check (None: never reached that way).

    `after` holds the states in which control passes on from a block to what follows it in layout
    order, before the loops that end there are looked at; `end` the states at the end of the layout.
    """

    flow: ControlFlow
    body: tuple[int | None, ...]
    check: tuple[int | None, ...]
    after: tuple[int | None, ...]
    end: int

    @property
    def gone(self) -> int:
        """The bit that says lanes may have exited."""
        return 1 << (3 * len(self.flow.blocks))

    def waiting(self, index: int) -> list[int]:
        """Blocks that lanes may be waiting for (at a barrier included) while block `index` runs."""
        count = len(self.flow.blocks)
        return [bit % count for bit in _places((self.body[index] or 0) & (self.gone - 1))]

    def is_full(self, index: int) -> bool:
        """Whether every lane of the group is known to be in the block when it runs."""
        return self.body[index] == 0

    def is_together(self, index: int) -> bool:
        """Whether no lane waits elsewhere while the block runs (some may have exited)."""
        return (self.body[index] or 0) & ~self.gone == 0

    def may_come_together(self, index: int) -> bool:
        """The same, but for lanes that may have been left behind in spin loops."""
        spins = sum(1 << head for head in self.flow.spins)
        return (self.body[index] or 0) & ~self.gone & ~spins == 0

    def jumps(self, index: int, target: int) -> bool:
        """Whether a transfer all of the block's lanes take together may be a real jump."""
        return _may_jump(self.flow, index, target, self.body[index] or 0)

    def behind(self) -> list[int]:
        """Heads of spin loops in which lanes may still be when nobody else can go on.

        Lanes that only ever go round together do not stay behind, and have no mask to wait in.
        """
        return [head for head in _places(self.end & ((1 << len(self.flow.blocks)) - 1)) if self.body[head]]

    def resumed(self, level: int) -> list[int]:
        """Blocks that lanes go on to after a barrier they reached while others were elsewhere.

        `level` is 1 for CTA barriers, 2 for warp barriers.
        """
        count = len(self.flow.blocks)
        return list(_places(self.end >> level * count & ((1 << count) - 1)))


def _may_jump(flow: ControlFlow, index: int, target: int, state: int) -> bool:
    if target == EXIT:
        return state & ((1 << (3 * len(flow.blocks))) - 1) == 0
    regions = flow.regions
    if target <= index and target in flow.spins:
        return False
    waiting = state & ~(1 << target)
    for head in flow.spins:  # lanes left behind in a spin loop get their turn at the end, wherever the others jump
        if regions[head] < min(index, target):
            waiting &= ~(1 << head)
    if target > index:
        passed = waiting & ((1 << target) - 1)
        return all(block <= index and regions.get(block, -1) >= target for block in _places(passed))
    last = regions[target]
    passed = waiting & ((1 << last + 1) - 1)
    return all(block < target and regions.get(block, -1) >= last for block in _places(passed))


def _places(bits: int) -> Iterator[int]:
    """The places of the bits that are set, lowest first."""
    while bits:
        yield _lowest(bits)
        bits &= bits - 1


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _may_part(block: Block) -> bool:
    """Whether lanes that wait at the block's barrier may be let through at different times."""
    barrier = block.barrier
    return barrier is not None and not is_warp_barrier(barrier) and not is_block_wide(barrier)


class _Finder:
    """The work list of `find_pending`."""

    def __init__(self, flow: ControlFlow, is_uniform: Callable[[Block], bool], partial: bool) -> None:
        count = len(flow.blocks)
        self.flow = flow
        self.is_uniform = is_uniform
        self.count = count
        self.gone = 1 << (3 * count)
        self.body: list[int | None] = [None] * count
        self.check: list[int | None] = [None] * count
        self.after: list[int | None] = [None] * count
        self.end = 0
        self.partly = bool(flow.spins) or any(_may_part(block) for block in flow.blocks)
        self.ending: dict[int, list[int]] = {}
        for head, last in sorted(flow.regions.items(), reverse=True):
            self.ending.setdefault(last, []).append(head)
        # The lowest block first: by the time a later one is looked at, all that flows into it has been joined.
        self.work: list[tuple[int, str]] = []
        self.queued: set[tuple[int, str]] = set()
        self.enter("body", 0, self.gone if partial else 0)

    def enter(self, kind: str, index: int, state: int) -> None:
        states = self.body if kind == "body" else self.check
        old = states[index]
        new = state if old is None else old | state
        if new != old:
            states[index] = new
            if (index, kind) not in self.queued:
                self.queued.add((index, kind))
                heappush(self.work, (index, kind))

    def pass_end(self, index: int, state: int) -> None:
        """Go on after block `index` in layout order."""
        self.after[index] = (self.after[index] or 0) | state
        for head in self.ending.get(index, ()):
            if state >> head & 1:
                self.enter("body", head, state & ~(1 << head))
                if head not in self.flow.spins:
                    state &= ~(1 << head)
        if index + 1 < self.count:
            self.enter("check", index + 1, state)
        elif state | self.end != self.end:
            self.end |= state
            self._resume()

    def _resume(self) -> None:
        """Nobody can go on: those at warp barriers are let through; if there are none, those at CTA barriers.

        Lanes left behind in spin loops go round once more.  With them, or with several barriers, some
        lanes may stay at their barrier while others go on.
        """
        everyone = (1 << self.count) - 1
        at_block, at_warp = self.end >> self.count & everyone, self.end >> 2 * self.count & everyone
        behind, gone = self.end & everyone, self.end & self.gone
        stay = at_block << self.count if self.partly else 0
        if at_warp:
            left = at_warp << 2 * self.count if behind else 0
            self.enter("check", _lowest(at_warp), at_warp | left | at_block << self.count | behind | gone)
        if at_block or behind:
            left = at_warp << 2 * self.count if behind else 0
            self.enter("check", _lowest(at_block | behind), at_block | stay | left | behind | gone)

    def run_check(self, index: int, state: int) -> None:
        others = state & ~(1 << index)
        if state >> index & 1:
            self.enter("body", index, others)
        if others or not state >> index & 1:
            self.pass_end(index, others)

    def run_body(self, index: int, state: int) -> None:
        block = self.flow.blocks[index]
        waiting = state & (self.gone - 1)
        if block.barrier is not None and (waiting or _may_part(block)):
            level = 2 if is_warp_barrier(block.barrier) else 1
            self.pass_end(
                index, state | (1 << (level * self.count + block.taken) if block.taken != EXIT else self.gone)
            )
            return
        targets = [block.taken] if block.fallthrough is None else [block.taken, block.fallthrough]
        together = block.fallthrough is None or self.is_uniform(block)
        if not together:
            for target in targets:
                state |= self.gone if target == EXIT else 1 << target
            self.pass_end(index, state)
            return
        for target in targets:
            if target == EXIT:
                if waiting:
                    self.pass_end(index, state | self.gone)
            elif _may_jump(self.flow, index, target, state):
                self.enter("body", target, state & ~(1 << target))
            else:
                self.pass_end(index, state | 1 << target)

    def run(self) -> Pending:
        while self.work:
            index, kind = heappop(self.work)
            self.queued.remove((index, kind))
            state = (self.body if kind == "body" else self.check)[index]
            assert state is not None
            (self.run_body if kind == "body" else self.run_check)(index, state)
        return Pending(self.flow, tuple(self.body), tuple(self.check), tuple(self.after), self.end)


def find_pending(flow: ControlFlow, is_uniform: Callable[[Block], bool], *, partial: bool) -> Pending:
    """Run the analysis.

    Args:
        flow: The blocks in layout order.
        is_uniform: Whether all lanes of a group take a block's branch the same way.
        partial: Whether a group may hold lanes beyond the end of the thread block.
    """
    return _Finder(flow, is_uniform, partial).run()
