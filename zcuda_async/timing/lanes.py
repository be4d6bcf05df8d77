"""Names that traces and pictures share."""

from __future__ import annotations

from typing import Final

__all__ = ("ENGINE_NAMES", "KIND_NAMES", "MARKS", "PHASES")

ENGINE_NAMES: Final = {"h2d": "copy engine h2d", "d2h": "copy engine d2h", "d2d": "copy engine d2d"}

KIND_NAMES: Final = {
    "h2d": "copy host to device",
    "d2h": "copy device to host",
    "d2d": "copy on the device",
    "h2h": "copy on the host",
    "memset": "memset",
    "launch": "kernel",
    "callback": "host callback",
}

MARKS: Final = frozenset({"record", "wait"})
"""Kinds that take no time."""

PHASES: Final = "phases"
"""The lane of the phases in a trace."""
