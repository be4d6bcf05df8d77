"""Streams: order within one, overlap between them, dependencies, the legacy default stream, closing."""

from __future__ import annotations

import threading
from collections.abc import Callable

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint
from runtime_support import EMPTY, ONE_THREAD, Rig, load

import zcuda_async as zc
from zcuda_async.executor.base import LaunchRequest

pytestmark = pytest.mark.anyio

BLOCKING = zc.StreamOptions(nonblocking=False)


async def test_one_stream_runs_its_operations_in_order() -> None:
    record: list[int] = []
    async with Rig().open() as device:
        stream = device.create_stream()
        for number in range(20):
            stream.host_callback(record.append, number)
        await stream.sync()
    assert record == list(range(20))


async def test_one_stream_never_overlaps_launches() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        stream = device.create_stream()
        ops = [stream.launch(kernel, ONE_THREAD) for _ in range(3)]
        for left in (3, 2, 1):
            assert len(rig.executor.launches) == 1
            assert sum(not op.is_done for op in ops) == left
            rig.executor.end()
        assert stream.is_done


async def test_streams_overlap() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        streams = [device.create_stream() for _ in range(3)]
        ops = [stream.launch(kernel, ONE_THREAD) for stream in streams]
        assert len(rig.executor.launches) == 3
        rig.executor.open()
        assert all(op.is_done for op in ops)


async def test_a_copy_waits_for_the_kernel_before_it() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        stream = device.create_stream()
        buffer = device.allocate(4)
        stream.memcpy(buffer, b"abcd")
        stream.launch(kernel, ONE_THREAD)
        out = bytearray(4)
        op = stream.memcpy(out, buffer)
        assert out == bytes(4)
        rig.executor.end()
        assert op.is_done
        assert out == b"abcd"


async def test_wait_for_an_event_orders_two_streams() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        first, second = device.create_stream(), device.create_stream()
        launch = first.launch(kernel, ONE_THREAD)
        second.wait(first.record())
        op = second.memset(device.allocate(4), 1)
        assert not op.is_done
        rig.executor.end()
        assert launch.is_done
        assert op.is_done


async def test_wait_for_a_stream_covers_only_its_work_so_far() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        first, second = device.create_stream(), device.create_stream()
        first.launch(kernel, ONE_THREAD)
        second.wait(first)
        op = second.memset(device.allocate(4), 1)
        first.launch(kernel, ONE_THREAD)
        rig.executor.end()
        assert op.is_done
        assert not first.is_done
        rig.executor.end()


async def test_awaiting_a_wait_fails_loudly() -> None:
    async with Rig().open() as device:
        stream = device.create_stream()
        with pytest.raises(TypeError, match="NoneType"):
            await stream.wait(stream.record())  # type: ignore[func-returns-value, misc]
        with pytest.raises(TypeError, match=r"^a stream waits for an Event or a Stream, got int$"):
            stream.wait(3)  # type: ignore[arg-type]


async def test_a_long_chain_of_dependent_streams_needs_no_recursion() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        stream = device.create_stream()
        stream.launch(kernel, ONE_THREAD)
        for _ in range(3000):
            following = device.create_stream()
            following.wait(stream)
            stream = following
        op = stream.memset(device.allocate(4), 1)
        rig.executor.end()
        await op


async def test_the_pump_hands_the_loop_back() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        stream = device.create_stream()
        buffer = device.allocate(256 << 10)
        stream.launch(kernel, ONE_THREAD)
        ops = [stream.memset(buffer, 1) for _ in range(2000)]
        rig.executor.end()
        assert not ops[-1].is_done
        await stream.sync()
        assert ops[-1].is_done


async def test_legacy_stream_waits_for_blocking_streams() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        blocking, free = device.create_stream(BLOCKING), device.create_stream()
        blocking.launch(kernel, ONE_THREAD)
        free.launch(kernel, ONE_THREAD)
        op = device.default_stream.memset(device.allocate(4), 1)
        assert (op.is_done, free.is_done) == (False, False)
        rig.executor.end()
        assert (op.is_done, free.is_done) == (True, False)
        rig.executor.end()


async def test_blocking_streams_wait_for_the_legacy_stream() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        blocking, free = device.create_stream(BLOCKING), device.create_stream()
        buffer = device.allocate(4)
        device.default_stream.launch(kernel, ONE_THREAD)
        held, independent = blocking.memset(buffer, 1), free.memset(buffer, 1)
        assert (held.is_done, independent.is_done) == (False, True)
        rig.executor.end()
        assert held.is_done


async def test_blocking_streams_overlap_each_other() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        for _ in range(2):
            device.create_stream(BLOCKING).launch(kernel, ONE_THREAD)
        assert len(rig.executor.launches) == 2
        rig.executor.open()


