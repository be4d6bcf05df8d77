"""The second table: what the runtime itself costs, each figure beside what it is measured against."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import numpy as np

import zcuda_async as zc
from benchmarks.problems import KERNELS, KERNELS_PTX, make_problem
from zcuda_async.executor.compiler import CompilerClient

__all__ = ("Figure", "measure_runtime")

_ROOT: Final = Path(__file__).parent.parent
_MIB: Final = 1 << 20
_COPY_BYTES: Final = 256 * _MIB

_EMPTY_KERNEL: Final = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry empty()
{
    ret;
}
"""
_ONE_THREAD: Final = zc.LaunchConfig(grid=1, block=1)

_ECHO: Final = """
import socket, sys
connection = socket.socket(fileno=int(sys.argv[1]))
while data := connection.recv(64):
    connection.sendall(data)
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value with its unit; `ratio` is to the figure named in `against`, if there is one."""

    name: str
    value: float
    unit: str
    ratio: float | None = None
    against: str = ""


async def measure_runtime(repeats: int, report: Callable[[str], None]) -> list[Figure]:
    """Measure everything on the running event loop; `repeats` operations go into each per-operation figure."""
    figures: list[Figure] = []
    report("cold start in new processes")
    figures += await anyio.to_thread.run_sync(_cold_start)
    report("compile times")
    figures += await _compile_times()
    async with zc.open_device(0) as device:
        kernel = await device.load_ptx(_EMPTY_KERNEL, "empty.ptx").get_kernel("empty")
        async with device.create_stream() as stream:
            await stream.launch(kernel, _ONE_THREAD)
            report("submitting")
            figures += await _submit_costs(device, stream, kernel, repeats)
            report("round trips")
            figures += await _round_trips(stream, kernel, repeats)
            report("copies")
            figures += await _copies(device, stream)
    return figures


async def _submit_costs(device: zc.Device, stream: zc.Stream, kernel: zc.Kernel, repeats: int) -> list[Figure]:
    event = device.create_event()
    submissions: dict[str, Callable[[], object]] = {
        "submit a launch": lambda: stream.launch(kernel, _ONE_THREAD),
        "submit an event record": lambda: stream.record(event),
    }
    figures = []
    for name, submit in submissions.items():
        spent = elapsed = float("inf")
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(repeats):
                submit()
            submitted = time.perf_counter()
            await stream.sync()
            spent = min(spent, submitted - start)
            elapsed = min(elapsed, time.perf_counter() - start)
        figures.append(Figure(name, spent / repeats * 1e6, "µs"))
        if name == "submit a launch":
            figures.append(Figure("pipelined launches", repeats / elapsed, "per second"))
    return figures


async def _round_trips(stream: zc.Stream, kernel: zc.Kernel, repeats: int) -> list[Figure]:
    async def launch_and_sync() -> None:
        stream.launch(kernel, _ONE_THREAD)
        await stream.sync()

    async with _echo() as echo:
        raw = await _median_us(echo, repeats)
        ours = await _median_us(launch_and_sync, repeats)
        raw = min(raw, await _median_us(echo, repeats))  # before and after, so that a drift of the clock shows less
    raw_name = "awaited socketpair round trip"
    return [
        Figure(raw_name, raw, "µs"),
        Figure("launch and sync", ours, "µs", ours / raw, raw_name),
    ]


