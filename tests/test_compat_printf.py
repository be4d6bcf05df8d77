"""Kernel output through `zcuda_compat.cudart`: it appears where CUDA flushes it."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from compat_tools import ERROR, checked, kernel, load

import zcuda_compat
from zcuda_compat import cudart
from zcuda_compat.bridge import BRIDGE
from zcuda_compat.primary import current

pytestmark = pytest.mark.pool
TEXT = (Path(__file__).parent / "ptx" / "printf.ptx").read_bytes()
EXPECTED = "thread 0 of even:  0.00 0 a (nil) %\n"


def launch() -> None:
    function = kernel(load(TEXT), b"k")
    x = checked(cudart.cudaMalloc(64))
    checked(cudart.cudaMemset(x, 0, 64))
    arguments = ((1, x), (ctypes.c_int, ctypes.c_void_p))
    checked(cudart.cudaLaunchKernel(function, cudart.dim3(1), cudart.dim3(8), arguments, 0, 0))


def test_output_appears_at_synchronisation(capsys: pytest.CaptureFixture[str]) -> None:
    launch()
    assert not capsys.readouterr().out
    checked(cudart.cudaDeviceSynchronize())
    assert capsys.readouterr().out == EXPECTED


def test_output_appears_when_the_device_is_closed(capsys: pytest.CaptureFixture[str]) -> None:
    launch()
    primary = current()
    BRIDGE.settle(lambda: [stream.tail for stream in primary.context.busy if stream.tail is not None])
    assert not capsys.readouterr().out
    zcuda_compat.shutdown()
    assert capsys.readouterr().out == EXPECTED


def test_limits_can_be_set_until_a_kernel_uses_them() -> None:
    limits = cudart.cudaLimit
    assert checked(cudart.cudaDeviceGetLimit(limits.cudaLimitPrintfFifoSize)) == 1 << 20
    assert checked(cudart.cudaDeviceGetLimit(limits.cudaLimitMallocHeapSize)) == 8 << 20
    checked(cudart.cudaDeviceSetLimit(limits.cudaLimitStackSize, 4096))
    checked(cudart.cudaDeviceSetLimit(limits.cudaLimitPrintfFifoSize, 1 << 16))
    assert checked(cudart.cudaDeviceGetLimit(limits.cudaLimitPrintfFifoSize)) == 1 << 16
    launch()
    checked(cudart.cudaDeviceSynchronize())
    assert cudart.cudaDeviceSetLimit(limits.cudaLimitPrintfFifoSize, 1 << 17) == (ERROR.cudaErrorInvalidValue,)
    checked(cudart.cudaDeviceSetLimit(limits.cudaLimitMallocHeapSize, 1 << 24))
    assert cudart.cudaDeviceGetLimit(limits.cudaLimitDevRuntimeSyncDepth)[0] == ERROR.cudaErrorUnsupportedLimit
    zcuda_compat.shutdown()
