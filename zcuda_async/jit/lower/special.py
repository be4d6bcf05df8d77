"""Special registers and addresses of variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zcuda_async.jit.abi import LAUNCH_FIELDS, MAX_WORKERS, WORKER_FIELDS, WORKER_SPACING
from zcuda_async.jit.blockstate import STATE_FIELDS
from zcuda_async.jit.builder import Type
from zcuda_async.ptx.ir import SpecialRegister, Symbol

if TYPE_CHECKING:
    from zcuda_async.jit.lower.group import Group

__all__ = ("TIMES", "launch_field", "own_window", "special_value", "state_value", "symbol_value", "worker_field")

_I32 = Type("i32")


def _field(group: Group, base: str, fields: dict[str, tuple[int, str]], name: str) -> str:
    """A field of the Launch or Worker struct that does not change while the kernel runs.

    It is read once, on entry: a read in a loop can falsely depend on the loop's stores.
    """
    offset, kind = fields[name]
    where = group.builder.hoist(f"getelementptr i8, ptr {base}, i64 {offset}")
    return group.builder.hoist(f"load {kind}, ptr {where}, align 4, !invariant.load !9")


def launch_field(group: Group, name: str) -> str:
    """A constant field of the Launch struct."""
    return _field(group, "%launch", LAUNCH_FIELDS, name)


def worker_field(group: Group, name: str) -> str:
    """A constant field of the Worker struct; where several blocks are resident, each has shared memory of its own.

    The blocks of a cluster have one window of shared addresses: it begins with the first block's.
    """
    if name == "shared" and group.has_block_state:
        return _field(group, "%state", STATE_FIELDS, name)
    return _field(group, "%worker", WORKER_FIELDS, name)


def thread_base(group: Group, part: int) -> str:
    """The linear index of lane 0 of a part.

    Groups are a power of two wide, so the lowest bits are known: where a branch depends on the lane alone
    (``tid & 31``), LLVM then sees which lanes take it.
    """
    first = group.builder.op(f"and i32 %first, {-group.geometry.width}")
    return group.builder.op(f"or i32 {first}, {part * group.lanes}")


def _thread_index(group: Group, part: int, *, vector: bool) -> str:
    base = thread_base(group, part)
    return group.materialise(base, "i32", 1) if vector else base


def _tid(group: Group, axis: int, part: int) -> str:
    """``%tid``: the base where its shape has one, else the vector."""
    x, y, z = group.geometry.block
    vector = group.transfer.special(f"%tid.{'xyz'[axis]}").stride is None
    kind = Type("i32", group.lanes if vector else 0)
    index = _thread_index(group, part, vector=vector)
    below = (1, x, x * y)[axis]
    size = (x, y, z)[axis]
    value = group.builder.binary("udiv", kind, index, kind.const(below)) if below > 1 else index
    if below * size < group.geometry.threads:
        value = group.builder.binary("urem", kind, value, kind.const(size))
    return value


def _lane_id(group: Group, part: int) -> str:
    base = thread_base(group, part)
    return group.builder.op(f"and i32 {base}, 31")


def _lane_mask(group: Group, name: str, part: int) -> str:
    """``%lanemask_{eq,lt,le,gt,ge}`` as a vector."""
    kind = group.vector("i32")
    builder = group.builder
    lane = group.materialise(_lane_id(group, part), "i32", 1)
    bit = builder.binary("shl", kind, kind.const(1), lane)
    below = builder.binary("sub", kind, bit, kind.const(1))
    if name == "eq":
        return bit
    if name == "lt":
        return below
    through = builder.binary("or", kind, below, bit)
    if name == "le":
        return through
    return builder.binary("xor", kind, below if name == "ge" else through, kind.const(-1))


def cluster_register(group: Group, name: str) -> tuple[str, str]:
    """``%clusterid``, ``%cluster_ctarank`` and their kin, from the launch's cluster shape."""
    builder = group.builder
    axis = name[-1]
    if name[-2] == ".":
        size = launch_field(group, f"cluster_{axis}")
        if name.startswith("%cluster_nctaid"):
            return size, "i32"
        if name.startswith("%cluster_ctaid"):
            return builder.op(f"urem i32 %ctaid.{axis}, {size}"), "i32"
        whole = f"%ctaid.{axis}" if name.startswith("%clusterid") else launch_field(group, f"grid_{axis}")
        return builder.op(f"udiv i32 {whole}, {size}"), "i32"
    if name == "%cluster_ctarank":
        return state_value(group, "rank"), "i32"
    x, y, z = (launch_field(group, f"cluster_{each}") for each in "xyz")
    blocks = builder.op(f"mul i32 {builder.op(f'mul i32 {x}, {y}')}, {z}")
    if name == "%cluster_nctarank":
        return blocks, "i32"
    if name == "%is_explicit_cluster":
        return builder.op(f"icmp ugt i32 {blocks}, 1"), "i1"
    raise LookupError(name)


def state_value(group: Group, name: str) -> str:
    """A field of the block's state that does not change while the block runs."""
    return _field(group, "%state", STATE_FIELDS, name)


