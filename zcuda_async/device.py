"""Devices: `open_device` gives the scope that owns everything, `Device` is how it is used."""

from __future__ import annotations

import os
import threading
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Final, SupportsIndex

import anyio

from zcuda_async.context import Context, KernelCompiler
from zcuda_async.errors import CudaError, Status
from zcuda_async.event import Event
from zcuda_async.executors import ExecutorFactory, executor_factory
from zcuda_async.integers import as_integer
from zcuda_async.memory.arena import Arena
from zcuda_async.memory.buffer import Buffer, PinnedBuffer
from zcuda_async.module import Module, decode_ptx
from zcuda_async.options import DeviceLimits, DeviceProperties, EventOptions, MemoryInfo, StreamOptions
from zcuda_async.services import PrintTarget, TextWriter
from zcuda_async.stream import Stream
from zcuda_async.texture import (
    Array,
    ArrayShape,
    ChannelFormat,
    Surface,
    Texture,
    TextureOptions,
    make_array,
    make_surface,
    make_texture,
)
from zcuda_async.threads import import_in_thread
from zcuda_async.timing.clock import Clock, RealClock
from zcuda_async.timing.link import LinkProfile, link_profile
from zcuda_async.timing.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from anyio.abc import TaskGroup

__all__ = ("Device", "device_count", "open_device")

_DEFAULT_MEMORY: Final = 4 << 30
_LEGACY: Final = StreamOptions(nonblocking=False, name="default stream")


def device_count() -> int:
    """How many devices there are: 1, or what the environment variable ``ZCUDA_DEVICE_COUNT`` says."""
    text = os.environ.get("ZCUDA_DEVICE_COUNT", "1")
    if not text.isdecimal():
        raise ValueError(f"ZCUDA_DEVICE_COUNT must be a number of devices, got {text!r}")
    return int(text)


def open_device(
    ordinal: int = 0,
    *,
    workers: int | None = None,
    memory_bytes: int = _DEFAULT_MEMORY,
    pinned_bytes: int = _DEFAULT_MEMORY,
    link: LinkProfile | str | None = None,
    clock: Clock | None = None,
    recorder: Recorder | None = None,
    limits: DeviceLimits | None = None,
    printf: PrintTarget = None,
    executor: str | ExecutorFactory = "pool",
    compiler: Callable[[TaskGroup], Awaitable[KernelCompiler]] | None = None,
) -> AbstractAsyncContextManager[Device]:
    """Return the scope of an open device, to be entered with ``async with``.

    Its workers start on entry.  Leaving the block waits until the streams have no more work, raises failures that
    nobody has heard of, and releases everything.  If the block is left by an exception or a cancellation,
    nothing is waited for: workers are killed, and every pending operation ends with an `AbandonedError`.
    Each opening is a device of its own, with its own memory, also for the same ordinal; a second one that is open
    at the same time is called "device 0 (2)".

    Args:
        ordinal: which device, from 0 to `device_count` - 1.
        workers: worker processes; one per processor that this process may use if None.
        memory_bytes: size of the device's memory.  Costs address space only until it is used.
        pinned_bytes: room for pinned host buffers, likewise.
        link: the modelled link to the host, a profile or the name of a built-in one (`LINK_PROFILES`); with None
            copies just take what they take.
        clock: a `RealClock` (the default) or a `VirtualClock`.
        recorder: keeps what ran where and when.
        limits: what kernels may use of the device's own runtime.
        printf: where the output of kernels goes: an object with a ``write`` method for text, a function that takes
            text, or None for what ``sys.stdout`` is at the time.  It is called on the event loop, after each launch
            that has printed and before whoever awaits that launch goes on; what a faulting kernel printed comes out
            too.
        executor: ``"pool"`` (worker processes), ``"inline"`` (this process, for debugging), ``"stub"`` (records
            launches and computes nothing), the name of a plug-in of the entry point group
            ``zcuda_async.executors``, or a factory.
        compiler: starts another compiler, for tests of other code generators.

    Raises:
        CudaError: `cudaErrorInvalidDevice` for an ordinal out of range, `cudaErrorMemoryAllocation` if there is no
            address space of that size.
        ValueError: an unknown link profile or executor.
    """
    if isinstance(ordinal, bool) or not isinstance(ordinal, int):
        raise TypeError(f"a device's ordinal is an int, got {type(ordinal).__name__}")
    if not 0 <= ordinal < device_count():
        raise CudaError(
            Status.cudaErrorInvalidDevice,
            f"there is no device {ordinal}, only 0 to {device_count() - 1}; set ZCUDA_DEVICE_COUNT to have more",
        )
    if workers is not None:
        _check_int("workers", workers)
    _check_int("memory_bytes", memory_bytes)
    _check_int("pinned_bytes", pinned_bytes)
    profile = None if link is None else link_profile(link)
    factory = executor_factory(executor)
    clock = RealClock() if clock is None else clock
    if not isinstance(clock, Clock):
        raise TypeError(f"clock is a RealClock or a VirtualClock, got {type(clock).__name__}")
    if recorder is not None and not isinstance(recorder, Recorder):
        raise TypeError(f"recorder is a zcuda_async.Recorder, got {type(recorder).__name__}")
    if limits is not None and not isinstance(limits, DeviceLimits):
        raise TypeError(f"limits is a zcuda_async.DeviceLimits, got {type(limits).__name__}")
    if printf is not None and not isinstance(printf, TextWriter) and not callable(printf):
        raise TypeError(f"printf is a function or has a write method, got {type(printf).__name__}")

    def make_context() -> Context:
        name = _names.take(f"device {ordinal}")
        try:
            clock.attach(name)
            try:
                arena = Arena(memory_bytes, pinned_bytes)
            except BaseException:
                clock.detach()
                raise
        except BaseException:
            _names.give_back(name)
            raise
        return Context(
            name=name, arena=arena, clock=clock, link=profile, recorder=recorder, limits=limits, printf=printf
        )

    return _open(make_context, factory, workers, compiler or _start_compiler)


