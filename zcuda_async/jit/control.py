"""The code of a group: blocks in layout order, their masks, and barriers as suspend points.

Most groups run most blocks with all their lanes, so every block has a *fast* version without masks.
A fast block whose branch splits the lanes sends them to the *masked* versions: there every block has
a check (is a lane waiting for it?), a body, and a place to go on to.  Where all lanes are known or
found to be together again, masked code goes back to fast code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zcuda_async.jit.cfg import EXIT, Block, is_warp_barrier
from zcuda_async.jit.lower import lowering_of
from zcuda_async.jit.lower.barrier import Barriers, state_field
from zcuda_async.jit.lower.calls import Calls
from zcuda_async.jit.lower.ends import comparison_by_ends, every_lane_takes
from zcuda_async.jit.lower.faults import DEADLOCK, raise_fault
from zcuda_async.jit.lower.group import Group
from zcuda_async.jit.lower.indexed import remember, sources_of_index
from zcuda_async.jit.lower.members import warp_bits
from zcuda_async.jit.shapes import is_branch_uniform
from zcuda_async.jit.sync import CALLS_END, Waiting, is_block_wide
from zcuda_async.ptx.ir import Instruction

__all__ = ("GroupCode",)

Masks = Sequence[str] | None
_CTA, _WARP = 1, 2
"""Kinds of barrier, as `Pending.resumed` counts them."""

_SPIN_TURNS: Final = 4
"""How often lanes go round a spin loop before they let the lanes behind it have a turn."""


class GroupCode:
    """Emits the body of one group function into `group.builder`."""

    def __init__(self, group: Group, *, suspends: bool, waiting: Waiting) -> None:
        self.group = group
        self.spins = group.analysis.flow.spins
        self.barriers = group.barriers = (
            Barriers(group, counts_threads=waiting.counts_threads) if waiting.needs_state else None
        )
        self.builder = group.builder
        self.pending = group.analysis.pending
        self.blocks = group.analysis.flow.blocks
        self.suspends = suspends
        group.suspends = suspends
        self.calls = group.calls = Calls(group) if group.coroutines and suspends else None
        self.kind = group.vector("i1")
        # Blocks that may run with some lanes elsewhere have masks; the others only have a fast version.
        self.waiting = {block.index: self._slots() for block in self.blocks if self.pending.body[block.index]}
        self.at_barrier = {
            level: {block: self._slots() for block in self.pending.resumed(level)} for level in (_CTA, _WARP)
        }
        self.members = {block: self._member_slots() for block in self.at_barrier[_WARP]} if self.spins else {}
        self.is_fast = False

    def _member_slots(self) -> list[str]:
        """For lanes at a warp barrier: the membermask that each waits with."""
        return [self.builder.alloca(str(self.group.vector("i32"))) for _ in range(self.group.parts)]

    def _slots(self) -> list[str]:
        return [self.builder.alloca(str(self.kind)) for _ in range(self.group.parts)]

    # ------------------------------------------------------------------ masks

    def _store(self, slots: Sequence[str], values: Sequence[str]) -> None:
        for slot, value in zip(slots, values, strict=True):
            self.builder.line(f"store {self.kind} {value}, ptr {slot}")

    def _load(self, slots: Sequence[str]) -> list[str]:
        return [self.builder.op(f"load {self.kind}, ptr {slot}") for slot in slots]

    def _clear(self, slots: Sequence[str]) -> None:
        self._store(slots, ["zeroinitializer"] * len(slots))

    def _add(self, slots: Sequence[str], masks: Masks) -> None:
        values = masks or [self.kind.const(1)] * self.group.parts
        old = self._load(slots)
        self._store(
            slots,
            [self.builder.binary("or", self.kind, a, b) for a, b in zip(old, values, strict=True)],
        )

    def _wait_for(self, target: int, masks: Masks) -> None:
        """Lanes will go on at block `target`."""
        if target in self.waiting:
            self._add(self.waiting[target], masks)

    def _threads(self) -> list[str]:
        """Masks of the lanes that are threads, for groups that reach beyond the end of the block."""
        group, builder = self.group, self.builder
        kind = group.vector("i32")
        masks = []
        for part in range(group.parts):
            base = builder.op(f"add i32 %first, {part * group.lanes}")
            index = group.materialise(base, "i32", 1)
            masks.append(builder.compare("icmp ult", kind, index, kind.const(group.geometry.threads)))
        return masks

    # ------------------------------------------------------------------ emission

    def emit(self) -> None:
        """Everything between the function's entry and its end; leaves at label ``finish``."""
        for slots in (*self.waiting.values(), *self.at_barrier[_CTA].values(), *self.at_barrier[_WARP].values()):
            self._clear(slots)
        self._emit_entry()
        for block in self.blocks:
            self._emit_check(block.index)
            self._emit_masked(block)
            self._emit_after(block.index)
            self._emit_fast(block)
        self._emit_end()

    def _emit_entry(self) -> None:
        builder = self.builder
        if self.group.is_function:
            bits = self.group.lanes
            threads = [builder.op(f"bitcast i{bits} %mask.{part} to {self.kind}") for part in range(self.group.parts)]
            self._enter(threads)
            return
        if not self.group.geometry.is_partial:
            if self.barriers is not None:
                self.barriers.start(None)
            builder.line("br label %fast.0")
            return
        threads = self._threads()
        if self.barriers is not None:
            self.barriers.start(threads)
        self._enter(threads)

    def _enter(self, threads: Sequence[str]) -> None:
        """Begin with these lanes."""
        builder = self.builder
        self._store(self.waiting[0], threads)
        builder.line(f"br i1 {self._every(threads)}, label %entry.fast, label %body.0")
        builder.label("entry.fast")
        self._clear(self.waiting[0])
        builder.line("br label %fast.0")

    def _every(self, masks: Sequence[str]) -> str:
        """Whether every lane of every part is set, as i1."""
        builder = self.builder
        total = masks[0]
        for mask in masks[1:]:
            total = builder.binary("and", self.kind, total, mask)
        return builder.op(f"icmp eq i{self.group.lanes} {self.group.mask_bits(total)}, -1")

    def _emit_check(self, index: int) -> None:
        state = self.pending.check[index]
        if state is None:
            return
        builder = self.builder
        builder.label(f"check.{index}")
        others = state & ~(1 << index)
        if not state >> index & 1:
            builder.line(f"br label %after.{index}")
        elif not others:
            builder.line(f"br label %body.{index}")
        else:
            some = self.group.any_of(self._load(self.waiting[index]))
            builder.line(f"br i1 {some}, label %body.{index}, label %after.{index}")

    def _emit_masked(self, block: Block) -> None:
        """The version for when lanes may be elsewhere."""
        state = self.pending.body[block.index]
        if state is None:
            return
        self.builder.label(f"body.{block.index}")
        if not state:
            self.builder.line(f"br label %fast.{block.index}")
            return
        slots = self.waiting[block.index]
        masks = self._load(slots)
        self._clear(slots)
        if self._may_be_together(block.index):
            some = self.builder.block_name("some")
            self.builder.line(f"br i1 {self._every(masks)}, label %fast.{block.index}, label %{some}")
            self.builder.label(some)
        self.is_fast = False
        self._emit_version(block, masks, self.group.analysis.kept(block.index))

    def _emit_fast(self, block: Block) -> None:
        """The version for when all lanes of the group are here."""
        if self.pending.body[block.index] is None:
            return
        self.builder.label(f"fast.{block.index}")
        self.is_fast = True
        self._emit_version(block, None, frozenset())

    def _emit_version(self, block: Block, masks: list[str] | None, kept: frozenset[str]) -> None:
        group = self.group
        group.current = {}
        group.specials = {}
        group.block = block
        group.kept = kept
        group.masks = masks
        by_ends = comparison_by_ends(group, block) if masks is None and block.barrier is None else None
        for instruction in block.instructions:
            if instruction is not by_ends:
                self._emit_instruction(instruction)
        if block.barrier is not None:
            self._emit_barrier(block, block.barrier)
        else:
            self._emit_branch(block, by_ends)

    def _may_be_together(self, index: int) -> bool:
        """Whether it is worth asking if all lanes have come together again: at joins, not in hot loops."""
        return self.pending.may_come_together(index)

    def _emit_instruction(self, instruction: Instruction) -> None:
        lower = lowering_of(instruction)
        if lower is None:
            raise self.group.refuse(instruction, "this instruction is not supported yet")
        index = sources_of_index(self.group, instruction)
        try:
            lower(self.group, instruction)
        except LookupError as error:
            raise self.group.refuse(instruction, f"{error.args[0]} is not supported here yet") from error
        if index is not None:
            remember(self.group, instruction, index)

    def _emit_after(self, index: int) -> None:
        state = self.pending.after[index]
        if state is None:
            return
        builder = self.builder
        builder.label(f"after.{index}")
        for head in self.pending.flow.heads_ending_at(index):
            if not state >> head & 1:
                continue
            rest = builder.block_name("leave")
            some = self.group.any_of(self._load(self.waiting[head])) if head in self.waiting else "true"
            if head in self.spins:
                some = builder.op(f"and i1 {some}, {self._may_go_round()}")
            builder.line(f"br i1 {some}, label %body.{head}, label %{rest}")
            builder.label(rest)
        following = index + 1
        builder.line(f"br label %{'end' if following == len(self.blocks) else f'check.{following}'}")

    def _may_go_round(self) -> str:
        """Whether the lanes in a spin loop go round at once; every few turns they stay behind (i1)."""
        builder = self.builder
        slot = builder.alloca("i32", 4)
        builder.entry_stores.append(f"store i32 0, ptr {slot}")
        turn = builder.op(f"add i32 {builder.op(f'load i32, ptr {slot}')}, 1")
        builder.line(f"store i32 {turn}, ptr {slot}")
        return builder.op(f"icmp ne i32 {builder.op(f'and i32 {turn}, {_SPIN_TURNS - 1}')}, 0")

    # ------------------------------------------------------------------ when no lane can go on

    def _emit_end(self) -> None:
        """No lane can go on: release those at a warp barrier, else those at the block's, else take turns."""
        if self.pending.after[len(self.blocks) - 1] is None:
            return
        self.builder.label("end")
        self._emit_warp_release()
        if self.barriers is None:
            self._emit_release()
        else:
            self._emit_turn(self.barriers)
        self.builder.line("br label %finish")

    def _emit_warp_release(self) -> None:
        builder, slots = self.builder, self.at_barrier[_WARP]
        if not slots:
            return
        blockers = self._blockers()
        moving = {block: self._load(own) for block, own in slots.items()}
        if blockers:
            moving = {block: self._met(block, masks, blockers) for block, masks in moving.items()}
        release, others = builder.block_name("release"), builder.block_name("nobody")
        some = self.group.any_of([mask for masks in moving.values() for mask in masks])
        builder.line(f"br i1 {some}, label %{release}, label %{others}")
        builder.label(release)
        for block, masks in moving.items():
            self._move(slots[block], masks, block)
        builder.line(f"br label %check.{min(slots)}")
        builder.label(others)

    def _blockers(self) -> list[list[str]]:
        """Masks of the lanes that warp barriers have to wait for: those left behind in spin loops."""
        heads = [self._load(self.waiting[head]) for head in self.pending.behind()]
        return heads + [self._load(own) for own in self.at_barrier[_CTA].values()] if heads else []

    def _met(self, block: int, masks: Sequence[str], blockers: Sequence[Sequence[str]]) -> list[str]:
        """Of the lanes at a warp barrier, those whose fellow members are none of `blockers`."""
        group, builder = self.group, self.builder
        per_warp = 32 // group.lanes
        kind = group.vector("i32")
        met = []
        for part, mask in enumerate(masks):
            first = part - part % per_warp
            bits = "0"
            for each in blockers:
                bits = builder.op(f"or i32 {bits}, {warp_bits(group, each[first : first + per_warp])}")
            members = builder.op(f"load {kind}, ptr {self.members[block][part]}")
            absent = builder.binary("and", kind, members, builder.splat(kind, bits))
            met.append(group.both(mask, builder.compare("icmp eq", kind, absent, kind.const(0))))
        return met

    def _move(self, slots: Sequence[str], masks: Sequence[str], block: int) -> None:
        """Lanes that waited in `slots` go on to `block`."""
        for slot, mask in zip(slots, masks, strict=True):
            old = self.builder.op(f"load {self.kind}, ptr {slot}")
            rest = self.builder.binary("xor", self.kind, old, mask)
            self.builder.line(f"store {self.kind} {rest}, ptr {slot}")
        self._wait_for(block, masks)

    def _emit_release(self) -> None:
        """All lanes that are left wait for the same barrier of the block: stop there, then let them through."""
        builder, slots = self.builder, self.at_barrier[_CTA]
        if not slots:
            return
        release, others = builder.block_name("release"), builder.block_name("nobody")
        some = self.group.any_of([mask for each in slots.values() for mask in self._load(each)])
        builder.line(f"br i1 {some}, label %{release}, label %{others}")
        builder.label(release)
        self._suspend()
        for block, own in slots.items():
            self._wait_for(block, self._load(own))
            self._clear(own)
        builder.line(f"br label %check.{min(slots)}")
        builder.label(others)

    def _emit_turn(self, barriers: Barriers) -> None:
        """Let lanes through barriers that have opened and, after the other groups' turn, round spin loops."""
        builder, slots, heads = self.builder, self.at_barrier[_CTA], self.pending.behind()
        if not slots and not heads:
            return
        go, stop, again, others = (builder.block_name(hint) for hint in ("go", "stop", "again", "nobody"))
        builder.line(f"br i1 {self._let_through(barriers)}, label %{go}, label %{stop}")
        builder.label(stop)
        behind = [mask for head in heads for mask in self._load(self.waiting[head])]
        held = [mask for own in slots.values() for mask in self._load(own)]
        held += [mask for own in self.at_barrier[_WARP].values() for mask in self._load(own)] if heads else []
        builder.line(f"br i1 {self.group.any_of(behind + held)}, label %{again}, label %{others}")
        builder.label(again)
        spins = self.group.any_of(behind) if behind else "false"
        sites = [(barriers.sites[block].barrier, self._load(own)) for block, own in slots.items()]
        self._yield(spins, [site for site in sites if not site[0].has(CALLS_END)])
        if self.calls is not None:
            self.calls.go_on()
        through = self._let_through(barriers)
        moves = builder.op(f"or i1 {through}, {spins}") if behind else through
        builder.line(f"br i1 {moves}, label %{go}, label %{stop}")
        builder.label(go)
        builder.line(f"br label %check.{min([*slots, *heads])}")
        builder.label(others)

    def _let_through(self, barriers: Barriers) -> str:
        """Move the lanes whose barrier has opened; whether there were any, as i1."""
        moved: list[str] = []
        for block, own in self.at_barrier[_CTA].items():
            masks = barriers.let_through(barriers.sites[block], self._load(own))
            self._move(own, masks, block)
            moved += masks
        return self.group.any_of(moved) if moved else "false"

    # ------------------------------------------------------------------ leaving a block

    def _go(self, block: Block, target: int, masks: Masks) -> None:
        """All of the block's lanes go to `target`, or away."""
        if target == EXIT:
            self._leave(None if self.is_fast else masks)
        if self.is_fast:
            if target in self.spins and target <= block.index:
                self._yield("true")
            self.builder.line("br label %finish" if target == EXIT else f"br label %fast.{target}")
            return
        waits = (self.pending.body[block.index] or 0) & (self.pending.gone - 1)
        if target == EXIT:
            self.builder.line(f"br label %after.{block.index}" if waits else "br label %finish")
            return
        self._wait_for(target, masks)
        direct = self.pending.jumps(block.index, target)
        self.builder.line(f"br label %body.{target}" if direct else f"br label %after.{block.index}")

    def _leave(self, masks: Masks) -> None:
        """Lanes come to the end: of the kernel, where they are waited for no more, or of a function."""
        if self.group.is_function:
            if self.calls is not None and masks is not None:
                self.calls.leave(self.group, masks)
        elif self.barriers is not None:
            self.barriers.leave(masks)

    def _emit_branch(self, block: Block, by_ends: Instruction | None) -> None:
        """The block's branch; `by_ends` is the comparison that it depends on, if that is still to be made."""
        group, builder = self.group, self.builder
        if block.branch is None or block.branch.guard is None or block.fallthrough is None:
            self._go(block, block.taken, group.masks)
            return
        guard = block.branch.guard
        if is_branch_uniform(block, group.analysis.shapes):
            condition = group.predicate(guard, 0, vector=False)
            taken, other = builder.block_name("taken"), builder.block_name("other")
            builder.line(f"br i1 {condition}, label %{taken}, label %{other}")
            for name, target in ((taken, block.taken), (other, block.fallthrough)):
                builder.label(name)
                self._go(block, target, group.masks)
            return
        if by_ends is not None:
            every, some = builder.block_name("every"), builder.block_name("some")
            builder.line(f"br i1 {every_lane_takes(group, by_ends, guard)}, label %{every}, label %{some}")
            builder.label(every)
            self._go(block, block.taken, None)
            builder.label(some)
            self._emit_instruction(by_ends)
        self._emit_divergence(block)

    def _emit_divergence(self, block: Block) -> None:
        group, builder = self.group, self.builder
        assert block.branch is not None
        assert block.branch.guard is not None
        assert block.fallthrough is not None
        taken, others = [], []
        for part in range(group.parts):
            mask = group.masks[part] if group.masks is not None else None
            truth = group.predicate(block.branch.guard, part, vector=True)
            inverse = builder.binary("xor", self.kind, truth, self.kind.const(1))
            taken.append(group.both(mask, truth))
            others.append(group.both(mask, inverse))
        if self.is_fast:
            self._keep_together(block, taken)
        for target, masks in ((block.taken, taken), (block.fallthrough, others)):
            if target != EXIT:
                self._wait_for(target, masks)
            else:
                self._leave(masks)
        builder.line(f"br label %after.{block.index}")

    def _keep_together(self, block: Block, taken: Sequence[str]) -> None:
        """Stay in fast code if all lanes take the branch, or none does."""
        group, builder = self.group, self.builder
        assert block.fallthrough is not None
        names = [builder.block_name(hint) for hint in ("every", "notevery", "none", "split")]
        builder.line(f"br i1 {self._every(taken)}, label %{names[0]}, label %{names[1]}")
        builder.label(names[0])
        self._go(block, block.taken, None)
        builder.label(names[1])
        builder.line(f"br i1 {group.any_of(taken)}, label %{names[3]}, label %{names[2]}")
        builder.label(names[2])
        self._go(block, block.fallthrough, None)
        builder.label(names[3])

    # ------------------------------------------------------------------ barriers

    def _emit_barrier(self, block: Block, barrier: Instruction) -> None:
        if is_warp_barrier(barrier):
            self._emit_warp_barrier(block, barrier)
            return
        together = self.is_fast or self.pending.is_together(block.index)
        if barrier.has(CALLS_END):
            if self.barriers is not None:
                self.barriers.site(block.taken, barrier)
            self._hold(block, _CTA)
            return
        if self.barriers is None:
            if together:
                self._suspend()
                self._go(block, block.taken, self.group.masks)
            else:
                self._hold(block, _CTA)
            return
        if block.taken == EXIT:
            self.barriers.arrive(barrier, self.group.masks, None)
            self._go(block, EXIT, self.group.masks)
            return
        self.barriers.arrive(barrier, self.group.masks, self.barriers.site(block.taken, barrier))
        if together and is_block_wide(barrier):
            self._wait_here(self.barriers, block)
            self._go(block, block.taken, self.group.masks)
        else:
            self._hold(block, _CTA)

    def _hold(self, block: Block, level: int) -> None:
        """Lanes stay at the block's barrier while others go on."""
        if block.taken != EXIT:
            self._add(self.at_barrier[level][block.taken], self.group.masks)
        self.builder.line(f"br label %after.{block.index}")

    def _emit_warp_barrier(self, block: Block, barrier: Instruction) -> None:
        if self.is_fast or self.pending.is_together(block.index):
            self._go(block, block.taken, self.group.masks)
            return
        if block.taken in self.members:
            kind = self.group.vector("i32")
            for part, slot in enumerate(self.members[block.taken]):
                value = self.group.read(barrier.operands[0], "i32", part, vector=True)
                if self.group.masks is not None:
                    old = self.builder.op(f"load {kind}, ptr {slot}")
                    value = self.builder.select(kind, self.group.masks[part], value, old)
                self.builder.line(f"store {kind} {value}, ptr {slot}")
        self._hold(block, _WARP)

    def _wait_here(self, barriers: Barriers, block: Block) -> None:
        """The whole group waits for one barrier of all threads."""
        builder = self.builder
        ask, wait, opened = (builder.block_name(hint) for hint in ("ask", "wait", "opened"))
        builder.line(f"br label %{ask}")
        builder.label(ask)
        is_open = barriers.is_open(barriers.sites[block.taken])
        builder.line(f"br i1 {is_open}, label %{opened}, label %{wait}")
        builder.label(wait)
        everyone = self.group.masks or [self.kind.const(1)] * self.group.parts
        assert block.barrier is not None
        self._yield("false", [(block.barrier, everyone)])
        builder.line(f"br label %{ask}")
        builder.label(opened)

    # ------------------------------------------------------------------ letting others go on

    def _yield(self, spins: str, held: Sequence[tuple[Instruction, Sequence[str]]] = ()) -> None:
        """Let the other groups of the block, and other blocks, have a turn.

        Args:
            spins: Whether some lanes go round a spin loop, and do not only wait at barriers (i1).
            held: The barriers that lanes wait at, with their masks: for the report of a deadlock.
        """
        builder = self.builder
        if not self.suspends:  # the group is the whole block, and no other block could help
            report = builder.op("call ptr @zcuda.report.start(ptr %worker)")
            builder.line(f"store i32 0, ptr {report}")
            self._report(held)
            raise_fault(builder, DEADLOCK, held[0][0].span.site)
            return
        at = state_field(self.group, "spinning")
        before = builder.op(f"load i32, ptr {at}")
        builder.line(f"store i32 {builder.op(f'or i32 {before}, {self._as_word(spins)}')}, ptr {at}")
        self._suspend()
        if spins != "true":
            self._emit_report(held)

    def _emit_report(self, held: Sequence[tuple[Instruction, Sequence[str]]]) -> None:
        """If nobody can ever go on: say where the lanes wait, and end."""
        builder = self.builder
        stuck = builder.op(f"load volatile i32, ptr {state_field(self.group, 'deadlock')}")
        report, go_on = builder.block_name("report"), builder.block_name("turn")
        builder.line(f"br i1 {builder.op(f'icmp ne i32 {stuck}, 0')}, label %{report}, label %{go_on}, !prof !10")
        builder.label(report)
        if self.calls is not None:  # functions that lanes are in say where they wait, and return
            self.calls.go_on()
        self._report(held)
        builder.line("br label %finish")
        builder.label(go_on)

    def _report(self, held: Sequence[tuple[Instruction, Sequence[str]]]) -> None:
        builder, lanes = self.builder, self.group.lanes
        for barrier, masks in held:
            for part, mask in enumerate(masks):
                bits = builder.op(f"zext i{lanes} {self.group.mask_bits(mask)} to i64")
                first = builder.op(f"add i32 %first, {part * lanes}")
                line = barrier.span.line
                builder.line(f"call void @zcuda.report(ptr %worker, i32 {first}, i32 {line}, i64 {bits})")

    def _as_word(self, flag: str) -> str:
        known = {"true": "1", "false": "0"}.get(flag)
        return known if known is not None else self.builder.op(f"zext i1 {flag} to i32")

    def _suspend(self) -> None:
        """Let the other groups of the block run up to the same barrier."""
        builder = self.builder
        if not self.suspends:
            return
        state = builder.call("i8", "llvm.coro.suspend", [("token", "none"), ("i1", "false")])
        resumed = builder.block_name("resumed")
        builder.line(f"switch i8 {state}, label %suspend [i8 0, label %{resumed} i8 1, label %cleanup]")
        builder.label(resumed)