def special_value(group: Group, operand: SpecialRegister, part: int) -> tuple[str, str]:
    """(value, element type) of a special register: its base or, where it varies, its vector."""
    name = operand.name
    axis = "xyz".find(name[-1]) if name[-2:-1] == "." else -1
    if name.startswith("%tid."):
        size = group.geometry.block[axis]
        return ("0" if size == 1 else _tid(group, axis, part)), "i32"
    if name.startswith("%ntid."):
        return str(group.geometry.block[axis]), "i32"
    if name.startswith("%ctaid."):
        return f"%ctaid.{'xyz'[axis]}", "i32"
    if name.startswith("%nctaid."):
        return launch_field(group, f"grid_{'xyz'[axis]}"), "i32"
    if name == "%laneid":
        return _lane_id(group, part), "i32"
    if name.startswith("%lanemask_"):
        return _lane_mask(group, name[len("%lanemask_") :], part), "i32"
    if name == "%warpid":
        return group.builder.op(f"lshr i32 {thread_base(group, part)}, 5"), "i32"
    if name == "%nwarpid":
        return str(-(-group.geometry.threads // 32)), "i32"
    if name == "WARP_SZ":
        return "32", "i32"
    if name == "%dynamic_smem_size":
        return launch_field(group, "dynamic_shared"), "i32"
    if name in ("%envreg1", "%envreg2"):  # the address of the grid's workspace, high word first
        workspace = launch_field(group, "workspace")
        word = group.builder.op(f"lshr i64 {workspace}, 32") if name == "%envreg1" else workspace
        return group.builder.op(f"trunc i64 {word} to i32"), "i32"
    if "cluster" in name:
        return cluster_register(group, name)
    if name in ("%total_smem_size", "%aggr_smem_size"):
        dynamic = launch_field(group, "dynamic_shared")
        return group.builder.op(f"add i32 {dynamic}, {group.layout.static_shared}"), "i32"
    if name == "%gridid":
        return launch_field(group, "number"), "i64"
    if name == "%current_graph_exec":
        return "0", "i64"
    if name.startswith(("%envreg", "%reserved_smem_offset_")):
        return "0", "i32"
    if name in TIMES:
        return _time(group, name)
    if name == "%smid":
        return _worker_number(group), "i32"
    if name == "%nsmid":
        return str(MAX_WORKERS), "i32"
    raise LookupError(name)


TIMES: Final = frozenset(("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"))
"""Special registers that are another number every time they are read."""


def _time(group: Group, name: str) -> tuple[str, str]:
    """The cycle counter, or the nanoseconds of the wall clock: whole or one half."""
    builder = group.builder
    time = _nanoseconds(group) if name.startswith("%globaltimer") else builder.call("i64", "llvm.readcyclecounter", [])
    if name in ("%clock64", "%globaltimer"):
        return time, "i64"
    half = builder.op(f"lshr i64 {time}, 32") if name.endswith("_hi") else time
    return builder.op(f"trunc i64 {half} to i32"), "i32"


def _nanoseconds(group: Group) -> str:
    """``clock_gettime(CLOCK_REALTIME)`` of the C library that the worker runs on."""
    builder = group.builder
    pair = builder.alloca("{ i64, i64 }", 8)
    builder.call("i32", "clock_gettime", [("i32", "0"), ("ptr", pair)])
    seconds = builder.op(f"load i64, ptr {pair}, align 8")
    at = builder.op(f"getelementptr i8, ptr {pair}, i64 8")
    rest = builder.op(f"load i64, ptr {at}, align 8")
    return builder.op(f"add i64 {builder.op(f'mul i64 {seconds}, 1000000000')}, {rest}")


def _worker_number(group: Group) -> str:
    """Which worker this is, from where its memory lies."""
    builder = group.builder
    region = builder.op(f"udiv i64 {worker_field(group, 'shared')}, {WORKER_SPACING}")
    return builder.op(f"trunc i64 {builder.op(f'urem i64 {region}, {MAX_WORKERS}')} to i32")


def _caller_address(group: Group, frame: str, stride: str, offset: int, part: int) -> str:
    """Where each lane has something in the frame of a caller (a vector)."""
    builder, kind = group.builder, group.vector("i64")
    numbers = kind.vector([part * group.lanes + lane for lane in range(group.lanes)])
    far = builder.binary("mul", kind, builder.splat(kind, stride), numbers)
    base = builder.op(f"add i64 {frame}, {offset}")
    return builder.binary("add", kind, far, builder.splat(kind, base))


def own_window(group: Group) -> str:
    """In a cluster, how far into its window of shared addresses those of the executing block begin; else empty."""
    if not group.in_cluster:
        return ""
    rank, stride = state_value(group, "rank"), state_value(group, "stride")
    return group.builder.hoist(f"zext i32 {group.builder.hoist(f'mul i32 {rank}, {stride}')} to i64")


def symbol_value(group: Group, operand: Symbol, part: int) -> tuple[str, str]:
    """(value, element type) of a variable's address: a shared-window offset, or absolute."""
    layout, builder = group.layout, group.builder
    if operand.name in layout.shared:
        offset = layout.shared[operand.name] + operand.offset
        own = own_window(group)
        return (builder.op(f"add i64 {own}, {offset}") if own else str(offset)), "i64"
    if operand.name in layout.functions:
        return str(layout.functions[operand.name]), "i64"
    if operand.name in layout.arguments:
        offset = layout.arguments[operand.name] + operand.offset
        return _caller_address(group, "%area", "%area.stride", offset, part), "i64"
    if operand.name in layout.outer:
        offset = layout.outer[operand.name] + operand.offset
        return _caller_address(group, "%outer", str(layout.outer_size), offset, part), "i64"
    if operand.name in layout.local:
        frame = builder.op("ptrtoint ptr %local to i64")
        offset = part * group.lanes * layout.local_size + layout.local[operand.name] + operand.offset
        return builder.op(f"add i64 {frame}, {offset}"), "i64"
    if operand.name in layout.params:
        params = launch_field(group, "params")
        return builder.op(f"add i64 {params}, {layout.params[operand.name] + operand.offset}"), "i64"
    if operand.name in layout.globals:
        image = launch_field(group, "globals")
        return builder.op(f"add i64 {image}, {layout.globals[operand.name] + operand.offset}"), "i64"
    raise LookupError(operand.name)
