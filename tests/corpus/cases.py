"""What the corpus is made of: cases, their arguments, and the PTX that nvcc made of their sources.

A case is an async function that gets ``run(source, grid, block, arguments, …)``, which launches the kernel of
that name in ``<source>.cu`` and returns the contents of its `Out` arguments.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ("Array", "CASES", "Case", "EXHAUSTIVE", "In", "Out", "Run", "VARIANTS", "case", "ptx_of", "rng")

FOLDER: Final = Path(__file__).parent
ARCHIVE: Final = FOLDER / "ptx.tar.xz"
VARIANTS: Final = ("sm80", "sm75", "sm90", "debug")
"""How nvcc was called: for compute_80, 75 and 90 with -O3, and for compute_80 with -G."""

Array = npt.NDArray[Any]
EXHAUSTIVE: Final = bool(os.environ.get("ZCUDA_EXHAUSTIVE"))
"""Whether to take every variant and shape."""


class Run(Protocol):
    """How a case uses the device."""

    printed: list[str]
    """What the case's kernels have printed so far."""

    async def __call__(
        self, source: str, grid: Any, block: Any, arguments: Sequence[Any], **options: Any
    ) -> list[Array]:
        """Launch one kernel; return what its `Out` arguments hold afterwards."""
        ...

    async def sequence(
        self, source: str, launches: Sequence[Any], results: Sequence[Array], symbols: Mapping[str, Array]
    ) -> list[Array]:
        """Launch several kernels that share their arrays; return what those of `results` hold afterwards."""
        ...


f32, f64, i32, i64, u32, u64 = np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint64
rng = np.random.default_rng(1)


class In:
    """An array that the kernel reads."""

    def __init__(self, array: Array) -> None:
        self.array = np.ascontiguousarray(array)


class Out(In):
    """An array that the kernel reads and writes; `run` returns what it holds afterwards."""

    def __init__(self, array: Array) -> None:
        super().__init__(np.array(array))


@dataclass(frozen=True)
class Case:
    """One test: `check` launches kernels and asserts what they computed."""

    name: str
    check: Callable[[Run], Awaitable[None]]


CASES: Final[list[Case]] = []


def case(name: str) -> Callable[[Callable[[Run], Awaitable[None]]], Callable[[Run], Awaitable[None]]]:
    """Register a case under a name."""

    def register(check: Callable[[Run], Awaitable[None]]) -> Callable[[Run], Awaitable[None]]:
        CASES.append(Case(name, check))
        return check

    return register


@cache
def _archive() -> dict[str, str]:
    texts = {}
    with tarfile.open(fileobj=io.BytesIO(ARCHIVE.read_bytes()), mode="r:xz") as archive:
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None
            texts[member.name] = file.read().decode()
    return texts


def ptx_of(source: str, variant: str) -> str:
    """The PTX of ``<source>.cu``; sources that a variant cannot have fall back to sm80."""
    texts = _archive()
    return texts.get(f"{variant}/{source}.ptx") or texts[f"sm80/{source}.ptx"]
