"""What the runtime's tests share: an executor that waits for the test, a compiler that needs no PTX, devices."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

import zcuda_async as zc
from zcuda_async.executor.base import Fault, LaunchRequest, LaunchResult
from zcuda_async.jit.info import KernelCode, KernelInfo, ModuleInfo, ParamInfo, VariableInfo
from zcuda_async.memory.arena import Arena
from zcuda_async.ptx.errors import PtxError

ONE_THREAD = zc.LaunchConfig(grid=1, block=1)


def parameter(name: str, kind: str, size: int, offset: int, count: int = 1) -> ParamInfo:
    return ParamInfo(name, kind, size, size // count, offset, count)


EMPTY = KernelInfo("empty", (), 0, 0)
SAXPY = KernelInfo(
    "saxpy",
    (
        parameter("n", "u32", 4, 0),
        parameter("a", "f32", 4, 4),
        parameter("x", "u64", 8, 8),
        parameter("y", "u64", 8, 16),
    ),
    24,
    0,
)
SMALL = KernelInfo("small", (), 0, 1024, max_threads=256)
EXACT = KernelInfo("exact", (), 0, 0, required_block=(8, 8, 1))
INFO = ModuleInfo(
    kernels=(EMPTY, SAXPY, SMALL, EXACT),
    variables=(VariableInfo("table", "const", 0, 16), VariableInfo("pointer", "global", 16, 8)),
    globals_image=bytes(range(16)) + bytes(8),
    relocations=((16, 4),),
)


class GatedExecutor:
    """Keeps launches until the test lets them end; with `is_open` they end by themselves, one loop turn later."""

    needs_code = True

    def __init__(self, task_group: TaskGroup, workers: int = 1) -> None:
        self._task_group = task_group
        self.workers = workers
        self.is_open = False
        self.launches: deque[tuple[LaunchRequest, Callable[[LaunchResult], None]]] = deque()
        self.seen: list[str] = []
        self.resets = 0
        self.is_closed = False

    def submit(self, request: LaunchRequest, on_done: Callable[[LaunchResult], None]) -> None:
        self.seen.append(request.code.name)
        self.launches.append((request, on_done))
        if self.is_open:
            self._task_group.start_soon(self._end_later)

    async def _end_later(self) -> None:
        await checkpoint()
        if self.launches:
            self.end()

    def end(self, fault: Fault | None = None) -> LaunchRequest:
        """End the oldest launch."""
        request, on_done = self.launches.popleft()
        now = time.monotonic_ns()
        on_done(LaunchResult(now, now, fault))
        return request

    def open(self) -> None:
        """End everything, now and from now on."""
        self.is_open = True
        while self.launches:
            self.end()

    async def reset(self) -> None:
        await checkpoint()
        self.resets += 1
        while self.launches:
            self.end(Fault(709, "reset"))

    async def aclose(self) -> None:
        await checkpoint()
        self.is_closed = True
        while self.launches:
            self.end(Fault(709, "closed"))


class FakeCompiler:
    """Knows one module, whatever the text; text that starts with "bad" does not compile."""

    def __init__(self) -> None:
        self.compiled: list[tuple[str, tuple[int, int, int]]] = []

    async def inspect(self, text: str, filename: str = "<ptx>") -> ModuleInfo:
        await checkpoint()
        if text.startswith("bad"):
            raise zc.CompileError(zc.Status.cudaErrorInvalidPtx, f"{filename}:1:1: error: bad text")
        return INFO

    async def compile(self, text: str, filename: str, kernel: str, block: tuple[int, int, int]) -> KernelCode:
        await checkpoint()
        self.compiled.append((kernel, block))
        if text.startswith("unfit"):
            cause = PtxError(f"{kernel} does not fit", filename)
            raise zc.CompileError(
                zc.Status.cudaErrorInvalidPtx, f"{filename}:2:1: error: {kernel} does not fit"
            ) from cause
        if text.startswith("unlucky") and len(self.compiled) == 1:
            raise zc.CompileError(zc.Status.cudaErrorInvalidPtx, "the compiler process was killed by SIGKILL")
        return KernelCode(kernel, block, "entry", b"", 0)

    async def aclose(self) -> None:
        await checkpoint()


class Rig:
    """Opens devices on the fakes and keeps hold of them."""

    def __init__(self) -> None:
        self.compiler = FakeCompiler()
        self.executor: GatedExecutor

    async def _start_executor(self, arena: Arena, task_group: TaskGroup, workers: int | None) -> GatedExecutor:
        self.executor = GatedExecutor(task_group, workers or 1)
        await checkpoint()
        return self.executor

    async def _start_compiler(self, task_group: TaskGroup) -> FakeCompiler:
        await checkpoint()
        return self.compiler

    def open(self, **options: Any) -> AbstractAsyncContextManager[zc.Device]:
        return zc.open_device(0, executor=self._start_executor, compiler=self._start_compiler, **options)


class AheadExecutor(GatedExecutor):
    """Takes a few launches behind others of their lane."""

    most = 3

    def submit_behind(self, request: LaunchRequest, on_done: Callable[[LaunchResult], None]) -> bool:
        if len(self.launches) > self.most or request.lane not in {each.lane for each, _ in self.launches}:
            return False
        self.submit(request, on_done)
        return True


class AheadRig(Rig):
    async def _start_executor(self, arena: Arena, task_group: TaskGroup, workers: int | None) -> GatedExecutor:
        self.executor = AheadExecutor(task_group, workers or 1)
        await checkpoint()
        return self.executor


async def load(device: zc.Device, name: str = "empty", text: str = "") -> zc.Kernel:
    """A kernel of the fake module, compiled for one thread."""
    kernel = await device.load_ptx(text).get_kernel(name)
    if not text:
        await kernel.compile(block=1)
    return kernel
