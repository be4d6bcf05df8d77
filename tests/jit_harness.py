"""Runs a kernel twice, by the code generator's machine code in this process and by the interpreter, and compares.

Every buffer ends at a page boundary and has a page without access on either side, so an access beyond
it ends the test run with a signal.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest
from jit_services import services

from zcuda_async.executor.native import NativeCode
from zcuda_async.interpreter import Interpreter, RegionMemory
from zcuda_async.interpreter.memory import SHARED_WINDOW
from zcuda_async.jit.abi import EXTENSION, EXTENSION_OFFSET, LAUNCH, LAUNCH_SIZE, WORKER, WORKER_SIZE
from zcuda_async.jit.cfg import is_warp_barrier
from zcuda_async.jit.compile import generate_ir, inspect_module
from zcuda_async.jit.function import ENTRY
from zcuda_async.jit.host import host_target
from zcuda_async.jit.lower import WARP_OPCODES
from zcuda_async.jit.lower.group import Target
from zcuda_async.jit.pipeline import assemble
from zcuda_async.ptx import parse
from zcuda_async.ptx.ir import Function, Instruction, Module

__all__ = (
    "ARM_TOOLS",
    "TARGETS",
    "Buffers",
    "Case",
    "check",
    "compiled",
    "differences",
    "image_of",
    "kernel",
    "object_code",
    "run_code",
    "run_interpreter",
    "run_jit",
    "same",
    "sweep",
    "target",
    "unpack",
)

Array = npt.NDArray[Any]
Triple = tuple[int, int, int]

SHARED_BYTES: Final = 256 << 10
SCRATCH_BYTES: Final = 16 << 20
_HEAP: Final = 1 << 40
_PAGE: Final = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


ARM_TOOLS: Final = ("aarch64-linux-gnu-gcc", "qemu-aarch64")
"""Programs that run code for 64-bit ARM here; Debian's packages gcc-aarch64-linux-gnu and qemu-user have them."""


