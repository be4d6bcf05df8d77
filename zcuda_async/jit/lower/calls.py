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

from typing import TYPE_CHECKING, Final

from zcuda_async.jit.abi import WORKER_FIELDS
from zcuda_async.jit.blockstate import STATE_FIELDS
from zcuda_async.jit.builder import Builder
from zcuda_async.jit.inline import CALL
from zcuda_async.jit.lower.faults import STACK_ERROR, raise_fault
from zcuda_async.jit.lower.special import launch_field, symbol_value, worker_field
from zcuda_async.ptx.ir import Register, Symbol, VectorOperand

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group
    from zcuda_async.ptx.ir import Instruction

__all__ = ("CALLS", "function_name", "function_parameters", "stack_check")

_INVALID_PC: Final = 718
"""cudaErrorInvalidPc: a call through a pointer that points to no function."""

_NATIVE_STACK: Final = 4 << 20
"""Bytes of the native stack that calls may take in a thread that is not a worker's: half of the default size."""

_PLACE: Final = "ptr %launch, ptr %worker, i32 %first, i32 %ctaid.x, i32 %ctaid.y, i32 %ctaid.z"


_FRAMES: Final = "ptr %state, i64 %floor, i64 %stack, i64 %room, i64 %outer"
"""The block's state; ends of both stacks; bytes that the thread's stack has left; the kernel's local memory."""


def function_name(name: str) -> str:
    """What a device function is called in the LLVM module."""
    return f'@"zcuda.function.{name}"'


def function_parameters(group: Group) -> str:
    """The parameters of a function for a group."""
    masks = ", ".join(f"i{group.lanes} %mask.{part}" for part in range(group.parts))
    return f"{_PLACE}, {_FRAMES}, i64 %area, i64 %area.stride, {masks}"


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
        return f"ptr %state, i64 %floor, i64 {stack}, i64 %room.left, i64 %outer"
    state = "%state" if group.barriers is not None else "null"
    half = builder.op(f"lshr i64 {worker_field(group, 'scratch_size')}, 1")  # below are the groups' own frames
    aligned = builder.op(f"and i64 {half}, -64")
    stack = builder.op(f"add i64 {worker_field(group, 'scratch')}, {aligned}")
    outer = builder.op("ptrtoint ptr %local to i64") if group.layout.local_size else "0"
    room = launch_field(group, "stack_bytes")
    return f"ptr {state}, i64 {_native_floor(group)}, i64 {stack}, i64 {room}, i64 {outer}"


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
    running = _Running(group, [name for name in names if name in group.coroutines])
    if isinstance(target, Symbol):
        _emit(group, names[0], head, masks, running)
        running.finish()
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
        _emit(group, name, head, own_masks, running)
        builder.line(f"br label %{again}")
    builder.label(invalid)
    raise_fault(builder, _INVALID_PC, instruction.span.site)
    builder.line(f"br label %{again}")
    builder.label(done)
    running.finish()


def _emit(group: Group, name: str, head: str, masks: list[str], running: _Running) -> None:
    passed = ", ".join(f"i{group.lanes} {mask}" for mask in masks)
    if name in group.coroutines:
        running.start(name, f"call ptr {function_name(name)}({head}, {passed})")
    else:
        group.builder.line(f"call void {function_name(name)}({head}, {passed})")


class _Running:
    """The functions that one call has started and that may stop in the middle: the group stops as often as they do.

    Through a pointer lanes may call several, which may wait for each other: they take turns.
    """

    def __init__(self, group: Group, names: list[str]) -> None:
        self.group = group
        self.handles = {name: group.builder.alloca("ptr", 8) for name in names}
        for slot in self.handles.values():
            group.builder.line(f"store ptr null, ptr {slot}")

    def start(self, name: str, call: str) -> None:
        """Run a function up to where it first stops."""
        handle = self.group.builder.op(call)
        self.group.builder.line(f"store ptr {handle}, ptr {self.handles[name]}")

    def finish(self) -> None:
        """Let them go on until all have returned; if nobody ever can, the group ends too."""
        if not self.handles:
            return
        builder = self.group.builder
        again, stopped, returned, go_on = (
            builder.block_name(hint) for hint in ("again", "stopped", "over", "returned")
        )
        builder.line(f"br label %{again}")
        builder.label(again)
        left = "false"
        for name, slot in self.handles.items():
            left = builder.op(f"or i1 {left}, {self._is_left(self.group.coroutines[name], slot)}")
        builder.line(f"br i1 {left}, label %{stopped}, label %{returned}")
        builder.label(stopped)
        self.group.suspend()
        for slot in self.handles.values():
            self._resume(slot)
        builder.line(f"br label %{again}")
        builder.label(returned)
        at = builder.op(f"getelementptr i8, ptr %state, i64 {STATE_FIELDS['deadlock'][0]}")
        stuck = builder.op(f"icmp ne i32 {builder.op(f'load volatile i32, ptr {at}')}, 0")
        builder.line(f"br i1 {stuck}, label %finish, label %{go_on}, !prof !10")
        builder.label(go_on)

    def _is_left(self, number: int, slot: str) -> str:
        """Whether a function still runs, as i1; one that has returned gives its frame back."""
        builder = self.group.builder
        runs, ended, nothing, known = (builder.block_name(hint) for hint in ("runs", "ended", "nothing", "known"))
        result = builder.alloca("i1", 1)
        handle = builder.op(f"load ptr, ptr {slot}")
        builder.line(f"store i1 false, ptr {result}")
        builder.line(f"br i1 {builder.op(f'icmp eq ptr {handle}, null')}, label %{known}, label %{nothing}")
        builder.label(nothing)
        is_done = builder.call("i1", "llvm.coro.done", [("ptr", handle)])
        builder.line(f"br i1 {is_done}, label %{ended}, label %{runs}")
        builder.label(ended)
        builder.line(f"call void @zcuda.frame.give(ptr %worker, i64 {number}, ptr {handle})")
        builder.line(f"store ptr null, ptr {slot}")
        builder.line(f"br label %{known}")
        builder.label(runs)
        builder.line(f"store i1 true, ptr {result}")
        builder.line(f"br label %{known}")
        builder.label(known)
        return builder.op(f"load i1, ptr {result}")

    def _resume(self, slot: str) -> None:
        builder = self.group.builder
        some, none = builder.block_name("some"), builder.block_name("none")
        handle = builder.op(f"load ptr, ptr {slot}")
        builder.line(f"br i1 {builder.op(f'icmp eq ptr {handle}, null')}, label %{none}, label %{some}")
        builder.label(some)
        builder.call("void", "llvm.coro.resume", [("ptr", handle)])
        builder.line(f"br label %{none}")
        builder.label(none)


CALLS: Final[dict[str, Lowering]] = {CALL: call}
