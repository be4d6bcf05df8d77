"""The worker pool: crashes, kills, hangs, and what must be left behind (nothing)."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import pytest
from executor_kernels import request
from executor_tools import MIB, Pending, announced, open_pool, run, words

from zcuda_async.errors import CudaError, Status
from zcuda_async.executor.base import Fault
from zcuda_async.executor.crew import _Spawning
from zcuda_async.executor.pool import PoolExecutor
from zcuda_async.memory.arena import Arena

pytestmark = [pytest.mark.anyio, pytest.mark.pool]

IS_ARM = platform.machine() == "aarch64"
TRAP = (
    (Status.cudaErrorLaunchFailure, "arithmetic fault or trap in block 0 of trap")
    if IS_ARM
    else (Status.cudaErrorIllegalInstruction, "illegal instruction in block 0 of trap")
)
"""LLVM's trap is a breakpoint on ARM; the code generator's own say first what they stand for."""


def is_gone(pid: int) -> bool:
    """Whether no process of that id is left, not even a zombie."""
    return not Path(f"/proc/{pid}").exists()


def open_descriptors() -> list[str]:
    return sorted(str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink())


async def fault_of(pool: PoolExecutor, name: str, *params: int, grid: tuple[int, int, int] = (1, 1, 1)) -> Fault:
    with anyio.fail_after(1):
        fault = (await run(pool, request(name, *params, grid=grid))).fault
    assert fault is not None
    return fault


async def test_a_null_pointer_is_an_illegal_address() -> None:
    async with open_pool() as (pool, _):
        expected = Fault(Status.cudaErrorIllegalAddress, "illegal address 0x8 in block 0 of wild", 8, 0)
        assert await fault_of(pool, "wild", 8) == expected


async def test_an_overrun_names_the_buffer() -> None:
    async with open_pool() as (pool, arena):
        buffer = arena.device_heap.allocate(1000)
        past = buffer + 4 * MIB
        fault = await fault_of(pool, "wild", past)
        assert fault.code == Status.cudaErrorIllegalAddress
        assert fault.address == past
        assert fault.detail == (
            f"illegal address {past:#x} ({4 * MIB - 1000} bytes past the end of the 1000-byte buffer at"
            f" {buffer:#x}) in block 0 of wild"
        )


async def test_an_address_no_processor_has_is_an_illegal_address() -> None:
    async with open_pool() as (pool, _):
        fault = await fault_of(pool, "wild", 0xDEAD << 48)
        assert fault.code == Status.cudaErrorIllegalAddress
        what = "illegal address 0x[0-9a-f]+" if IS_ARM else "access through a wild or misaligned address"
        assert re.fullmatch(f"{what} in block 0 of wild", fault.detail)


async def test_another_workers_memory_is_out_of_reach() -> None:
    async with open_pool(1) as (pool, arena):
        other = arena.layout.worker_region(1).shared
        assert (await fault_of(pool, "wild", other)).address == other


@pytest.mark.parametrize(
    ("name", "code", "detail"),
    [
        ("assert", Status.cudaErrorAssert, "assertion failed in block 0 of assert (PTX line 7)"),
        ("trap", *TRAP),
        pytest.param(
            "divide",
            Status.cudaErrorLaunchFailure,
            "arithmetic fault or trap in block 0 of divide",
            marks=pytest.mark.skipif(IS_ARM, reason="this processor divides by zero without a fault"),
        ),
        ("overflow", Status.cudaErrorHardwareStackError, "stack overflow in block 0 of overflow"),
    ],
)
async def test_faults_of_compiled_code_keep_their_codes(name: str, code: Status, detail: str) -> None:
    async with open_pool() as (pool, _):
        fault = await fault_of(pool, name, 0)
        assert (fault.code, fault.detail) == (code, detail)


async def test_the_fault_answers_every_pending_and_later_launch() -> None:
    async with open_pool() as (pool, arena):
        out = arena.device_heap.allocate(64)
        spinning = Pending(pool, request("spin", out, grid=(2, 1, 1)))
        await announced(arena, out)
        queued = [Pending(pool, request("total", out + 8)) for _ in range(20)]
        os.kill(pool.worker_pids[0], signal.SIGKILL)
        with anyio.fail_after(1):
            fault = (await spinning.wait()).fault
            assert fault is not None
            assert [(await launch.wait()).fault for launch in queued] == [fault] * 20
        assert (await run(pool, request("total", out + 8))).fault == fault
        assert pool.fault == fault


async def test_a_killed_worker_is_named_with_what_it_ran() -> None:
    async with open_pool(1) as (pool, arena):
        out = arena.device_heap.allocate(8)
        spinning = Pending(pool, request("spin", out))
        await announced(arena, out)
        (pid,) = pool.worker_pids
        os.kill(pid, signal.SIGKILL)
        fault = (await spinning.wait()).fault
        assert fault is not None
        assert fault.code == Status.cudaErrorLaunchFailure
        assert fault.detail == (f"worker 0 (pid {pid}) was killed by signal 9 (SIGKILL) while running block 0 of spin")


async def test_a_worker_killed_while_idle_is_a_fault_too() -> None:
    async with open_pool() as (pool, arena):
        out = arena.device_heap.allocate(8)
        await run(pool, request("fill", out))
        pid = pool.worker_pids[0]
        os.kill(pid, signal.SIGKILL)
        fault = await fault_of(pool, "spin", out)
        assert fault.detail == f"worker 0 (pid {pid}) was killed by signal 9 (SIGKILL) while idle"


async def test_finished_launches_keep_their_results_when_a_worker_dies() -> None:
    async with open_pool() as (pool, arena):
        out = arena.device_heap.allocate(8)
        assert (await run(pool, request("total", out, grid=(100, 1, 1)))).fault is None
        await fault_of(pool, "wild", 8)
        assert words(arena, out, 1) == [100]


async def test_code_with_an_unknown_symbol_is_a_fault() -> None:
    async with open_pool(1) as (pool, _):
        (pid,) = pool.worker_pids
        fault = await fault_of(pool, "unresolved", 0)
        assert fault.code == Status.cudaErrorInvalidKernelImage
        assert fault.detail.startswith(f"worker 0 (pid {pid}): cannot load kernel zc_unresolved: Failed to materialize")


async def test_workers_that_cannot_start_are_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = [entry for entry in sys.path if "site-packages" not in entry]
    arena = Arena(MIB, 64 * MIB)
    async with anyio.create_task_group() as task_group:
        with monkeypatch.context() as patched:
            patched.setattr(sys, "path", missing)
            pool = await PoolExecutor.start(arena, task_group, 1)
        (pid,) = pool.worker_pids
        fault = await fault_of(pool, "fill", 0)
        expected = f"worker 0 (pid {pid}) exited with status 1 before it was ready; its error output may say more"
        assert fault == Fault(Status.cudaErrorInitializationError, expected)
        await pool.reset()
        assert (await run(pool, request("fill", arena.device_heap.allocate(8)))).fault is None
        await pool.aclose()
    arena.close()


async def test_rarely_used_kernels_make_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zcuda_async.executor.codes._LIMIT", 2)
    async with open_pool() as (pool, arena):
        out = arena.device_heap.allocate(8 * 100)
        for _ in range(3):
            for name in ("fill", "count", "memory", "total"):
                assert (await run(pool, request(name, out, grid=(100, 1, 1)))).fault is None
        assert words(arena, out, 3) == [100, 2, 4]
        # Two kernels and the launch slots.
        assert len(arena.host_heap) == 3


async def test_reset_makes_the_pool_whole() -> None:
    async with open_pool() as (pool, arena):
        out = arena.device_heap.allocate(8 * 1000)
        for _ in range(3):
            before = pool.worker_pids
            await fault_of(pool, "wild", 8)
            await pool.reset()
            assert pool.fault is None
            assert all(is_gone(pid) for pid in before)
            assert len(pool.worker_pids) == 2
            assert (await run(pool, request("fill", out, grid=(1000, 1, 1)))).fault is None
            assert words(arena, out, 1000) == list(range(1000))


async def test_concurrent_resets_and_launches_all_end() -> None:
    async with open_pool() as (pool, arena):
        out = arena.device_heap.allocate(8)
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(pool.reset)
                tasks.start_soon(run, pool, request("total", out, grid=(50, 1, 1)))
        assert (await run(pool, request("total", out))).fault is None


async def test_launches_run_side_by_side() -> None:
    async with open_pool() as (pool, arena):
        out = arena.device_heap.allocate(16)
        waiting = Pending(pool, request("latch", out))
        await announced(arena, out)
        assert (await run(pool, request("fill", out + 8))).fault is None
        arena.view(out + 8, 8)[0] = 1
        assert (await waiting.wait()).fault is None


async def test_a_flood_of_launches_waits_for_room_in_the_socket() -> None:
    async with open_pool(1) as (pool, arena):
        out = arena.device_heap.allocate(24)
        latch = Pending(pool, request("latch", out))
        await announced(arena, out)
        total = request("total", out + 16)
        launches = [Pending(pool, total) for _ in range(20_000)]
        assert not latch.results
        arena.view(out + 8, 8)[0] = 1
        for launch in launches:
            assert (await launch.wait()).fault is None
        assert words(arena, out + 16, 1) == [20_000]


async def test_two_pools_are_independent() -> None:
    async with open_pool() as (first, arena), open_pool() as (second, other):
        assert arena.base != other.base
        a, b = arena.device_heap.allocate(800), other.device_heap.allocate(800)
        await fault_of(first, "wild", b)
        assert (await run(second, request("fill", b, grid=(100, 1, 1)))).fault is None
        await first.reset()
        assert (await run(first, request("fill", a, grid=(100, 1, 1)))).fault is None


async def test_closing_ends_hung_kernels_and_leaves_nothing() -> None:
    async with open_pool() as (pool, arena):
        pass  # Whatever a first pool makes the process load or open for good is there now.
    before = open_descriptors()
    async with open_pool() as (pool, arena):
        pids = pool.worker_pids
        out = arena.device_heap.allocate(8)
        hung = Pending(pool, request("spin", out, grid=(2, 1, 1)))
        await announced(arena, out)
        with anyio.fail_after(1):
            await pool.aclose()
        fault = (await hung.wait()).fault
        assert fault == Fault(Status.cudaErrorContextIsDestroyed, "the device was closed before the launch ended")
        assert all(is_gone(pid) for pid in pids)
    assert open_descriptors() == before
    assert "zcuda-arena" not in Path("/proc/self/maps").read_text()


async def test_closing_at_once_leaves_nothing() -> None:
    async with open_pool() as (pool, _):
        pids = pool.worker_pids
    assert all(is_gone(pid) for pid in pids)


async def test_an_error_in_the_body_leaves_nothing() -> None:
    pids: tuple[int, ...] = ()
    with pytest.raises(ExceptionGroup):
        async with open_pool() as (pool, arena):
            pids = pool.worker_pids
            Pending(pool, request("spin", arena.device_heap.allocate(8)))
            raise ValueError("body")
    assert len(pids) == 2
    assert all(is_gone(pid) for pid in pids)


async def test_a_cancelled_task_group_still_closes_cleanly() -> None:
    arena = Arena(MIB, 64 * MIB)
    async with anyio.create_task_group() as task_group:
        pool = await PoolExecutor.start(arena, task_group, 2)
        pids = pool.worker_pids
        hung = Pending(pool, request("spin", arena.device_heap.allocate(8)))
        task_group.cancel_scope.cancel()
        await pool.aclose()
        assert len(hung.results) == 1
    assert all(is_gone(pid) for pid in pids)
    arena.close()


async def test_cancelling_the_start_leaves_nothing() -> None:
    before = open_descriptors()
    arena = Arena(MIB, 64 * MIB)
    async with anyio.create_task_group() as task_group:
        task_group.cancel_scope.cancel()
        await PoolExecutor.start(arena, task_group, 2)
    arena.close()
    assert open_descriptors() == before


@pytest.mark.parametrize("order", ["abandon run", "run abandon"])
async def test_workers_that_come_up_for_nobody_are_ended(order: str) -> None:
    before = open_descriptors()
    arena = Arena(MIB, 64 * MIB)
    spawning = _Spawning(arena, [0, 1])
    for step in order.split():
        await anyio.to_thread.run_sync(getattr(spawning, step))
    assert spawning.spawned == []
    arena.close()
    assert open_descriptors() == before


@pytest.mark.parametrize("workers", [0, -1, 129])
async def test_the_number_of_workers_is_checked(workers: int) -> None:
    arena = Arena(MIB, 64 * MIB)
    async with anyio.create_task_group() as task_group:
        with pytest.raises(ValueError, match=rf"^workers must be between 1 and 128, got {workers}$"):
            await PoolExecutor.start(arena, task_group, workers)
    arena.close()


async def test_a_launch_the_host_heap_cannot_hold_is_refused() -> None:
    async with open_pool(1) as (pool, arena):
        out = arena.device_heap.allocate(64)
        assert (await run(pool, request("describe", out, 2, 7))).fault is None
        (largest,) = (size for size, _ in arena.host_heap._by_size)
        hog = arena.host_heap.allocate(largest)
        with pytest.raises(
            CudaError, match=r"^cudaErrorMemoryAllocation \(2\): host memory: asked for 31992 bytes, but"
        ):
            pool.submit(request("describe", out, 3999, *[0] * 3997), lambda _: None)
        arena.host_heap.free(hog)
        assert (await run(pool, request("describe", out, 2, 7))).fault is None


_PR_SET_CHILD_SUBREAPER: Final = 36

_PARENT: Final = """
import os, signal, sys, anyio
sys.path.insert(0, {tests!r})
from executor_kernels import request
from executor_tools import Pending, announced, open_pool

