"""Arriving at barriers, being let through, and leaving for good (PTX ISA 9.7.13.1: bar, barrier).

Each barrier has an entry in the block's state (`blockstate`).  Lanes that arrive add themselves to it
and remember its generation; they may go on when it has changed.  A barrier of all threads, met by a
group whose lanes are all there, is one addition and one comparison.  One with a thread count is met
warp by warp, because the warps of a group may belong to different rounds of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.blockstate import ENTRY_FIELDS, STATE_FIELDS, entry_offset, result_offset
from zcuda_async.jit.builder import Type
from zcuda_async.jit.lower.members import lane_mask, take_turns, warp_bits
from zcuda_async.jit.shapes import UNIFORM, VARYING
from zcuda_async.jit.sync import CALLS_END, CLUSTER_BARRIER, RESULT, barrier_operands, is_block_wide
from zcuda_async.ptx.ir import Guard, Immediate, Instruction, Register

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group

__all__ = ("BARRIER", "Barriers", "Site", "state_field")

Masks = Sequence[str] | None
_WARP: Final = 32
_I32: Final = Type("i32")


def state_field(group: Group, name: str, state: str = "%state") -> str:
    """Address of a field of a block's state."""
    return group.builder.op(f"getelementptr i8, ptr {state}, i64 {STATE_FIELDS[name][0]}")


@dataclass(frozen=True, slots=True)
class Site:
    """What lanes that wait at one barrier instruction remember: its generation and, if not fixed, its name.

    `generation` is one i32 slot where all threads of the block wait together, else `generations` and
    `names` are a slot of a vector for each part.
    """

    barrier: Instruction
    generation: str
    generations: tuple[str, ...]
    names: tuple[str, ...]


