"""Opening, closing and resetting under every kind of interruption; ends that must not be lost."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint
from runtime_support import ONE_THREAD, GatedExecutor, Rig, load

import zcuda_async as zc
from zcuda_async.executor.base import Fault
from zcuda_async.executor.faults import explain_death
from zcuda_async.executor.protocol import loading_text, write_text
from zcuda_async.jit.abi import WORKER_FIELDS
from zcuda_async.memory.arena import Arena
from zcuda_async.memory.mapping import PAGE

pytestmark = pytest.mark.anyio

KERNELS = (Path(__file__).parents[1] / "benchmarks" / "kernels.ptx").read_text()


def resources() -> tuple[int, int]:
    """Open descriptors, and mappings of arenas."""
    maps = Path("/proc/self/maps").read_text()
    return len(os.listdir("/proc/self/fd")), maps.count("zcuda-arena")


# -- shielded work after a cancellation ----------------------------------------------------------------


@pytest.mark.pool
async def test_a_cancelled_block_can_still_use_the_device_in_a_shielded_scope() -> None:
    with anyio.CancelScope() as outer:
        async with zc.open_device(0, workers=1) as device:
            kernel = await device.load_ptx(KERNELS).get_kernel("saxpy")
            stream, buffer = device.create_stream(), device.allocate(256)
            outer.cancel()
            with anyio.CancelScope(shield=True), anyio.fail_after(20):
                await stream.memset(buffer, 0)
                await stream.launch(kernel, zc.LaunchConfig(1, 64), 64, 1.0, buffer, buffer)
                await stream.memcpy(bytearray(256), buffer)
                await stream.host_callback(int)
                await device.reset()
            await checkpoint()
    assert outer.cancelled_caught


async def test_an_exception_comes_out_bare_also_when_the_block_was_cancelled_too() -> None:
    with anyio.CancelScope() as outer:
        with pytest.raises(KeyError):
            async with Rig().open():
                outer.cancel()
                raise KeyError


# -- interruptions of opening and closing --------------------------------------------------------------


@pytest.mark.pool
@pytest.mark.parametrize("turns", [0, 1, 2, 5, 20, 100])
async def test_cancelling_anywhere_leaves_nothing(turns: int) -> None:
    async def use() -> None:
        async with zc.open_device(0, workers=1) as device:
            kernel = await device.load_ptx(KERNELS).get_kernel("saxpy")
            await kernel.compile(64)

    await use()  # what stays for good: threads of the loop, imports
    before = resources()
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as task_group:

            async def cancel() -> None:
                for _ in range(turns):
                    await checkpoint()
                scope.cancel()

            task_group.start_soon(cancel)
            await use()
    assert resources() == before


@pytest.mark.pool
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("turns", [1, 3, 10, 50])
async def test_asyncio_cancellation_again_and_again_leaves_nothing(turns: int) -> None:
    async def use(is_open: asyncio.Event) -> None:
        async with zc.open_device(0, workers=1) as device:
            is_open.set()
            await device.create_stream().memset(device.allocate(8 << 20), 1)

    await use(asyncio.Event())
    before = resources()
    for wait_for_opening in (False, True):
        is_open = asyncio.Event()
        task = asyncio.create_task(use(is_open))
        if wait_for_opening:
            await is_open.wait()
        for _ in range(5):  # the later ones interrupt the closing
            for _ in range(turns):
                await checkpoint()
            task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() or task.exception() is None
        assert resources() == before


async def test_a_reset_that_is_overtaken_by_the_end_does_not_open_the_device_again() -> None:
    heard: list[BaseException] = []
    async with anyio.create_task_group() as task_group, Rig().open() as device:

        async def reset() -> None:
            try:
                await device.reset()
            except anyio.ClosedResourceError as error:
                heard.append(error)

        task_group.start_soon(reset)
        await checkpoint()
    assert device.is_closed
    assert all(str(error) == "device 0 is closed; use it inside its `async with` block" for error in heard)
    with pytest.raises(anyio.ClosedResourceError):
        device.create_stream()


async def test_resets_at_the_same_time_are_one() -> None:
    rig = Rig()
    async with rig.open() as device:
        usable: list[bool] = []

        async def reset() -> None:
            await device.reset()
            device.create_stream()
            usable.append(True)

        async with anyio.create_task_group() as task_group:
            for _ in range(3):
                task_group.start_soon(reset)
        assert usable == [True] * 3
        assert rig.executor.resets == 1
        await device.reset()
        assert rig.executor.resets == 2


# -- nothing that is awaited hangs ----------------------------------------------------------------------


async def test_loading_and_compiling_end_with_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()

    async def never(*arguments: Any) -> Any:
        await anyio.sleep_forever()

    heard: list[str] = []

    async def expect(wait: Any) -> None:
        with pytest.raises(anyio.ClosedResourceError) as info:
            await wait()
        heard.append(str(info.value))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as task_group:
            with pytest.raises(KeyError):
                async with rig.open() as device:
                    kernel = await load(device)
                    monkeypatch.setattr(rig.compiler, "inspect", never)
                    monkeypatch.setattr(rig.compiler, "compile", never)
                    module = device.load_ptx("", "slow.ptx")
                    task_group.start_soon(expect, lambda: module.get_kernel("empty"))
                    task_group.start_soon(expect, lambda: kernel.compile(7))
                    await anyio.wait_all_tasks_blocked()
                    raise KeyError
    assert sorted(heard) == [
        "empty was not compiled: device 0 was closed",
        "slow.ptx was not loaded: device 0 was closed",
    ]


async def test_a_module_closed_while_it_loads_gives_its_memory_back() -> None:
    async with Rig().open() as device:
        module = device.load_ptx("")
        module.close()
        await device.sync()
        await anyio.wait_all_tasks_blocked()
        assert module.is_loaded
        assert device.memory_info().used_bytes == 0


async def test_a_kernel_that_the_compiler_died_on_can_be_launched_again() -> None:
    rig = Rig()
    async with rig.open() as device:
        rig.executor.is_open = True
        kernel = await device.load_ptx("unlucky").get_kernel("empty")
        stream = device.create_stream()
        with pytest.raises(zc.CompileError, match=r"was killed by SIGKILL$"):
            await stream.launch(kernel, ONE_THREAD)
        await stream.launch(kernel, ONE_THREAD)


async def test_sleeping_on_a_clock_ends_with_its_device() -> None:
    clock = zc.VirtualClock()
    with pytest.raises(RuntimeError, match=r"^this clock belongs to no open device, so its time does not"):
        await clock.sleep_ms(1)
    heard: list[str] = []

    async def sleep() -> None:
        with pytest.raises(anyio.ClosedResourceError) as info:
            await clock.sleep_ms(1)
        heard.append(str(info.value))

    with clock.hold():
        async with anyio.create_task_group() as task_group, Rig().open(clock=clock):
            task_group.start_soon(sleep)
            await anyio.wait_all_tasks_blocked()
    assert heard == ["the clock's device was closed before the sleep was over"]


async def test_awaiting_on_another_thread_is_refused() -> None:
    rig = Rig()
    async with rig.open() as device:
        op = device.create_stream().launch(await load(device), ONE_THREAD)

        async def wait() -> None:
            await op

        match = r"^<Op empty on stream 1: running> belongs to the event loop of thread \d+, but thread \d+ awaits it"
        with pytest.raises(RuntimeError, match=match):
            await anyio.to_thread.run_sync(lambda: asyncio.run(wait()))
        for call in (device.sync, device.reset):
            with pytest.raises(
                RuntimeError, match=r"^device 0 belongs to the event loop of thread \d+, but thread \d+ used"
            ):
                await anyio.to_thread.run_sync(asyncio.run, call())
        rig.executor.open()


async def test_a_done_callback_that_raises_closes_the_device() -> None:
    rig = Rig()
    heard: list[int] = []

    def fail() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        async with rig.open() as device:
            stream = device.create_stream()
            op = stream.launch(await load(device), ONE_THREAD)
            op.add_done_callback(fail)
            op.add_done_callback(lambda: heard.append(1))
            rig.executor.end()
            assert heard == [1]
            assert stream.is_done
            await anyio.sleep_forever()


async def test_a_device_that_fails_says_why_and_not_that_it_is_closed() -> None:
    rig = Rig()
    with pytest.raises(KeyError, match="mine"):
        async with rig.open() as device:
            device.context.task_group.start_soon(_fail)
            with anyio.CancelScope(shield=True):
                while not device.is_closed:
                    await checkpoint()
            device.create_stream()


async def _fail() -> None:
    raise KeyError("mine")


# -- names ------------------------------------------------------------------------------------------------


async def test_devices_open_at_the_same_time_have_names_of_their_own() -> None:
    recorder = zc.Recorder()
    async with Rig().open(recorder=recorder) as first, Rig().open(recorder=recorder) as second:
        assert (first.name, second.name) == ("device 0", "device 0 (2)")
        for device in (first, second):
            await device.create_stream().memset(device.allocate(64), 0)
    assert {record.device for record in recorder.records} == {"device 0", "device 0 (2)"}
    async with Rig().open() as again:
        assert again.name == "device 0"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": "2"}, "workers is an int, got str"),
        ({"workers": True}, "workers is an int, got bool"),
        ({"workers": 0}, "workers must be at least 1, got 0"),
        ({"memory_bytes": 1e9}, "memory_bytes is an int, got float"),
        ({"pinned_bytes": 0}, "pinned_bytes must be at least 1, got 0"),
    ],
)
async def test_open_device_says_which_number_is_wrong(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{message}$"):
        zc.open_device(0, **options)


# -- the death of workers ----------------------------------------------------------------------------------


@pytest.mark.pool
async def test_the_death_of_an_idle_worker_is_heard_of_at_once() -> None:
    gate = threading.Event()
    try:
        async with zc.open_device(0, workers=1) as device:
            stream = device.create_stream()
            stuck = stream.host_callback(gate.wait, 30)
            behind = stream.memset(device.allocate(64), 0)
            os.kill(device.context.executor.worker_pids[0], signal.SIGKILL)  # type: ignore[attr-defined]
            with anyio.fail_after(20):
                for op in (stuck, behind):
                    with pytest.raises(zc.LaunchError, match=r"was killed by signal 9 \(SIGKILL\)"):
                        await op
            assert device.fault is not None
            gate.set()
            await device.reset()
            await stream.memset(device.allocate(64), 0)
    finally:
        gate.set()


async def test_a_fault_of_an_idle_executor_is_sticky_until_reset() -> None:
    class Reporting(GatedExecutor):
        def watch_faults(self, on_fault: Any) -> None:
            self.report = on_fault

    class ReportingRig(Rig):
        async def _start_executor(self, arena: Any, task_group: Any, workers: int | None) -> GatedExecutor:
            self.executor = Reporting(task_group)
            await checkpoint()
            return self.executor

    rig = ReportingRig()
    async with rig.open() as device:
        stream = device.create_stream()
        rig.executor.report(Fault(719, "worker 0 is gone"))  # type: ignore[attr-defined]
        with pytest.raises(zc.LaunchError, match=r"^cudaErrorLaunchFailure \(719\): worker 0 is gone$"):
            stream.record()
        await device.reset()
        await stream.record()


class _Gone:
    """A dead worker, as `explain_death` sees it."""

    index, pid = 0, 77

    def __init__(self, arena: Arena, returncode: int) -> None:
        self.region = arena.layout.worker_region(0)
        self.returncode = returncode


@pytest.mark.parametrize(
    ("returncode", "code", "detail"),
    [
        (-9, 719, "worker 0 (pid 77) was killed by signal 9 (SIGKILL) while loading kernel zc_fill"),
        (-6, 200, "worker 0 (pid 77): cannot load kernel zc_fill: the loader crashed"),
        (139, 200, "worker 0 (pid 77): cannot load kernel zc_fill: the loader crashed"),
    ],
)
async def test_a_kill_while_code_is_loaded_is_not_the_loaders_fault(returncode: int, code: int, detail: str) -> None:
    arena = Arena(1 << 20, 1 << 20)
    page = arena.view(arena.layout.worker_region(0).page, PAGE)
    page[WORKER_FIELDS["fault_code"][0]] = 200
    write_text(page, loading_text("zc_fill"))
    fault = explain_death(arena, _Gone(arena, returncode), None)  # type: ignore[arg-type]
    assert (int(fault.code), fault.detail) == (code, detail)
    page.release()
    arena.close()


@pytest.mark.parametrize(
    ("returncode", "code", "detail"),
    [
        (-9, 719, "worker 0 (pid 77) was killed by signal 9 (SIGKILL) while it started"),
        (1, 3, "worker 0 (pid 77) exited with status 1 before it was ready; its error output may say more"),
    ],
)
async def test_a_worker_killed_while_it_starts_is_told_from_one_that_cannot(
    returncode: int, code: int, detail: str
) -> None:
    arena = Arena(1 << 20, 1 << 20)
    fault = explain_death(arena, _Gone(arena, returncode), None)  # type: ignore[arg-type]
    assert (int(fault.code), fault.detail) == (code, detail)
    arena.close()
