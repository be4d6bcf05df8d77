"""LLVM functions for what a kernel calls out of line; see `lower.calls` for how they are called.

Those that wait are coroutines.  Their frames come from the last quarter of the worker's scratch memory: one list of
free frames for each function, and a pointer to where nothing has been taken yet.
"""

from __future__ import annotations

from typing import Final

from zcuda_async.jit.abi import REPORT_SIZE, WORKER_FIELDS
from zcuda_async.jit.builder import Builder
from zcuda_async.jit.control import GroupCode
from zcuda_async.jit.lower.calls import function_name, function_parameters, stack_check
from zcuda_async.jit.lower.faults import STACK_ERROR
from zcuda_async.jit.lower.group import Group
from zcuda_async.jit.sync import Waiting
from zcuda_async.ptx.ir import Function

__all__ = ("called_function", "coroutine_end", "frame_helpers")

_SCRATCH: Final = f"""
  %scratch.at = getelementptr i8, ptr %worker, i64 {WORKER_FIELDS["scratch"][0]}
  %scratch = load i64, ptr %scratch.at
  %size.at = getelementptr i8, ptr %worker, i64 {WORKER_FIELDS["scratch_size"][0]}
  %whole = load i64, ptr %size.at
  %quarter = lshr i64 %whole, 2
  %room = and i64 %quarter, -64
  %end = add i64 %scratch, %whole
  %start = sub i64 %end, %room
  %table = inttoptr i64 %start to ptr"""


def frame_helpers(count: int) -> str:
    """Taking and giving back frames of `count` functions, and records of calls, which come last.

    The table begins with the pointer to what is free.
    """
    table = -(-(count + 2) * 8 // 64) * 64
    return f"""
define internal void @zcuda.frames.start(ptr %worker) noinline {{{_SCRATCH}
  call void @llvm.memset.p0.i64(ptr %table, i8 0, i64 {table}, i1 false)
  %first = add i64 %start, {table}
  store i64 %first, ptr %table
  ret void
}}

define internal ptr @zcuda.frame.take(ptr %worker, i64 %number, i64 %bytes, i64 %site) noinline {{{_SCRATCH}
  %place = add i64 %number, 1
  %list = getelementptr i64, ptr %table, i64 %place
  %free = load i64, ptr %list
  %none = icmp eq i64 %free, 0
  br i1 %none, label %new, label %again
again:
  %again.frame = inttoptr i64 %free to ptr
  %next = load i64, ptr %again.frame
  store i64 %next, ptr %list
  ret ptr %again.frame
new:
  %padded = add i64 %bytes, 63
  %rounded = and i64 %padded, -64
  %at = load i64, ptr %table
  %above = add i64 %at, %rounded
  %limit = sub i64 %end, {REPORT_SIZE}
  %fits = icmp ule i64 %above, %limit
  br i1 %fits, label %take, label %overflow
overflow:
  %code.at = getelementptr i8, ptr %worker, i64 {WORKER_FIELDS["fault_code"][0]}
  store volatile i64 {STACK_ERROR}, ptr %code.at
  %site.at = getelementptr i8, ptr %worker, i64 {WORKER_FIELDS["fault_site"][0]}
  store volatile i64 %site, ptr %site.at
  call void @llvm.trap()
  unreachable
take:
  store i64 %above, ptr %table
  %frame = inttoptr i64 %at to ptr
  ret ptr %frame
}}

define internal void @zcuda.frame.give(ptr %worker, i64 %number, ptr %frame) noinline {{{_SCRATCH}
  %place = add i64 %number, 1
  %list = getelementptr i64, ptr %table, i64 %place
  %free = load i64, ptr %list
  store i64 %free, ptr %frame
  %given = ptrtoint ptr %frame to i64
  store i64 %given, ptr %list
  ret void
}}
"""


def coroutine_end(llvm_major: int) -> list[str]:
    """Where a coroutine ends, and where it goes when it stops."""
    end = "call void" if llvm_major >= 22 else "%ended = call i1"
    return [
        "finish:",
        "  %final = call i8 @llvm.coro.suspend(token none, i1 true)",
        "  switch i8 %final, label %suspend [i8 0, label %never i8 1, label %cleanup]",
        "never:",
        "  unreachable",
        "cleanup:",
        "  br label %suspend",
        "suspend:",
        f"  {end} @llvm.coro.end(ptr %handle, i1 false, token none)",
        "  ret ptr %handle",
        "}",
    ]


def called_function(function: Function, group: Group, builder: Builder, waiting: Waiting, llvm_major: int) -> list[str]:
    """A device function for a group, for the lanes of the masks that it gets; its declarations go to `builder`."""
    number = group.coroutines.get(function.name)
    waits = function.name in group.waiting_functions
    ways = waiting if waits else Waiting(False, False, False, False)
    GroupCode(group, suspends=number is not None, waiting=ways).emit()
    check = stack_check(group, function.span.site, has_frame=number is not None)
    own = group.builder
    builder.declarations |= own.declarations
    name, parameters = function_name(function.name), function_parameters(group)
    if number is None:
        head = [f"define internal void {name}({parameters}) noinline #0 {{", "entry:", *own.entry_allocas, *check]
        return [*head, *own.entry_stores, *own.prologue, *own.lines, "finish:", "  ret void", "}"]
    return [
        f"define internal ptr {name}({parameters}) noinline #1 {{",
        "entry:",
        *own.entry_allocas,
        f"  %local = alloca [{max(1, group.layout.local_size * group.geometry.width)} x i8], align 64",
        *check,
        "  %id = call token @llvm.coro.id(i32 64, ptr null, ptr null, ptr null)",
        "  %size = call i64 @llvm.coro.size.i64()",
        f"  %frame = call ptr @zcuda.frame.take(ptr %worker, i64 {number}, i64 %size, i64 {function.span.site})",
        "  %handle = call noalias ptr @llvm.coro.begin(token %id, ptr %frame)",
        *own.entry_stores,
        *own.prologue,
        *own.lines,
        *coroutine_end(llvm_major),
    ]