@asynccontextmanager
async def _open(
    make_context: Callable[[], Context],
    factory: ExecutorFactory,
    workers: int | None,
    start_compiler: Callable[[TaskGroup], Awaitable[KernelCompiler]],
) -> AsyncIterator[Device]:
    context = make_context()
    keeper = _Keeper(context, factory, workers, start_compiler)
    failure: BaseException | None = None
    try:
        async with anyio.create_task_group() as task_group:
            reason = f"{context.name} was closed by an exception or a cancellation"
            try:
                task_group.start_soon(keeper.run, name=f"{context.name} keeper")
                await keeper.started.wait()
                yield Device(context)
                await context.drain()
                reason = f"{context.name} was closed"
            finally:
                context.abandon(reason)
                keeper.end()
    except BaseExceptionGroup as group:
        failure = keeper.cause_of(group)
    finally:
        _names.give_back(context.name)
    if failure is not None:
        raise failure


def _allocation_size(size: object) -> int:
    number = as_integer(size)
    if number is None:
        raise TypeError(f"an allocation's size is a number of bytes (int), got {type(size).__name__}")
    return number


def _check_int(option: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{option} is an int, got {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{option} must be at least 1, got {value}")


class _Names:
    """Names of the open devices of this process: timelines and messages must tell them apart."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._lock = threading.Lock()

    def take(self, name: str) -> str:
        with self._lock:
            candidates = (name if number == 1 else f"{name} ({number})" for number in count(1))
            free = next(candidate for candidate in candidates if candidate not in self._taken)
            self._taken.add(free)
            return free

    def give_back(self, name: str) -> None:
        with self._lock:
            self._taken.discard(name)


_names: Final = _Names()


class _Keeper:
    """The task that starts a device's parts, keeps their background tasks, and closes everything.

    It is shielded.  So the device serves its block to the end even where the block itself is cancelled and goes on in
    a shielded scope of its own, and nothing that befalls the block's task interrupts the closing.
    """

    def __init__(
        self,
        context: Context,
        factory: ExecutorFactory,
        workers: int | None,
        start_compiler: Callable[[TaskGroup], Awaitable[KernelCompiler]],
    ) -> None:
        self._context = context
        self._factory = factory
        self._workers = workers
        self._start_compiler = start_compiler
        self._starting = anyio.CancelScope()
        self._ending = anyio.Event()
        self._failure: BaseException | None = None
        self._has_failed_first = False
        self.started = anyio.Event()

    async def run(self) -> None:
        try:
            with anyio.CancelScope(shield=True):
                async with anyio.create_task_group() as task_group:
                    try:
                        await self._serve(task_group)
                    except BaseException:
                        self._has_failed_first = not self._ending.is_set()
                        raise
                    finally:
                        await self._close(task_group)
        except BaseExceptionGroup as group:
            self._failure = _only_exception(group)
        if self._failure is not None:
            raise self._failure

    def cause_of(self, group: BaseExceptionGroup[BaseException]) -> BaseException:
        """What to raise for `group`: where the device failed first, a block that then found it closed adds nothing."""
        failure = self._failure
        if failure is not None and self._has_failed_first:
            _, others = group.split(lambda error: error is failure or isinstance(error, anyio.ClosedResourceError))
            if others is None:
                return failure
        return _only_exception(group)

    def end(self) -> None:
        """Have everything closed, or not started at all."""
        self._starting.cancel()
        self._ending.set()

    async def _serve(self, task_group: TaskGroup) -> None:
        context = self._context
        with self._starting:
            executor = await self._factory(context.arena, task_group, self._workers)
            context.open(task_group, executor, lambda: self._start_compiler(task_group))
            if context.needs_code:
                await context.get_compiler()
            self.started.set()
        await self._ending.wait()

    async def _close(self, task_group: TaskGroup) -> None:
        with anyio.CancelScope(shield=True):
            self._context.abandon(f"{self._context.name} failed")  # says nothing where the block ended first
            await self._context.aclose()
        task_group.cancel_scope.cancel()


def _only_exception(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The exception itself instead of a group of one."""
    return group.exceptions[0] if len(group.exceptions) == 1 else group


async def _start_compiler(task_group: TaskGroup) -> KernelCompiler:
    await import_in_thread("zcuda_async.executor.compiler")
    from zcuda_async.executor.compiler import CompilerClient

    return await CompilerClient.start(task_group)


class Device:
    """An open device, made by `open_device`.

    Everything but `allocate`, `allocate_pinned`, `free`, `find_buffer` and `memory_info` belongs to the thread of the
    event loop that opened it.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._default_stream: Stream | None = None

    # -- facts --------------------------------------------------------------------------------------------

    @property
    def context(self) -> Context:
        """The owner of the device's resources."""
        return self._context

    @property
    def name(self) -> str:
        """What messages and timelines call the device."""
        return self._context.name

    @property
    def properties(self) -> DeviceProperties:
        """What the device is and allows."""
        return DeviceProperties(
            name="zcuda-async software device",
            total_memory=self._context.device_heap.capacity,
            multiprocessor_count=self._context.executor.workers,
        )

    @property
    def compute_capability(self) -> tuple[int, int]:
        """The (major, minor) compute capability that the device answers for."""
        return self.properties.compute_capability

    @property
    def is_closed(self) -> bool:
        """Whether the block that opened it was left."""
        return self._context.is_closed

    @property
    def fault(self) -> CudaError | None:
        """The sticky error that every submission raises until `reset`, or None."""
        return self._context.fault

    @property
    def limits(self) -> DeviceLimits:
        """What kernels may use of the device's own runtime; may be set until a kernel uses it.

        Raises:
            CudaError: `cudaErrorInvalidValue` for the size of what a launched kernel has used already.
        """
        return self._context.services.limits

    @limits.setter
    def limits(self, limits: DeviceLimits) -> None:
        if not isinstance(limits, DeviceLimits):
            raise TypeError(f"limits is a zcuda_async.DeviceLimits, got {type(limits).__name__}")
        self._context.services.set_limits(limits)

    # -- memory: any thread -------------------------------------------------------------------------------

    def allocate(self, size: SupportsIndex) -> Buffer:
        """Allocate `size` bytes of device memory, 256-byte aligned; the content is undefined.  Any thread.

        Raises:
            TypeError: `size` is not an int.
            CudaError: `cudaErrorMemoryAllocation` if there is not so much in one piece, `cudaErrorInvalidValue` for
                a negative size; the sticky error after a fault.
            anyio.ClosedResourceError: the device is closed.
        """
        self._check_memory()
        number, heap = _allocation_size(size), self._context.device_heap
        return Buffer(heap, heap.reserve(number), number)

    def allocate_pinned(self, size: SupportsIndex) -> PinnedBuffer:
        """Allocate `size` bytes of host memory that kernels and copies share without copying.  Any thread.

        Raises as `allocate` does.
        """
        self._check_memory()
        number, heap = _allocation_size(size), self._context.pinned_heap
        return PinnedBuffer(heap, heap.reserve(number), number)

    def free(self, buffer: Buffer | int) -> None:
        """Close a buffer, or the buffer that starts at an address; 0 does nothing.  Any thread; does not wait.

        Raises:
            CudaError: `cudaErrorInvalidValue` if no open buffer starts there.
            TypeError: it is neither a Buffer nor an address.
        """
        if not isinstance(buffer, Buffer):
            if isinstance(buffer, bool) or not isinstance(buffer, int):
                raise TypeError(f"free takes a Buffer or its address (int), got {type(buffer).__name__}")
            if buffer == 0:  # what an empty allocation has
                return
            found = self.find_buffer(buffer)
            if found is None or found.handle != buffer or found.is_closed:
                raise CudaError(
                    Status.cudaErrorInvalidValue,
                    f"free: no open buffer of {self.name} starts at {buffer:#x}; pass what allocate returned, once",
                )
            buffer = found
        buffer.close()

    def find_buffer(self, address: int) -> Buffer | None:
        """The open buffer, device or pinned, that holds `address`, or None.  Any thread."""
        for heap in (self._context.device_heap, self._context.pinned_heap):
            if address in heap:
                return heap.find_buffer(address)
        return None

    def memory_info(self) -> MemoryInfo:
        """How much memory there is and how much is used, in bytes.  Any thread."""
        device, pinned = self._context.device_heap, self._context.pinned_heap
        return MemoryInfo(
            total_bytes=device.capacity,
            used_bytes=device.used_bytes,
            pinned_total_bytes=pinned.capacity,
            pinned_used_bytes=pinned.used_bytes,
        )

    def _check_memory(self) -> None:
        if self._context.refusal is not None:
            self._context.refuse()

    # -- making things ------------------------------------------------------------------------------------

    @property
    def default_stream(self) -> Stream:
        """CUDA's legacy default stream: blocking streams wait for it and it waits for them."""
        if self._default_stream is None:
            self._default_stream = Stream(self._context, _LEGACY, "default stream", None)
        return self._default_stream

    def create_stream(self, options: StreamOptions | None = None) -> Stream:
        """Make a stream.  An idle stream costs only its fields and may be dropped without closing it."""
        self._check_memory()
        options = StreamOptions() if options is None else options
        if not isinstance(options, StreamOptions):
            raise TypeError(f"create_stream takes StreamOptions, got {type(options).__name__}")
        name = options.name or self._context.new_name("stream")
        return Stream(self._context, options, name, None if options.nonblocking else self.default_stream)

    def create_event(self, options: EventOptions | None = None) -> Event:
        """Make an event, complete until it is recorded."""
        self._check_memory()
        if options is not None and not isinstance(options, EventOptions):
            raise TypeError(f"create_event takes EventOptions, got {type(options).__name__}")
        return Event(self._context, options)

    def create_array(
        self,
        format_: ChannelFormat,
        width: int,
        height: int = 0,
        depth: int = 0,
        *,
        layers: int = 0,
        is_cubemap: bool = False,
        levels: int = 1,
        surface: bool = False,
    ) -> Array:
        """Allocate an image for textures and surfaces; its texels are undefined.  Any thread.

        Args:
            format_: what a texel is.
            width: texels in a row.
            height: rows; 0 for an image of one dimension.
            depth: planes; 0 for an image of two.
            layers: images of that size, 0 for one that has no layers; 6 for each cube of a cubemap.
            is_cubemap: whether the layers are a cube's sides.
            levels: levels of a mipmap, each half as large as the one before.
            surface: whether there may be a surface of it.

        Raises:
            CudaError: `cudaErrorInvalidValue` for sizes there are not; as `allocate`.
        """
        self._check_memory()
        shape = ArrayShape(width, height, depth, layers, is_cubemap, levels)
        return make_array(self._context.device_heap, format_, shape, has_surface=surface)

    def create_texture(
        self,
        resource: Array | Buffer,
        options: TextureOptions | None = None,
        *,
        format: ChannelFormat | None = None,  # noqa: A002 - CUDA's word
        size: int | tuple[int, int] | None = None,
        pitch_bytes: int = 0,
    ) -> Texture:
        """Make a texture object: an array, or a buffer, as kernels read it.  Any thread.

        Args:
            resource: what is read; what is written to it later is seen by later launches.
            options: filter, address modes and so on.
            format: for a buffer: what a texel is.
            size: for a buffer: how many texels in a row (all by default), or (width, height).
            pitch_bytes: for a buffer with a height: from one row to the next; without gaps by default.

        Raises:
            CudaError: `cudaErrorInvalidFilterSetting` and `cudaErrorInvalidNormSetting` for what a format does not
                have, `cudaErrorInvalidValue` for sizes that do not fit; as `allocate`.
        """
        self._check_memory()
        return make_texture(self._context.device_heap, resource, options, format, size, pitch_bytes)

    def create_surface(self, array: Array, *, level: int = 0) -> Surface:
        """Make a surface object: an array made with ``surface=True``, as kernels read and write it.  Any thread.

        Args:
            array: what is read and written.
            level: which level of its mipmap (``cudaGetMipmappedArrayLevel``).

        Raises:
            CudaError: `cudaErrorInvalidValue` for another array; as `allocate`.
        """
        self._check_memory()
        return make_surface(self._context.device_heap, array, level)

    def load_ptx(self, text: str | bytes, filename: str = "<ptx>") -> Module:
        """Load PTX text; `filename` is what diagnoses call it.

        Returns at once: the text is read in another process, and `Module.get_kernel` waits for that.

        Raises:
            TypeError: `text` is not text (a path, for instance).
            CompileError: `cudaErrorInvalidKernelImage` for machine code instead of text, `cudaErrorInvalidPtx` for
                what is no text at all.
            CudaError: the sticky error after a fault.
            anyio.ClosedResourceError: the device is closed.
        """
        self._check_memory()
        return Module(self._context, decode_ptx(text, filename), filename)

    def link_ptx(self, sources: Mapping[str, str | bytes], name: str = "<linked>") -> Module:
        """Load several PTX texts as one module, as ``nvcc -rdc=true`` makes them; `sources` are texts by file name.

        Functions and variables that are ``.extern`` in one text may be defined in another.  Returns at once, as
        `load_ptx` does; what is defined twice, or nowhere, is told by `Module.get_kernel`.

        Raises:
            ValueError: there is no text.
            Exception: as `load_ptx`.
        """
        self._check_memory()
        if not sources:
            raise ValueError("link_ptx takes at least one text; pass {file name: text}")
        texts = {file: decode_ptx(text, file) for file, text in sources.items()}
        from zcuda_async.ptx.linker import join_texts

        return Module(self._context, join_texts(texts), name)

    # -- waiting ------------------------------------------------------------------------------------------

    async def sync(self) -> None:
        """Wait until everything submitted so far, on all streams, has finished; a checkpoint in any case.

        Cancelling stops only the waiting.

        Raises:
            CudaError: the sticky error after a fault.
            Exception: the first failure that nobody has awaited.
            anyio.ClosedResourceError: the device is closed.
        """
        await self._context.sync()

    async def reset(self) -> None:
        """End all pending work with `AbandonedError`, restart the workers and forget a sticky error.

        Buffers, streams, events and modules stay valid; what a failed kernel could write is undefined, and what kernels
        had from ``malloc`` is gone.
        Runs to its end even if cancelled.

        Raises:
            anyio.ClosedResourceError: the device is closed.
        """
        await self._context.reset()

    def __repr__(self) -> str:
        return f"<Device {self.name}: {'closed' if self.is_closed else 'open'}>"
