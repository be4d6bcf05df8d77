"""The kinds of operation a stream runs: copies, fills, launches, callbacks, records and waits.

Each class says how its work starts; `Op` does the rest.  `is_physical` is set while a worker or a thread may
still touch the operands: the context may settle such an operation early (a fault, a reset), but its buffers are
let go only when the work has really ended.
"""

from __future__ import annotations

from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final, TypeVar

from zcuda_async.errors import CudaError
from zcuda_async.executor.base import LaunchRequest
from zcuda_async.memory.copy import fill, locked_buffer
from zcuda_async.op import Completion, Op

if TYPE_CHECKING:
    from collections.abc import Callable

    from zcuda_async.executor.base import LaunchAhead, LaunchResult
    from zcuda_async.jit.info import KernelCode
    from zcuda_async.kernel import Kernel
    from zcuda_async.launch import LaunchConfig
    from zcuda_async.memory.buffer import Buffer
    from zcuda_async.stream import Stream
    from zcuda_async.timing.link import CopyEngine
    from zcuda_async.transfer import CopyPlan, End

__all__ = ("INLINE_BYTES", "STAGE_BYTES", "CallbackOp", "CopyOp", "LaunchOp", "MarkerOp", "MemsetOp")

R = TypeVar("R")

INLINE_BYTES: Final = 1 << 20
"""Copies and fills up to this size are made on the event loop: well below a millisecond, and a thread costs more."""
STAGE_BYTES: Final = 2 << 20
"""Pageable sources up to this size are read before the submitting call returns: about a millisecond."""


_NOT_COUNTED: Final = -1
"""The generation of launches that the context does not count as in flight."""


class MarkerOp(Op[None]):
    """A record or a wait: takes no time, and carries the time at which its turn came.

    That is the end of what ran before it, or the submission if nothing did, whenever the loop gets to it.
    """

    __slots__ = ("_awaited",)

    def __init__(self, stream: Stream, kind: str, awaited: Op[Any] | None = None) -> None:
        super().__init__(stream, kind)
        self._awaited = awaited
        if awaited is not None:
            self.block_on(awaited)

    @property
    def time_ns(self) -> int:
        """The time of the marked point; only once it is done."""
        assert self._finished_ns is not None
        return self._finished_ns

    def _start(self) -> None:
        time_ns = max(self._submitted_ns, self.stream.last_finished_ns)
        awaited = self._awaited
        if awaited is not None and awaited.stream.context is self.stream.context:
            time_ns = max(time_ns, awaited.finish_ns)
        self._awaited = None
        self._started_ns = self._finished_ns = time_ns
        self.finish()


