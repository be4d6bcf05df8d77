"""The third table: what compiling costs by phase, in a new process on one core."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import anyio.to_thread

from benchmarks.compile_phases import PHASES, SOURCES

__all__ = ("CompileTimes", "format_compile_times", "measure_compiling")

CompileTimes = dict[str, dict[str, float]]
"""Milliseconds by source and phase; beside the phases ``total``, ``import`` and ``cached load``."""

_ROOT: Final = Path(__file__).parent.parent
_ROWS: Final = (*PHASES, "total", "cached load", "import")
_OF_LLVM: Final = ("LLVM passes", "emit")


async def measure_compiling(repeats: int, report: Callable[[str], None]) -> CompileTimes:
    """Measure every source `repeats` times in new processes; the run with the least total counts."""
    times: CompileTimes = {}
    for source in SOURCES:
        report(f"compiling {source}")
        times[source] = await anyio.to_thread.run_sync(_best, source, repeats)
    return times


def _best(source: str, repeats: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as directory:
        cache = str(Path(directory) / "cache")
        compiled = min((_run("compile", source, cache) for _ in range(repeats)), key=lambda run: run["total"])
        loads = [_run("load", source, cache)["cached load"] for _ in range(repeats)]
    return {**compiled, "cached load": min(loads)}


def _run(what: str, source: str, directory: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.compile_phases", what, source, directory]
    output = subprocess.run(command, cwd=_ROOT, check=True, stdout=subprocess.PIPE).stdout
    measured: dict[str, float] = json.loads(output)
    return measured


def format_compile_times(times: CompileTimes) -> str:
    """Return a table with a phase a line; LLVM's share is that of its passes and of emitting code."""
    lines = [f"{'compiling (ms)':16}" + "".join(f"{source:>20}" for source in times)]
    lines += [f"{phase:16}" + "".join(f"{row.get(phase, 0):20.1f}" for row in times.values()) for phase in _ROWS]
    shares = [sum(row.get(phase, 0) for phase in _OF_LLVM) / row["total"] for row in times.values()]
    lines.append(f"{'share of LLVM':16}" + "".join(f"{share:20.0%}" for share in shares))
    return "\n".join(lines)
