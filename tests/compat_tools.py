"""What the tests of the synchronous face share: PTX, checked calls, a stream that waits for the test."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from zcuda_compat import cudart, last_failure

ROOT = Path(__file__).parent.parent
H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
H2H = cudart.cudaMemcpyKind.cudaMemcpyHostToHost
DEFAULT = cudart.cudaMemcpyKind.cudaMemcpyDefault
ERROR = cudart.cudaError_t

HEAD = ".version 7.0\n.target sm_80\n.address_size 64\n"
PTX = (
    HEAD
    + """
.global .align 4 .u32 counter = 41;

.visible .entry saxpy(.param .u32 n, .param .f32 a, .param .u64 x, .param .u64 y)
{
    .reg .pred %p<2>;
    .reg .f32 %f<5>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<8>;
    ld.param.u32 %r1, [n];
    ld.param.f32 %f1, [a];
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.s32 %p1, %r5, %r1;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd3, %rd1;
    cvta.to.global.u64 %rd4, %rd2;
    mul.wide.s32 %rd5, %r5, 4;
    add.s64 %rd6, %rd3, %rd5;
    add.s64 %rd7, %rd4, %rd5;
    ld.global.f32 %f2, [%rd6];
    ld.global.f32 %f3, [%rd7];
    fma.rn.f32 %f4, %f1, %f2, %f3;
    st.global.f32 [%rd7], %f4;
DONE:
    ret;
}

.visible .entry increment(.param .u64 out)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd2, %rd1;
    ld.global.u32 %r1, [%rd2];
    add.s32 %r2, %r1, 1;
    st.global.u32 [%rd2], %r2;
    ret;
}

.visible .entry count()
{
    .reg .b32 %r<3>;
    ld.global.u32 %r1, [counter];
    add.s32 %r2, %r1, 1;
    st.global.u32 [counter], %r2;
    ret;
}

.visible .entry store(.param .u64 out, .param .u64 value)
{
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    ld.param.u64 %rd2, [value];
    cvta.to.global.u64 %rd3, %rd1;
    st.global.u64 [%rd3], %rd2;
    ret;
}

.visible .entry fail()
{
    trap;
    ret;
}

.visible .entry spin(.param .u64 flag)
{
    .reg .pred %p<2>;
    .reg .b32 %r<2>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [flag];
    cvta.to.global.u64 %rd2, %rd1;
AGAIN:
    ld.volatile.global.u32 %r1, [%rd2];
    setp.eq.s32 %p1, %r1, 0;
    @%p1 bra AGAIN;
    ret;
}
"""
).encode()

ONE = cudart.dim3()


def checked(result: tuple[Any, ...]) -> Any:
    """The value of a call (a tuple if there are several), or a failed test."""
    error, *values = result
    assert error == ERROR.cudaSuccess, f"{error}: {last_failure()}"
    return values[0] if len(values) == 1 else tuple(values)


def load(text: bytes = PTX) -> cudart.cudaLibrary_t:
    library = checked(cudart.cudaLibraryLoadData(text, None, None, 0, None, None, 0))
    assert isinstance(library, cudart.cudaLibrary_t)
    return library


def kernel(library: cudart.cudaLibrary_t, name: bytes) -> cudart.cudaKernel_t:
    found = checked(cudart.cudaLibraryGetKernel(library, name))
    assert isinstance(found, cudart.cudaKernel_t)
    return found


def pointers(*values: int) -> tuple[tuple[int, ...], tuple[type, ...]]:
    """Launch arguments that are all pointers."""
    return values, (ctypes.c_void_p,) * len(values)


@contextmanager
def held(stream: Any) -> Iterator[None]:
    """Keep a stream busy with a host function until the block ends."""
    gate = threading.Event()
    checked(cudart.cudaLaunchHostFunc(stream, lambda _: gate.wait(), None))
    try:
        yield
    finally:
        gate.set()


def numbers(address: int, count: int) -> npt.NDArray[np.uint32]:
    """`count` ints of device memory."""
    out = np.empty(count, np.uint32)
    checked(cudart.cudaMemcpy(out, address, out.nbytes, D2H))
    return out


def run_script(text: str, *, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    """Run Python text in a process of its own, which may import this module."""
    return subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env=script_environment(),
        check=False,
    )


def script_environment() -> dict[str, str]:
    """An environment in which a script finds the packages and this module."""
    import os

    paths = [str(ROOT), str(ROOT / "compat"), str(ROOT / "tests")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
