"""Calls of CUDA's device runtime, as `inline` leaves them: instructions with an opcode of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zcuda_async.jit.lower.heap import free, malloc
from zcuda_async.jit.lower.printf import vprintf

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering

__all__ = ("SERVICES",)

SERVICES: Final[dict[str, Lowering]] = {"vprintf": vprintf, "malloc": malloc, "free": free}
