"""``malloc`` and ``free`` in kernels: boundary tags and free lists by size, under one lock (see `abi.HEAP`).

A block starts with its whole size (a multiple of 16; a block in use also has `abi.HEAP_USED`) and the size of the
block before it; what the kernel gets follows.  A free block keeps its neighbours in its list there.  Blocks that
become free join with free neighbours at once, so no allocation fails for want of tidying up.  Workers that wait for
the lock let others run: whoever holds it needs the processor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zcuda_async.jit.abi import (
    HEAP_BINS,
    HEAP_BLOCKS,
    HEAP_FIELDS,
    HEAP_HEAD,
    HEAP_USED,
    LAUNCH_FIELDS,
    SERVICES_FIELDS,
    WORKER_FIELDS,
)
from zcuda_async.jit.lower.faults import LAUNCH_FAILURE

if TYPE_CHECKING:
    from zcuda_async.jit.lower.group import Group
    from zcuda_async.ptx.ir import Instruction

__all__ = ("free", "malloc")

_SMALLEST: Final = 32
_LARGEST: Final = 1 << 40
_TOP_BIN: Final = 47

_COMMON: Final = f"""\
define internal ptr @zcuda.heap.find(ptr %launch) nounwind {{
  %services.at = getelementptr i8, ptr %launch, i64 {LAUNCH_FIELDS["services"][0]}
  %services = load ptr, ptr %services.at
  %heap.at = getelementptr i8, ptr %services, i64 {SERVICES_FIELDS["heap"][0]}
  %heap = load ptr, ptr %heap.at
  ret ptr %heap
}}
define internal void @zcuda.heap.lock(ptr %heap) nounwind {{
entry:
  br label %try
try:
  %exchange = cmpxchg ptr %heap, i32 0, i32 1 acquire monotonic, align 4
  %is.ours = extractvalue {{ i32, i1 }} %exchange, 1
  br i1 %is.ours, label %done, label %wait
wait:
  %ignored = call i32 @sched_yield()
  br label %try
done:
  ret void
}}
define internal ptr @zcuda.heap.bin(ptr %heap, i64 %size) nounwind {{
  %zeros = call i64 @llvm.ctlz.i64(i64 %size, i1 true)
  %index = sub i64 63, %zeros
  %bins = getelementptr i8, ptr %heap, i64 {HEAP_BINS}
  %bin = getelementptr i64, ptr %bins, i64 %index
  ret ptr %bin
}}
define internal void @zcuda.heap.unlink(ptr %heap, ptr %block) nounwind {{
entry:
  %next.at = getelementptr i8, ptr %block, i64 16
  %previous.at = getelementptr i8, ptr %block, i64 24
  %next = load ptr, ptr %next.at
  %previous = load ptr, ptr %previous.at
  %is.first = icmp eq ptr %previous, null
  br i1 %is.first, label %first, label %inner
first:
  %size = load i64, ptr %block
  %bin = call ptr @zcuda.heap.bin(ptr %heap, i64 %size)
  store ptr %next, ptr %bin
  br label %back
inner:
  %previous.next = getelementptr i8, ptr %previous, i64 16
  store ptr %next, ptr %previous.next
  br label %back
back:
  %is.last = icmp eq ptr %next, null
  br i1 %is.last, label %done, label %more
more:
  %next.previous = getelementptr i8, ptr %next, i64 24
  store ptr %previous, ptr %next.previous
  br label %done
done:
  ret void
}}
define internal void @zcuda.heap.insert(ptr %heap, ptr %block, i64 %size) nounwind {{
entry:
  store i64 %size, ptr %block
  %after = getelementptr i8, ptr %block, i64 %size
  %after.before = getelementptr i8, ptr %after, i64 8
  store i64 %size, ptr %after.before
  %bin = call ptr @zcuda.heap.bin(ptr %heap, i64 %size)
  %next = load ptr, ptr %bin
  %next.at = getelementptr i8, ptr %block, i64 16
  %previous.at = getelementptr i8, ptr %block, i64 24
  store ptr %next, ptr %next.at
  store ptr null, ptr %previous.at
  store ptr %block, ptr %bin
  %is.last = icmp eq ptr %next, null
  br i1 %is.last, label %done, label %more
more:
  %next.previous = getelementptr i8, ptr %next, i64 24
  store ptr %block, ptr %next.previous
  br label %done
done:
  ret void
}}"""

_MALLOC: Final = f"""\
define internal i64 @zcuda.malloc(ptr %launch, i64 %bytes) noinline cold nounwind {{
entry:
  %heap = call ptr @zcuda.heap.find(ptr %launch)
  %is.wild = icmp ugt i64 %bytes, {_LARGEST}
  br i1 %is.wild, label %none, label %start
none:
  ret i64 0
start:
  %padded = add i64 %bytes, {HEAP_HEAD + 15}
  %rounded = and i64 %padded, -16
  %need = call i64 @llvm.umax.i64(i64 %rounded, i64 {_SMALLEST})
  %own.bin = call ptr @zcuda.heap.bin(ptr %heap, i64 %need)
  %top.bin = getelementptr i8, ptr %heap, i64 {HEAP_BINS + 8 * _TOP_BIN}
  call void @zcuda.heap.lock(ptr %heap)
  br label %bin
bin:
  %at.bin = phi ptr [%own.bin, %start], [%next.bin, %bin.empty]
  %head = load ptr, ptr %at.bin
  br label %look
look:
  %block = phi ptr [%head, %bin], [%block.next, %small]
  %is.end = icmp eq ptr %block, null
  br i1 %is.end, label %bin.empty, label %check
check:
  %size = load i64, ptr %block
  %fits = icmp uge i64 %size, %need
  br i1 %fits, label %take, label %small
small:
  %block.next.at = getelementptr i8, ptr %block, i64 16
  %block.next = load ptr, ptr %block.next.at
  br label %look
bin.empty:
  %next.bin = getelementptr i64, ptr %at.bin, i64 1
  %is.over = icmp ugt ptr %next.bin, %top.bin
  br i1 %is.over, label %full, label %bin
full:
  store atomic i32 0, ptr %heap release, align 4
  ret i64 0
take:
  call void @zcuda.heap.unlink(ptr %heap, ptr %block)
  %rest = sub i64 %size, %need
  %splits = icmp uge i64 %rest, {_SMALLEST}
  br i1 %splits, label %split, label %whole
split:
  %other = getelementptr i8, ptr %block, i64 %need
  %other.before = getelementptr i8, ptr %other, i64 8
  store i64 %need, ptr %other.before
  call void @zcuda.heap.insert(ptr %heap, ptr %other, i64 %rest)
  br label %whole
whole:
  %final = phi i64 [%size, %take], [%need, %split]
  %tagged = or i64 %final, {HEAP_USED}
  store i64 %tagged, ptr %block
  store atomic i32 0, ptr %heap release, align 4
  %payload = getelementptr i8, ptr %block, i64 {HEAP_HEAD}
  %address = ptrtoint ptr %payload to i64
  ret i64 %address
}}"""

_FREE: Final = f"""\
define internal void @zcuda.free(ptr %launch, ptr %worker, i64 %address, i64 %line) noinline cold nounwind {{
entry:
  %heap = call ptr @zcuda.heap.find(ptr %launch)
  %is.null = icmp eq i64 %address, 0
  br i1 %is.null, label %done, label %check
check:
  %end.at = getelementptr i8, ptr %heap, i64 {HEAP_FIELDS["end"][0]}
  %end = load i64, ptr %end.at
  %base = ptrtoint ptr %heap to i64
  %lowest = add i64 %base, {HEAP_BLOCKS + HEAP_HEAD}
  %is.low = icmp ult i64 %address, %lowest
  %is.high = icmp uge i64 %address, %end
  %low.bits = and i64 %address, 15
  %is.odd = icmp ne i64 %low.bits, 0
  %outside = or i1 %is.low, %is.high
  %is.wrong = or i1 %outside, %is.odd
  br i1 %is.wrong, label %fault, label %inside
inside:
  call void @zcuda.heap.lock(ptr %heap)
  %start = sub i64 %address, {HEAP_HEAD}
  %block = inttoptr i64 %start to ptr
  %tagged = load i64, ptr %block
  %tag = and i64 %tagged, {HEAP_USED | 15}
  %is.used = icmp eq i64 %tag, {HEAP_USED}
  br i1 %is.used, label %used, label %fault
fault:
  %code.at = getelementptr i8, ptr %worker, i64 {WORKER_FIELDS["fault_code"][0]}
  store volatile i64 {LAUNCH_FAILURE}, ptr %code.at, align 8
  %site.at = getelementptr i8, ptr %worker, i64 {WORKER_FIELDS["fault_site"][0]}
  store volatile i64 %line, ptr %site.at, align 8
  call void @llvm.trap()
  unreachable
used:
  %size = xor i64 %tagged, {HEAP_USED}
  %after = getelementptr i8, ptr %block, i64 %size
  %after.size = load i64, ptr %after
  %after.used = icmp uge i64 %after.size, {HEAP_USED}
  br i1 %after.used, label %joined, label %join.after
join.after:
  call void @zcuda.heap.unlink(ptr %heap, ptr %after)
  %size.after = add i64 %size, %after.size
  br label %joined
joined:
  %size.1 = phi i64 [%size, %used], [%size.after, %join.after]
  %before.at = getelementptr i8, ptr %block, i64 8
  %before.size = load i64, ptr %before.at
  %is.first = icmp eq i64 %before.size, 0
  br i1 %is.first, label %put, label %look.before
look.before:
  %before.start = sub i64 %start, %before.size
  %before = inttoptr i64 %before.start to ptr
  %before.tag = load i64, ptr %before
  %before.used = icmp uge i64 %before.tag, {HEAP_USED}
  br i1 %before.used, label %put, label %join.before
join.before:
  call void @zcuda.heap.unlink(ptr %heap, ptr %before)
  %size.before = add i64 %size.1, %before.size
  br label %put
put:
  %block.2 = phi ptr [%block, %joined], [%block, %look.before], [%before, %join.before]
  %size.2 = phi i64 [%size.1, %joined], [%size.1, %look.before], [%size.before, %join.before]
  call void @zcuda.heap.insert(ptr %heap, ptr %block.2, i64 %size.2)
  store atomic i32 0, ptr %heap release, align 4
  br label %done
done:
  ret void
}}"""

_DECLARED: Final = {
    _COMMON,
    _MALLOC,
    _FREE,
    "declare i32 @sched_yield()",
    "declare i64 @llvm.ctlz.i64(i64, i1)",
    "declare i64 @llvm.umax.i64(i64, i64)",
    "declare void @llvm.trap()",
}


def malloc(group: Group, instruction: Instruction) -> None:
    """``malloc d, size``: lane by lane."""
    builder, kind = group.builder, group.vector("i64")
    builder.declarations |= _DECLARED
    destination, size = instruction.operands
    results = []
    for part in range(group.parts):
        mask = group.active(instruction, part)
        sizes = group.read(size, "i64", part, vector=True)
        slot = builder.alloca(str(kind))
        builder.line(f"store {kind} zeroinitializer, ptr {slot}")

        def body(lane: str, sizes: str = sizes, slot: str = slot) -> None:
            bytes_wanted = group.lane_of(kind, sizes, lane)
            address = builder.op(f"call i64 @zcuda.malloc(ptr %launch, i64 {bytes_wanted})")
            to = builder.op(f"getelementptr i64, ptr {slot}, i32 {lane}")
            builder.line(f"store i64 {address}, ptr {to}")

        group.each_lane("-1" if mask is None else group.mask_bits(mask), body)
        results.append(builder.op(f"load {kind}, ptr {slot}"))
    group.write(destination, results, "i64", group.plain(instruction), instruction.guard)


def free(group: Group, instruction: Instruction) -> None:
    """``free address``: lane by lane; what `malloc` did not give, or is free already, faults the launch."""
    builder, kind = group.builder, group.vector("i64")
    builder.declarations |= _DECLARED
    line = instruction.span.site
    for part in range(group.parts):
        mask = group.active(instruction, part)
        addresses = group.read(instruction.operands[0], "i64", part, vector=True)

        def body(lane: str, addresses: str = addresses) -> None:
            address = group.lane_of(kind, addresses, lane)
            builder.line(f"call void @zcuda.free(ptr %launch, ptr %worker, i64 {address}, i64 {line})")

        group.each_lane("-1" if mask is None else group.mask_bits(mask), body)