async def test_legacy_order_is_transitive() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        first, second = device.create_stream(BLOCKING), device.create_stream(BLOCKING)
        first.launch(kernel, ONE_THREAD)
        device.default_stream.launch(kernel, ONE_THREAD)
        device.default_stream.launch(kernel, ONE_THREAD)
        op = second.launch(kernel, ONE_THREAD)
        for _ in range(4):
            assert len(rig.executor.launches) == 1
            assert not op.is_done
            rig.executor.end()
        assert op.is_done


async def test_urgent_launches_overtake_when_the_executor_is_full() -> None:
    rig = Rig()
    order: list[int] = []
    async with rig.open(workers=1) as device:
        kernel = await load(device, "saxpy")
        streams = [device.create_stream() for _ in range(8)]
        streams.append(device.create_stream(zc.StreamOptions(priority=-5)))
        for number, stream in enumerate(streams):
            stream.launch(kernel, ONE_THREAD, number, 0.0, 0, 0)
        while rig.executor.launches:
            order.append(rig.executor.end().params[0])
    assert order == [0, 1, 2, 3, 8, 4, 5, 6, 7]


async def test_callbacks_run_in_threads_in_stream_order() -> None:
    loop_thread = threading.get_ident()
    record: list[str] = []
    async with Rig().open() as device:
        first, second = device.create_stream(), device.create_stream()
        gate = threading.Event()
        seen: list[int] = []

        def waiting() -> None:
            gate.wait(10)
            record.append("first")

        first.host_callback(waiting)
        first.host_callback(record.append, "second")
        second.host_callback(lambda: seen.append(threading.get_ident()))
        await second.sync()
        assert record == []
        gate.set()
        await first.sync()
    assert record == ["first", "second"]
    assert seen != [loop_thread]


async def test_async_with_syncs_and_closes() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        rig.executor.is_open = True
        async with device.create_stream() as stream:
            op = stream.launch(kernel, ONE_THREAD)
        assert op.is_done
        assert stream.is_closed
        with pytest.raises(anyio.ClosedResourceError, match=r"^stream 1 is closed; create another stream$"):
            stream.memset(device.allocate(4), 0)


async def test_a_closed_stream_finishes_its_work() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        stream = device.create_stream()
        ops = [stream.launch(kernel, ONE_THREAD) for _ in range(2)]
        stream.close()
        stream.close()
        rig.executor.open()
        assert all(op.is_done for op in ops)
        await stream.sync()


async def test_body_exception_closes_a_stream_without_waiting() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        with pytest.raises(KeyError):
            async with device.create_stream() as stream:
                op = stream.launch(kernel, ONE_THREAD)
                raise KeyError
        assert stream.is_closed
        assert not op.is_done
        rig.executor.end()


async def test_another_thread_is_refused() -> None:
    async with Rig().open() as device:
        stream = device.create_stream()
        buffer = device.allocate(4)
        with pytest.raises(
            RuntimeError,
            match=r"^device 0 belongs to the event loop of thread \d+, but thread \d+ used it;"
            r" go through anyio\.from_thread\.run_sync$",
        ):
            await anyio.to_thread.run_sync(stream.memset, buffer, 0)


async def test_an_executor_that_refuses_fails_only_that_launch() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device)
        submit = rig.executor.submit

        def refuse(request: LaunchRequest, on_done: object) -> None:
            raise OSError("no slot")

        rig.executor.submit = refuse  # type: ignore[method-assign]
        stream = device.create_stream()
        with pytest.raises(OSError, match=r"^no slot$"):
            await stream.launch(kernel, ONE_THREAD)
        rig.executor.submit = submit  # type: ignore[method-assign]
        rig.executor.is_open = True
        await stream.launch(kernel, ONE_THREAD)


async def test_first_launch_compiles_in_stream_order_and_once_per_block_shape() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await device.load_ptx("").get_kernel("empty")
        rig.executor.is_open = True
        first, second = device.create_stream(), device.create_stream()
        op = first.launch(kernel, ONE_THREAD)
        after = first.memset(device.allocate(4), 0)
        second.launch(kernel, ONE_THREAD)
        second.launch(kernel, zc.LaunchConfig(grid=1, block=(2, 2)))
        assert not op.is_done
        assert not after.is_done
        await device.sync()
        assert rig.executor.seen == ["empty"] * 3
        assert sorted(rig.compiler.compiled) == [("empty", (1, 1, 1)), ("empty", (2, 2, 1))]


async def test_a_kernel_that_does_not_compile_fails_its_launches_and_nothing_else() -> None:
    rig = Rig()
    async with rig.open() as device:
        kernel = await load(device, text="unfit")
        stream = device.create_stream()
        match = r"^cudaErrorInvalidPtx \(218\): <ptx>:2:1: error: empty does not fit$"
        for _ in range(2):
            with pytest.raises(zc.CompileError, match=match):
                await stream.launch(kernel, ONE_THREAD)
        with pytest.raises(zc.CompileError, match=match):
            await kernel.compile(block=1)
        assert rig.compiler.compiled == [("empty", (1, 1, 1))]
        await stream.memset(device.allocate(4), 0)
        await stream.sync()


