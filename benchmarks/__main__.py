"""``python -m benchmarks``: measure, print three tables, optionally write JSON and a chart."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any, Final

import anyio

from benchmarks.compile_table import CompileTimes, format_compile_times, measure_compiling
from benchmarks.kernel_table import KernelTimes, measure_kernels
from benchmarks.peers import PEERS
from benchmarks.problems import ALL_KERNELS, KERNELS, MORE_KERNELS
from benchmarks.report import as_json, draw_chart, format_figures, format_kernels
from benchmarks.runtime_table import Figure, measure_runtime

_SETS: Final = {"core": KERNELS, "more": MORE_KERNELS, "all": ALL_KERNELS}

_EPILOG: Final = """
Every figure is the best (round trips: the median) of several runs after a warm-up.  Compare only within
one run: the machine's speed changes from run to run.  A peer that is not installed is left out.
"""


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, epilog=_EPILOG, formatter_class=argparse.RawTextHelpFormatter
    )
    names = ", ".join(ALL_KERNELS)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=f"of {names}; default: those of the set")
    parser.add_argument(
        "--set",
        choices=tuple(_SETS),
        default="core",
        help="the first eight kernels, twelve more, or all (default core)",
    )
    parser.add_argument("--peer", action="append", choices=PEERS, help="may be repeated; default: all that are here")
    parser.add_argument("--only", choices=("kernels", "runtime", "compile"), help="measure one of the three tables")
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio", help="event loop")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each kernel and peer, about (default 2)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the problem sizes, for quick trials")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--png", type=Path, metavar="FILE", help="draw the kernels' times there (needs matplotlib)")
    options = parser.parse_args(arguments)
    if unknown := set(options.kernels) - set(ALL_KERNELS):
        parser.error(f"no such kernel: {', '.join(sorted(unknown))}; choose from {names}")
    return options


def _report(text: str) -> None:
    print(f"# {text}", file=sys.stderr, flush=True)


def _facts(options: argparse.Namespace) -> dict[str, Any]:
    processor = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.machine(),
    )
    return {
        "processor": processor,
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "backend": options.backend,
        "scale": options.scale,
    }


async def _measure(options: argparse.Namespace) -> tuple[KernelTimes, list[Figure], CompileTimes]:
    times: KernelTimes = {}
    figures: list[Figure] = []
    compiling: CompileTimes = {}
    if options.only in {None, "kernels"}:
        kernels = [kernel for kernel in ALL_KERNELS if kernel in (options.kernels or _SETS[options.set])]
        peers = [peer for peer in PEERS if peer in (options.peer or PEERS)]
        times = await measure_kernels(kernels, peers, options.seconds, options.scale, _report)
        print(format_kernels(times), flush=True)
    if options.only in {None, "runtime"}:
        figures = await measure_runtime(max(100, int(10_000 * min(1.0, options.scale))), _report)
        print(format_figures(figures), flush=True)
    if options.only in {None, "compile"}:
        compiling = await measure_compiling(1 if options.scale < 1 else 5, _report)
        print(format_compile_times(compiling), flush=True)
    return times, figures, compiling


def main(arguments: list[str] | None = None) -> None:
    """Measure what the command line asks for."""
    options = _parse(arguments)
    facts = _facts(options)
    print(", ".join(f"{name} {value}" for name, value in facts.items()), flush=True)
    times, figures, compiling = anyio.run(_measure, options, backend=options.backend)
    if options.json:
        options.json.write_text(json.dumps(as_json(times, figures, compiling, facts), indent=1) + "\n")
    if options.png and times:
        draw_chart(times, options.png)


if __name__ == "__main__":
    main()
