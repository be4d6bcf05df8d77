"""The loop that runs blocks whose threads wait for each other in more ways than one barrier.

Groups are coroutines, as in `function`, but here they stop for several reasons: a barrier that has not
opened, a spin loop that lets others go on.  Each resident block has a slot in the worker's scratch
memory: its groups' handles, its `blockstate`, its shared memory and its groups' frames.  A pass resumes
every group of every resident block once.  When nobody moved, another block is started beside them,
so blocks may wait for blocks that come later (a grid-wide barrier, say); when all threads of a block
wait at barriers, nobody can ever open them: that is reported as a deadlock.
"""

from __future__ import annotations

from typing import Final

from zcuda_async.jit.abi import LAUNCH_FIELDS, REPORT_SIZE, WORKER_FIELDS
from zcuda_async.jit.blockstate import STATE_FIELDS, STATE_SIZE
from zcuda_async.jit.builder import Builder
from zcuda_async.jit.lower.faults import DEADLOCK, raise_fault
from zcuda_async.jit.lower.group import Group

__all__ = ("REPORT_HELPER", "scheduled_runner")

_PAGE: Final = 4096
_NO_BLOCK: Final = -1
_VARIABLES: Final = (
    "slot",
    "slots",
    "slot.size",
    "group",
    "live",
    "moved",
    "spun",
    "any.live",
    "exhausted",
    "free",
    "claimed",
)

REPORT_HELPER: Final = f"""
define internal ptr @zcuda.report.start(ptr %worker) noinline {{
  %scratch.at = getelementptr i8, ptr %worker, i64 {WORKER_FIELDS["scratch"][0]}
  %scratch = load i64, ptr %scratch.at
  %size.at = getelementptr i8, ptr %worker, i64 {WORKER_FIELDS["scratch_size"][0]}
  %size = load i64, ptr %size.at
  %end = add i64 %scratch, %size
  %start = sub i64 %end, {REPORT_SIZE}
  %report = inttoptr i64 %start to ptr
  ret ptr %report
}}

define internal void @zcuda.report(ptr %worker, i32 %thread, i32 %line, i64 %mask) noinline {{
  %nobody = icmp eq i64 %mask, 0
  br i1 %nobody, label %done, label %some
some:
  %report = call ptr @zcuda.report.start(ptr %worker)
  %count = load i32, ptr %report
  %room = icmp ult i32 %count, {REPORT_SIZE // 16 - 1}
  br i1 %room, label %write, label %done
write:
  %next = add i32 %count, 1
  store i32 %next, ptr %report
  %wide = zext i32 %next to i64
  %offset = mul i64 %wide, 16
  %record = getelementptr i8, ptr %report, i64 %offset
  store i32 %thread, ptr %record
  %line.at = getelementptr i8, ptr %record, i64 4
  store i32 %line, ptr %line.at
  %mask.at = getelementptr i8, ptr %record, i64 8
  store i64 %mask, ptr %mask.at
  br label %done
done:
  ret void
}}
"""