async def test_module_errors_and_lookups() -> None:
    async with Rig().open() as device:
        module = device.load_ptx("", "image.ptx")
        kernel = await module.get_kernel("empty")
        assert await module.get_kernel("empty") is kernel
        assert kernel.info is EMPTY
        assert await module.get_kernel_names() == ("empty", "saxpy", "small", "exact")
        with pytest.raises(
            zc.CudaError,
            match=r"^cudaErrorSymbolNotFound \(500\): image\.ptx has no kernel 'blur';"
            r" it holds empty, saxpy, small, exact$",
        ):
            await module.get_kernel("blur")
        module.close()
        with pytest.raises(
            anyio.ClosedResourceError, match=r"^module image\.ptx is closed; load it again with dev\.load_ptx$"
        ):
            await module.get_kernel("empty")
        with pytest.raises(anyio.ClosedResourceError, match=r"^module image\.ptx is closed"):
            device.create_stream().launch(kernel, ONE_THREAD)


async def test_bad_text_raises_where_the_kernel_is_asked_for_or_at_exit() -> None:
    match = r"^cudaErrorInvalidPtx \(218\): a\.ptx:1:1: error: bad text$"
    async with Rig().open() as device:
        module = device.load_ptx("bad", "a.ptx")
        with pytest.raises(zc.CompileError, match=match):
            await module.get_kernel("empty")
    with pytest.raises(zc.CompileError, match=match):
        async with Rig().open() as device:
            module = device.load_ptx("bad", "a.ptx")
            while not module.is_loaded:
                await checkpoint()


async def test_load_ptx_takes_text_only() -> None:
    async with Rig().open() as device:
        await device.load_ptx(b"\0").get_kernel("empty")
        with pytest.raises(
            TypeError, match=r"^load_ptx takes the PTX text itself as str or bytes, got int; read a file with pathlib"
        ):
            device.load_ptx(3)  # type: ignore[arg-type]
        with pytest.raises(zc.CompileError, match=r"^cudaErrorInvalidKernelImage \(200\): <ptx> is compiled GPU code"):
            device.load_ptx(b"\x7fELF\2")


async def test_module_variables_are_placed_relocated_and_given_back() -> None:
    rig = Rig()
    async with rig.open() as device:
        stream = device.create_stream()
        before = device.memory_info().used_bytes
        module = device.load_ptx("")
        table, size = await module.get_global("table")
        out = bytearray(size)
        await stream.memcpy(out, table, size)
        assert out == bytes(range(16))
        pointer, _ = await module.get_global("pointer")
        await stream.memcpy(out, pointer, 8)
        assert int.from_bytes(out[:8], "little") == table + 4
        kernel = await module.get_kernel("empty")
        op = stream.launch(kernel, ONE_THREAD)
        module.close()
        await anyio.wait_all_tasks_blocked()
        assert rig.executor.launches[0][0].globals_address == table
        assert device.memory_info().used_bytes > before
        rig.executor.end()
        await op
        assert device.memory_info().used_bytes == before


async def test_wrong_kinds_of_argument_are_named() -> None:
    async def coroutine() -> None: ...

    rig = Rig()
    async with rig.open() as device:
        kernel, stream = await load(device), device.create_stream()
        module = device.load_ptx("")
        calls: list[tuple[str, Callable[..., object], tuple[object, ...]]] = [
            ("launch takes a Kernel first, got Module; get one with await dev", stream.launch, (module, ONE_THREAD)),
            ("launch of empty takes a LaunchConfig before the arguments, got int; ", stream.launch, (kernel, 1, 2)),
            ("record takes an Event, got int; make one with dev.create_event", stream.record, (3,)),
            ("host_callback takes a function, got int", stream.host_callback, (3,)),
            ("host_callback runs a plain function in a thread, got the coroutine ", stream.host_callback, (coroutine,)),
            ("create_stream takes StreamOptions, got int", device.create_stream, (3,)),
            ("create_event takes EventOptions, got StreamOptions", device.create_event, (zc.StreamOptions(),)),
            ("free takes a Buffer or its address .int., got NoneType", device.free, (None,)),
        ]
        for message, call, arguments in calls:
            with pytest.raises(TypeError, match=f"^{message}"):
                call(*arguments)
        with pytest.raises(TypeError, match=r"^StreamOptions priority is an int, got str$"):
            zc.StreamOptions(priority="high")  # type: ignore[arg-type]
        assert stream.is_done
        await device.sync()
