"""``vprintf``: compiled code appends formats and arguments to a ring buffer, the host formats them (see `abi.RING`).

CUDA's function reads the format too: its arguments have no other end.  It does so twice, to learn how large the
record becomes and to copy the strings that ``%s`` names, which may be local or shared memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zcuda_async.jit.abi import (
    LAUNCH_FIELDS,
    RING_DATA,
    RING_FIELDS,
    RING_GRANULE,
    RING_RECORD,
    SERVICES_FIELDS,
)

if TYPE_CHECKING:
    from zcuda_async.jit.lower.group import Group
    from zcuda_async.ptx.ir import Instruction

__all__ = ("vprintf",)


def _cases(characters: str, label: str) -> str:
    return " ".join(f"i8 {ord(character)}, label %{label}" for character in characters)


_SCAN: Final = f"""\
define internal i32 @zcuda.printf.scan(ptr %format, ptr %arguments, ptr %strings, i64 %limit, ptr %sizes) \
noinline cold nounwind {{
entry:
  %at = alloca i64
  %used = alloca i64
  %copied = alloca i64
  %count = alloca i32
  %is.wide = alloca i1
  store i64 0, ptr %at
  store i64 0, ptr %used
  store i64 0, ptr %copied
  store i32 0, ptr %count
  br label %text
text:
  store i1 false, ptr %is.wide
  %text.at = load i64, ptr %at
  %text.pointer = getelementptr i8, ptr %format, i64 %text.at
  %text.byte = load i8, ptr %text.pointer
  %text.end = icmp eq i8 %text.byte, 0
  br i1 %text.end, label %done, label %text.on
text.on:
  %text.next = add i64 %text.at, 1
  store i64 %text.next, ptr %at
  %is.directive = icmp eq i8 %text.byte, 37
  br i1 %is.directive, label %directive, label %text
directive:
  %spec.at = load i64, ptr %at
  %spec.pointer = getelementptr i8, ptr %format, i64 %spec.at
  %spec.byte = load i8, ptr %spec.pointer
  %spec.end = icmp eq i8 %spec.byte, 0
  br i1 %spec.end, label %done, label %spec.on
spec.on:
  %spec.next = add i64 %spec.at, 1
  store i64 %spec.next, ptr %at
  switch i8 %spec.byte, label %text [
    {_cases("-+ #0123456789.hL", "directive")}
    {_cases("ljztq", "wide")} {_cases("*", "star")} {_cases("diouxX", "integer")}
    {_cases("c", "word")} {_cases("paAeEfFgG", "long")} {_cases("s", "string")}
  ]
wide:
  store i1 true, ptr %is.wide
  br label %directive
star:
  br label %four
integer:
  %is.long = load i1, ptr %is.wide
  br i1 %is.long, label %long, label %word
word:
  br label %four
four:
  %four.next = phi i1 [true, %star], [false, %word]
  %four.used = load i64, ptr %used
  %four.after = add i64 %four.used, 4
  store i64 %four.after, ptr %used
  %four.count = load i32, ptr %count
  %four.more = add i32 %four.count, 1
  store i32 %four.more, ptr %count
  br i1 %four.next, label %directive, label %text
long:
  br label %eight
string:
  br label %eight
eight:
  %is.string = phi i1 [false, %long], [true, %string]
  %eight.used = load i64, ptr %used
  %eight.up = add i64 %eight.used, 7
  %eight.start = and i64 %eight.up, -8
  %eight.after = add i64 %eight.start, 8
  store i64 %eight.after, ptr %used
  %eight.count = load i32, ptr %count
  %eight.more = add i32 %eight.count, 1
  store i32 %eight.more, ptr %count
  br i1 %is.string, label %fetch, label %text
fetch:
  %argument.at = getelementptr i8, ptr %arguments, i64 %eight.start
  %argument = load ptr, ptr %argument.at, align 4
  %is.null = icmp eq ptr %argument, null
  br i1 %is.null, label %text, label %copy
copy:
  %index = phi i64 [0, %fetch], [%index.next, %copied.one]
  %source = getelementptr i8, ptr %argument, i64 %index
  %byte = load i8, ptr %source
  %so.far = load i64, ptr %copied
  %is.full = icmp uge i64 %so.far, %limit
  br i1 %is.full, label %done, label %room
room:
  %is.writing = icmp ne ptr %strings, null
  br i1 %is.writing, label %write, label %copied.one
write:
  %to = getelementptr i8, ptr %strings, i64 %so.far
  store i8 %byte, ptr %to
  br label %copied.one
copied.one:
  %so.far.next = add i64 %so.far, 1
  store i64 %so.far.next, ptr %copied
  %index.next = add i64 %index, 1
  %is.last = icmp eq i8 %byte, 0
  br i1 %is.last, label %text, label %copy
done:
  %format.size = load i64, ptr %at
  %used.size = load i64, ptr %used
  %copied.size = load i64, ptr %copied
  store i64 %format.size, ptr %sizes
  %sizes.1 = getelementptr i64, ptr %sizes, i64 1
  store i64 %used.size, ptr %sizes.1
  %sizes.2 = getelementptr i64, ptr %sizes, i64 2
  store i64 %copied.size, ptr %sizes.2
  %result = load i32, ptr %count
  ret i32 %result
}}"""

_APPEND: Final = f"""\
define internal i32 @zcuda.printf(ptr %launch, ptr %format, ptr %arguments) noinline cold nounwind {{
entry:
  %sizes = alloca [3 x i64]
  %no.format = icmp eq ptr %format, null
  br i1 %no.format, label %null, label %find
null:
  ret i32 -1
find:
  %services.at = getelementptr i8, ptr %launch, i64 {LAUNCH_FIELDS["services"][0]}
  %services = load ptr, ptr %services.at
  %no.services = icmp eq ptr %services, null
  br i1 %no.services, label %failed, label %look
look:
  %ring.at = getelementptr i8, ptr %services, i64 {SERVICES_FIELDS["printf"][0]}
  %ring = load ptr, ptr %ring.at
  %no.ring = icmp eq ptr %ring, null
  br i1 %no.ring, label %failed, label %measure
failed:
  ret i32 -2
measure:
  %count = call i32 @zcuda.printf.scan(ptr %format, ptr %arguments, ptr null, i64 -1, ptr %sizes)
  %format.size = load i64, ptr %sizes
  %sizes.1 = getelementptr i64, ptr %sizes, i64 1
  %used = load i64, ptr %sizes.1
  %sizes.2 = getelementptr i64, ptr %sizes, i64 2
  %strings = load i64, ptr %sizes.2
  %format.up = add i64 %format.size, 7
  %format.room = and i64 %format.up, -8
  %used.up = add i64 %used, 7
  %used.room = and i64 %used.up, -8
  %arguments.start = add i64 %format.room, {RING_RECORD.size}
  %strings.start = add i64 %arguments.start, %used.room
  %end = add i64 %strings.start, %strings
  %end.up = add i64 %end, {RING_GRANULE - 1}
  %total = and i64 %end.up, -{RING_GRANULE}
  %size.at = getelementptr i8, ptr %ring, i64 {RING_FIELDS["size"][0]}
  %size = load i64, ptr %size.at
  %is.too.long = icmp ugt i64 %total, %size
  br i1 %is.too.long, label %failed, label %reserve.entry
reserve.entry:
  %reserved.first = load atomic i64, ptr %ring monotonic, align 8
  br label %reserve
reserve:
  %reserved = phi i64 [%reserved.first, %reserve.entry], [%reserved.seen, %reserve]
  %offset = urem i64 %reserved, %size
  %rest = sub i64 %size, %offset
  %fits = icmp ule i64 %total, %rest
  %filler = select i1 %fits, i64 0, i64 %rest
  %position = add i64 %reserved, %filler
  %reserved.new = add i64 %position, %total
  %exchange = cmpxchg ptr %ring, i64 %reserved, i64 %reserved.new monotonic monotonic, align 8
  %reserved.seen = extractvalue {{ i64, i1 }} %exchange, 0
  %is.ours = extractvalue {{ i64, i1 }} %exchange, 1
  br i1 %is.ours, label %ours, label %reserve
ours:
  %data = getelementptr i8, ptr %ring, i64 {RING_DATA}
  %has.filler = icmp ne i64 %filler, 0
  br i1 %has.filler, label %fill, label %write
fill:
  %filler.at = getelementptr i8, ptr %data, i64 %offset
  call void @zcuda.printf.head(ptr %filler.at, i64 %filler, i64 0, i64 0, i64 0)
  %filler.mark = add i64 %reserved, 1
  store atomic i64 %filler.mark, ptr %filler.at release, align 8
  br label %write
write:
  %record.offset = urem i64 %position, %size
  %record = getelementptr i8, ptr %data, i64 %record.offset
  call void @zcuda.printf.head(ptr %record, i64 %total, i64 %format.size, i64 %used, i64 %strings)
  %format.to = getelementptr i8, ptr %record, i64 {RING_RECORD.size}
  call void @llvm.memcpy.p0.p0.i64(ptr %format.to, ptr %format, i64 %format.size, i1 false)
  %arguments.to = getelementptr i8, ptr %record, i64 %arguments.start
  call void @llvm.memcpy.p0.p0.i64(ptr %arguments.to, ptr %arguments, i64 %used, i1 false)
  %strings.to = getelementptr i8, ptr %record, i64 %strings.start
  %again = call i32 @zcuda.printf.scan(ptr %format, ptr %arguments, ptr %strings.to, i64 %strings, ptr %sizes)
  %mark = add i64 %position, 1
  store atomic i64 %mark, ptr %record release, align 8
  ret i32 %count
}}
define internal void @zcuda.printf.head(ptr %at, i64 %total, i64 %format, i64 %used, i64 %strings) nounwind {{
  %at.8 = getelementptr i8, ptr %at, i64 8
  %at.12 = getelementptr i8, ptr %at, i64 12
  %at.16 = getelementptr i8, ptr %at, i64 16
  %at.20 = getelementptr i8, ptr %at, i64 20
  %at.24 = getelementptr i8, ptr %at, i64 24
  %total.32 = trunc i64 %total to i32
  %format.32 = trunc i64 %format to i32
  %used.32 = trunc i64 %used to i32
  %strings.32 = trunc i64 %strings to i32
  store i32 %total.32, ptr %at.8
  store i32 %format.32, ptr %at.12
  store i32 %used.32, ptr %at.16
  store i32 %strings.32, ptr %at.20
  store i64 0, ptr %at.24
  ret void
}}"""
_MEMCPY: Final = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"


def vprintf(group: Group, instruction: Instruction) -> None:
    """``vprintf d, format, arguments``: one record for every active lane, in the order of the lanes."""
    builder = group.builder
    builder.declarations |= {_SCAN, _APPEND, _MEMCPY}
    destination, text, values = instruction.operands
    kind = group.vector("i32")
    results = []
    for part in range(group.parts):
        mask = group.active(instruction, part)
        formats, arguments = (group.read(operand, "i64", part, vector=True) for operand in (text, values))
        slot = builder.alloca(str(kind))
        builder.line(f"store {kind} zeroinitializer, ptr {slot}")

        def body(lane: str, formats: str = formats, arguments: str = arguments, slot: str = slot) -> None:
            pointers = []
            for vector in (formats, arguments):
                address = group.lane_of(group.vector("i64"), vector, lane)
                pointers.append(builder.op(f"inttoptr i64 {address} to ptr"))
            count = builder.op(f"call i32 @zcuda.printf(ptr %launch, ptr {pointers[0]}, ptr {pointers[1]})")
            to = builder.op(f"getelementptr i32, ptr {slot}, i32 {lane}")
            builder.line(f"store i32 {count}, ptr {to}")

        group.each_lane("-1" if mask is None else group.mask_bits(mask), body)
        results.append(builder.op(f"load {kind}, ptr {slot}"))
    group.write(destination, results, "i32", group.plain(instruction), instruction.guard)
