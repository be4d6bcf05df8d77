"""Kernel output through `zcuda_compat.cudart`: it appears where CUDA flushes it."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from compat_tools import checked, kernel, load

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
