"""gcc: hand-written C with OpenMP and SIMD, the practical limit on this machine."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import numpy as np

from benchmarks.peers.base import PeerMissingError, Run
from benchmarks.problems import Problem

__all__ = ("open_peer",)

_SOURCES: Final = tuple(Path(__file__).with_name(name) for name in ("kernels.c", "more.c"))
_FLAGS: Final = ("-O3", "-march=native", "-mprefer-vector-width=512", "-ffast-math", "-fopenmp", "-fPIC")


class _Gcc:
    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    async def prepare(self, problem: Problem) -> Run:
        function = getattr(self._library, problem.kernel)
        arguments = [_c_value(value) for value in problem.arguments.values()]
        if problem.extent is not None:
            arguments.append(ctypes.c_int(problem.extent))

        async def launch() -> None:
            function(*arguments)

        return Run(launch)


def _c_value(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, np.float32):
        return ctypes.c_float(float(value))
    return ctypes.c_double(value) if isinstance(value, float) else ctypes.c_int(value)


@asynccontextmanager
async def open_peer() -> AsyncIterator[_Gcc]:
    """Compile the library."""
    if shutil.which("gcc") is None:
        raise PeerMissingError("no gcc on PATH")
    with tempfile.TemporaryDirectory() as directory:
        library = str(Path(directory) / "kernels.so")
        codes = [str(Path(directory) / f"{source.stem}.o") for source in _SOURCES]
        try:
            for source, code in zip(_SOURCES, codes, strict=True):
                await anyio.run_process(["gcc", *_FLAGS, "-c", "-o", code, str(source)])
            # Linked without -ffast-math: that would make loading it turn off subnormals for this whole process.
            await anyio.run_process(["gcc", "-shared", "-fopenmp", "-o", library, *codes, "-lm"])
        except subprocess.CalledProcessError as exc:
            raise PeerMissingError(exc.stderr.decode(errors="replace").strip()) from None
        yield _Gcc(ctypes.CDLL(library))
