"""The compiler process as its client sees it, on both event loops."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

import anyio
import pytest

from zcuda_async.errors import CompileError, Status
from zcuda_async.executor.compiler import CompilerClient, CompilerStatistics
from zcuda_async.ptx.errors import PtxError
from zcuda_async.ptx.ir import Span

pytestmark = [pytest.mark.anyio, pytest.mark.pool]

BLOCK = (32, 2, 1)


@pytest.fixture(autouse=True)
def cache_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZCUDA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@asynccontextmanager
async def compiler(jit_module: str = "fake_compiler") -> AsyncIterator[CompilerClient]:
    async with anyio.create_task_group() as task_group:
        client = await CompilerClient.start(task_group, jit_module=jit_module)
        try:
            yield client
        finally:
            await client.aclose()


async def compile_text(client: CompilerClient, text: str) -> bytes:
    return (await client.compile(text, "file.ptx", "k", BLOCK)).object_code


def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


async def until_compiling(path: Path) -> IO[bytes]:
    """Wait until the compiler has come to ``wait PATH``; closing the result lets it go on."""
    return await anyio.to_thread.run_sync(path.open, "wb")


def child_pids() -> list[int]:
    return [int(pid) for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()]


async def test_compile_returns_the_code() -> None:
    async with compiler() as client:
        code = await client.compile("text", "file.ptx", "k", BLOCK)
    assert (code.name, code.block, code.entry, code.object_code) == ("k", BLOCK, "entry", b"text")


async def test_inspect_returns_the_module() -> None:
    async with compiler() as client:
        info = await client.inspect("text", "file.ptx")
    assert [kernel.name for kernel in info.kernels] == ["text"]
    assert info.globals_image == b"\n\0"


async def test_large_texts_pass_both_ways() -> None:
    text = "é" * 1_500_000
    async with compiler() as client:
        assert await compile_text(client, text) == text.encode()


async def test_requests_made_together_are_answered_each_with_its_own() -> None:
    results: dict[int, bytes] = {}

    async def ask(client: CompilerClient, number: int) -> None:
        results[number] = await compile_text(client, f"text {number}" + " " * 50_000)

    async with compiler() as client, anyio.create_task_group() as task_group:
        for number in range(20):
            task_group.start_soon(ask, client, number)
    assert {number: data.rstrip() for number, data in results.items()} == {
        number: f"text {number}".encode() for number in range(20)
    }


async def test_a_second_client_takes_the_code_from_the_cache() -> None:
    async with compiler() as client:
        await compile_text(client, "text")
        await client.inspect("text")
        assert client.statistics == CompilerStatistics(made=2, cached=0, processes=1)
    async with compiler() as client:
        assert await compile_text(client, "text") == b"text"
        await client.inspect("text")
        assert client.statistics == CompilerStatistics(made=0, cached=2, processes=1)


async def test_bad_ptx_raises_the_diagnostic_and_the_process_goes_on() -> None:
    message = (
        r"^cudaErrorInvalidPtx \(218\): file\.ptx:3:5: error: unknown instruction frob\.u32\n"
        r"        frob\.u32 %r1;\n"
        r"        \^\^\^\^\^\^\^\^$"
    )
    async with compiler() as client:
        with pytest.raises(CompileError, match=message) as caught:
            await compile_text(client, "bad")
        cause = caught.value.__cause__
        assert isinstance(cause, PtxError)
        assert (cause.filename, cause.span, cause.source_line) == ("file.ptx", Span(3, 5, 8), "    frob.u32 %r1;")
        assert await compile_text(client, "good") == b"good"
        assert client.statistics.processes == 1


async def test_a_bug_in_the_compiler_is_told_with_its_traceback() -> None:
    message = (
        r"^cudaErrorUnknown \(999\): internal compiler error on kernel k of file\.ptx for block \(32, 2, 1\): "
        r"KeyError: 'frob'; please report it with the PTX text\n"
    )
    async with compiler() as client:
        with pytest.raises(CompileError, match=message) as caught:
            await compile_text(client, "bug")
        assert 'raise KeyError("frob")' in caught.value.__notes__[0]
        assert await compile_text(client, "good") == b"good"


@pytest.mark.parametrize(("command", "end"), [("abort", "was killed by SIGABRT"), ("exit", "ended with exit status 3")])
async def test_a_crash_fails_what_is_outstanding_and_the_next_request_finds_a_new_process(
    command: str, end: str, tmp_path: Path
) -> None:
    path = fifo(tmp_path)
    errors: dict[str, CompileError] = {}

    async def ask(client: CompilerClient, text: str) -> None:
        with pytest.raises(CompileError) as caught:
            await compile_text(client, text)
        errors[text] = caught.value

    async with compiler() as client:
        async with anyio.create_task_group() as task_group:
            task_group.start_soon(compile_text, client, f"wait {path}")
            with await until_compiling(path):
                for text in (command, "innocent"):
                    task_group.start_soon(ask, client, text)
                    await anyio.wait_all_tasks_blocked()
        assert await compile_text(client, "good") == b"good"
        assert client.statistics.processes == 2
    subject = "kernel k of file.ptx for block (32, 2, 1); the next request starts a new one"
    assert errors[command].code is Status.cudaErrorUnknown
    assert errors[command].detail == f"the compiler process {end} while it compiled {subject}"
    assert errors["innocent"].detail == f"the compiler process {end} before it came to {subject}"
    if command == "abort":
        assert "LLVM ERROR: cannot select frob\n" in errors[command].__notes__[0]


async def test_a_killed_process_is_replaced_at_the_next_request() -> None:
    async with compiler() as client:
        await compile_text(client, "one")
        (pid,) = child_pids()
        descriptor = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        await anyio.wait_readable(descriptor)
        os.close(descriptor)
        await anyio.wait_all_tasks_blocked()
        assert await compile_text(client, "two") == b"two"
        assert client.statistics.processes == 2


async def test_a_cancelled_wait_leaves_the_others_intact(tmp_path: Path) -> None:
    path = fifo(tmp_path)
    results: list[bytes] = []

    async def ask(client: CompilerClient, text: str) -> None:
        results.append(await compile_text(client, text))

    async with compiler() as client, anyio.create_task_group() as outer:
        async with anyio.create_task_group() as cancelled:
            cancelled.start_soon(ask, client, f"wait {path}")
            held = await until_compiling(path)
            cancelled.start_soon(ask, client, "sent")
            await anyio.wait_all_tasks_blocked()
            outer.start_soon(ask, client, "kept")
            cancelled.start_soon(ask, client, "large" + " " * 5_000_000)
            cancelled.cancel_scope.cancel()
        held.close()
    assert results == [b"kept"]


async def test_sigint_does_not_reach_the_process() -> None:
    async with compiler() as client:
        await compile_text(client, "one")
        for pid in child_pids():
            assert os.getsid(pid) != os.getsid(0)  # where Ctrl-C goes
            os.kill(pid, signal.SIGINT)
        assert await compile_text(client, "two") == b"two"
        assert client.statistics.processes == 1


async def test_closing_fails_what_is_outstanding_and_leaves_nothing(tmp_path: Path) -> None:
    before = (child_pids(), len(list(Path("/proc/self/fd").iterdir())))
    message = r"^the compiler was closed before it finished kernel k of file\.ptx for block \(32, 2, 1\)$"

    path = fifo(tmp_path)

    async def ask(client: CompilerClient) -> None:
        with pytest.raises(anyio.ClosedResourceError, match=message):
            await compile_text(client, f"wait {path}")

    async with anyio.create_task_group() as task_group, compiler() as client:
        task_group.start_soon(ask, client)
        with await until_compiling(path):
            await client.aclose()
            await client.aclose()
        assert client.is_closed
        with pytest.raises(anyio.ClosedResourceError, match=r"^the compiler is closed; it cannot take module <ptx>$"):
            await client.inspect("text")
    assert (child_pids(), len(list(Path("/proc/self/fd").iterdir()))) == before


async def test_cancelling_the_owner_ends_the_process() -> None:
    before = child_pids()
    async with anyio.create_task_group() as task_group:
        client = await CompilerClient.start(task_group, jit_module="fake_compiler")
        await compile_text(client, "text")
        task_group.cancel_scope.cancel()
    assert child_pids() == before
    async with anyio.create_task_group():
        await client.aclose()


async def test_a_client_whose_owner_is_gone_refuses_and_closes() -> None:
    async with anyio.create_task_group() as task_group:
        client = await CompilerClient.start(task_group, jit_module="fake_compiler")
        await compile_text(client, "text")
        task_group.cancel_scope.cancel()
    with pytest.raises(RuntimeError):
        await compile_text(client, "text")
    await client.aclose()


async def test_a_process_that_cannot_start_is_a_compile_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    message = (
        r"^cudaErrorUnknown \(999\): the compiler process could not be started \(No such file or directory\) "
        r"while it compiled module <ptx>; the next request starts a new one$"
    )
    async with compiler() as client:
        with pytest.raises(CompileError, match=message):
            await client.inspect("text")


async def test_a_compiler_that_cannot_be_imported_is_a_compile_error() -> None:
    async with compiler("no_such_compiler") as client:
        with pytest.raises(CompileError, match=r"ModuleNotFoundError: No module named 'no_such_compiler'"):
            await client.inspect("text")


async def test_an_unusable_cache_warns_once_and_compiles(cache_directory: Path) -> None:
    cache_directory.mkdir()
    cache_directory.chmod(0o777)
    message = rf"^object cache {cache_directory} has mode 0777, so other users could plant code in it; run chmod 700 "
    async with compiler() as client:
        with pytest.warns(RuntimeWarning, match=message):
            assert await compile_text(client, "one") == b"one"
        assert await compile_text(client, "two") == b"two"
    assert not list(cache_directory.iterdir())


async def test_the_process_imports_no_event_loop(tmp_path: Path) -> None:
    async with compiler() as client:
        await compile_text(client, f"modules {tmp_path / 'modules'}")
    imported = set((tmp_path / "modules").read_text().split("\n"))
    assert imported.isdisjoint({"anyio", "asyncio", "trio", "numpy", "multiprocessing"})
    assert "llvmlite.binding" in imported


async def test_the_real_compiler_gives_objects_and_diagnoses() -> None:
    text = (Path(__file__).parent / "ptx" / "kernels.ptx").read_text()
    async with compiler("zcuda_async.jit") as client:
        assert "saxpy" in {kernel.name for kernel in (await client.inspect(text)).kernels}
        code = await client.compile(text, "kernels.ptx", "saxpy", (256, 1, 1))
        assert code.object_code.startswith(b"\x7fELF")
        with pytest.raises(CompileError, match=r"^cudaErrorInvalidPtx \(218\): broken\.ptx:1:1: error: "):
            await client.inspect("frob", "broken.ptx")
    async with compiler("zcuda_async.jit") as client:
        assert await client.compile(text, "elsewhere.ptx", "saxpy", (256, 1, 1)) == code
        assert client.statistics == CompilerStatistics(made=0, cached=1, processes=1)


_PARENT = """
import sys, anyio
from zcuda_async.executor.compiler import CompilerClient

