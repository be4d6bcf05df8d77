"""A whole kernel as an LLVM module: the group function, and the native loop over claimed blocks."""

from __future__ import annotations

from collections.abc import Sequence

from zcuda_async.jit.abi import LAUNCH_FIELDS, WORKER_FIELDS
from zcuda_async.jit.blockstate import HELPERS, STATE_FIELDS, STATE_SIZE
from zcuda_async.jit.builder import Builder
from zcuda_async.jit.callee import called_function, coroutine_end, frame_helpers
from zcuda_async.jit.control import GroupCode
from zcuda_async.jit.geometry import Geometry
from zcuda_async.jit.lower.faults import OUT_OF_RESOURCES, raise_fault
from zcuda_async.jit.lower.group import Group, Target
from zcuda_async.jit.scheduler import REPORT_HELPER, scheduled_runner
from zcuda_async.jit.sync import Waiting
from zcuda_async.ptx.ir import Function

__all__ = ("ENTRY", "needs_coroutines", "write_module")

ENTRY = "zcuda_kernel"
_ARGUMENTS = "ptr %launch, ptr %worker, i32 %first, i32 %ctaid.x, i32 %ctaid.y, i32 %ctaid.z"
_SMALL_FRAME = 1 << 20
"""Bytes that half of any worker's scratch memory has."""

_METADATA = """
!0 = !{!"zcuda memory"}
!2 = !{!"global", !0}
!3 = !{!2, !2, i64 0}
!4 = !{!"shared", !0}
!5 = !{!4, !4, i64 0}
!6 = !{!"local", !0}
!7 = !{!6, !6, i64 0}
!9 = !{}
!10 = !{!"branch_weights", i32 1, i32 10000}
"""


def needs_coroutines(waiting: Waiting, geometry: Geometry) -> bool:
    """Whether groups have to stop in the middle, for other groups or other blocks."""
    always = waiting.spins or waiting.clusters or waiting.calls
    return always or (waiting.has_barriers and geometry.groups > 1)


def write_module(
    group: Group, waiting: Waiting, functions: Sequence[tuple[Function, Group]] = (), *, llvm_major: int
) -> str:
    """LLVM IR text of the module that exports `ENTRY` (see `abi` for its signature).

    `functions` are the device functions that the kernel calls out of line, each with a group of its own.
    """
    suspends = needs_coroutines(waiting, group.geometry)
    scheduled = group.has_block_state = suspends and waiting.needs_state
    group.in_cluster = waiting.clusters
    builder = group.builder
    group.coroutines = group.waiting_functions if suspends else {}
    for _, own in functions:
        own.has_block_state, own.in_cluster = group.has_block_state, group.in_cluster
        own.waiting_functions, own.coroutines = group.waiting_functions, group.coroutines
    GroupCode(group, suspends=suspends, waiting=waiting).emit()
    called = [
        line for function, own in functions for line in called_function(function, own, builder, waiting, llvm_major)
    ]
    group.has_calls = bool(functions)
    lines = _coroutine(group, builder, llvm_major) if suspends else _plain_function(group, builder)
    if scheduled:
        runner = scheduled_runner(group, ENTRY, clusters=waiting.clusters)
    else:
        runner = _runner(group, suspends=suspends)
    builder.declarations |= runner.declarations
    return "\n".join(
        [
            *lines,
            *called,
            *runner.lines,
            *([frame_helpers(len(group.coroutines))] if group.coroutines else []),
            *([HELPERS] if group.barriers is not None else []),
            *([REPORT_HELPER] if group.barriers is not None else []),
            *sorted(builder.declarations),
            _METADATA,
            _attributes(group.target),
        ]
    )


def _attributes(target: Target) -> str:
    width = 512 if target.has_avx512 else 256
    common = f'nounwind "prefer-vector-width"="{width}" "min-legal-vector-width"="{width}"'
    return f"attributes #0 = {{ {common} }}\nattributes #1 = {{ {common} presplitcoroutine }}\n"