class CopyOp(Op[None]):
    """A copy: inline if it is small, in a thread if not, and no shorter than the link's model says."""

    __slots__ = ("_deadline_ns", "_engine", "_inline_bytes", "_plan", "_size")

    def __init__(self, stream: Stream, plan: CopyPlan) -> None:
        super().__init__(stream, plan.direction)
        plan.retain()
        self._plan: CopyPlan | None = plan
        self._size = plan.size
        self._engine: CopyEngine | None = stream.context.engines.get(plan.direction)
        self._inline_bytes = STAGE_BYTES if plan.has_pageable_source else INLINE_BYTES
        self._deadline_ns = 0

    @property
    def size(self) -> int:
        """Bytes moved."""
        return self._size

    @property
    def label(self) -> str:
        """A few words for timelines and messages."""
        return f"{self.kind} {_bytes_text(self._size)}"

    @property
    def engine(self) -> str | None:
        """The copy engine's direction, if the link models it."""
        return None if self._engine is None else self._engine.direction

    def stage(self) -> None:
        """Called if it did not start inside the submitting call: read a small pageable source now."""
        self._inline_bytes = INLINE_BYTES
        plan = self._plan
        if plan is None or plan.size > STAGE_BYTES or not plan.has_pageable_source:
            return
        data = plan.source.data
        assert data is not None
        if isinstance(memoryview(data).obj, bytes):
            return  # cannot change
        with locked_buffer(data) as (address, _):
            if address in self.stream.context.pinned_heap:
                return  # pinned: read in stream order
        plan.stage()

    def _start(self) -> None:
        plan, context = self._plan, self.stream.context
        assert plan is not None
        now = context.now_ns()
        self._started_ns = now
        if self._engine is not None:
            self._started_ns, self._deadline_ns = self._engine.reserve(now, plan.size)
        if plan.size > self._inline_bytes:
            self.is_physical = True
            context.run_copy(lambda: plan.copy_raw(lambda: context.is_stopping), self._moved)
            return
        if plan.size:
            plan.copy_views()
        self._moved(None)

    def _moved(self, error: BaseException | None) -> None:
        """The bytes are there; the modelled time may not be over."""
        if self.is_physical:
            self.is_physical = False
            if self.is_done:
                self.release()
                return
        context = self.stream.context
        if error is not None:
            self.finish(error=error)
        elif self._engine is None:
            self.finish()
        elif context.now_ns() < self._deadline_ns:
            context.clock.call_at(self._deadline_ns, self._modelled_end)
        else:
            self._engine.extend(context.now_ns())
            self.finish()

    def _modelled_end(self) -> None:
        if not self.is_done:
            self._finished_ns = self._deadline_ns
            self.finish()

    def release(self) -> None:
        """Let go of the operands."""
        plan, self._plan = self._plan, None
        if plan is not None:
            plan.release()


class MemsetOp(Op[None]):
    """A fill: inline if it is small, in a thread if not."""

    __slots__ = ("_byte", "_end", "_size")

    def __init__(self, stream: Stream, end: End, value: int, size: int) -> None:
        super().__init__(stream, "memset")
        end.retain()
        self._end: End | None = end
        self._byte = value
        self._size = size

    @property
    def size(self) -> int:
        """Bytes moved."""
        return self._size

    @property
    def label(self) -> str:
        """A few words for timelines and messages."""
        return f"memset {_bytes_text(self._size)}"

    def _start(self) -> None:
        assert self._end is not None
        address, byte, size = self._end.address, self._byte, self._size
        self._started_ns = self.stream.context.now_ns()
        if size > INLINE_BYTES:
            self.is_physical = True
            self.stream.context.run_copy(lambda: fill(address, byte, size), self._filled)
            return
        if size:
            fill(address, byte, size)
        self.finish()

    def _filled(self, error: BaseException | None) -> None:
        self.is_physical = False
        if self.is_done:
            self.release()
        else:
            self.finish(error=error)

    def release(self) -> None:
        """Let go of the operands."""
        end, self._end = self._end, None
        if end is not None:
            end.release()


