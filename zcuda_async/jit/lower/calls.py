"""Calls that stay calls: of recursive functions, and through pointers.

Such a function is compiled for a whole group, as a kernel is.  It gets the masks of the lanes that call it, and
runs its blocks for these alone.  Arguments and results lie in each lane's area in the caller's local memory;
its own local memory, one frame for all lanes, comes from a stack in the worker's scratch memory, and registers
that live across calls lie on the native stack.  Both ends are checked on entry, and so is CUDA's stack limit, in the
bytes that each thread would need at least on a GPU: a call too deep is CUDA's stack error (714,
``cudaErrorHardwareStackError``: "exceeding the stack size limit").  A call through a pointer is made once for every
function that some lane calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.abi import WORKER_FIELDS
from zcuda_async.jit.builder import Builder
from zcuda_async.jit.inline import CALL
from zcuda_async.jit.lower.faults import STACK_ERROR, raise_fault
from zcuda_async.jit.lower.special import launch_field, symbol_value, worker_field
from zcuda_async.ptx.ir import Register, Symbol, VectorOperand

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group
    from zcuda_async.ptx.ir import Instruction

__all__ = ("CALLS", "Calls", "function_name", "function_parameters", "stack_check")

_INVALID_PC: Final = 718
"""cudaErrorInvalidPc: a call through a pointer that points to no function."""

_NATIVE_STACK: Final = 4 << 20
"""Bytes of the native stack that calls may take in a thread that is not a worker's: half of the default size."""

_PLACE: Final = "ptr %launch, ptr %worker, i32 %first, i32 %ctaid.x, i32 %ctaid.y, i32 %ctaid.z"


_FRAMES: Final = "ptr %state, ptr %alive, i64 %floor, i64 %stack, i64 %room, i64 %outer"
"""The block's state; `Barriers.alive`; ends of both stacks; what is left of the thread's; the kernel's local memory."""


def function_name(name: str) -> str:
    """What a device function is called in the LLVM module."""
    return f'@"zcuda.function.{name}"'


def function_parameters(group: Group) -> str:
    """The parameters of a function for a group."""
    masks = ", ".join(f"i{group.lanes} %mask.{part}" for part in range(group.parts))
    return f"{_PLACE}, {_FRAMES}, i64 %area, i64 %area.stride, ptr %inside, {masks}"


def stack_check(group: Group, line: int, *, has_frame: bool) -> list[str]:
    """On a function's entry: whether its frame still fits, on both stacks and in the thread's.

    `has_frame` is for coroutines, whose local memory is in a frame of their own.
    """
    b = Builder()
    b.line(f"%room.left = sub i64 %room, {group.layout.frame_bytes}")
    here = b.op(f"ptrtoint ptr {b.call('ptr', 'llvm.frameaddress.p0', [('i32', '0')])} to i64")
    beyond = b.op(f"or i1 {b.op('icmp slt i64 %room.left, 0')}, {b.op(f'icmp ult i64 {here}, %floor')}")
    if not has_frame:
        b.line("%local = inttoptr i64 %stack to ptr")
        base, size = (
            b.op(f"load i64, ptr {b.op(f'getelementptr i8, ptr %worker, i64 {WORKER_FIELDS[name][0]}')}, align 8")
            for name in ("scratch", "scratch_size")
        )
        if group.coroutines:  # whose frames are behind the stack
            size = b.op(f"sub i64 {size}, {b.op(f'lshr i64 {size}, 2')}")
        end = b.op(f"add i64 %stack, {_frame_size(group)}")
        scratch = b.op(f"icmp ugt i64 {end}, {b.op(f'add i64 {base}, {size}')}")
        beyond = b.op(f"or i1 {beyond}, {scratch}")
    b.line(f"br i1 {beyond}, label %overflow, label %framed, !prof !10")
    b.label("overflow")
    raise_fault(b, STACK_ERROR, line)
    b.line("br label %framed")
    b.label("framed")
    group.builder.declarations |= b.declarations
    return [text.replace("%v", "%frame.") for text in b.lines]