def _local_frame(group: Group, *, suspends: bool) -> list[str]:
    """Where the lanes' .local memory is: in the coroutine's frame, else in the worker's scratch memory."""
    size = group.layout.local_size * group.geometry.width
    if not size:
        return []
    if suspends:
        return [f"  %local = alloca [{size} x i8], align 64"]
    offset, kind = WORKER_FIELDS["scratch"]
    lines = [
        f"  %scratch.at = getelementptr i8, ptr %worker, i64 {offset}",
        f"  %scratch.in = load {kind}, ptr %scratch.at, !invariant.load !9",
        "  %local = inttoptr i64 %scratch.in to ptr",
    ]
    if size <= _SMALL_FRAME:
        return lines
    group.builder.declarations.add("declare void @llvm.trap()")
    above = f"  %above = getelementptr i8, ptr %local, i64 {size}"
    return [*lines, above, *_frame_check(has_calls=group.has_calls)]


def _plain_function(group: Group, builder: Builder) -> list[str]:
    return [
        f"define internal void @group({_ARGUMENTS}) alwaysinline #0 {{",
        "entry:",
        *builder.entry_allocas,
        *_local_frame(group, suspends=False),
        *([] if group.barriers is None else _own_state(group)),
        *builder.entry_stores,
        *builder.prologue,
        *builder.lines,
        "finish:",
        "  ret void",
        "}",
    ]


def _own_state(group: Group) -> list[str]:
    """The block's state, where the group is the whole block."""
    b = Builder()
    b.line(f"%state = alloca [{STATE_SIZE} x i8], align 64")
    b.line(f"call void @llvm.memset.p0.i64(ptr %state, i8 0, i64 {STATE_SIZE}, i1 false)")
    group.builder.declarations.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    threads = str(group.geometry.threads)
    for name, value in {"live": threads, "cluster_live": threads, "leader": "%state"}.items():
        offset, kind = STATE_FIELDS[name]
        at = b.op(f"getelementptr i8, ptr %state, i64 {offset}")
        b.line(f"store {'ptr' if name == 'leader' else kind} {value}, ptr {at}")
    return [line.replace("%v", "%state.") for line in b.lines]


def _frame_check(*, has_calls: bool) -> list[str]:
    """Frames beyond the scratch memory (half of it, where calls have a stack there) are a fault, not a wild store."""
    b = Builder()
    ends = [
        b.op(f"getelementptr i8, ptr %worker, i64 {WORKER_FIELDS[name][0]}") for name in ("scratch", "scratch_size")
    ]
    base, size = (b.op(f"load i64, ptr {end}, align 8, !invariant.load !9") for end in ends)
    limit = b.op(f"add i64 {base}, {b.op(f'lshr i64 {size}, 1') if has_calls else size}")
    used = b.op("ptrtoint ptr %above to i64")
    b.line(f"br i1 {b.op(f'icmp ugt i64 {used}, {limit}')}, label %overflow, label %framed, !prof !10")
    b.label("overflow")
    raise_fault(b, OUT_OF_RESOURCES, 0)
    b.line("br label %framed")
    b.label("framed")
    return [line.replace("%v", "%frame.") for line in b.lines]


def _coroutine(group: Group, builder: Builder, llvm_major: int) -> list[str]:
    """A coroutine of the switched-resume kind; frames come one after another from ``%bump``."""
    builder.declarations |= {
        "declare token @llvm.coro.id(i32, ptr, ptr, ptr)",
        "declare i64 @llvm.coro.size.i64()",
        "declare ptr @llvm.coro.begin(token, ptr)",
        "declare i8 @llvm.coro.suspend(token, i1)",
        "declare void @llvm.trap()",
        f"declare {'void' if llvm_major >= 22 else 'i1'} @llvm.coro.end(ptr, i1, token)",
    }
    return [
        f"define internal ptr @group({_ARGUMENTS}, {'ptr %state, ' if group.has_block_state else ''}ptr %bump) #1 {{",
        "entry:",
        *builder.entry_allocas,
        *_local_frame(group, suspends=True),
        "  %id = call token @llvm.coro.id(i32 64, ptr null, ptr null, ptr null)",
        "  %size = call i64 @llvm.coro.size.i64()",
        "  %frame = load ptr, ptr %bump",
        "  %padded = add i64 %size, 63",
        "  %rounded = and i64 %padded, -64",
        "  %above = getelementptr i8, ptr %frame, i64 %rounded",
        "  store ptr %above, ptr %bump",
        *_frame_check(has_calls=group.has_calls),
        "  %handle = call noalias ptr @llvm.coro.begin(token %id, ptr %frame)",
        *builder.entry_stores,
        *builder.prologue,
        *builder.lines,
        *coroutine_end(llvm_major),
    ]


