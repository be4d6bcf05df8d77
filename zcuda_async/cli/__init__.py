"""The ``zcuda`` command."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from zcuda_async._version import __version__
from zcuda_async.cli import coverage, info

__all__ = ("main",)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``zcuda …``; the exit status."""
    parser = argparse.ArgumentParser(
        prog="zcuda", description="A software CUDA: what it makes of your kernels, and of this machine."
    )
    parser.add_argument("--version", action="version", version=f"zcuda-async {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for module in (coverage, info):
        module.add_parser(commands)
    options = parser.parse_args(arguments)
    status: int = options.run(options)
    return status