class _Runner:
    """Emits ``i32 entry(Launch*, Worker*)``; variables are stack slots, which LLVM promotes."""

    def __init__(self, group: Group, entry: str, *, clusters: bool) -> None:
        self.b = Builder()
        self.geometry = geometry = group.geometry
        self.static_shared = group.layout.static_shared
        self.has_calls, self.has_frames = group.has_calls, bool(group.coroutines)
        self.clusters = clusters
        self.handles_size = -(-geometry.groups * 8 // 64) * 64
        self.variables: list[str] = []
        self.entry = entry

    # ------------------------------------------------------------------ small pieces

    def variable(self, name: str, kind: str = "i64") -> None:
        self.variables.append(f"  %var.{name} = alloca {kind}, align 8")

    def get(self, name: str, kind: str = "i64") -> str:
        return self.b.op(f"load {kind}, ptr %var.{name}")

    def set(self, name: str, value: str, kind: str = "i64") -> None:
        self.b.line(f"store {kind} {value}, ptr %var.{name}")

    def at(self, base: str, table: dict[str, tuple[int, str]], name: str) -> str:
        return self.b.op(f"getelementptr i8, ptr {base}, i64 {table[name][0]}")

    def load(self, base: str, table: dict[str, tuple[int, str]], name: str) -> str:
        return self.b.op(f"load {table[name][1]}, ptr {self.at(base, table, name)}")

    def put(self, state: str, name: str, value: str) -> None:
        self.b.line(f"store {STATE_FIELDS[name][1]} {value}, ptr {self.at(state, STATE_FIELDS, name)}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        self.b.line(f"br i1 {condition}, label %{yes}, label %{no}")

    def go(self, label: str) -> None:
        self.b.line(f"br label %{label}")

    # ------------------------------------------------------------------ the parts of the loop

    def emit(self) -> Builder:
        b = self.b
        b.declarations |= {"declare void @llvm.coro.resume(ptr)", "declare i1 @llvm.coro.done(ptr)"}
        for name in _VARIABLES:
            self.variable(name)
        self.variable("bump", "ptr")
        self._emit_start()
        self._emit_pass()
        self._emit_slot()
        self._emit_groups()
        self._emit_outcome()
        self._emit_after_pass()
        self._emit_deadlock()
        self._emit_claim()
        self._emit_block()
        self._emit_done()
        head = [f"define i32 @{self.entry}(ptr noalias %launch, ptr noalias %worker) #0 {{", "entry:"]
        b.lines = [*head, *self.variables, *b.lines, "}"]
        return b

    def _emit_start(self) -> None:
        self._emit_start_values()
        for name in ("slots", "slot.size", "exhausted"):
            self.set(name, "0")
        self.go("pass")

    def _emit_start_values(self) -> None:
        b = self.b
        self.scratch = self.load("%worker", WORKER_FIELDS, "scratch")
        size = self.load("%worker", WORKER_FIELDS, "scratch_size")
        if self.has_frames:
            b.line("call void @zcuda.frames.start(ptr %worker)")
            b.declarations.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        if self.has_calls:  # whose stack begins in the middle
            size = b.op(f"lshr i64 {size}, 1")
        self.limit = b.op(f"sub i64 {b.op(f'add i64 {self.scratch}, {size}')}, {REPORT_SIZE}")
        self.total = self.load("%launch", LAUNCH_FIELDS, "total_blocks")
        self.grid_x, self.grid_y = (
            b.op(f"zext i32 {self.load('%launch', LAUNCH_FIELDS, name)} to i64") for name in ("grid_x", "grid_y")
        )
        dynamic = b.op(f"zext i32 {self.load('%launch', LAUNCH_FIELDS, 'dynamic_shared')} to i64")
        shared = b.op(f"add i64 {dynamic}, {self.static_shared + 255}")
        self.shared_size = b.op(f"and i64 {shared}, -256")

    def _emit_pass(self) -> None:
        self.b.label("pass")
        for name in ("slot", "moved", "spun", "any.live"):
            self.set(name, "0")
        self.go("slots")

    def _base(self, slot: str) -> str:
        offset = self.b.op(f"mul i64 {slot}, {self.get('slot.size')}")
        return self.b.op(f"inttoptr i64 {self.b.op(f'add i64 {self.scratch}, {offset}')} to ptr")

    def _state(self, base: str) -> str:
        return self.b.op(f"getelementptr i8, ptr {base}, i64 {self.handles_size}")

    def _emit_slot(self) -> None:
        b = self.b
        b.label("slots")
        slot = self.get("slot")
        self.branch(b.op(f"icmp ult i64 {slot}, {self.get('slots')}"), "slot", "passed")
        b.label("slot")
        self.base = self._base(slot)
        self.state = self._state(self.base)
        index = self.load(self.state, STATE_FIELDS, "index")
        self.branch(b.op(f"icmp eq i64 {index}, {_NO_BLOCK}"), "slot.next", "slot.run")
        b.label("slot.run")
        b.line(f"store volatile i64 {index}, ptr {self.at('%worker', WORKER_FIELDS, 'block')}, align 8")
        for name in ("progress", "spinning"):
            self.put(self.state, name, "0")
        self.set("live", "0")
        self.set("group", "0")
        self.go("groups")

    def _emit_groups(self) -> None:
        b = self.b
        b.label("groups")
        group = self.get("group")
        handle = b.op(f"load ptr, ptr {b.op(f'getelementptr ptr, ptr {self.base}, i64 {group}')}")
        self.branch(b.op(f"call i1 @llvm.coro.done(ptr {handle})"), "group.next", "group.resume")
        b.label("group.resume")
        b.line(f"call void @llvm.coro.resume(ptr {handle})")
        done = b.op(f"zext i1 {b.op(f'call i1 @llvm.coro.done(ptr {handle})')} to i64")
        self.set("moved", b.op(f"or i64 {self.get('moved')}, {done}"))
        self.put(
            self.state,
            "progress",
            b.op(f"or i32 {self.load(self.state, STATE_FIELDS, 'progress')}, {b.op(f'trunc i64 {done} to i32')}"),
        )
        self.set("live", b.op(f"or i64 {self.get('live')}, {b.op(f'xor i64 {done}, 1')}"))
        self.go("group.next")
        b.label("group.next")
        following = b.op(f"add i64 {group}, 1")
        self.set("group", following)
        self.branch(b.op(f"icmp ult i64 {following}, {self.geometry.groups}"), "groups", "slot.ran")

    def _emit_outcome(self) -> None:
        """What became of a block in this pass: it ended, moved, spins, or is stuck for ever."""
        b = self.b
        b.label("slot.ran")
        self.branch(b.op(f"icmp eq i64 {self.get('live')}, 0"), "slot.ended", "slot.lives")
        b.label("slot.ended")
        self.put(self.state, "index", str(_NO_BLOCK))
        self.go("slot.next")
        b.label("slot.lives")
        self.set("any.live", "1")
        progress, spinning = (self.load(self.state, STATE_FIELDS, name) for name in ("progress", "spinning"))
        for name, flag in (("moved", progress), ("spun", spinning)):
            self.set(name, b.op(f"or i64 {self.get(name)}, {b.op(f'zext i32 {flag} to i64')}"))
        sign = b.op(f"or i32 {progress}, {spinning}")
        stuck = "slot.next" if self.clusters else "deadlock"
        self.branch(b.op(f"icmp eq i32 {sign}, 0"), stuck, "slot.next")
        b.label("slot.next")
        self.set("slot", b.op(f"add i64 {self.get('slot')}, 1"))
        self.go("slots")

    def _emit_deadlock(self) -> None:
        """Have every group of the block (or cluster) that waits say where, then fault."""
        b = self.b
        b.label("deadlock")
        b.line(f"store i32 0, ptr {b.op('call ptr @zcuda.report.start(ptr %worker)')}")
        self.go("stuck.slot")
        b.label("stuck.slot")
        slot = self.get("slot")
        base = self._base(slot)
        state = self._state(base)
        index = self.load(state, STATE_FIELDS, "index")
        self.branch(b.op(f"icmp eq i64 {index}, {_NO_BLOCK}"), "stuck.ended", "stuck.groups")
        b.label("stuck.groups")
        self.put(state, "deadlock", "1")
        self.set("group", "0")
        self.go("stuck")
        b.label("stuck")
        group = self.get("group")
        handle = b.op(f"load ptr, ptr {b.op(f'getelementptr ptr, ptr {base}, i64 {group}')}")
        self.branch(b.op(f"call i1 @llvm.coro.done(ptr {handle})"), "stuck.next", "stuck.resume")
        b.label("stuck.resume")
        b.line(f"call void @llvm.coro.resume(ptr {handle})")
        self.go("stuck.next")
        b.label("stuck.next")
        following = b.op(f"add i64 {group}, 1")
        self.set("group", following)
        self.branch(b.op(f"icmp ult i64 {following}, {self.geometry.groups}"), "stuck", "stuck.ended")
        b.label("stuck.ended")
        after = b.op(f"add i64 {slot}, 1")
        self.set("slot", after)
        more = b.op(f"icmp ult i64 {after}, {self.get('slots')}") if self.clusters else "false"
        self.branch(more, "stuck.slot", "stuck.all")
        b.label("stuck.all")
        report = b.op("call ptr @zcuda.report.start(ptr %worker)")
        line = b.op(f"load i32, ptr {b.op(f'getelementptr i8, ptr {report}, i64 20')}")
        raise_fault(b, DEADLOCK, b.op(f"zext i32 {line} to i64"))
        self.go("done")

    def _emit_after_pass(self) -> None:
        b = self.b
        b.label("passed")
        stop = b.op(f"load atomic volatile i32, ptr {self.at('%launch', LAUNCH_FIELDS, 'stop')} monotonic, align 4")
        self.branch(b.op(f"icmp ne i32 {stop}, 0"), "done", "go.on")
        b.label("go.on")
        lives = b.op(f"icmp ne i64 {self.get('any.live')}, 0")
        if self.clusters:
            self._note_cluster_progress()
        moves = b.op(f"icmp ne i64 {self.get('moved')}, 0")
        if self.clusters:  # one at a time
            self.set("slot", "0")
            b.line(f"br i1 {lives}, label %cluster.lives, label %more")
            b.label("cluster.lives")
            spins = b.op(f"icmp ne i64 {self.get('spun')}, 0")
            self.branch(b.op(f"or i1 {moves}, {spins}"), "pass", "deadlock")
        else:
            self.branch(b.op(f"and i1 {lives}, {moves}"), "pass", "more")
        b.label("more")
        self.branch(b.op(f"icmp ne i64 {self.get('exhausted')}, 0"), "no.more", "look")
        b.label("no.more")
        self.branch(b.op(f"icmp ne i64 {self.get('any.live')}, 0"), "pass", "done")

    def _note_cluster_progress(self) -> None:
        """Whoever opens the cluster's barrier says so in the state of the first block, which may have had its turn."""
        leader = self._state(self._base("0"))
        progress = self.b.op(f"zext i32 {self.load(leader, STATE_FIELDS, 'progress')} to i64")
        self.set("moved", self.b.op(f"or i64 {self.get('moved')}, {progress}"))
        self.put(leader, "progress", "0")

    def _emit_claim(self) -> None:
        """Find a slot, and a block to run in it."""
        b = self.b
        b.label("look")
        self.set("free", "0")
        self.go("looking")
        b.label("looking")
        slot = self.get("free")
        self.branch(b.op(f"icmp ult i64 {slot}, {self.get('slots')}"), "try", "add")
        b.label("try")
        index = self.load(self._state(self._base(slot)), STATE_FIELDS, "index")
        self.branch(b.op(f"icmp eq i64 {index}, {_NO_BLOCK}"), "claim", "try.next")
        b.label("try.next")
        self.set("free", b.op(f"add i64 {slot}, 1"))
        self.go("looking")
        b.label("add")
        count = b.op(f"add i64 {slot}, 1")
        size = b.op(f"mul i64 {count}, {self.get('slot.size')}")
        end = b.op(f"add i64 {self.scratch}, {size}")
        self.branch(b.op(f"icmp ule i64 {end}, {self.limit}"), "claim", "no.more")
        b.label("claim")
        self._emit_take("1")

    def _emit_take(self, count: str) -> None:
        """Claim the next blocks; go on at ``block``."""
        b = self.b
        next_block = self.at("%launch", LAUNCH_FIELDS, "next_block")
        claimed = b.op(f"atomicrmw add ptr {next_block}, i64 {count} monotonic, align 8")
        self.set("claimed", claimed)
        self.branch(b.op(f"icmp ult i64 {claimed}, {self.total}"), "block", "none.left")
        b.label("none.left")
        self.set("exhausted", "1")
        self.go("no.more")

    def _emit_block(self) -> None:
        """Start the claimed block."""
        b = self.b
        b.label("block")
        index, slot = self.get("claimed"), self.get("free")
        fresh = b.op(f"icmp eq i64 {slot}, {self.get('slots')}")
        grown = b.op(f"add i64 {slot}, 1")
        self.set("slots", b.op(f"select i1 {fresh}, i64 {grown}, i64 {self.get('slots')}"))
        base = self._base(slot)
        state = self._state(base)
        place = self._place(index)
        self._initialise(state, index, place)
        above = b.op(f"getelementptr i8, ptr {state}, i64 {STATE_SIZE}")
        b.line(f"store ptr {b.op(f'getelementptr i8, ptr {above}, i64 {self.shared_size}')}, ptr %var.bump")
        self._emit_groups_start(base, state, index, place)
        bump, start = (b.op(f"ptrtoint ptr {value} to i64") for value in (self.get("bump", "ptr"), base))
        used = b.op(f"sub i64 {bump}, {start}")
        self.set("slot.size", b.op(f"and i64 {b.op(f'add i64 {used}, {_PAGE - 1}')}, -{_PAGE}"))
        self.go("pass")

    def _emit_groups_start(self, base: str, state: str, index: str, place: tuple[str, str, str]) -> None:
        """Run each group of a block up to where it first waits; goes on at ``started``."""
        b, geometry = self.b, self.geometry
        b.line(f"store volatile i64 {index}, ptr {self.at('%worker', WORKER_FIELDS, 'block')}, align 8")
        self.set("group", "0")
        self.go("start")
        b.label("start")
        group = self.get("group")
        first = b.op(f"mul i32 {b.op(f'trunc i64 {group} to i32')}, {geometry.width}")
        arguments = ", ".join(f"i32 {value}" for value in (first, *place))
        handle = b.op(f"call ptr @group(ptr %launch, ptr %worker, {arguments}, ptr {state}, ptr %var.bump)")
        b.line(f"store ptr {handle}, ptr {b.op(f'getelementptr ptr, ptr {base}, i64 {group}')}")
        following = b.op(f"add i64 {group}, 1")
        self.set("group", following)
        self.branch(b.op(f"icmp ult i64 {following}, {geometry.groups}"), "start", "started")
        b.label("started")

    def _split(self, index: str, width: str, height: str) -> tuple[str, str, str]:
        """A linear index as (x, y, z)."""
        b = self.b
        row, x = (b.op(f"{opcode} i64 {index}, {width}") for opcode in ("udiv", "urem"))
        z, y = (b.op(f"{opcode} i64 {row}, {height}") for opcode in ("udiv", "urem"))
        return x, y, z

    def _place(self, index: str) -> tuple[str, str, str]:
        """A block's place in the grid."""
        x, y, z = (self.b.op(f"trunc i64 {value} to i32") for value in self._split(index, self.grid_x, self.grid_y))
        return x, y, z

    def _initialise(self, state: str, index: str, place: tuple[str, str, str]) -> None:
        b = self.b
        b.call("void", "llvm.memset.p0.i64", [("ptr", state), ("i8", "0"), ("i64", str(STATE_SIZE)), ("i1", "false")])
        above = b.op(f"getelementptr i8, ptr {state}, i64 {STATE_SIZE}")
        shared = b.op(f"ptrtoint ptr {above} to i64")
        threads = str(self.geometry.threads)
        values = {"live": threads, "cluster_live": threads, "shared": shared, "index": index}
        for name, value in values.items():
            self.put(state, name, value)
        for axis, value in zip("xyz", place, strict=True):
            self.put(state, f"ctaid_{axis}", value)
        b.line(f"store ptr {state}, ptr {self.at(state, STATE_FIELDS, 'leader')}")

    def _emit_done(self) -> None:
        b = self.b
        b.label("done")
        running = self.at("%launch", LAUNCH_FIELDS, "running")
        before = b.op(f"atomicrmw sub ptr {running}, i32 1 acq_rel, align 4")
        last = b.op(f"icmp eq i32 {before}, 1")
        b.line(f"ret i32 {b.op(f'zext i1 {last} to i32')}")


class _ClusterRunner(_Runner):
    """Takes the blocks of one cluster at a time, all of them.

    Slots hold only handles, state and shared memory, so that they are equally far apart; the frames follow.
    """

    def _emit_start(self) -> None:
        b = self.b
        dims = [self.load("%launch", LAUNCH_FIELDS, f"cluster_{axis}") for axis in "xyz"]
        self.dims = tuple(b.op(f"zext i32 {value} to i64") for value in dims)
        x, y, z = self.dims
        self.blocks = b.op(f"mul i64 {b.op(f'mul i64 {x}, {y}')}, {z}")
        super()._emit_start_values()
        self.stride = b.op(f"add i64 {self.shared_size}, {self.handles_size + STATE_SIZE}")
        self.set("slot.size", self.stride)
        self.set("slots", self.blocks)
        for name in ("exhausted", "free"):
            self.set(name, "0")
        self.go("look")

    def _emit_claim(self) -> None:
        self.b.label("look")
        self._emit_take(self.blocks)

    def _emit_block(self) -> None:
        b = self.b
        b.label("block")
        end = b.op(f"add i64 {self.scratch}, {b.op(f'mul i64 {self.blocks}, {self.stride}')}")
        aligned = b.op(f"and i64 {b.op(f'add i64 {end}, 63')}, -64")
        b.line(f"store ptr {b.op(f'inttoptr i64 {aligned} to ptr')}, ptr %var.bump")
        self.set("free", "0")
        self.go("rank")
        b.label("rank")
        rank = self.get("free")
        base = self._base(rank)
        state = self._state(base)
        index, place = self._in_cluster(rank)
        self._initialise(state, index, place)
        leader = self._state(self._base("0"))
        b.line(f"store ptr {leader}, ptr {self.at(state, STATE_FIELDS, 'leader')}")
        window = b.op(f"getelementptr i8, ptr {leader}, i64 {STATE_SIZE}")
        self.put(state, "shared", b.op(f"ptrtoint ptr {window} to i64"))
        threads = b.op(f"mul i64 {self.blocks}, {self.geometry.threads}")
        # Every block of the cluster is waited for from the start, also those that have not begun.
        is_first = b.op(f"icmp eq i64 {rank}, 0")
        live = b.op(f"select i1 {is_first}, i32 {b.op(f'trunc i64 {threads} to i32')}, i32 0")
        for name, value in (("cluster_live", live), ("rank", rank), ("stride", self.stride)):
            word = value if name == "cluster_live" else b.op(f"trunc i64 {value} to i32")
            self.put(state, name, word)
        self._emit_groups_start(base, state, index, place)
        following = b.op(f"add i64 {self.get('free')}, 1")
        self.set("free", following)
        self.branch(b.op(f"icmp ult i64 {following}, {self.blocks}"), "rank", "cluster.started")
        b.label("cluster.started")
        self.go("pass")

    def _in_cluster(self, rank: str) -> tuple[str, tuple[str, str, str]]:
        """(linear index, place in the grid) of a block of the claimed cluster."""
        b = self.b
        x, y, _ = self.dims
        number = b.op(f"udiv i64 {self.get('claimed')}, {self.blocks}")
        across, down = (b.op(f"udiv i64 {size}, {part}") for size, part in ((self.grid_x, x), (self.grid_y, y)))
        outer = self._split(number, across, down)
        inner = self._split(rank, x, y)
        place = [
            b.op(f"add i64 {b.op(f'mul i64 {a}, {size}')}, {c}")
            for a, size, c in zip(outer, self.dims, inner, strict=True)
        ]
        row = b.op(f"add i64 {b.op(f'mul i64 {place[2]}, {self.grid_y}')}, {place[1]}")
        index = b.op(f"add i64 {b.op(f'mul i64 {row}, {self.grid_x}')}, {place[0]}")
        i, j, k = (b.op(f"trunc i64 {value} to i32") for value in place)
        return index, (i, j, k)


def scheduled_runner(group: Group, entry: str, *, clusters: bool) -> Builder:
    """The runner of a kernel whose groups are coroutines with a `blockstate`.

    Args:
        group: The kernel's group, whose code is complete.
        entry: Name of the function.
        clusters: Whether the kernel's blocks must run with the others of their cluster.
    """
    return (_ClusterRunner if clusters else _Runner)(group, entry, clusters=clusters).emit()
