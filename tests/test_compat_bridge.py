"""The loop bridge: threads, the runtime's own loop, interrupts, the end of the process."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from compat_tools import (
    D2H,
    ERROR,
    H2D,
    H2H,
    ONE,
    checked,
    kernel,
    load,
    numbers,
    pointers,
    run_script,
    script_environment,
)

import zcuda_compat
from zcuda_compat import cudart
from zcuda_compat.bridge import BRIDGE

pytestmark = pytest.mark.pool


@pytest.fixture(autouse=True)
def _shutdown() -> Iterator[None]:
    yield
    zcuda_compat.shutdown()


def on_thread(function: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def test_the_first_use_from_many_threads_opens_one_device() -> None:
    barrier = threading.Barrier(8)

    def first() -> int:
        barrier.wait()
        return int(checked(cudart.cudaMalloc(64)))

    with ThreadPoolExecutor(8) as pool:
        addresses = [future.result() for future in [pool.submit(first) for _ in range(8)]]
    assert len(set(addresses)) == 8
    assert sum(thread.name == "zcuda loop" for thread in threading.enumerate()) == 1
    for address in addresses:
        checked(cudart.cudaFree(address))


def test_the_current_device_is_per_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZCUDA_DEVICE_COUNT", "2")
    assert checked(cudart.cudaGetDeviceCount()) == 2
    checked(cudart.cudaSetDevice(1))
    assert on_thread(lambda: checked(cudart.cudaGetDevice())) == 0
    assert checked(cudart.cudaGetDevice()) == 1
    checked(cudart.cudaSetDevice(0))


def test_two_devices_have_their_own_memory_streams_and_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZCUDA_DEVICE_COUNT", "2")
    increment = kernel(load(), b"increment")
    memories, streams, events = [], [], []
    for ordinal in (0, 1):
        checked(cudart.cudaSetDevice(ordinal))
        memories.append(checked(cudart.cudaMalloc(4)))
        streams.append(checked(cudart.cudaStreamCreate()))
        events.append(checked(cudart.cudaEventCreate()))
        checked(cudart.cudaMemset(memories[-1], ordinal, 4))
    checked(cudart.cudaSetDevice(0))
    for memory, stream in zip(memories, streams, strict=True):
        checked(cudart.cudaStreamSynchronize(stream))
        checked(cudart.cudaLaunchKernel(increment, ONE, ONE, pointers(memory), 0, stream))
        checked(cudart.cudaStreamSynchronize(stream))
    assert [numbers(memory, 1)[0] for memory in memories] == [1, 0x01010102]
    assert checked(cudart.cudaStreamGetDevice(streams[1])) == 1
    assert checked(cudart.cudaPointerGetAttributes(memories[1])).device == 1
    assert cudart.cudaEventRecord(events[0], streams[1]) == (ERROR.cudaErrorInvalidResourceHandle,)
    checked(cudart.cudaEventRecord(events[1], streams[1]))
    checked(cudart.cudaStreamWaitEvent(streams[0], events[1], 0))
    assert cudart.cudaMemset(memories[1], 0, 4) == (ERROR.cudaErrorInvalidValue,)
    checked(cudart.cudaMemcpy(memories[0], memories[1], 4, cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice))
    assert numbers(memories[0], 1)[0] == 0x01010102
    cudart.cudaGetLastError()


def test_a_fault_on_one_device_leaves_the_other_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZCUDA_DEVICE_COUNT", "2")
    fail = kernel(load(), b"fail")
    checked(cudart.cudaSetDevice(1))
    memory = checked(cudart.cudaMalloc(4))
    checked(cudart.cudaSetDevice(0))
    checked(cudart.cudaLaunchKernel(fail, ONE, ONE, None, 0, 0))
    assert cudart.cudaDeviceSynchronize() == (ERROR.cudaErrorLaunchFailure,)
    checked(cudart.cudaSetDevice(1))
    checked(cudart.cudaMemset(memory, 0, 4))
    checked(cudart.cudaDeviceSynchronize())
    checked(cudart.cudaSetDevice(0))
    cudart.cudaGetLastError()


def test_threads_work_side_by_side() -> None:
    library = load()
    saxpy = kernel(library, b"saxpy")

    def work(seed: int) -> float:
        rng = np.random.default_rng(seed)
        stream = checked(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        x, y = rng.random(500, np.float32), rng.random(500, np.float32)
        expected = y.copy()
        a, b = checked(cudart.cudaMalloc(2000)), checked(cudart.cudaMalloc(2000))
        checked(cudart.cudaMemcpyAsync(a, x, 2000, H2D, stream))
        checked(cudart.cudaMemcpyAsync(b, y, 2000, H2D, stream))
        args = ((500, 0.5, a, b), (ctypes.c_int, ctypes.c_float, ctypes.c_void_p, ctypes.c_void_p))
        for _ in range(20):
            checked(cudart.cudaLaunchKernel(saxpy, cudart.dim3(4), cudart.dim3(128), args, 0, stream))
            expected = np.float32(0.5) * x + expected
        checked(cudart.cudaMemcpyAsync(y, b, 2000, D2H, stream))
        checked(cudart.cudaStreamDestroy(stream))
        checked(cudart.cudaFree(a))
        checked(cudart.cudaFree(b))
        assert cudart.cudaGetLastError() == (ERROR.cudaSuccess,)
        return float(np.abs(y - expected).max())

    with ThreadPoolExecutor(8) as pool:
        assert max(pool.map(work, range(16))) < 1e-4


def test_a_blocking_call_on_the_runtimes_loop_raises() -> None:
    seen: list[BaseException] = []
    done = threading.Event()

    def call() -> None:
        for function in (lambda: cudart.cudaStreamCreate(), lambda: cudart.cudaMemcpy(bytearray(8), bytes(8), 8, H2H)):
            try:
                function()
            except RuntimeError as error:
                seen.append(error)
        done.set()

    BRIDGE.post(call)
    assert done.wait(10)
    assert str(seen[0]) == (
        "a blocking CUDA call was made on the thread of the runtime's own event loop, which it would wait for"
        " forever; make it in another thread (asyncio.to_thread), or await the zcuda_async call instead"
    )


def test_calls_that_need_no_order_work_on_the_runtimes_loop() -> None:
    checked(cudart.cudaFree(0))
    seen: list[Any] = []
    done = threading.Event()

    def call() -> None:
        seen.append(cudart.cudaMalloc(64))
        seen.append(cudart.cudaGetLastError())
        seen.append(cudart.cudaMemGetInfo())
        done.set()

    BRIDGE.post(call)
    assert done.wait(10)
    assert [result[0] for result in seen] == [ERROR.cudaSuccess] * 3


def test_shutdown_leaves_nothing_and_the_next_call_starts_anew() -> None:
    address = checked(cudart.cudaMalloc(64))
    stream = checked(cudart.cudaStreamCreate())
    library = load()
    zcuda_compat.shutdown()
    zcuda_compat.shutdown()
    assert not any(thread.name == "zcuda loop" for thread in threading.enumerate())
    assert cudart.cudaFree(address) == (ERROR.cudaErrorInvalidValue,)
    assert cudart.cudaStreamSynchronize(stream) == (ERROR.cudaErrorInvalidResourceHandle,)
    assert cudart.cudaLibraryGetKernel(library, b"count") == (ERROR.cudaErrorInvalidResourceHandle, None)
    checked(cudart.cudaMalloc(64))
    cudart.cudaGetLastError()


# -- whole processes ------------------------------------------------------------------------------------------

SETUP = """
import os, signal, threading
from compat_tools import *
saxpy = kernel(load(), b"saxpy")
memory = checked(cudart.cudaMalloc(4096))
stream = checked(cudart.cudaStreamCreate())

