"""``zcuda info``: this machine as a device, and what the package found on it."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from importlib import metadata
from typing import Any

from zcuda_async._version import __version__

__all__ = ("add_parser", "collect")


def add_parser(commands: Any) -> None:
    """Add the command to an argparse subparsers object."""
    parser = commands.add_parser(
        "info", help="show versions, the processor and the cache", description="Show what zcuda-async runs on here."
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=run)


def collect() -> dict[str, Any]:
    """Versions, processor, vector width and cache."""
    from zcuda_async.jit.cache import default_directory
    from zcuda_async.jit.host import host_target, initialise_llvm

    target = host_target()
    directory = default_directory()
    sizes = [entry.stat().st_size for entry in directory.glob("*") if entry.is_file()] if directory.exists() else []
    return {
        "zcuda-async": __version__,
        "python": platform.python_version(),
        "llvmlite": metadata.version("llvmlite"),
        "llvm": initialise_llvm(),
        "numpy": metadata.version("numpy"),
        "anyio": metadata.version("anyio"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": target.cpu,
        "vector lanes (32-bit)": target.lanes,
        "workers": len(os.sched_getaffinity(0)),
        "object cache": str(directory),
        "object cache entries": len(sizes),
        "object cache bytes": sum(sizes),
    }


def run(options: argparse.Namespace) -> int:
    """Print it."""
    facts = collect()
    if options.json:
        json.dump(facts, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return 0
    width = max(map(len, facts))
    for name, value in facts.items():
        sys.stdout.write(f"{name:{width}}  {value:,}\n" if isinstance(value, int) else f"{name:{width}}  {value}\n")
    return 0