async def _median_us(operation: Callable[[], Awaitable[None]], repeats: int) -> float:
    times = np.empty(repeats)
    for index in range(-repeats // 10, repeats):  # negative: warming up, overwritten later
        start = time.perf_counter()
        await operation()
        times[index] = time.perf_counter() - start
    return float(np.median(times)) * 1e6


@asynccontextmanager
async def _echo() -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Give a round trip to a child that blocks in recv: 64 bytes out, await readiness, 64 bytes back."""
    ours, theirs = socket.socketpair()
    message = bytes(64)
    with ours, theirs, await anyio.to_thread.run_sync(_start_echo, theirs.fileno()):
        ours.setblocking(False)

        async def round_trip() -> None:
            ours.send(message)
            await anyio.wait_readable(ours)
            ours.recv(64)

        await round_trip()
        theirs.close()
        yield round_trip
        ours.close()  # end of file ends the child


def _start_echo(descriptor: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", _ECHO, str(descriptor)], pass_fds=[descriptor])


async def _copies(device: zc.Device, stream: zc.Stream) -> list[Figure]:
    source = np.ones(_COPY_BYTES, np.uint8)
    target = np.zeros(_COPY_BYTES, np.uint8)

    def numpy_copy() -> None:
        np.copyto(target, source)

    async def in_thread() -> None:
        await anyio.to_thread.run_sync(numpy_copy)

    name = "numpy copy in a thread"
    with device.allocate(_COPY_BYTES) as buffer, device.allocate(_COPY_BYTES) as other:
        baseline = await _bandwidth(in_thread)
        copies = {
            "copy host to device": lambda: stream.memcpy(buffer, source),
            "copy device to host": lambda: stream.memcpy(target, buffer),
            "copy device to device": lambda: stream.memcpy(other, buffer),
        }
        figures = [Figure(name, baseline, "GB/s")]
        for label, copy in copies.items():
            value = await _bandwidth(copy)
            figures.append(Figure(label, value, "GB/s", value / baseline, name))
    return figures


async def _bandwidth(copy: Callable[[], Awaitable[None]]) -> float:
    await copy()  # the first one meets the page faults
    best = float("inf")
    for _ in range(7):
        start = time.perf_counter()
        await copy()
        best = min(best, time.perf_counter() - start)
    return _COPY_BYTES / best / 1e9


@contextmanager
def _empty_cache() -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory() as directory:
        yield {**os.environ, "ZCUDA_CACHE_DIR": str(Path(directory) / "cache")}


def _cold_start() -> list[Figure]:
    """Time `benchmarks.first_result` in new processes, from before they exist to the result in hand."""
    with _empty_cache() as environment:
        imported, cold = _first_result(environment)
        repeated = [_first_result(environment) for _ in range(3)]
    warm = min(total for _, total in repeated)
    name = "first result, cold process and cache"
    return [
        Figure("import zcuda_async", min(imported, *(seconds for seconds, _ in repeated)) * 1e3, "ms"),
        Figure(name, cold * 1e3, "ms"),
        Figure("first result, cold process, warm cache", warm * 1e3, "ms", warm / cold, name),
    ]


def _first_result(environment: dict[str, str]) -> tuple[float, float]:
    started = time.monotonic()
    command = [sys.executable, "-m", "benchmarks.first_result"]
    output = subprocess.run(command, env=environment, cwd=_ROOT, check=True, stdout=subprocess.PIPE).stdout
    measured = json.loads(output)
    return measured["import_s"], measured["result_at"] - started


async def _compile_times() -> list[Figure]:
    with _empty_cache() as environment:
        previous = os.environ.get("ZCUDA_CACHE_DIR")
        os.environ["ZCUDA_CACHE_DIR"] = environment["ZCUDA_CACHE_DIR"]
        try:
            cold = await _compile_all()
            cached = await _compile_all()
        finally:
            del os.environ["ZCUDA_CACHE_DIR"]
            if previous is not None:
                os.environ["ZCUDA_CACHE_DIR"] = previous
    figures = []
    for kernel in KERNELS:
        name = f"compile {kernel}"
        figures.append(Figure(name, cold[kernel], "ms"))
        figures.append(Figure(f"{name}, cached", cached[kernel], "ms", cached[kernel] / cold[kernel], name))
    return figures


async def _compile_all() -> dict[str, float]:
    """Milliseconds from request to code in a new compiler process that has come up."""
    text = KERNELS_PTX.read_text()
    times: dict[str, float] = {}
    async with anyio.create_task_group() as task_group:
        client = await CompilerClient.start(task_group)
        try:
            await client.inspect(text, "kernels.ptx")
            for kernel in KERNELS:
                x, y, z = (*make_problem(kernel, scale=0).block, 1, 1)[:3]
                start = time.perf_counter()
                await client.compile(text, "kernels.ptx", kernel, (x, y, z))
                times[kernel] = (time.perf_counter() - start) * 1e3
        finally:
            await client.aclose()
    return times