class Barriers:
    """Barrier code of one group."""

    def __init__(self, group: Group, *, counts_threads: bool) -> None:
        self.group = group
        self.sites: dict[int, Site] = {}
        self._cluster_generation = ""
        self.alive = "null"
        """Where the lanes are noted that have not exited, for functions that are called out of line."""
        self._alive: list[str] = []
        self._arrived = self._arrival_slots() if group.in_cluster and not group.is_function else []
        if counts_threads:
            self.alive = "%alive" if group.is_function else group.builder.alloca(f"[{group.parts} x i64]", 8)
            places = (f"getelementptr i64, ptr {self.alive}, i64 {part}" for part in range(group.parts))
            self._alive = [group.builder.hoist(place) for place in places]

    def _arrival_slots(self) -> list[str]:
        """The generation of the cluster's barrier that each lane has arrived at, until it waits there; else -1."""
        builder, kind = self.group.builder, self.group.vector("i32")
        slots = [builder.alloca(str(kind)) for _ in range(self.group.parts)]
        builder.entry_stores += [f"store {kind} {kind.const(-1)}, ptr {slot}" for slot in slots]
        return slots

    def _note_arrival(self, masks: Masks, generation: str) -> None:
        builder, kind = self.group.builder, self.group.vector("i32")
        for part, slot in enumerate(self._arrived):
            value = builder.splat(kind, generation)
            if masks is not None:
                value = builder.select(kind, masks[part], value, builder.op(f"load {kind}, ptr {slot}"))
            builder.line(f"store {kind} {value}, ptr {slot}")

    def _take_back(self, masks: Masks) -> None:
        """Lanes that exit after they have arrived at the cluster's barrier, and before it opens: one less is wanted."""
        builder, kind = self.group.builder, self.group.vector("i32")
        entry = builder.op(f"getelementptr i8, ptr {self._leader()}, i64 {entry_offset(CLUSTER_BARRIER)}")
        now = builder.splat(kind, builder.op(f"load i32, ptr {entry}"))
        found = []
        for part, slot in enumerate(self._arrived):
            same = builder.compare("icmp eq", kind, builder.op(f"load {kind}, ptr {slot}"), now)
            found.append(same if masks is None else self.group.both(masks[part], same))
        at = builder.op(f"getelementptr i8, ptr {entry}, i64 {ENTRY_FIELDS['arrived']}")
        rest = builder.op(f"sub i32 {builder.op(f'load i32, ptr {at}')}, {self._bits_set(found)}")
        builder.line(f"store i32 {rest}, ptr {at}")

    def start(self, threads: Masks) -> None:
        """On entry: the lanes that are threads."""
        kind = self.group.vector("i1")
        for part, slot in enumerate(self._alive):
            mask = threads[part] if threads is not None else kind.const(1)
            self.group.builder.line(f"store {kind} {mask}, ptr {slot}")

    def site(self, target: int, barrier: Instruction) -> Site:
        """The memory of the lanes that wait to go on to block `target`."""
        if target not in self.sites:
            builder, parts = self.group.builder, range(self.group.parts)
            kind = str(self.group.vector("i32"))
            if barrier.has(CALLS_END):
                self.sites[target] = Site(barrier, "", (), ())
            elif barrier.operands[0] == Immediate(CLUSTER_BARRIER):
                self.sites[target] = Site(barrier, self._cluster_slot(), (), ())
            elif is_block_wide(barrier):
                self.sites[target] = Site(barrier, builder.alloca("i32", 4), (), ())
            else:
                slots = [tuple(builder.alloca(kind) for _ in parts) for _ in range(2)]
                self.sites[target] = Site(barrier, "", *slots)
        return self.sites[target]

    def _cluster_slot(self) -> str:
        """Where the group remembers its arrival at the cluster's barrier until it waits there."""
        if not self._cluster_generation:
            self._cluster_generation = self.group.builder.alloca("i32", 4)
        return self._cluster_generation

    # ------------------------------------------------------------------ arriving

    def arrive(self, barrier: Instruction, masks: Masks, site: Site | None) -> None:
        """The lanes of `masks` come to a barrier; `site` (None for ``bar.arrive``) remembers its generation."""
        builder = self.group.builder
        name, _, vote = barrier_operands(barrier)
        if not is_block_wide(barrier):
            for first in range(0, self.group.parts, _WARP // self.group.lanes):
                self._arrive_warp(barrier, masks, site, range(first, first + _WARP // self.group.lanes))
            return
        assert isinstance(name, Immediate)
        if barrier.has("cluster"):
            self._note_arrival(masks, "-1")
            return  # a wait, whose arrival was an instruction of its own
        n = self._count(masks)
        trues, falses = self._votes(barrier, vote, masks, n)
        generation = self._call_arrive(str(name.value), "0", n, trues, falses)
        if site is not None:
            builder.line(f"store i32 {generation}, ptr {site.generation}")
        elif name.value == CLUSTER_BARRIER:
            builder.line(f"store i32 {generation}, ptr {self._cluster_slot()}")
            self._note_arrival(masks, generation)

    def _call_arrive(self, name: str, count: str, n: str, trues: str, falses: str) -> str:
        builder = self.group.builder
        state, live = "%state", state_field(self.group, "live")
        if name == str(CLUSTER_BARRIER):
            state = self._leader()
            live = state_field(self.group, "cluster_live", state)
        given = ", ".join(f"i32 {value}" for value in (name, count, n, trues, falses))
        return builder.op(f"call i32 @zcuda.arrive(ptr {state}, ptr {live}, {given})")

    def _leader(self) -> str:
        return self.group.builder.op(f"load ptr, ptr {state_field(self.group, 'leader')}")

    def _count(self, masks: Masks) -> str:
        """How many lanes, as an i32."""
        if masks is None:
            return str(self.group.geometry.width)
        return self._bits_set(masks)

    def _bits_set(self, masks: Sequence[str]) -> str:
        builder, total = self.group.builder, "0"
        for mask in masks:
            kind = Type(f"i{self.group.lanes}")
            bits = builder.intrinsic("ctpop", kind, self.group.mask_bits(mask))
            total = builder.op(f"add i32 {total}, {builder.cast('zext', kind, bits, _I32)}")
        return total

    def _votes(self, barrier: Instruction, vote: int | None, masks: Masks, n: str) -> tuple[str, str]:
        if vote is None:
            return "0", "0"
        group, register = self.group, barrier.operands[vote]
        if isinstance(register, Immediate):
            truth = bool(register.value) != (vote in barrier.negated_operands)
            return (n, "0") if truth else ("0", n)
        assert isinstance(register, Register)
        guard = Guard(register, vote in barrier.negated_operands)
        for_parts = [group.predicate(guard, part, vector=True) for part in range(group.parts)]
        if masks is not None:
            for_parts = [group.both(mask, truth) for mask, truth in zip(masks, for_parts, strict=True)]
        trues = self._bits_set(for_parts)
        return trues, group.builder.op(f"sub i32 {n}, {trues}")

    # ------------------------------------------------------------------ arriving warp by warp

    def _arrive_warp(self, barrier: Instruction, masks: Masks, site: Site | None, parts: range) -> None:
        """One warp: a turn for each barrier that its lanes name (nearly always a single one)."""
        group, builder = self.group, self.group.builder
        name, count, vote = barrier_operands(barrier)
        vector = Type("i32", _WARP)

        def whole(operand: object) -> str:
            each = [group.read(operand, "i32", part, vector=True) for part in parts]  # type: ignore[arg-type]
            return builder.concat(group.vector("i32"), each)[1]

        names = whole(name)
        counts = whole(count) if count is not None else vector.const(0)
        voters = warp_bits(group, [self._voting(barrier, vote, part) for part in parts]) if vote is not None else "0"
        alive = warp_bits(group, [self._load_mask(self._alive[part]) for part in parts])
        here = warp_bits(group, [masks[part] for part in parts]) if masks is not None else alive

        def turn(lane: str) -> tuple[str, list[str]]:
            own = builder.op(f"and i32 {group.lane_of(vector, names, lane)}, 15")
            same = builder.compare("icmp eq", vector, names, builder.splat(vector, group.lane_of(vector, names, lane)))
            bits = builder.op(f"and i32 {here}, {builder.op(f'bitcast <{_WARP} x i1> {same} to i32')}")
            wanted = group.lane_of(vector, counts, lane)
            trues = self._popcount(builder.op(f"and i32 {bits}, {voters}"))
            falses = builder.op(f"sub i32 {self._popcount(bits)}, {trues}") if vote is not None else "0"
            generation = self._call_arrive(own, wanted, self._weight(bits, alive, wanted), trues, falses)
            return bits, [builder.splat(vector, generation), builder.splat(vector, own)]

        generations, own_names = take_turns(group, here, (vector, vector), turn)
        if site is not None:
            self._remember(site, parts, here, generations, own_names)

    def _voting(self, barrier: Instruction, vote: int, part: int) -> str:
        register = barrier.operands[vote]
        assert isinstance(register, Register)
        return self.group.predicate(Guard(register, vote in barrier.negated_operands), part, vector=True)

    def _weight(self, bits: str, alive: str, wanted: str) -> str:
        """A thread count counts whole warps: the lane that stands for its warp brings those that have exited along."""
        builder = self.group.builder
        first = builder.op(f"and i32 {alive}, {builder.op(f'sub i32 0, {alive}')}")
        stands = builder.op(f"icmp ne i32 {builder.op(f'and i32 {first}, {bits}')}, 0")
        counted = builder.op(f"icmp ne i32 {wanted}, 0")
        gone = builder.op(f"sub i32 {_WARP}, {self._popcount(alive)}")
        extra = builder.op(f"select i1 {builder.op(f'and i1 {stands}, {counted}')}, i32 {gone}, i32 0")
        return builder.op(f"add i32 {self._popcount(bits)}, {extra}")

    def _remember(self, site: Site, parts: range, here: str, generations: str, names: str) -> None:
        builder, lanes = self.group.builder, self.group.lanes
        whole, kind = Type("i32", _WARP), self.group.vector("i32")
        came = lane_mask(self.group, here)
        for index, part in enumerate(parts):
            mask = builder.slice(whole.of("i1"), came, index * lanes, lanes)
            for slot, values in ((site.generations[part], generations), (site.names[part], names)):
                old = builder.op(f"load {kind}, ptr {slot}")
                value = builder.slice(whole, values, index * lanes, lanes)
                builder.line(f"store {kind} {builder.select(kind, mask, value, old)}, ptr {slot}")

    def _popcount(self, bits: str) -> str:
        return self.group.builder.intrinsic("ctpop", _I32, bits)

    def _load_mask(self, slot: str) -> str:
        return self.group.builder.op(f"load {self.group.vector('i1')}, ptr {slot}")

    # ------------------------------------------------------------------ going on

    def is_open(self, site: Site) -> str:
        """Whether the barrier of a site where all wait together has opened, as i1."""
        builder = self.group.builder
        name = site.barrier.operands[0]
        assert isinstance(name, Immediate)
        state = self._leader() if name.value == CLUSTER_BARRIER else "%state"
        at = builder.op(f"getelementptr i8, ptr {state}, i64 {entry_offset(int(name.value))}")
        now = builder.op(f"load volatile i32, ptr {at}")
        return builder.op(f"icmp ne i32 {now}, {builder.op(f'load i32, ptr {site.generation}')}")

    def let_through(self, site: Site, waiting: Sequence[str]) -> list[str]:
        """Of the lanes in `waiting` (masks by part), those whose barrier has opened."""
        builder, kind = self.group.builder, self.group.vector("i32")
        truth = self.group.vector("i1")
        if site.barrier.has(CALLS_END):
            return self.group.calls.returned(waiting) if self.group.calls is not None else list(waiting)
        if site.generation:
            everyone = builder.splat(truth, self.is_open(site))
            return [self.group.both(everyone, mask) for mask in waiting]
        found = []
        for part, mask in enumerate(waiting):
            names = builder.op(f"load {kind}, ptr {site.names[part]}")
            offsets = builder.binary("mul", kind, names, kind.const(entry_offset(1) - entry_offset(0)))
            now = self._gather(offsets, entry_offset(0), mask)
            then = builder.op(f"load {kind}, ptr {site.generations[part]}")
            found.append(self.group.both(mask, builder.compare("icmp ne", kind, now, then)))
        return found

    def _gather(self, offsets: str, start: int, mask: str) -> str:
        builder, kind = self.group.builder, self.group.vector("i32")
        base = builder.op(f"getelementptr i8, ptr %state, i64 {start}")
        pointers = builder.op(f"getelementptr i8, ptr {base}, {kind} {offsets}")
        return builder.call(
            kind,
            f"llvm.masked.gather.{kind.suffix}.v{kind.lanes}p0",
            [(f"<{kind.lanes} x ptr>", pointers), ("i32", "4"), (kind.of("i1"), mask), (kind, "zeroinitializer")],
        )

    def leave(self, masks: Masks) -> None:
        """Lanes exit: nobody waits for them any more."""
        builder, kind = self.group.builder, self.group.vector("i1")
        if self._arrived:
            self._take_back(masks)
        builder.line(f"call void @zcuda.leave(ptr %state, i32 {self._count(masks)})")
        for part, slot in enumerate(self._alive):
            inverse = builder.binary("xor", kind, masks[part], kind.const(1)) if masks is not None else kind.const(0)
            rest = self.group.both(self._load_mask(slot), inverse)
            builder.line(f"store {kind} {rest}, ptr {slot}")

    # ------------------------------------------------------------------ votes

    def result(self, instruction: Instruction) -> None:
        """`sync.RESULT`: what the barrier that was just passed has counted."""
        group, builder = self.group, self.group.builder
        assert group.block is not None
        site = self.sites[group.block.index]
        which = 4 if instruction.has("and") else 0
        if not site.generation:
            self._result_by_lane(instruction, site, which)
            return
        name = site.barrier.operands[0]
        assert isinstance(name, Immediate)
        turn = builder.op(f"and i32 {builder.op(f'load i32, ptr {site.generation}')}, 3")
        base = builder.op(f"getelementptr i8, ptr %state, i64 {result_offset(int(name.value)) + which}")
        at = builder.op(f"getelementptr i64, ptr {base}, i32 {turn}")
        votes = builder.op(f"load i32, ptr {at}")
        elem, value = "i32", votes
        if not instruction.has("popc"):
            elem = "i1"
            value = builder.op(f"icmp {'eq' if which else 'ne'} i32 {votes}, 0")
        group.write(instruction.operands[0], [value], elem, UNIFORM, None)

    def _result_by_lane(self, instruction: Instruction, site: Site, which: int) -> None:
        group, builder, kind = self.group, self.group.builder, self.group.vector("i32")
        values = []
        for part in range(group.parts):
            names = builder.op(f"load {kind}, ptr {site.names[part]}")
            generations = builder.op(f"load {kind}, ptr {site.generations[part]}")
            turns = builder.binary("and", kind, generations, kind.const(3))
            offsets = builder.binary("mul", kind, names, kind.const(result_offset(1) - result_offset(0)))
            offsets = builder.binary("add", kind, offsets, builder.binary("shl", kind, turns, kind.const(3)))
            mask = group.active(instruction, part) or group.vector("i1").const(1)
            votes = self._gather(offsets, result_offset(0) + which, mask)
            if not instruction.has("popc"):
                votes = builder.compare(f"icmp {'eq' if which else 'ne'}", kind, votes, kind.const(0))
            values.append(votes)
        group.write(instruction.operands[0], values, "i32" if instruction.has("popc") else "i1", VARYING, None)


def arrive(group: Group, instruction: Instruction) -> None:
    """``bar.arrive`` and ``barrier.cluster.arrive``: be counted, and go on."""
    assert group.barriers is not None
    masks = None
    if group.masks is not None or instruction.guard is not None:
        masks = [group.active(instruction, part) or group.vector("i1").const(1) for part in range(group.parts)]
    group.barriers.arrive(instruction, masks, None)


def result(group: Group, instruction: Instruction) -> None:
    """See `Barriers.result`."""
    assert group.barriers is not None
    group.barriers.result(instruction)


BARRIER: Final[dict[str, Lowering]] = {"bar": arrive, "barrier": arrive, RESULT: result}
