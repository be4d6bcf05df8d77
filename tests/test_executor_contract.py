"""What every executor promises, checked on each of them."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest
from anyio.lowlevel import checkpoint
from executor_kernels import BROKEN, request
from executor_tools import STARTERS, Pending, announced, open_executor, run, words

from zcuda_async.errors import Status
from zcuda_async.executor.stub import StubExecutor

pytestmark = [pytest.mark.anyio, pytest.mark.pool]

every_executor = pytest.mark.parametrize("kind", list(STARTERS))
computing_executor = pytest.mark.parametrize("kind", ["pool", "inline"])


@every_executor
async def test_a_launch_ends_with_ordered_times(kind: str) -> None:
    async with open_executor(kind) as (executor, arena):
        out = arena.device_heap.allocate(8)
        result = await run(executor, request("fill", out))
        assert result.fault is None
        assert 0 < result.started_ns <= result.finished_ns


@every_executor
async def test_on_done_is_called_later_and_once(kind: str) -> None:
    async with open_executor(kind) as (executor, arena):
        out = arena.device_heap.allocate(8)
        pending = Pending(executor, request("fill", out))
        assert pending.results == []
        await pending.wait()
        await executor.reset()
        assert len(pending.results) == 1


@every_executor
async def test_many_launches_in_flight_all_end(kind: str) -> None:
    async with open_executor(kind) as (executor, arena):
        out = arena.device_heap.allocate(8)
        launches = [Pending(executor, request("total", out, grid=(3, 1, 1))) for _ in range(1000)]
        for launch in launches:
            assert (await launch.wait()).fault is None
        if kind != "stub":
            assert words(arena, out, 1) == [3000]


@every_executor
async def test_submitting_from_on_done_works(kind: str) -> None:
    async with open_executor(kind) as (executor, arena):
        out = arena.device_heap.allocate(8)
        second: list[Pending] = []
        finished = anyio.Event()

        def on_done(_: object) -> None:
            second.append(Pending(executor, request("total", out)))
            finished.set()

        executor.submit(request("total", out), on_done)
        await finished.wait()
        assert (await second[0].wait()).fault is None


@every_executor
async def test_reset_leaves_the_executor_usable(kind: str) -> None:
    async with open_executor(kind) as (executor, arena):
        out = arena.device_heap.allocate(8)
        await run(executor, request("fill", out))
        await executor.reset()
        await executor.reset()
        assert (await run(executor, request("fill", out))).fault is None


@every_executor
async def test_a_closed_executor_takes_nothing(kind: str) -> None:
    async with open_executor(kind) as (executor, arena):
        out = arena.device_heap.allocate(8)
        await executor.aclose()
        await executor.aclose()
        with pytest.raises(anyio.ClosedResourceError):
            executor.submit(request("fill", out), lambda _: None)


@every_executor
async def test_aclose_answers_what_is_pending(kind: str) -> None:
    async with open_executor(kind) as (executor, arena):
        out = arena.device_heap.allocate(8)
        launches = [Pending(executor, request("total", out)) for _ in range(10)]
        await executor.aclose()
        for launch in launches:
            fault = (await launch.wait()).fault
            assert fault is None or fault.code == Status.cudaErrorContextIsDestroyed


@every_executor
async def test_aclose_runs_shielded(kind: str) -> None:
    async with open_executor(kind) as (executor, arena):
        out = arena.device_heap.allocate(8)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await executor.aclose()
        with pytest.raises(anyio.ClosedResourceError):
            executor.submit(request("fill", out), lambda _: None)


@every_executor
async def test_cancelling_a_wait_leaves_the_launch_alone(kind: str) -> None:
    async with open_executor(kind) as (executor, arena):
        out = arena.device_heap.allocate(8)
        pending = Pending(executor, request("fill", out))
        with anyio.CancelScope() as scope:
            scope.cancel()
            await pending.wait()
        assert (await pending.wait()).fault is None


async def test_the_stub_records_and_computes_nothing() -> None:
    async with open_executor("stub") as (executor, arena):
        out = arena.device_heap.allocate(8)
        launch = request("total", out)
        await run(executor, launch)
        await run(executor, launch)
        assert isinstance(executor, StubExecutor)
        assert executor.launches == [launch, launch]
        assert words(arena, out, 1) == [0]


@computing_executor
@pytest.mark.parametrize("grid", [(1, 1, 1), (2, 1, 1), (7, 3, 5), (10_000, 1, 1), (1, 300, 2)])
async def test_every_block_runs_once(kind: str, grid: tuple[int, int, int]) -> None:
    blocks = grid[0] * grid[1] * grid[2]
    async with open_executor(kind) as (executor, arena):
        out = arena.device_heap.allocate(8 * blocks)
        filled = arena.device_heap.allocate(8 * blocks)
        assert (await run(executor, request("count", out, grid=grid))).fault is None
        assert (await run(executor, request("fill", filled, grid=grid))).fault is None
        assert words(arena, out, blocks) == [1] * blocks
        assert words(arena, filled, blocks) == list(range(blocks))


@computing_executor
async def test_kernels_see_the_whole_launch(kind: str) -> None:
    async with open_executor(kind) as (executor, arena):
        out = arena.device_heap.allocate(64)
        for count in (2, 511, 4000):
            extra = [0] * (count - 2)
            launch = request("describe", out, count, *extra, 99, grid=(2, 3, 4), dynamic_shared=5, globals_address=6)
            assert (await run(executor, launch)).fault is None
            assert words(arena, out, 6) == [2, 3, 4, 5, 6, 99]


@computing_executor
async def test_shared_and_scratch_memory_are_usable_to_their_ends(kind: str) -> None:
    async with open_executor(kind) as (executor, arena):
        out = arena.device_heap.allocate(8 * 50)
        assert (await run(executor, request("memory", out, grid=(50, 1, 1)))).fault is None
        assert words(arena, out, 50) == [2 * block for block in range(50)]


@computing_executor
async def test_code_that_does_not_load_is_a_fault_until_reset(kind: str) -> None:
    async with open_executor(kind) as (executor, arena):
        out = arena.device_heap.allocate(8)
        good = request("fill", out)
        first = await run(executor, replace(good, code=BROKEN))
        assert first.fault is not None
        assert first.fault.code == Status.cudaErrorInvalidKernelImage
        assert first.fault.detail.endswith(
            "cannot load kernel zc_broken: The file was not recognized as a valid object file"
        )
        assert (await run(executor, good)).fault == first.fault
        await executor.reset()
        assert (await run(executor, good)).fault is None


@computing_executor
async def test_a_missing_entry_is_a_fault(kind: str) -> None:
    async with open_executor(kind) as (executor, arena):
        out = arena.device_heap.allocate(8)
        good = request("fill", out)
        renamed = replace(good, code=replace(good.code, entry="zc_gone"))
        fault = (await run(executor, renamed)).fault
        assert fault is not None
        assert fault.detail.endswith("cannot load kernel zc_gone: Symbols not found: [ zc_gone ]")


@computing_executor
async def test_equal_code_from_different_objects_is_loaded_once(kind: str) -> None:
    async with open_executor(kind) as (executor, arena):
        out = arena.device_heap.allocate(8)
        good = request("total", out)
        await run(executor, good)
        before = arena.host_heap.used_bytes
        for _ in range(5):
            await run(executor, replace(good, code=replace(good.code, name="total")))
        assert words(arena, out, 1) == [6]
        assert arena.host_heap.used_bytes == before


@computing_executor
async def test_reset_stops_a_running_launch_and_answers_the_queued_ones(kind: str) -> None:
    async with open_executor(kind) as (executor, arena):
        out = arena.device_heap.allocate(16)
        running = Pending(executor, request("spin", out, grid=(1000, 1, 1)))
        queued = Pending(executor, request("spin", out, grid=(1000, 1, 1)))
        await announced(arena, out)
        await executor.reset()
        for launch in (running, queued):
            fault = (await launch.wait()).fault
            assert fault is not None
            assert fault.code == Status.cudaErrorContextIsDestroyed
        assert (await run(executor, request("total", out + 8))).fault is None


@computing_executor
async def test_closing_returns_all_arena_memory(kind: str) -> None:
    async with open_executor(kind) as (executor, arena):
        out = arena.device_heap.allocate(8 * 16384)
        await run(executor, request("memory", out, grid=(16384, 1, 1)))
        await run(executor, request("describe", out, 4000, *[0] * 4000))
        arena.device_heap.free(out)
        await executor.aclose()
        await checkpoint()
        assert arena.host_heap.used_bytes == 0
        assert arena.device_heap.used_bytes == 0
        assert arena.resident_bytes == 0