def spin():
    checked(cudart.cudaMemset(memory, 0, 4096))
    checked(cudart.cudaLaunchKernel(kernel(load(), b"spin"), ONE, ONE, pointers(memory), 0, stream))

def children():
    return open(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read().split()

print("workers", *[pid for task in os.listdir("/proc/self/task")
    for pid in open(f"/proc/self/task/{task}/children").read().split()], flush=True)
"""


def assert_gone(output: str) -> None:
    """The processes that a script printed do not exist any more (or only as another program's)."""
    pids = next(line for line in output.splitlines() if line.startswith("workers")).split()[1:]
    assert pids
    for pid in pids:
        state = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True, check=False).stdout
        assert state.strip() in ("", "Z"), f"process {pid} is still there: {state}"


ENDINGS = {
    "idle": ("print('end')", 0, ""),
    "work pending": ("spin()", 0, ""),
    "an exception": ("spin(); raise ValueError('oops')", 1, "ValueError: oops"),
    "sys.exit": ("spin(); raise SystemExit(7)", 7, ""),
    "a sticky error": (
        "checked(cudart.cudaLaunchKernel(kernel(load(), b'fail'), ONE, ONE, None, 0, 0));"
        " assert cudart.cudaDeviceSynchronize()[0] == 719",
        0,
        "",
    ),
    "calls in atexit": (
        "import atexit; atexit.register(lambda: print(cudart.cudaFree(memory), cudart.cudaStreamSynchronize(stream)))",
        0,
        "",
    ),
    "a thread that goes on": (
        "threading.Thread(target=lambda: (threading.main_thread().join(), checked(cudart.cudaStreamSynchronize(0)),"
        " checked(cudart.cudaMemset(memory, 0, 8)), checked(cudart.cudaDeviceSynchronize()),"
        " print('went on'))).start()",
        0,
        "",
    ),
    "a daemon thread that waits": (
        "spin(); threading.Thread(target=lambda: cudart.cudaStreamSynchronize(stream), daemon=True).start()",
        0,
        "",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_process_ends_cleanly(ending: str) -> None:
    text, code, message = ENDINGS[ending]
    result = run_script(SETUP + text)
    assert (result.returncode, result.stderr.strip().splitlines()[-1:]) == (code, [message] if message else [])
    assert_gone(result.stdout)
    if ending == "a thread that goes on":
        assert result.stdout.endswith("went on\n")


@pytest.mark.slow
@pytest.mark.parametrize("wait", ["cudart.cudaDeviceSynchronize()", "cudart.cudaMemcpy(bytearray(8), memory, 8, D2H)"])
def test_ctrl_c_interrupts_a_blocking_call(wait: str) -> None:
    text = SETUP + f"spin(); print('waiting', flush=True); {wait}; print('not reached')"
    with subprocess.Popen(
        [sys.executable, "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=script_environment(),
    ) as process:
        assert process.stdout is not None
        seen = ""
        while "waiting" not in seen:
            line = process.stdout.readline()
            assert line, "the script ended too early"
            seen += line
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert "not reached" not in output
    assert_gone(seen)


@pytest.mark.slow
def test_work_goes_on_after_a_caught_interrupt() -> None:
    text = """
def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

spin()
try:
    threading.Timer(0.05, interrupt).start()
    cudart.cudaStreamSynchronize(stream)
except KeyboardInterrupt:
    print("caught")
other = checked(cudart.cudaStreamCreateWithFlags(1))
checked(cudart.cudaMemcpyAsync(memory, b"\\x01" * 4, 4, H2D, other))
checked(cudart.cudaStreamSynchronize(stream))
print("finished")
"""
    result = run_script(SETUP + text)
    assert result.stdout.splitlines()[1:] == ["caught", "finished"], result.stderr
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.slow
def test_a_forked_child_is_refused() -> None:
    text = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
pid = os.fork()
if pid == 0:
    print(cudart.cudaMalloc(8)[0].name, cudart.cudaStreamSynchronize(0)[0].name, flush=True)
    os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
checked(cudart.cudaDeviceSynchronize())
"""
    result = run_script(SETUP + text)
    assert result.stdout.splitlines()[1:] == ["cudaErrorInitializationError cudaErrorInitializationError", "3"]
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.slow
def test_importing_starts_nothing() -> None:
    text = """
import threading
import zcuda_compat.cudart as cudart
assert cudart.cudaGetDeviceCount()[1] == 1
assert cudart.cudaGetLastError()[0] == 0
assert threading.active_count() == 1
"""
    result = run_script(text)
    assert (result.returncode, result.stderr) == (0, "")
