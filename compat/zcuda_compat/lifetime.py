"""Resetting a device, and ending the whole runtime: whoever keeps something of it forgets it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zcuda_compat.bridge import BRIDGE
from zcuda_compat.handles import HANDLES
from zcuda_compat.library import Library
from zcuda_compat.memory import ALLOCATIONS
from zcuda_compat.primary import forget_all, open_primaries
from zcuda_compat.stream import Event, Stream

if TYPE_CHECKING:
    from zcuda_compat.primary import Primary

__all__ = ("reset", "shutdown")


def reset(primary: Primary) -> None:
    """Cut off all work on a device, clear its sticky error, and free what was made on it.

    Its streams' and events' handles become invalid; libraries are loaded anew when they are next used there.
    """
    primary.resets += 1
    BRIDGE.run(primary.device.reset)
    primary.flush()
    for library in HANDLES.all_of(Library):
        module = library.forget(primary)
        if module is not None:
            BRIDGE.post(module.close)
    _forget(primary)


def shutdown() -> None:
    """Close all devices and stop their threads and processes; pending work is cut off.

    Not needed at the end of a program, which does that by itself; after it, every pointer and handle is invalid
    and the next call starts anew.

    Raises:
        RuntimeError: it was called on the runtime's own event loop.
    """
    primaries = open_primaries()
    BRIDGE.shutdown()
    forget_all()
    for primary in primaries:
        _forget(primary)
    HANDLES.remove_all(*(library for library in HANDLES.all_of(Library)))


def _forget(primary: Primary) -> None:
    ALLOCATIONS.close_all(primary)
    HANDLES.remove_all(*(stream for stream in HANDLES.all_of(Stream) if stream.primary is primary))
    HANDLES.remove_all(*(event for event in HANDLES.all_of(Event) if event.primary is primary))
