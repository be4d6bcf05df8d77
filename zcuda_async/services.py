"""What kernels ask of the device itself: the buffer they print into, and the memory that their ``malloc`` takes from.

Each part is made when the first kernel that needs it is launched.  Kernels find them through `jit.abi.SERVICES`.
"""

from __future__ import annotations

import codecs
import sys
import warnings
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, runtime_checkable

from zcuda_async.errors import CudaError, Status
from zcuda_async.jit.abi import SERVICES, SERVICES_FIELDS, SERVICES_SIZE
from zcuda_async.memory.kernel_heap import heap_bytes, prepare_heap
from zcuda_async.memory.ring import PrintRing, ring_bytes
from zcuda_async.op import Completion

if TYPE_CHECKING:
    from collections.abc import Callable

    from zcuda_async.memory.arena import Arena
    from zcuda_async.options import DeviceLimits

__all__ = ("DeviceServices", "PrintTarget", "TextWriter")


@runtime_checkable
class TextWriter(Protocol):
    """Anything with a ``write`` for text, as files have it."""

    def write(self, text: str, /) -> object:
        """Take text."""


PrintTarget: TypeAlias = "TextWriter | Callable[[str], object] | None"
"""Where printed text goes: to a file, to a function, or (None) to what `sys.stdout` is at the time."""


class _PrintFailure(Completion[None]):
    """Text that could not be written, which a context can keep as a failure."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<output of printf>"


class DeviceServices:
    """The parts of one device's runtime that kernels use; belongs to the loop's thread."""

    def __init__(
        self, name: str, arena: Arena, limits: DeviceLimits, target: PrintTarget, note_failure: Callable[..., None]
    ) -> None:
        self.limits = limits
        self._name: Final = name
        self._arena: Final = arena
        self._target: Final = target
        self._note_failure: Final = note_failure
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._address = 0
        self._ring: PrintRing | None = None
        self._lost = 0
        self._heap = 0

    def set_limits(self, limits: DeviceLimits) -> None:
        """Change the limits.

        Raises:
            CudaError: `cudaErrorInvalidValue` for the size of what a launched kernel has used already.
        """
        made = {"printf_fifo_bytes": self._ring is not None, "malloc_heap_bytes": bool(self._heap)}
        for name, is_made in made.items():
            if is_made and getattr(limits, name) != getattr(self.limits, name):
                raise CudaError(
                    Status.cudaErrorInvalidValue,
                    f"{self._name}: {name} cannot change any more, since a kernel that uses it was launched;"
                    " set it before",
                )
        self.limits = limits

    def address_for(self, names: tuple[str, ...]) -> int:
        """Where `SERVICES` lies, with all the parts of these names made.

        Raises:
            CudaError: `cudaErrorMemoryAllocation` if there is no memory for them.
        """
        if not self._address:
            self._address = self._arena.host_heap.allocate(SERVICES_SIZE)
            self._arena.view(self._address, SERVICES_SIZE)[:] = bytes(SERVICES_SIZE)
        if "printf" in names and self._ring is None:
            size = ring_bytes(self.limits.printf_fifo_bytes)
            at = self._arena.host_heap.allocate(size)
            self._ring = PrintRing(self._arena.view(at, size))
            self._set("printf", at)
        if "heap" in names and not self._heap:
            size = heap_bytes(self.limits.malloc_heap_bytes)
            self._heap = self._arena.device_heap.allocate(size)
            self._empty_heap()
            self._set("heap", self._heap)
        return self._address

    def _empty_heap(self) -> None:
        view = self._arena.view(self._heap, heap_bytes(self.limits.malloc_heap_bytes))
        prepare_heap(view, self._heap)

    def reset(self) -> None:
        """Write what is left and forget what kernels had allocated; no kernel runs any more."""
        self.flush(final=True)
        if self._heap:
            self._empty_heap()

    def _set(self, name: str, address: int) -> None:
        values = list(SERVICES.unpack_from(self._arena.view(self._address, SERVICES_SIZE), 0))
        values[SERVICES_FIELDS[name][0] // 8] = address
        SERVICES.pack_into(self._arena.view(self._address, SERVICES_SIZE), 0, *values)

    def flush(self, *, final: bool = False) -> None:
        """Write what kernels have printed; `final` if none runs any more."""
        ring = self._ring
        if ring is None or ring.is_empty:
            return
        text = self._decoder.decode(ring.collect(final=final))
        if text:
            self._write(text)
        if ring.lost > self._lost:
            self._lost = ring.lost
            warnings.warn(
                f"{self._name}: kernels printed more than the {self.limits.printf_fifo_bytes} bytes that are kept"
                " between two flushes, so the oldest output is lost; open the device with"
                " limits=DeviceLimits(printf_fifo_bytes=...)",
                RuntimeWarning,
                stacklevel=1,
            )

    def _write(self, text: str) -> None:
        target = sys.stdout if self._target is None else self._target
        try:
            if isinstance(target, TextWriter):
                target.write(text)
            elif target is not None:  # as sys.stdout is where a program has none
                target(text)
        except Exception as error:  # noqa: BLE001 - the user's function: it must not end a launch
            failure = _PrintFailure()
            failure.fail(error)
            self._note_failure(failure)

    def close(self) -> None:
        """Write what is left and let go of the memory; no kernel runs any more."""
        self.flush(final=True)
        if self._ring is not None:
            self._ring.close()
            self._ring = None