async def main():
    async with anyio.create_task_group() as task_group:
        client = await CompilerClient.start(task_group, jit_module="fake_compiler")
        task_group.start_soon(client.compile, "wait " + sys.argv[1], "f", "k", (1, 1, 1))
        await anyio.sleep_forever()

anyio.run(main)
"""


def test_the_process_dies_with_its_parent_also_while_it_compiles(tmp_path: Path) -> None:
    path = fifo(tmp_path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", _PARENT, str(path)], env=environment) as parent:
        with path.open("wb"):  # opens once the compiler waits on it
            compilers = Path(f"/proc/{parent.pid}/task").glob("*/children")
            (pid,) = (int(pid) for children in compilers for pid in children.read_text().split())
            descriptor = os.pidfd_open(pid)
            parent.kill()
        signalled = select_readable(descriptor)
        os.close(descriptor)
    assert signalled


def select_readable(descriptor: int) -> bool:
    import select

    return bool(select.select([descriptor], [], [], 30)[0])


async def test_a_process_that_has_compiled_much_is_exchanged_when_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zcuda_async.executor.compiler._MOST_COMPILED", 2)
    before = set(child_pids())
    async with compiler() as client:
        for number in range(5):
            assert await compile_text(client, f"text {number}") == f"text {number}".encode()
        assert await compile_text(client, "text 0") == b"text 0"
        assert client.statistics == CompilerStatistics(made=5, cached=1, processes=3)
        results: list[bytes] = []

        async def one(text: str) -> None:
            results.append(await compile_text(client, text))

        async with anyio.create_task_group() as task_group:
            for number in range(10, 14):  # not idle: one process takes them all
                task_group.start_soon(one, f"text {number}")
        assert sorted(results) == [f"text {number}".encode() for number in range(10, 14)]
        assert client.statistics.processes == 3
    assert set(child_pids()) <= before