class LaunchOp(Op[None]):
    """A launch: waits for its code if need be, then goes to the executor."""

    __slots__ = (
        "_buffers",
        "_code",
        "_config",
        "_generation",
        "_kernel",
        "_params",
        "_services",
        "_stack_bytes",
    )

    def __init__(
        self, stream: Stream, kernel: Kernel, config: LaunchConfig, params: bytes, buffers: list[Buffer]
    ) -> None:
        super().__init__(stream, "launch")
        self._kernel = kernel
        self._config = config
        self._params = params
        self._code: Completion[KernelCode] = kernel.code_for(config.block_shape)
        self._generation = _NOT_COUNTED
        self._stack_bytes = stream.context.services.limits.stack_bytes
        services = kernel.info.services
        self._services = stream.context.services.address_for(services) if services else 0
        self._buffers: list[Buffer] = []
        for buffer in buffers:
            try:
                buffer.retain()
            except BaseException:
                self.release()
                raise
            self._buffers.append(buffer)

    @property
    def label(self) -> str:
        """A few words for timelines and messages."""
        return self._kernel.name

    def _start(self) -> None:
        if self.is_physical:
            return  # sent ahead
        if self._code.is_done:
            self._compiled()
        else:
            self._code.add_done_callback(self._compiled)

    def _compiled(self) -> None:
        if self.is_done:
            return
        error = self._code.exception()
        if error is None:
            self.stream.context.admit(self)
        else:
            self.finish(error=error)

    def send(self, generation: int) -> bool:
        """Hand the launch to the executor, when the context says so; False if it was not taken."""
        context = self.stream.context
        self._generation = generation
        request = self._request()
        self._started_ns = context.now_ns()
        context.clock.begin_work()
        self.is_physical = True
        try:
            context.executor.submit(request, self._executed)
        except Exception as error:  # noqa: BLE001 - the executor's refusal: whoever awaits the launch gets it
            self.is_physical = False
            context.clock.end_work()
            self.finish(error=error)
            return False
        self.stream.last_sent = self
        if self.following is not None:
            context.send_ahead(self.stream)
        return True

    def send_behind(self, executor: LaunchAhead) -> bool:
        """Hand the launch to the executor before its turn; False if it cannot be yet, or was not taken."""
        if not self.can_start or not self._code.is_done or self._code.error is not None:
            return False
        self.is_physical = True
        try:
            is_taken = executor.submit_behind(self._request(), self._executed)
        except CudaError:
            is_taken = False  # no memory: it is tried again, and told, when its turn comes
        self.is_physical = is_taken
        if is_taken:
            self.stream.context.clock.begin_work()
        return is_taken

    def _request(self) -> LaunchRequest:
        config = self._config
        return LaunchRequest(
            self._code.result(),
            config.grid_shape,
            self._params,
            config.shared_bytes,
            self._kernel.globals_address,
            id(self.stream),
            config.cooperative,
            self._kernel.cluster_for(config),
            self._services,
            self.sequence,
            self._stack_bytes,
        )

    def _executed(self, result: LaunchResult) -> None:
        context = self.stream.context
        context.clock.end_work()
        context.launch_ended(self._generation)
        if self._services:
            context.services.flush()
        self.is_physical = False
        if self.is_done:
            self.release()
        elif result.fault is not None:
            self._finished_ns = context.now_ns()
            context.fault_happened(result.fault)
            self.release()
        elif context.virtual_clock is None:
            self._started_ns, self._finished_ns = result.started_ns, result.finished_ns
            self.finish()
            if self.stream.last_sent is not None:
                context.send_ahead(self.stream)
        else:
            self._model_end(context.virtual_clock.kernel_ns(self._kernel, self._config))

    def _model_end(self, duration_ns: int) -> None:
        if duration_ns <= 0:
            self.finish()
            return
        assert self._started_ns is not None
        self._deadline(self._started_ns + duration_ns)

    def _deadline(self, end_ns: int) -> None:
        def end() -> None:
            if not self.is_done:
                self._finished_ns = end_ns
                self.finish()

        self.stream.context.clock.call_at(end_ns, end)

    def release(self) -> None:
        """Let go of the operands."""
        buffers, self._buffers = self._buffers, []
        for buffer in buffers:
            buffer.drop()


class CallbackOp(Op[R]):
    """A user's function, run in a thread with the context variables of its submission."""

    __slots__ = ("_function", "_name")

    def __init__(self, stream: Stream, function: Callable[[], R], name: str) -> None:
        super().__init__(stream, "callback")
        self._name = name
        variables = copy_context()
        self._function: Callable[[], R] | None = lambda: variables.run(function)

    @property
    def label(self) -> str:
        """A few words for timelines and messages."""
        return f"callback {self._name}"

    def _start(self) -> None:
        assert self._function is not None
        context = self.stream.context
        self._started_ns = context.now_ns()
        context.run_callback(self._function, self.finish)

    def release(self) -> None:
        """Let go of the operands."""
        self._function = None


def _bytes_text(size: int) -> str:
    """A size for people: 512 B, 64 KiB, 4 MiB."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size} B"