def _available() -> tuple[str, ...]:
    """The processors whose code this one can run; 64-bit ARM where there is an emulator."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return ("host",)
    emulated = ("arm",) if all(map(shutil.which, ARM_TOOLS)) else ()
    return ("host", "avx2", "sse2", *emulated) if host_target().lanes >= 8 else ("host", "sse2", *emulated)


TARGETS: Final = _available()

sweep: Final = pytest.mark.skipif(
    not os.environ.get("ZCUDA_TEST_SWEEP"), reason="takes minutes; set ZCUDA_TEST_SWEEP=1 to run it"
)
"""For tests that go through everything, for every processor."""


@cache
def target(name: str) -> Target:
    """This host, or an older processor that it can stand in for."""
    return {
        "host": host_target(),
        "avx2": Target("haswell", "", 8, False),
        "sse2": Target("x86-64", "", 4, False),
        "arm": Target("generic", "+neon", 4, False, "aarch64-unknown-linux-gnu"),
    }[name]


class Buffers:
    """Guarded memory for the arrays of one case."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        self.sizes = [array.nbytes for array in arrays]
        pages = [-(-max(size, 1) // _PAGE) for size in self.sizes]
        self._map = mmap.mmap(-1, (sum(pages) + len(pages) + 1) * _PAGE)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.addresses: list[int] = []
        at = 1
        self._protect(0)
        for array, count, size in zip(arrays, pages, self.sizes, strict=True):
            end = (at + count) * _PAGE
            start = (end - size) & ~31
            self._map[start : start + size] = array.tobytes()
            self.addresses.append(self._base + start)
            self._protect(at + count)
            at += count + 1

    def _protect(self, page: int) -> None:
        if _libc.mprotect(self._base + page * _PAGE, _PAGE, 0):
            raise OSError(ctypes.get_errno(), "mprotect")

    def contents(self, index: int) -> bytes:
        """What a buffer holds now."""
        start = self.addresses[index] - self._base
        return self._map[start : start + self.sizes[index]]


@dataclass(frozen=True)
class Case:
    """One launch: `args` are arrays (passed by address) and numbers, in the order of the parameters.

    `links` are addresses in arrays: (array, byte offset, array whose address is added there).
    """

    text: str
    args: Sequence[Array | int | float]
    kernel: str = "k"
    grid: Triple = (1, 1, 1)
    block: Triple = (32, 1, 1)
    dynamic_shared: int = 0
    cluster: Triple = (1, 1, 1)
    stack_bytes: int = 1 << 14
    links: Sequence[tuple[int, int, int]] = ()
    module: Module = field(init=False)
    function: Function = field(init=False)

    def __post_init__(self) -> None:
        module = parse(self.text, "<test>")
        object.__setattr__(self, "module", module)
        object.__setattr__(self, "function", next(f for f in module.functions if f.name == self.kernel))

    @property
    def arrays(self) -> list[Array]:
        """The arrays among the arguments."""
        return [arg for arg in self.args if isinstance(arg, np.ndarray)]

    def pack(self, addresses: Sequence[int]) -> bytes:
        """The parameter buffer, given where the arrays are."""
        out = bytearray(max((p.offset + p.size for p in self.function.params), default=0))
        places = iter(addresses)
        for param, arg in zip(self.function.params, self.args, strict=True):
            code = {"f32": "<f", "f64": "<d"}.get(param.type, f"<{ {1: 'B', 2: 'H', 4: 'I', 8: 'Q'}[param.size] }")
            value = next(places) if isinstance(arg, np.ndarray) else arg
            if code[1] in "BHIQ":
                value = int(value) & ((1 << 8 * param.size) - 1)
            struct.pack_into(code, out, param.offset, value)
        return bytes(out)


class _Worker:
    """The memory that a worker gives a kernel."""

    def __init__(self) -> None:
        self._memory = np.zeros(SHARED_BYTES + SCRATCH_BYTES + 3 * _PAGE, np.uint8)
        base = -(-self._memory.ctypes.data // _PAGE) * _PAGE
        self.shared = base
        self.scratch = base + SHARED_BYTES
        self.page = self.scratch + SCRATCH_BYTES
        self._control = np.zeros(4096, np.uint8)
        start = -self._control.ctypes.data % 64
        self._launch = self._control[start : start + LAUNCH_SIZE]
        self._state = self._control[start + LAUNCH_SIZE : start + LAUNCH_SIZE + WORKER_SIZE]

    def run(self, code: NativeCode, case: Case, params: bytes, image: int) -> None:
        ctypes.memset(self.shared, 0xA5, SHARED_BYTES)
        packed = np.frombuffer(params + bytes(16), np.uint8).copy()
        total = case.grid[0] * case.grid[1] * case.grid[2]
        launch = LAUNCH.pack(0, total, 3, 1, 0, *case.grid, case.dynamic_shared, packed.ctypes.data, image, 0, 0)
        self._launch[:] = np.frombuffer(launch, np.uint8)
        EXTENSION.pack_into(self._launch, EXTENSION_OFFSET, 0, *case.cluster, services().address, 1, case.stack_bytes)
        state = WORKER.pack(self.shared, self.scratch, SCRATCH_BYTES, 0, 0, 0, 0, 0)
        self._state[:] = np.frombuffer(state, np.uint8)
        last = code.entry(self._launch.ctypes.data, self._state.ctypes.data)
        assert last == 1, "the only worker of a launch is its last"


@cache
def _worker() -> _Worker:
    return _Worker()


def object_code(case: Case, target_name: str = "host", parts: int | None = None) -> bytes:
    """The kernel's object file.  Where there are warp-level instructions, `parts` is at least a warp."""
    where = target(target_name)
    instructions = (item for item in case.function.body if isinstance(item, Instruction))
    if parts is not None and any(item.opcode in WARP_OPCODES or is_warp_barrier(item) for item in instructions):
        parts = max(parts, 32 // where.lanes)
    ir, suspends, _ = generate_ir(case.text, "<test>", case.kernel, case.block, target=where, parts=parts)
    assert not (target_name == "arm" and "llvm.x86" in ir)
    return assemble(ir, where, suspends=suspends)


@contextmanager
def compiled(case: Case, target_name: str = "host", parts: int | None = None) -> Iterator[NativeCode]:
    """The kernel's machine code, loaded."""
    code = NativeCode(object_code(case, target_name, parts), ENTRY)
    try:
        yield code
    finally:
        code.close()


@dataclass(frozen=True)
class _Image:
    """The module's variables, placed."""

    data: bytes
    relocations: tuple[tuple[int, int], ...]
    offsets: Mapping[str, int]

    def at(self, base: int) -> bytes:
        data = bytearray(self.data)
        for offset, addend in self.relocations:
            struct.pack_into("<Q", data, offset, base + addend)
        return bytes(data)


def image_of(case: Case) -> _Image:
    """What the module's variables hold at first."""
    info = inspect_module(case.text, "<test>")
    return _Image(
        info.globals_image.ljust(info.memory_size, b"\0"), info.relocations, {v.name: v.offset for v in info.variables}
    )


def _place(case: Case) -> tuple[Buffers, int, _Image]:
    """Buffers for the arguments and, last, the module's variables at their address."""
    image = image_of(case)
    blank = np.frombuffer(image.data or bytes(16), np.uint8)
    buffers = Buffers([*case.arrays, blank])
    base = buffers.addresses[-1]
    filled = image.at(base)
    ctypes.memmove(base, filled, len(filled))
    for array, offset, target in case.links:
        place = ctypes.c_uint64.from_address(buffers.addresses[array] + offset)
        place.value += buffers.addresses[target]
    return buffers, base, image


def run_jit(case: Case, target_name: str = "host", parts: int | None = None) -> list[Array]:
    """The arrays after the launch, computed by machine code; skips the test where this host cannot run it."""
    if target_name not in TARGETS:
        pytest.skip(f"this processor cannot run code for {target_name}")
    if target_name == "arm":
        from arm_tools import run_arm

        return run_arm(case, parts)
    with compiled(case, target_name, parts) as code:
        return run_code(code, case)


def run_code(code: NativeCode, case: Case) -> list[Array]:
    """The arrays after the launch, computed by machine code that `compiled` made of the same kernel and block."""
    buffers, base, _ = _place(case)
    _worker().run(code, case, case.pack(buffers.addresses), base)
    return unpack(case, [buffers.contents(index) for index in range(len(case.arrays))], buffers.addresses)


def run_interpreter(
    case: Case,
    *,
    step_limit: int | None = 200_000,
    strict: bool = True,
    output: Callable[[bytes], object] = lambda _: None,
    heap_size: int = 0,
) -> list[Array]:
    """The arrays after the launch, computed by the interpreter; `output` gets what the kernel prints."""
    buffers, base, image = _place(case)
    heap = _HEAP, _HEAP + heap_size
    contents = [bytearray(buffers.contents(index)) for index in range(len(buffers.sizes))]
    Interpreter(case.module).launch(
        case.kernel,
        case.grid,
        case.block,
        case.pack(buffers.addresses),
        RegionMemory([*zip(buffers.addresses, contents, strict=True), (_HEAP, bytearray(heap_size))]),
        dynamic_shared=case.dynamic_shared,
        symbols={name: base + offset for name, offset in image.offsets.items()},
        shared_window=_worker().shared if case.cluster == (1, 1, 1) else SHARED_WINDOW,
        strict=strict,
        step_limit=step_limit,
        output=output,
        heap=heap,
        cluster=case.cluster,
    )
    return unpack(case, contents[:-1], buffers.addresses)


def unpack(case: Case, contents: Sequence[bytes | bytearray], addresses: Sequence[int]) -> list[Array]:
    """What the arrays hold; links are relative again, as they were given."""
    found = [bytearray(data) for data in contents]
    for array, offset, target in case.links:
        (value,) = struct.unpack_from("<Q", found[array], offset)
        struct.pack_into("<Q", found[array], offset, (value - addresses[target]) % (1 << 64))
    return [
        np.frombuffer(bytes(data), array.dtype).reshape(array.shape)
        for data, array in zip(found, case.arrays, strict=True)
    ]


def same(got: Array, want: Array) -> npt.NDArray[np.bool_]:
    """Where two arrays agree bit for bit; any NaN equals any other."""
    if got.dtype.kind != "f":
        return np.asarray(got == want)
    whole = np.dtype(f"u{got.dtype.itemsize}")
    return np.asarray((got.view(whole) == want.view(whole)) | (np.isnan(got) & np.isnan(want)))


def differences(got: Sequence[Array], want: Sequence[Array]) -> str:
    """What differs, as a few lines of text; empty if nothing does."""
    lines = []
    for index, (a, b) in enumerate(zip(got, want, strict=True)):
        wrong = np.argwhere(~same(a, b))
        for place in wrong[:4]:
            at = tuple(int(i) for i in place)
            lines.append(f"array {index}{list(at)}: got {a[at]!r}, want {b[at]!r} ({len(wrong)} differ)")
    return "\n".join(lines)


def kernel(body: str, *params: str, registers: str = "", before: str = "") -> str:
    """A module with the kernel ``k``: two pointers, ``in`` and ``out``, and whatever `params` adds (``u32 n``).

    The body finds: %d0 in, %d1 out, %d2 the linear thread index times 8, %d3 its own 64-bit word of the output;
    %r0 to %r2 %tid, %r3 and %r4 %ntid.x and .y, %r5 %ctaid.x, %r7 the linear index in the grid (blocks along x).
    Results go to %d10: they are stored at label ``END``, which follows the body.
    """
    extra = "".join(f", .param .{param}" for param in params)
    return f"""\
.version 8.0
.target sm_90
.address_size 64
{before}
.visible .entry k(.param .u64 in, .param .u64 out{extra})
{{
.reg .pred %p<20>; .reg .b16 %h<20>; .reg .b32 %r<60>; .reg .b64 %d<60>; .reg .f32 %f<20>; .reg .f64 %e<20>;
{registers}
ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out];
mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.y; mov.u32 %r2, %tid.z;
mov.u32 %r3, %ntid.x; mov.u32 %r4, %ntid.y; mov.u32 %r5, %ctaid.x; mov.u32 %r8, %ntid.z;
mad.lo.s32 %r6, %r2, %r4, %r1; mad.lo.s32 %r6, %r6, %r3, %r0;
mul.lo.s32 %r8, %r8, %r4; mul.lo.s32 %r8, %r8, %r3; mad.lo.s32 %r7, %r5, %r8, %r6;
mul.wide.u32 %d2, %r7, 8; add.s64 %d3, %d1, %d2;
mov.u64 %d10, 0;
{body}
END:
st.global.u64 [%d3], %d10;
ret;
}}
"""


def check(case: Case, *, targets: Sequence[str] = TARGETS, parts: Sequence[int | None] = (None, 1, 2)) -> None:
    """Machine code and interpreter agree, for each processor and number of parts."""
    want = run_interpreter(case)
    for target_name in targets:
        for count in parts:
            text = differences(run_jit(case, target_name, count), want)
            assert not text, f"{target_name}, parts {count}:\n{text}\n{case.text}"