def _runner(group: Group, *, suspends: bool) -> Builder:
    """``i32 entry(Launch*, Worker*)``: claim chunks of blocks and run them."""
    b = Builder()
    geometry = group.geometry

    def field(base: str, table: dict[str, tuple[int, str]], name: str) -> str:
        return b.op(f"getelementptr i8, ptr {base}, i64 {table[name][0]}")

    b.lines += [f"define i32 @{ENTRY}(ptr noalias %launch, ptr noalias %worker) #0 {{", "entry:"]
    if suspends:
        b.line(f"%handles = alloca [{geometry.groups} x ptr], align 64")
        b.line("%bump = alloca ptr, align 8")
        scratch = b.op(f"load i64, ptr {field('%worker', WORKER_FIELDS, 'scratch')}")
        b.line(f"%frames = inttoptr i64 {scratch} to ptr")
    next_block = field("%launch", LAUNCH_FIELDS, "next_block")
    running, stop = (field("%launch", LAUNCH_FIELDS, name) for name in ("running", "stop"))
    block_at = field("%worker", WORKER_FIELDS, "block")
    total, chunk = (
        b.op(f"load i64, ptr {field('%launch', LAUNCH_FIELDS, name)}") for name in ("total_blocks", "chunk")
    )
    grid_x, grid_y = (
        b.op(f"load i32, ptr {field('%launch', LAUNCH_FIELDS, name)}, !invariant.load !9")
        for name in ("grid_x", "grid_y")
    )
    wide_x, wide_y = (b.op(f"zext i32 {value} to i64") for value in (grid_x, grid_y))
    b.line("br label %claim")
    b.label("claim")
    first = b.op(f"atomicrmw add ptr {next_block}, i64 {chunk} monotonic, align 8")
    none_left = b.op(f"icmp uge i64 {first}, {total}")
    stopped = b.op(f"icmp ne i32 {b.op(f'load atomic volatile i32, ptr {stop} monotonic, align 4')}, 0")
    leave = b.op(f"or i1 {none_left}, {stopped}")
    b.line(f"br i1 {leave}, label %done, label %claimed")
    b.label("claimed")
    end = b.call("i64", "llvm.umin.i64", [("i64", b.op(f"add i64 {first}, {chunk}")), ("i64", total)])
    row, x = (b.op(f"{opcode} i64 {first}, {wide_x}") for opcode in ("udiv", "urem"))
    z, y = (b.op(f"{opcode} i64 {row}, {wide_y}") for opcode in ("udiv", "urem"))
    x, y, z = (b.op(f"trunc i64 {value} to i32") for value in (x, y, z))
    b.line("br label %block")
    b.label("block")
    b.line(f"%block.index = phi i64 [{first}, %claimed], [%block.next, %block.done]")
    for axis, start in (("x", x), ("y", y), ("z", z)):
        b.line(f"%block.{axis} = phi i32 [{start}, %claimed], [%next.{axis}, %block.done]")
    b.line(f"store volatile i64 %block.index, ptr {block_at}, align 8")
    place = ", ".join(f"i32 %block.{axis}" for axis in "xyz")
    (_run_coroutines if suspends else _run_groups)(b, geometry, place)
    b.line("br label %block.done")
    b.label("block.done")
    _advance(b, grid_x, grid_y)
    more = b.op(f"icmp ult i64 %block.next, {end}")
    b.line(f"br i1 {more}, label %block, label %claim")
    b.label("done")
    before = b.op(f"atomicrmw sub ptr {running}, i32 1 acq_rel, align 4")
    last = b.op(f"icmp eq i32 {before}, 1")
    b.line(f"ret i32 {b.op(f'zext i1 {last} to i32')}")
    b.lines.append("}")
    return b


