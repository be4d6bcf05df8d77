"""The code of a group: blocks in layout order, their masks, and barriers as suspend points.

Most groups run most blocks with all their lanes, so every block has a *fast* version without masks.
A fast block whose branch splits the lanes sends them to the *masked* versions: there every block has
a check (is a lane waiting for it?), a body, and a place to go on to.  Where all lanes are known or
found to be together again, masked code goes back to fast code.
"""

from __future__ import annotations

from collections.abc import Sequence

from zcuda_async.jit.cfg import EXIT, Block, is_warp_barrier
from zcuda_async.jit.lower import lowering_of
from zcuda_async.jit.lower.group import Group
from zcuda_async.ptx.ir import Immediate, Instruction

__all__ = ("GroupCode",)

Masks = Sequence[str] | None
_CTA, _WARP = 1, 2
"""Kinds of barrier, as `Pending.resumed` counts them."""


class GroupCode:
    """Emits the body of one group function into `group.builder`."""

    def __init__(self, group: Group, *, suspends: bool) -> None:
        self.group = group
        self.builder = group.builder
        self.pending = group.analysis.pending
        self.blocks = group.analysis.flow.blocks
        self.suspends = suspends
        self.kind = group.vector("i1")
        # Blocks that may run with some lanes elsewhere have masks; the others only have a fast version.
        self.waiting = {block.index: self._slots() for block in self.blocks if self.pending.body[block.index]}
        self.at_barrier = {
            level: {block: self._slots() for block in self.pending.resumed(level)} for level in (_CTA, _WARP)
        }
        self.is_fast = False

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
        if not self.group.geometry.is_partial:
            builder.line("br label %fast.0")
            return
        threads = self._threads()
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
        for instruction in block.instructions:
            self._emit_instruction(instruction)
        if block.barrier is not None:
            self._emit_barrier(block, block.barrier)
        else:
            self._emit_branch(block)

    def _may_be_together(self, index: int) -> bool:
        """Whether it is worth asking if all lanes have come together again: at joins, not in hot loops."""
        return self.pending.is_together(index)

    def _emit_instruction(self, instruction: Instruction) -> None:
        lower = lowering_of(instruction)
        if lower is None:
            raise self.group.refuse(instruction, "this instruction is not supported yet")
        try:
            lower(self.group, instruction)
        except LookupError as error:
            raise self.group.refuse(instruction, f"{error.args[0]} is not supported here yet") from error

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
            builder.line(f"br i1 {some}, label %body.{head}, label %{rest}")
            builder.label(rest)
        following = index + 1
        builder.line(f"br label %{'end' if following == len(self.blocks) else f'check.{following}'}")

    def _emit_end(self) -> None:
        """No lane can go on: release those at a warp barrier, else stop the group at the CTA barrier."""
        if self.pending.after[len(self.blocks) - 1] is None:
            return
        self.builder.label("end")
        for level in (_WARP, _CTA):
            self._emit_release(level)
        self.builder.line("br label %finish")

    def _emit_release(self, level: int) -> None:
        builder = self.builder
        slots = self.at_barrier[level]
        if not slots:
            return
        release, others = builder.block_name("release"), builder.block_name("nobody")
        some = self.group.any_of([mask for each in slots.values() for mask in self._load(each)])
        builder.line(f"br i1 {some}, label %{release}, label %{others}")
        builder.label(release)
        if level == _CTA:
            self._suspend()
        for block, own in slots.items():
            self._wait_for(block, self._load(own))
            self._clear(own)
        builder.line(f"br label %check.{min(slots)}")
        builder.label(others)

    # ------------------------------------------------------------------ leaving a block

    def _go(self, block: Block, target: int, masks: Masks) -> None:
        """All of the block's lanes go to `target`, or away."""
        if self.is_fast:
            self.builder.line("br label %finish" if target == EXIT else f"br label %fast.{target}")
            return
        waits = (self.pending.body[block.index] or 0) & (self.pending.gone - 1)
        if target == EXIT:
            self.builder.line(f"br label %after.{block.index}" if waits else "br label %finish")
            return
        self._wait_for(target, masks)
        direct = self.pending.jumps(block.index, target)
        self.builder.line(f"br label %body.{target}" if direct else f"br label %after.{block.index}")

    def _emit_branch(self, block: Block) -> None:
        group, builder = self.group, self.builder
        if block.branch is None or block.branch.guard is None or block.fallthrough is None:
            self._go(block, block.taken, group.masks)
            return
        guard = block.branch.guard
        if group.analysis.shapes[guard.register.name].is_uniform:
            condition = group.predicate(guard, 0, vector=False)
            taken, other = builder.block_name("taken"), builder.block_name("other")
            builder.line(f"br i1 {condition}, label %{taken}, label %{other}")
            for name, target in ((taken, block.taken), (other, block.fallthrough)):
                builder.label(name)
                self._go(block, target, group.masks)
            return
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
        level = _WARP if is_warp_barrier(barrier) else _CTA
        if barrier.guard is not None:
            raise self.group.refuse(barrier, "a barrier under a guard is not supported yet")
        if level == _CTA:
            self._check_barrier(barrier)
        if self.is_fast or self.pending.is_together(block.index):
            if level == _CTA:
                self._suspend()
            self._go(block, block.taken, self.group.masks)
            return
        if block.taken != EXIT:
            self._add(self.at_barrier[level][block.taken], self.group.masks)
        self.builder.line(f"br label %after.{block.index}")

    def _check_barrier(self, barrier: Instruction) -> None:
        refuse = self.group.refuse
        if not barrier.has("sync"):
            raise refuse(barrier, "only bar.sync and barrier.sync are supported yet")
        name = barrier.operands[0]
        is_zero = (isinstance(name, Immediate) and name.value == 0) or self.group.shape(name).const == 0
        if not is_zero or len(barrier.operands) > 1:
            raise refuse(barrier, "only barrier 0 over the whole block is supported yet")

    def _suspend(self) -> None:
        """Let the other groups of the block run up to the same barrier."""
        builder = self.builder
        if not self.suspends:
            return
        state = builder.call("i8", "llvm.coro.suspend", [("token", "none"), ("i1", "false")])
        resumed = builder.block_name("resumed")
        builder.line(f"switch i8 {state}, label %suspend [i8 0, label %{resumed} i8 1, label %cleanup]")
        builder.label(resumed)
