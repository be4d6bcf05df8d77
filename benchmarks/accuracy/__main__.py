"""``python -m benchmarks.accuracy``: the largest error of every approximate instruction, over all its inputs."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any, Final

import anyio

import zcuda_async as zc
from benchmarks.accuracy.functions import FAMILIES, FUNCTIONS, Family
from benchmarks.accuracy.page import as_rows, format_rows, page
from benchmarks.accuracy.sweep import Sweep, sweep
from zcuda_async.jit.host import host_target

_PAGE: Final = Path(__file__).parents[2] / "docs" / "accuracy.md"
_EPILOG: Final = """
Everything takes about half an hour of one core.  Exit status: 1 if anything is over its limit or wrong.
"""


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument(
        "--function", action="append", metavar="NAME", help="such as ex2.approx.f32 or just ex2; may be repeated"
    )
    parser.add_argument("--stride", type=int, default=1, metavar="N", help="take every N-th input only (default 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there")
    parser.add_argument(
        "--merge", type=Path, metavar="FILE", help="rows (as of --json) of the functions that are not measured now"
    )
    parser.add_argument("--update-docs", action="store_true", help=f"rewrite {_PAGE.parent.name}/{_PAGE.name}")
    options = parser.parse_args(arguments)
    names = options.function or list(FUNCTIONS)
    options.families = [family for family in FAMILIES if _is_meant(family, names)]
    if unknown := [name for name in names if not any(_is_meant(family, [name]) for family in FAMILIES)]:
        parser.error(f"no such function: {', '.join(unknown)}; choose from {', '.join(FUNCTIONS)}")
    if options.stride < 1:
        parser.error("--stride must be at least 1")
    if options.update_docs and (options.stride > 1 or (options.function and not options.merge)):
        parser.error("--update-docs needs all inputs of all functions")
    return options


def _is_meant(family: Family, names: list[str]) -> bool:
    return any(f".{function.spelling}.".startswith(f".{name}.") for function in family.functions for name in names)


def _report(text: str) -> None:
    print(f"# {text}", file=sys.stderr, flush=True)


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.machine())


async def _measure(families: list[Family], stride: int) -> list[tuple[Family, Sweep]]:
    done = []
    async with zc.open_device(0) as device:
        for family in families:
            done.append((family, await sweep(device, family, stride, _report)))
            print(format_rows(as_rows(done[-1:])), flush=True)
    return done


def main(arguments: list[str] | None = None) -> int:
    """Measure what the command line asks for; 1 if anything is over its limit."""
    options = _parse(arguments)
    done = anyio.run(_measure, options.families, options.stride)
    rows = as_rows(done)
    measured = {row["instruction"] for row in rows}
    if options.merge:
        kept: list[dict[str, Any]] = json.loads(options.merge.read_text())
        rows += [row for row in kept if row["instruction"] not in measured]
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    if options.update_docs:
        _PAGE.write_text(page(rows, _processor(), host_target().lanes))
    bad = [row for row in rows if row["verdict"] in ("over", "wrong")]
    for row in bad:
        _report(f"{row['instruction']}, {row['range']}: {row['verdict']} {'; '.join(row['wrong'])}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
