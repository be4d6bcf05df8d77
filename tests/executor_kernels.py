"""Tiny kernels, written as LLVM IR against `jit.abi`, for tests of the executors."""

from __future__ import annotations

import platform
import struct
from functools import cache
from typing import Final

import llvmlite.binding as llvm

from zcuda_async.executor.base import LaunchRequest
from zcuda_async.jit.abi import LAUNCH_FIELDS, WORKER_FIELDS
from zcuda_async.jit.info import KernelCode

__all__ = ("BODIES", "BROKEN", "SYS_FUTEX", "kernel", "request")

SYS_FUTEX: Final = {"x86_64": 202, "aarch64": 98}[platform.machine()]

ANNOUNCE: Final = f"""
        store atomic i32 1, ptr %p_out seq_cst, align 4
        %woken = call i64 (i64, ...) @syscall(i64 {SYS_FUTEX}, ptr %p_out, i32 1, i32 1)
"""
"""Sets the word at %p_out and wakes who sleeps on it (FUTEX_WAKE)."""

# Each body runs once per block, with %block (i64), %launch, %worker and %params (ptr) defined.
BODIES: Final = {
    # out[block] = block, as i64
    "fill": """
        %p_out = load ptr, ptr %params
        %slot = getelementptr i64, ptr %p_out, i64 %block
        store i64 %block, ptr %slot
    """,
    # out[block] += 1, as atomic i64
    "count": """
        %p_out = load ptr, ptr %params
        %slot = getelementptr i64, ptr %p_out, i64 %block
        %old = atomicrmw add ptr %slot, i64 1 seq_cst
    """,
    # *out += 1 for each block, atomically
    "total": """
        %p_out = load ptr, ptr %params
        %old = atomicrmw add ptr %p_out, i64 1 seq_cst
    """,
    # announce in out[0], then wait for `stop`
    "spin": f"""
        %p_out = load ptr, ptr %params
        {ANNOUNCE}
        br label %again
      again:
        %p_stop = getelementptr i8, ptr %launch, i64 {LAUNCH_FIELDS["stop"][0]}
        %stop = load atomic i32, ptr %p_stop seq_cst, align 4
        %asked = icmp ne i32 %stop, 0
        br i1 %asked, label %done, label %again
      done:
    """,
    # announce in out[0], then wait until out[1] is set
    "latch": f"""
        %p_out = load ptr, ptr %params
        {ANNOUNCE}
        %p_go = getelementptr i64, ptr %p_out, i64 1
        br label %again
      again:
        %go = load atomic i64, ptr %p_go seq_cst, align 8
        %closed = icmp eq i64 %go, 0
        br i1 %closed, label %again, label %done
      done:
    """,
    # store to the address in the parameters
    "wild": """
        %p_out = load ptr, ptr %params
        store volatile i32 1, ptr %p_out
    """,
    # an assertion on line 7
    "assert": f"""
        %p_code = getelementptr i8, ptr %worker, i64 {WORKER_FIELDS["fault_code"][0]}
        store volatile i64 710, ptr %p_code
        %p_site = getelementptr i8, ptr %worker, i64 {WORKER_FIELDS["fault_site"][0]}
        store volatile i64 7, ptr %p_site
        call void @llvm.trap()
    """,
    "trap": """
        call void @llvm.trap()
    """,
    # the processor traps this division
    "divide": """
        %zero = load volatile i64, ptr %params
        %quotient = sdiv i64 %block, %zero
        store volatile i64 %quotient, ptr %params
    """,
    "overflow": """
        %deep = call i64 @recurse(i64 %block, ptr %params)
    """,
    "unresolved": """
        call void @zc_no_such_function()
    """,
    # out[block] = the first bytes of worker memory are usable: write and read shared and scratch
    "memory": """
        %p_out = load ptr, ptr %params
        %shared = load ptr, ptr %worker
        %last_shared = getelementptr i8, ptr %shared, i64 262136
        store i64 %block, ptr %last_shared
        %p_scratch = getelementptr i8, ptr %worker, i64 8
        %scratch = load ptr, ptr %p_scratch
        %p_size = getelementptr i8, ptr %worker, i64 16
        %size = load i64, ptr %p_size
        %at = sub i64 %size, 8
        %last_scratch = getelementptr i8, ptr %scratch, i64 %at
        store i64 %block, ptr %last_scratch
        %a = load i64, ptr %last_shared
        %b = load i64, ptr %last_scratch
        %sum = add i64 %a, %b
        %slot = getelementptr i64, ptr %p_out, i64 %block
        store i64 %sum, ptr %slot
    """,
    # out[0..] = grid_x, grid_y, grid_z, dynamic_shared, globals, second parameter
    "describe": """
        %p_out = load ptr, ptr %params
        %p_grid = getelementptr i8, ptr %launch, i64 32
        %sizes = load <4 x i32>, ptr %p_grid, align 4
        %wide = zext <4 x i32> %sizes to <4 x i64>
        store <4 x i64> %wide, ptr %p_out, align 8
        %p_globals = getelementptr i8, ptr %launch, i64 56
        %globals = load i64, ptr %p_globals
        %out4 = getelementptr i64, ptr %p_out, i64 4
        store i64 %globals, ptr %out4
        %p_last = load i64, ptr %p_count
        %scaled = getelementptr i64, ptr %params, i64 %p_last
        %value = load i64, ptr %scaled
        %out5 = getelementptr i64, ptr %p_out, i64 5
        store i64 %value, ptr %out5
    """,
}

