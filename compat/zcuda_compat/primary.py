"""Primary contexts: one open device per ordinal, shared by all threads, opened at its first use."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import zcuda_async as zc
from zcuda_async import CudaError, Status
from zcuda_compat.bridge import BRIDGE
from zcuda_compat.stream import Stream
from zcuda_compat.thread import THREAD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

__all__ = (
    "Primary",
    "check_ordinal",
    "current",
    "current_ordinal",
    "forget_all",
    "open_primaries",
    "peek_current",
    "primary_of",
)


class _Output:
    """What kernels have printed: kept until a call of CUDA that flushes it, as CUDA keeps it."""

    def __init__(self) -> None:
        self._texts: deque[str] = deque()
        self._lock = threading.Lock()

    def __call__(self, text: str) -> None:
        """Take text, on the loop."""
        self._texts.append(text)

    def flush(self) -> None:
        """Write everything to standard output."""
        if not self._texts:
            return
        with self._lock:
            while self._texts:
                text = self._texts.popleft()
                if sys.stdout is not None:
                    sys.stdout.write(text)


class Primary:
    """An open device and its legacy default stream; made by `primary_of`."""

    def __init__(self, ordinal: int, device: zc.Device, output: _Output) -> None:
        self.flush = output.flush
        self.ordinal = ordinal
        self.device = device
        self.context = device.context
        self.legacy = Stream(self, BRIDGE.call(lambda: device.default_stream), is_legacy=True)

        self.resets = 0
        """How often the device was reset."""

    @property
    def is_idle(self) -> bool:
        """Whether everything that any thread submitted to the device has finished."""
        return BRIDGE.is_quiet and not self.context.busy

    def check(self) -> None:
        """Write what kernels have printed, then raise the sticky error, if there is one."""
        self.flush()
        if self.context.refusal is not None:
            self.context.refuse()

    def synchronize(self) -> None:
        """Wait for everything submitted so far; raise what failed."""
        if not self.is_idle:
            self.settle(lambda: [stream.tail for stream in self.context.busy if stream.tail is not None])
        self.check()
        if self.context.has_failures:
            BRIDGE.run(self.device.sync)

    def settle(self, find: Callable[[], Iterable[zc.Op[Any]]]) -> None:
        """Wait until operations of this device have ended, well or not; an error if the device is reset meanwhile."""
        resets = self.resets
        BRIDGE.settle(find)
        if self.resets != resets:
            raise CudaError(
                Status.cudaErrorContextIsDestroyed,
                f"device {self.ordinal} was reset by another thread while this one waited for it",
            )

    def holds(self, address: int) -> bool:
        """Whether `address` lies in the device's memory or pinned memory, allocated or not."""
        return address in self.context.device_heap or address in self.context.pinned_heap

    def per_thread_stream(self) -> Stream:
        """The calling thread's default stream."""
        stream = THREAD.streams.get(self)
        if stream is None:
            stream = THREAD.streams[self] = self.create_stream(zc.StreamOptions(nonblocking=False))
        return stream

    def create_stream(self, options: zc.StreamOptions) -> Stream:
        """A new stream."""
        self.check()
        return Stream(self, BRIDGE.call(lambda: self.device.create_stream(options)))


_opened: dict[int, Primary] = {}
_opening: dict[int, Future[Primary]] = {}
_lock = threading.Lock()


def open_primaries() -> list[Primary]:
    """The devices that are open now."""
    return list(_opened.values())


def current_ordinal() -> int:
    """The calling thread's device."""
    return THREAD.device


def peek_current() -> Primary | None:
    """The calling thread's device if it is open already."""
    return _opened.get(THREAD.device)


def current() -> Primary:
    """The calling thread's device, opened if it is not yet."""
    return _opened.get(THREAD.device) or primary_of(THREAD.device)


def check_ordinal(ordinal: int) -> None:
    """CudaError `cudaErrorInvalidDevice` or `cudaErrorNoDevice` if there is no such device."""
    devices = zc.device_count()
    if devices == 0:
        raise CudaError(Status.cudaErrorNoDevice, "there is no device; set ZCUDA_DEVICE_COUNT to have some")
    if not 0 <= ordinal < devices:
        raise CudaError(
            Status.cudaErrorInvalidDevice,
            f"there is no device {ordinal}, only 0 to {devices - 1}; set ZCUDA_DEVICE_COUNT to have more",
        )


def primary_of(ordinal: int) -> Primary:
    """The device of that ordinal, opened if it is not yet."""
    primary = _opened.get(ordinal)
    if primary is not None:
        return primary
    check_ordinal(ordinal)
    with _lock:
        opening = _opening.get(ordinal)
        is_ours = opening is None
        if opening is None:
            opening = _opening[ordinal] = Future()
    if is_ours:
        _open(ordinal, opening)
    return opening.result()


@asynccontextmanager
async def _device(ordinal: int, output: _Output) -> AsyncIterator[zc.Device]:
    """An open device whose last output appears when it is closed."""
    try:
        async with zc.open_device(ordinal, printf=output) as device:
            yield device
    finally:
        output.flush()


def _open(ordinal: int, opening: Future[Primary]) -> None:
    try:
        output = _Output()
        primary = Primary(ordinal, BRIDGE.hold(_device(ordinal, output)), output)
    except BaseException as error:
        _opening.pop(ordinal, None)
        opening.set_exception(error)
        raise
    _opened[ordinal] = primary
    opening.set_result(primary)


def forget_all() -> None:
    """Forget all devices: they were closed."""
    _opened.clear()
    _opening.clear()


def _forked() -> None:
    """Forget the parent's devices in a forked child, without touching what they hold."""
    global _lock, _opened, _opening
    _abandoned.append(_opened)
    _lock, _opened, _opening = threading.Lock(), {}, {}


_abandoned: Final[list[object]] = []
os.register_at_fork(after_in_child=_forked)