async def main():
    async with open_pool() as (pool, arena):
        out = arena.device_heap.allocate(8)
        Pending(pool, request("spin", out, grid=(2, 1, 1)))
        await announced(arena, out)
        print(*pool.worker_pids, flush=True)
        {act}
        await anyio.sleep_forever()

anyio.run(main, backend={backend!r})
"""


@pytest.fixture
def adopted_orphans() -> Iterator[None]:
    """Make processes that lose their parent children of this one, so that their end can be awaited."""
    prctl = ctypes.CDLL(None).prctl
    assert prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def run_parent(backend: str, act: str) -> tuple[int, list[int]]:
    """Run a program with a hung pool until `act` ends it; return its status and the pids it has printed."""
    code = _PARENT.format(tests=str(Path(__file__).parent), act=act, backend=backend)
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
        timeout=30,
        check=False,
    )
    # The workers share the captured output, so reading it to its end has waited for them as well.
    return done.returncode, [int(word) for word in done.stdout.split()]


@pytest.mark.slow
def test_ctrl_c_leaves_no_worker(anyio_backend: str) -> None:
    status, pids = run_parent(anyio_backend, "os.kill(os.getpid(), signal.SIGINT)")
    assert status != 0
    assert len(pids) == 2
    assert all(is_gone(pid) for pid in pids)


@pytest.mark.slow
@pytest.mark.usefixtures("adopted_orphans")
def test_a_parent_that_is_killed_leaves_no_worker(anyio_backend: str) -> None:
    status, pids = run_parent(anyio_backend, "os.kill(os.getpid(), signal.SIGKILL)")
    assert status == -signal.SIGKILL
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0]


@pytest.mark.slow
@pytest.mark.usefixtures("adopted_orphans")
def test_a_fork_of_the_parent_keeps_no_worker_alive(anyio_backend: str) -> None:
    fork = """
        fork = os.fork()
        if not fork:
            os.close(1)
            signal.pause()
        print(fork, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    status, pids = run_parent(anyio_backend, fork)
    assert status == -signal.SIGKILL
    *workers, fork_pid = pids
    assert [os.waitpid(pid, 0)[1] for pid in workers] == [0, 0]
    os.kill(fork_pid, signal.SIGKILL)
    os.waitpid(fork_pid, 0)
