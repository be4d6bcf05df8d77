"""Starts this package's own child processes, so that they come up fast and import the right code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ("spawn_child",)

_MAIN: Final = Path(__file__).with_name("child_main.py")


def spawn_child(
    module: str, arguments: Sequence[str], *, pass_fds: Sequence[int], output: int | None = None
) -> subprocess.Popen[bytes]:
    """Start a Python process that runs ``main(arguments)`` of `module`; blocks for some milliseconds.

    The child resolves imports as this process does (same ``sys.path``), does not import the package's
    public face (and with it an event loop), reads nothing from the terminal, and sits in a session of
    its own: Ctrl-C reaches the parent alone, and the parent decides what becomes of the child.

    Args:
        module: Dotted name, e.g. ``zcuda_async.executor.worker``.
        arguments: Strings for its ``main``.
        pass_fds: Descriptors that the child gets under the same numbers.
        output: Descriptor for its standard output and error; by default it shares the parent's.

    Raises:
        OSError: No process could be made.
    """
    search_path = "\n".join(entry or os.getcwd() for entry in sys.path)  # noqa: PTH109 - "" means just this
    # -P: a file in the current directory must not stand in for a module.
    command = [sys.executable, "-P", str(_MAIN), search_path, module, *arguments]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=tuple(pass_fds),
        start_new_session=True,
    )