_RECURSE: Final = """
declare void @llvm.trap()
declare void @zc_no_such_function()
declare i64 @syscall(i64, ...)
define i64 @recurse(i64 %n, ptr %p) noinline {
  %frame = alloca [4096 x i8]
  store volatile i64 %n, ptr %frame
  %next = add i64 %n, 1
  %deeper = call i64 @recurse(i64 %next, ptr %frame)
  %here = load volatile i64, ptr %frame
  %sum = add i64 %deeper, %here
  ret i64 %sum
}
"""

_LOOP: Final = """
define i32 @ENTRY(ptr %launch, ptr %worker) {
start:
  %p_total = getelementptr i8, ptr %launch, i64 8
  %total = load i64, ptr %p_total
  %p_chunk = getelementptr i8, ptr %launch, i64 16
  %chunk = load i64, ptr %p_chunk
  %p_running = getelementptr i8, ptr %launch, i64 24
  %p_stopped = getelementptr i8, ptr %launch, i64 28
  %pp_params = getelementptr i8, ptr %launch, i64 48
  %params = load ptr, ptr %pp_params
  %p_count = getelementptr i8, ptr %params, i64 8
  %p_block = getelementptr i8, ptr %worker, i64 24
  br label %claim
claim:
  %stopped = load atomic i32, ptr %p_stopped monotonic, align 4
  %is_stopped = icmp ne i32 %stopped, 0
  br i1 %is_stopped, label %leave, label %take
take:
  %first = atomicrmw add ptr %launch, i64 %chunk monotonic
  %over = icmp uge i64 %first, %total
  br i1 %over, label %leave, label %loop
loop:
  %wanted = add i64 %first, %chunk
  %is_short = icmp ugt i64 %wanted, %total
  %limit = select i1 %is_short, i64 %total, i64 %wanted
  br label %body
body:
  %block = phi i64 [ %first, %loop ], [ %next, %after ]
  store volatile i64 %block, ptr %p_block
  br label %inside
inside:
  BODY
  br label %after
after:
  %next = add i64 %block, 1
  %more = icmp ult i64 %next, %limit
  br i1 %more, label %body, label %claim
leave:
  %was = atomicrmw sub ptr %p_running, i32 1 seq_cst
  %is_last = icmp eq i32 %was, 1
  %result = zext i1 %is_last to i32
  ret i32 %result
}
"""


@cache
def kernel(name: str) -> KernelCode:
    """Compile one of `BODIES`."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text = _LOOP.replace("ENTRY", f"zc_{name}").replace("BODY", BODIES[name])
    module = llvm.parse_assembly(_RECURSE + text)
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=1)
    return KernelCode(name, (1, 1, 1), f"zc_{name}", machine.emit_object(module), 0)


BROKEN: Final = KernelCode("broken", (1, 1, 1), "zc_broken", b"this is no object code", 0)


def request(name: str, *params: int, grid: tuple[int, int, int] = (1, 1, 1), **options: int) -> LaunchRequest:
    """A launch of one of `BODIES`; each parameter is a 64-bit word."""
    return LaunchRequest(kernel(name), grid, struct.pack(f"<{len(params)}Q", *params), **options)
