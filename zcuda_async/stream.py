"""Streams: FIFO queues of operations, driven on the event loop's thread (see `zcuda_async.context`)."""

from __future__ import annotations

from inspect import iscoroutinefunction
from threading import get_ident
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from zcuda_async.errors import CudaError, Status
from zcuda_async.event import Event
from zcuda_async.integers import as_integer
from zcuda_async.kernel import Kernel
from zcuda_async.launch import LaunchConfig
from zcuda_async.memory.buffer import Buffer
from zcuda_async.options import StreamOptions
from zcuda_async.transfer import device_range, plan_copy
from zcuda_async.work import CallbackOp, CopyOp, LaunchOp, MarkerOp, MemsetOp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from zcuda_async.context import Context
    from zcuda_async.op import Op

__all__ = ("Stream",)

T = TypeVar("T")


class Stream:
    """A queue of operations that run one after another, made by `Device.create_stream`.

    Every method that submits returns at once, with an `Op` that may be awaited or not.  Operations of one stream
    never overlap; those of different streams do, unless an event, `wait` or the legacy default stream orders
    them.  ``async with`` waits for the stream at the end and closes it.
    """

    __slots__ = (
        "__weakref__",
        "_context",
        "_is_closed",
        "_legacy",
        "_name",
        "_options",
        "head",
        "last_finished_ns",
        "last_sent",
        "priority",
        "tail",
    )

    def __init__(self, context: Context, options: StreamOptions, name: str, legacy: Stream | None) -> None:
        self._context = context
        self._options = options
        self._name = name
        # The legacy stream that this one synchronises with (itself, for that stream), or None.
        self._legacy = None if options.nonblocking else legacy or self
        self._is_closed = False
        self.priority = options.priority
        self.head: Op[Any] | None = None
        self.tail: Op[Any] | None = None
        self.last_finished_ns = 0
        # The last operation that the executor has, while it has it: those up to it were sent ahead.
        self.last_sent: Op[Any] | None = None

    # -- facts --------------------------------------------------------------------------------------------

    @property
    def context(self) -> Context:
        """The context that owns the stream."""
        return self._context

    @property
    def name(self) -> str:
        """What timelines and messages call the stream."""
        return self._name

    @property
    def is_nonblocking(self) -> bool:
        """Whether it is independent of the legacy default stream."""
        return self._legacy is None

    @property
    def is_done(self) -> bool:
        """Whether everything submitted so far has finished."""
        return self.tail is None

    @property
    def is_closed(self) -> bool:
        """Whether the stream was closed, or its device."""
        return self._is_closed or self._context.is_closed

    # -- submitting ---------------------------------------------------------------------------------------

    def memcpy(self, destination: object, source: object, size: SupportsIndex | None = None) -> Op[None]:
        """Copy `size` bytes after all earlier work on this stream; returns at once.

        Each end is a `Buffer`, a `PinnedBuffer`, a view of either, a bare device or pinned address (int), or any
        C-contiguous object with the buffer protocol.  A bare address has no size; `size` defaults to that of the
        other end then.  Else it defaults to the host end's if only one end is on the host, and to the source's.

        When is host memory read?  A pageable source of up to 2 MiB is read before the call returns, so it may be
        reused at once.  A larger one is read in a thread and must not change until the `Op` is done.  Pinned
        memory is always read in stream order.  A destination is complete when the `Op` is done.

        Raises:
            TypeError: an end is none of these, or both are addresses and `size` is missing.
            CudaError: `cudaErrorInvalidValue` if the copy runs past an end, an address is not allocated, or a
                host object is not contiguous or not writable; the sticky error after a fault.
            anyio.ClosedResourceError: the stream, its device or a buffer is closed.
        """
        self._check()
        op = CopyOp(self, plan_copy(self._context, destination, source, size))
        self._submit(op)
        if not op.has_started:
            op.stage()
        return op

    def memset(self, destination: Buffer | int, value: SupportsIndex, size: SupportsIndex | None = None) -> Op[None]:
        """Set `size` bytes (the whole buffer if None) to `value`, after all earlier work on this stream.

        Raises:
            TypeError: the destination is neither a Buffer nor an address, or an address came without `size`.
            CudaError: `cudaErrorInvalidValue` if the fill runs past the end or `value` is not 0 to 255; the sticky
                error after a fault.
            anyio.ClosedResourceError: the stream, its device or the buffer is closed.
        """
        self._check()
        byte = as_integer(value)
        if byte is None:
            raise TypeError(f"memset value is an int from 0 to 255, got {type(value).__name__}")
        if not 0 <= byte <= 255:
            raise CudaError(Status.cudaErrorInvalidValue, f"memset value must be 0 to 255 (one byte), got {byte}")
        end, count = device_range(self._context, "memset", destination, size)
        op = MemsetOp(self, end, byte, count)
        self._submit(op)
        return op

    def launch(self, kernel: Kernel, config: LaunchConfig, *arguments: object) -> Op[None]:
        """Run `kernel` after all earlier work on this stream; returns at once.

        The arguments are checked against the kernel's parameters now (see `zcuda_async.launch`) and copied, so
        they may be reused.  If the kernel is not compiled for this block shape yet, that starts now, off the
        event loop, and the launch waits for it in stream order; `Kernel.compile` does it ahead of time.

        Raises:
            TypeError: a wrong number of arguments, or one of the wrong kind or width.
            ValueError: a number that its parameter cannot hold.
            LaunchError: `cudaErrorInvalidValue` if the kernel does not allow this block or so much shared memory.
            CudaError: `cudaErrorInvalidResourceHandle` for a kernel of another device; the sticky error after a
                fault.
            anyio.ClosedResourceError: the stream, its device or a buffer is closed.
        """
        context = self._context
        self._check()
        self._check_launch(kernel, config)
        if kernel.context is not context:
            raise CudaError(
                Status.cudaErrorInvalidResourceHandle,
                f"kernel {kernel.name} was loaded on another open device than {self._name}'s; load its module on"
                " that device too",
            )
        kernel.check_config(config)
        params = kernel.pack(arguments)
        buffers = [argument for argument in arguments if isinstance(argument, Buffer)]
        for buffer in buffers:
            if buffer.heap is not context.device_heap and buffer.heap is not context.pinned_heap:
                raise self._foreign_argument(kernel, buffer, arguments)
        if kernel.module.image is not None:
            buffers.append(kernel.module.image)
        op = LaunchOp(self, kernel, config, params, buffers)
        self._submit(op)
        return op

    def _check_launch(self, kernel: object, config: object) -> None:
        if not isinstance(kernel, Kernel):
            raise TypeError(
                f"launch takes a Kernel first, got {type(kernel).__name__}; get one with"
                " await dev.load_ptx(text).get_kernel(name)"
            )
        if not isinstance(config, LaunchConfig):
            raise TypeError(
                f"launch of {kernel.name} takes a LaunchConfig before the arguments, got {type(config).__name__};"
                " pass LaunchConfig(grid, block)"
            )

    def _foreign_argument(self, kernel: Kernel, buffer: Buffer, arguments: tuple[object, ...]) -> CudaError:
        number = next(index for index, argument in enumerate(arguments, 1) if argument is buffer)
        return CudaError(
            Status.cudaErrorInvalidValue,
            f"{kernel.name} argument {number} ({kernel.params[number - 1].name}): {buffer!r} belongs to another open"
            f" device than {self._name}; allocate it on that stream's device",
        )

    def host_callback(self, function: Callable[..., T], *arguments: object) -> Op[T]:
        """Call ``function(*arguments)`` in a thread after all earlier work on this stream.

        Later work on the stream waits for it; its result is the result of the `Op`, and so is its exception.
        It must not use the runtime, as in CUDA.

        Raises:
            TypeError: `function` cannot be called, or is a coroutine function.
            CudaError: the sticky error after a fault.
            anyio.ClosedResourceError: the stream or its device is closed.
        """
        self._check()
        if not callable(function):
            raise TypeError(f"host_callback takes a function, got {type(function).__name__}")
        if iscoroutinefunction(function):
            raise TypeError(
                f"host_callback runs a plain function in a thread, got the coroutine function {function.__name__};"
                " await an event instead and call it from your own task"
            )
        call = (lambda: function(*arguments)) if arguments else function
        op: CallbackOp[T] = CallbackOp(self, call, getattr(function, "__name__", type(function).__name__))
        self._submit(op)
        return op

    def record(self, event: Event | None = None) -> Event:
        """Make `event` (a new one if None) stand for all work submitted to this stream so far.

        Raises:
            CudaError: `cudaErrorInvalidResourceHandle` for an event of another device; the sticky error after a
                fault.
            anyio.ClosedResourceError: the stream or its device is closed.
        """
        self._check()
        if event is None:
            event = Event(self._context)
        elif not isinstance(event, Event):
            raise TypeError(f"record takes an Event, got {type(event).__name__}; make one with dev.create_event()")
        elif event.context is not self._context:
            raise CudaError(
                Status.cudaErrorInvalidResourceHandle,
                f"{event.name} belongs to another open device than {self._name}; make it with that stream's device",
            )
        op = MarkerOp(self, "record")
        event.recorded_by(op)
        self._submit(op)
        return event

    def wait(self, event_or_stream: Event | Stream) -> None:
        """Order later work on this stream after an event's latest record, or after another stream's work so far.

        The host does not wait, so there is nothing to await: `sync` and ``await event`` are for that.

        Raises:
            TypeError: it is neither an event nor a stream.
            RuntimeError: it is of a device that was opened on another thread.
            CudaError: the sticky error after a fault.
            anyio.ClosedResourceError: this stream or its device is closed.
        """
        self._check()
        awaited: Op[Any] | None
        if isinstance(event_or_stream, Event):
            awaited = event_or_stream.latest_record
        elif isinstance(event_or_stream, Stream):
            awaited = event_or_stream.tail
        else:
            raise TypeError(f"a stream waits for an Event or a Stream, got {type(event_or_stream).__name__}")
        if awaited is not None and awaited.context.thread != self._context.thread:
            raise RuntimeError(
                f"{self._name} cannot wait for {awaited.stream.name}, which belongs to another thread's event loop;"
                " await its event there, or open both devices on one loop"
            )
        if awaited is not None and awaited.stream is not self and not awaited.is_done:
            self._submit(MarkerOp(self, "wait", awaited))

    # -- waiting and closing ------------------------------------------------------------------------------

    async def sync(self) -> None:
        """Wait until everything submitted so far has finished; a checkpoint in any case.

        Cancelling stops only the waiting.

        Raises:
            CudaError: the sticky error after a fault.
            Exception: the first failure on this stream that nobody has awaited.
            anyio.ClosedResourceError: the device is closed.
        """
        context = self._context
        context.check_open()
        context.raise_fault()
        tail = self.tail
        if tail is None:
            await checkpoint()
        else:
            await tail.settled()
            context.raise_fault()
        if context.has_failures:
            context.raise_failures(context.failures_of(self))

    def close(self) -> None:
        """Refuse further work; what was submitted still runs.  Does not wait; idempotent."""
        self._is_closed = True

    async def __aenter__(self) -> Stream:
        await checkpoint()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if exc is None:
                await self.sync()
        finally:
            self.close()

    # -- the state machine --------------------------------------------------------------------------------

    def _check(self) -> None:
        context = self._context
        if context.refusal is not None or get_ident() != context.thread:
            context.refuse()
        if self._is_closed:
            raise anyio.ClosedResourceError(f"{self._name} is closed; create another stream")

    def _submit(self, op: Op[Any]) -> None:
        """Queue `op`, and start it now if nothing is before it."""
        context = self._context
        context.sequence += 1
        op.submitted(context.sequence, context.now_ns())
        if context.virtual_clock is not None:
            context.virtual_clock.changed()
        if self._legacy is not None:
            context.order_legacy(op, self._legacy)
        tail, self.tail = self.tail, op
        if tail is not None:
            tail.followed_by(op)
            if tail is self.last_sent:
                context.send_ahead(self)
            return
        self.head = op
        context.busy[self] = None
        if self._legacy is not None:
            context.busy_blocking[self] = None
        if op.can_start:
            op.start()

    def head_done(self, op: Op[Any]) -> None:
        """The head `op` has finished: let the next one start."""
        context = self._context
        self.last_finished_ns = max(self.last_finished_ns, op.finish_ns)
        following = self.head = op.take_next()
        if op is self.last_sent:
            self.last_sent = None
        if following is not None:
            context.make_ready(self)
            return
        self.tail = None
        context.busy.pop(self, None)
        if self._legacy is not None:
            context.busy_blocking.pop(self, None)

    def take_all(self) -> Iterator[Op[Any]]:
        """Empty the stream; gives every pending operation, in order."""
        op, self.head, self.tail, self.last_sent = self.head, None, None, None
        while op is not None:
            following = op.take_next()
            yield op
            op = following

    def __repr__(self) -> str:
        return f"<Stream {self._name}: {'closed' if self.is_closed else 'done' if self.is_done else 'busy'}>"