def _frame_size(group: Group) -> int:
    return -(-group.layout.local_size * group.geometry.width // 64) * 64


def _frames(group: Group) -> str:
    """What a callee gets for `_FRAMES`."""
    builder = group.builder
    if group.is_function:
        stack = "%stack" if group.suspends else builder.op(f"add i64 %stack, {_frame_size(group)}")
        return f"ptr %state, ptr %alive, i64 %floor, i64 {stack}, i64 %room.left, i64 %outer"
    state, alive = ("%state", group.barriers.alive) if group.barriers is not None else ("null", "null")
    half = builder.op(f"lshr i64 {worker_field(group, 'scratch_size')}, 1")  # below are the groups' own frames
    aligned = builder.op(f"and i64 {half}, -64")
    stack = builder.op(f"add i64 {worker_field(group, 'scratch')}, {aligned}")
    outer = builder.op("ptrtoint ptr %local to i64") if group.layout.local_size else "0"
    room = launch_field(group, "stack_bytes")
    return f"ptr {state}, ptr {alive}, i64 {_native_floor(group)}, i64 {stack}, i64 {room}, i64 {outer}"


def _native_floor(group: Group) -> str:
    """How low the native stack may get."""
    builder, known = group.builder, worker_field(group, "stack_floor")
    here = builder.call("ptr", "llvm.frameaddress.p0", [("i32", "0")])
    below = builder.op(f"sub i64 {builder.op(f'ptrtoint ptr {here} to i64')}, {_NATIVE_STACK}")
    return builder.op(f"select i1 {builder.op(f'icmp eq i64 {known}, 0')}, i64 {below}, i64 {known}")


def call(group: Group, instruction: Instruction) -> None:
    """``call.out target, area, {functions}``."""
    target, area, functions = instruction.operands
    assert isinstance(area, Symbol)
    assert isinstance(functions, VectorOperand)
    builder, lanes = group.builder, group.lanes
    where, _ = symbol_value(group, area, 0)
    head = f"{_PLACE}, {_frames(group)}, i64 {where}, i64 {group.layout.local_size}"
    masks = []
    for part in range(group.parts):
        mask = group.active(instruction, part)
        masks.append("-1" if mask is None else group.mask_bits(mask))
    names = [function.name for function in functions.elements if isinstance(function, Symbol)]
    if isinstance(target, Symbol):
        _emit(group, names[0], head, masks, instruction.span.site)
        return
    assert isinstance(target, Register)
    kind = group.vector("i64")
    wanted = [group.read(target, "i64", part, vector=True) for part in range(group.parts)]
    slots = [builder.alloca(f"i{lanes}", 4) for _ in masks]
    for slot, mask in zip(slots, masks, strict=True):
        builder.line(f"store i{lanes} {mask}, ptr {slot}")
    again, some, done = (builder.block_name(hint) for hint in ("calls", "call", "called"))
    builder.line(f"br label %{again}")
    builder.label(again)
    left = [builder.op(f"load i{lanes}, ptr {slot}") for slot in slots]
    chosen, any_left = "0", "false"
    for value, mask in reversed(list(zip(wanted, left, strict=True))):
        is_left = builder.op(f"icmp ne i{lanes} {mask}, 0")
        safe = builder.op(f"select i1 {is_left}, i{lanes} {mask}, i{lanes} 1")
        lane = builder.call(f"i{lanes}", f"llvm.cttz.i{lanes}", [(f"i{lanes}", safe), ("i1", "true")])
        own = builder.op(f"extractelement {kind} {value}, i{lanes} {lane}")
        chosen = builder.op(f"select i1 {is_left}, i64 {own}, i64 {chosen}")
        any_left = builder.op(f"or i1 {is_left}, {any_left}")
    builder.line(f"br i1 {any_left}, label %{some}, label %{done}")
    builder.label(some)
    own_masks = []
    for slot, value, mask in zip(slots, wanted, left, strict=True):
        equal = builder.compare("icmp eq", kind, value, builder.splat(kind, chosen))
        own_masks.append(builder.op(f"and i{lanes} {group.mask_bits(equal)}, {mask}"))
        builder.line(f"store i{lanes} {builder.op(f'xor i{lanes} {mask}, {own_masks[-1]}')}, ptr {slot}")
    invalid = builder.block_name("nofunction")
    labels = [builder.block_name("function") for _ in names]
    cases = " ".join(
        f"i64 {group.layout.functions[name]}, label %{label}" for name, label in zip(names, labels, strict=True)
    )
    builder.line(f"switch i64 {chosen}, label %{invalid} [{cases}]")
    for name, label in zip(names, labels, strict=True):
        builder.label(label)
        _emit(group, name, head, own_masks, instruction.span.site)
        builder.line(f"br label %{again}")
    builder.label(invalid)
    raise_fault(builder, _INVALID_PC, instruction.span.site)
    builder.line(f"br label %{again}")
    builder.label(done)


def _emit(group: Group, name: str, head: str, masks: list[str], site: int) -> None:
    if name in group.coroutines:
        assert group.calls is not None
        group.calls.start(name, head, masks, site)
    else:
        passed = ", ".join(f"i{group.lanes} {mask}" for mask in masks)
        group.builder.line(f"call void {function_name(name)}({head}, ptr null, {passed})")


_RECORD: Final = {"next": 0, "handle": 8, "number": 16, "masks": 24}
"""A call that has stopped in the middle: where that of the list's next one is, the function's handle and number, and
the lanes that have not returned, 16 bits for each part."""
_RECORD_SIZE: Final = 64


class Calls:
    """The calls that lanes of a group are in, of functions that wait: they go on when the group gets its turn."""

    def __init__(self, group: Group) -> None:
        self.group = group
        builder = group.builder
        self._first = builder.alloca("ptr", 8)
        builder.entry_stores.append(f"store ptr null, ptr {self._first}")
        self._inside = [builder.alloca(f"i{group.lanes}", 4) for _ in range(group.parts)]
        builder.entry_stores += [f"store i{group.lanes} 0, ptr {slot}" for slot in self._inside]

    def _field(self, record: str, name: str, offset: int = 0) -> str:
        return self.group.builder.op(f"getelementptr i8, ptr {record}, i64 {_RECORD[name] + offset}")

    def _is_done(self, handle: str) -> str:
        return self.group.builder.call("i1", "llvm.coro.done", [("ptr", handle)])

    def _give(self, number: str, frame: str) -> None:
        self.group.builder.line(f"call void @zcuda.frame.give(ptr %worker, i64 {number}, ptr {frame})")

    def start(self, name: str, head: str, masks: list[str], site: int) -> None:
        """Run a function up to where it first stops; if it does, note it down."""
        builder, lanes = self.group.builder, self.group.lanes
        number = str(self.group.coroutines[name])
        ended, stopped, known = (builder.block_name(hint) for hint in ("ended", "stopped", "known"))
        wanted = f"ptr %worker, i64 {len(self.group.coroutines)}, i64 {_RECORD_SIZE}, i64 {site}"
        record = builder.op(f"call ptr @zcuda.frame.take({wanted})")
        for part, mask in enumerate(masks):
            builder.line(f"store i{lanes} {mask}, ptr {self._field(record, 'masks', 2 * part)}")
        passed = ", ".join(f"i{lanes} {mask}" for mask in masks)
        inside = self._field(record, "masks")
        handle = builder.op(f"call ptr {function_name(name)}({head}, ptr {inside}, {passed})")
        builder.line(f"br i1 {self._is_done(handle)}, label %{ended}, label %{stopped}")
        builder.label(ended)
        self._give(number, handle)
        self._give(str(len(self.group.coroutines)), record)
        builder.line(f"br label %{known}")
        builder.label(stopped)
        following = builder.op(f"load ptr, ptr {self._first}")
        for field, value in (("next", f"ptr {following}"), ("handle", f"ptr {handle}"), ("number", f"i64 {number}")):
            builder.line(f"store {value}, ptr {self._field(record, field)}")
        self._count_in(record)
        builder.line(f"store ptr {record}, ptr {self._first}")
        builder.line(f"br label %{known}")
        builder.label(known)

    def _count_in(self, record: str) -> None:
        """The lanes of a call that have not returned are inside."""
        builder, kind = self.group.builder, f"i{self.group.lanes}"
        for part, slot in enumerate(self._inside):
            mask = builder.op(f"load {kind}, ptr {self._field(record, 'masks', 2 * part)}")
            inside = builder.op(f"or {kind} {builder.op(f'load {kind}, ptr {slot}')}, {mask}")
            builder.line(f"store {kind} {inside}, ptr {slot}")

    def go_on(self) -> None:
        """Let every call go on to where it stops next, or returns."""
        builder, lanes = self.group.builder, self.group.lanes
        again, some, ended, stopped, over = (
            builder.block_name(hint) for hint in ("again", "some", "ended", "stopped", "over")
        )
        for slot in self._inside:
            builder.line(f"store i{lanes} 0, ptr {slot}")
        place = builder.alloca("ptr", 8)  # where the list goes on: at first the group's own variable, then a record
        builder.line(f"store ptr {self._first}, ptr {place}")
        builder.line(f"br label %{again}")
        builder.label(again)
        at = builder.op(f"load ptr, ptr {place}")
        record = builder.op(f"load ptr, ptr {at}")
        builder.line(f"br i1 {builder.op(f'icmp eq ptr {record}, null')}, label %{over}, label %{some}")
        builder.label(some)
        handle = builder.op(f"load ptr, ptr {self._field(record, 'handle')}")
        builder.call("void", "llvm.coro.resume", [("ptr", handle)])
        builder.line(f"br i1 {self._is_done(handle)}, label %{ended}, label %{stopped}")
        builder.label(stopped)
        self._count_in(record)
        builder.line(f"store ptr {record}, ptr {place}")
        builder.line(f"br label %{again}")
        builder.label(ended)
        builder.line(f"store ptr {builder.op(f'load ptr, ptr {record}')}, ptr {at}")
        self._give(builder.op(f"load i64, ptr {self._field(record, 'number')}"), handle)
        self._give(str(len(self.group.coroutines)), record)
        builder.line(f"br label %{again}")
        builder.label(over)

    @staticmethod
    def leave(group: Group, masks: Sequence[str]) -> None:
        """In a function that waits: lanes return, and need not wait for the others of their call."""
        builder, kind = group.builder, f"i{group.lanes}"
        for part, mask in enumerate(masks):
            at = builder.op(f"getelementptr i8, ptr %inside, i64 {2 * part}")
            rest = builder.op(f"xor {kind} {group.mask_bits(mask)}, -1")
            inside = builder.op(f"and {kind} {builder.op(f'load {kind}, ptr {at}')}, {rest}")
            builder.line(f"store {kind} {inside}, ptr {at}")

    def returned(self, waiting: Sequence[str]) -> list[str]:
        """Of the lanes in `waiting` (masks by part), those that are in no call."""
        builder, kind, found = self.group.builder, self.group.vector("i1"), []
        for slot, mask in zip(self._inside, waiting, strict=True):
            inside = builder.op(f"load i{self.group.lanes}, ptr {slot}")
            outside = builder.op(f"xor i{self.group.lanes} {inside}, -1")
            found.append(self.group.both(mask, builder.op(f"bitcast i{self.group.lanes} {outside} to {kind}")))
        return found


CALLS: Final[dict[str, Lowering]] = {CALL: call}