def _advance(b: Builder, grid_x: str, grid_y: str) -> None:
    """The next block's index and place in the grid."""
    b.lines += f"""\
  %block.next = add i64 %block.index, 1
  %x.up = add i32 %block.x, 1
  %x.over = icmp eq i32 %x.up, {grid_x}
  %next.x = select i1 %x.over, i32 0, i32 %x.up
  %x.carry = zext i1 %x.over to i32
  %y.up = add i32 %block.y, %x.carry
  %y.over = icmp eq i32 %y.up, {grid_y}
  %next.y = select i1 %y.over, i32 0, i32 %y.up
  %y.carry = zext i1 %y.over to i32
  %next.z = add i32 %block.z, %y.carry""".split("\n")


def _run_groups(b: Builder, geometry: Geometry, place: str) -> None:
    """The groups of a block that need not wait for each other, one after another."""
    if geometry.groups == 1:
        b.line(f"call void @group(ptr %launch, ptr %worker, i32 0, {place})")
        return
    b.line("br label %group.entry")
    b.label("group.entry")
    b.line("br label %group")
    b.label("group")
    b.line("%first = phi i32 [0, %group.entry], [%first.next, %group]")
    b.line(f"call void @group(ptr %launch, ptr %worker, i32 %first, {place})")
    b.line(f"%first.next = add nuw nsw i32 %first, {geometry.width}")
    b.line(f"%group.more = icmp ult i32 %first.next, {geometry.groups * geometry.width}")
    b.line("br i1 %group.more, label %group, label %groups.done")
    b.label("groups.done")


def _run_coroutines(b: Builder, geometry: Geometry, place: str) -> None:
    """Start every group, then resume them in turn, barrier by barrier, until all are through."""
    b.declarations |= {"declare void @llvm.coro.resume(ptr)", "declare i1 @llvm.coro.done(ptr)"}
    last = geometry.groups
    b.lines += f"""\
  store ptr %frames, ptr %bump
  br label %start.entry
start.entry:
  br label %start
start:
  %start.group = phi i32 [0, %start.entry], [%start.next, %start]
  %start.first = mul nuw nsw i32 %start.group, {geometry.width}
  %start.handle = call ptr @group(ptr %launch, ptr %worker, i32 %start.first, {place}, ptr %bump)
  %start.at = getelementptr ptr, ptr %handles, i32 %start.group
  store ptr %start.handle, ptr %start.at
  %start.next = add nuw nsw i32 %start.group, 1
  %start.more = icmp ult i32 %start.next, {last}
  br i1 %start.more, label %start, label %round
round:
  br label %turn
turn:
  %turn.group = phi i32 [0, %round], [%turn.next, %turn.end]
  %turn.live = phi i1 [false, %round], [%turn.any, %turn.end]
  %turn.at = getelementptr ptr, ptr %handles, i32 %turn.group
  %turn.handle = load ptr, ptr %turn.at
  %turn.done = call i1 @llvm.coro.done(ptr %turn.handle)
  br i1 %turn.done, label %turn.end, label %turn.resume
turn.resume:
  call void @llvm.coro.resume(ptr %turn.handle)
  br label %turn.end
turn.end:
  %turn.any = phi i1 [%turn.live, %turn], [true, %turn.resume]
  %turn.next = add nuw nsw i32 %turn.group, 1
  %turn.more = icmp ult i32 %turn.next, {last}
  br i1 %turn.more, label %turn, label %turned
turned:
  br i1 %turn.any, label %round, label %coroutines.done
coroutines.done:""".split("\n")
