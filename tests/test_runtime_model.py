"""Random programs of streams, events, copies, launches and callbacks, against a sequential model.

Every operation is recorded as a small step on integers: a buffer's content is one byte value repeated.  The
program is submitted at once, from one task, while others await, give up waiting and synchronise.  The model runs
the same operations one after another in an order that the documented rules allow, any of which must give the same
result, because the program orders all conflicting operations (see `Program.touch`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from runtime_support import EMPTY, ONE_THREAD, AheadRig, Rig, load

import zcuda_async as zc

pytestmark = pytest.mark.anyio

SIZES = (1, 4096, 3 << 20)
"""Copied inline, inline, and in a thread."""
STREAMS = 4
BUFFERS = 5


class Program:
    """Submits operations and predicts what each buffer and each host array holds in the end."""

    def __init__(self, device: zc.Device, choose: random.Random) -> None:
        self.device = device
        self.choose = choose
        options = [zc.StreamOptions(nonblocking=flag) for flag in (True, True, False, False)]
        self.streams = [*(device.create_stream(each) for each in options[:STREAMS]), device.default_stream]
        self.size = choose.choice(SIZES)
        self.buffers = [self._buffer(index) for index in range(BUFFERS)]
        self.values = [0] * BUFFERS
        # The event that marks the last operation on each buffer.
        self.last: list[zc.Event | None] = [None] * BUFFERS
        self.ops: list[zc.Op[Any]] = []
        self.reads: list[tuple[bytearray, int]] = []
        self.order: dict[int, list[int]] = {index: [] for index in range(len(self.streams))}
        self.ran: dict[int, list[int]] = {index: [] for index in range(len(self.streams))}
        for buffer in self.buffers:
            self.ops.append(self.streams[0].memset(buffer, 0))
        self.last = [self.streams[0].record()] * BUFFERS

    def _buffer(self, index: int) -> zc.Buffer:
        pinned = index == BUFFERS - 1
        return self.device.allocate_pinned(self.size) if pinned else self.device.allocate(self.size)

    def touch(self, stream: zc.Stream, *buffers: int) -> None:
        """Order the next operation of `stream` after the last one on each buffer."""
        for index in buffers:
            event = self.last[index]
            assert event is not None
            stream.wait(event)

    def mark(self, stream: zc.Stream, *buffers: int) -> None:
        event = stream.record()
        for index in buffers:
            self.last[index] = event

    def step(self, kernel: zc.Kernel) -> None:
        choose = self.choose
        number = choose.randrange(len(self.streams))
        stream, index = self.streams[number], choose.randrange(BUFFERS)
        steps: list[Callable[[zc.Stream, int, int], None]] = [
            self.fill,
            self.upload,
            self.download,
            self.move,
            self.callback,
            self.callback,
            self.wait,
        ]
        if choose.random() < 0.2:
            self.ops.append(stream.launch(kernel, ONE_THREAD))
        else:
            choose.choice(steps)(stream, number, index)

    def fill(self, stream: zc.Stream, number: int, index: int) -> None:
        value = self.choose.randrange(256)
        self.touch(stream, index)
        self.ops.append(stream.memset(self.buffers[index], value))
        self.mark(stream, index)
        self.values[index] = value

    def upload(self, stream: zc.Stream, number: int, index: int) -> None:
        value = self.choose.randrange(256)
        self.touch(stream, index)
        source = bytearray([value]) * self.size
        self.ops.append(stream.memcpy(self.buffers[index], source))
        if self.size <= 2 << 20:
            source[:] = bytes(self.size)  # was read already
        self.mark(stream, index)
        self.values[index] = value

    def download(self, stream: zc.Stream, number: int, index: int) -> None:
        self.touch(stream, index)
        target = bytearray(self.size)
        self.ops.append(stream.memcpy(target, self.buffers[index]))
        self.mark(stream, index)
        self.reads.append((target, self.values[index]))

    def move(self, stream: zc.Stream, number: int, index: int) -> None:
        other = self.choose.randrange(BUFFERS)
        self.touch(stream, index, other)
        self.ops.append(stream.memcpy(self.buffers[other], self.buffers[index]))
        self.mark(stream, index, other)
        self.values[other] = self.values[index]

    def callback(self, stream: zc.Stream, number: int, index: int) -> None:
        """Callbacks note their turn, with everything of their own stream before them."""
        turn = len(self.order[number])
        self.order[number].append(turn)
        self.ops.append(stream.host_callback(self.ran[number].append, turn))

    def wait(self, stream: zc.Stream, number: int, index: int) -> None:
        stream.wait(self.choose.choice(self.streams))

    async def check(self) -> None:
        for index, buffer in enumerate(self.buffers):
            stream, target = self.choose.choice(self.streams), bytearray(self.size)
            self.touch(stream, index)
            await stream.memcpy(target, buffer)
            assert target == bytes([self.values[index]]) * self.size
        await self.device.sync()
        assert all(op.is_done and op.exception() is None for op in self.ops)
        assert self.ran == self.order
        for target, value in self.reads:
            assert target == bytes([value]) * self.size


async def bystander(program: Program, seed: int) -> None:
    """Awaits, gives up, and synchronises at random points; must never disturb anything."""
    choose = random.Random(seed)
    for _ in range(6):
        waits: list[Callable[[], Any]] = [program.device.sync, choose.choice(program.streams).sync]
        if program.ops:
            waits.append(choose.choice(program.ops).settled)
        event = choose.choice(program.last)
        assert event is not None
        waits.append(event.sync)
        with anyio.CancelScope() as scope:
            if choose.random() < 0.5:
                scope.cancel()
            await choose.choice(waits)()
        await checkpoint()


def any_rig(choose: random.Random) -> tuple[Rig, dict[str, Any]]:
    """With and without launches sent ahead, on the real clock and on a virtual one with modelled copies."""
    rig = choose.choice([Rig, AheadRig])()
    modelled = {"clock": zc.VirtualClock(kernel_ms=0.5), "link": "pcie4-x16"}
    return rig, choose.choice([{}, {}, modelled])


async def run_program(seed: int, length: int) -> None:
    rig, options = any_rig(random.Random(seed))
    async with rig.open(**options) as device:
        rig.executor.is_open = True
        kernel = await load(device, EMPTY.name)
        used = device.memory_info().used_bytes
        program = Program(device, random.Random(seed))
        with anyio.fail_after(30):
            async with anyio.create_task_group() as task_group:
                for number in range(3):
                    task_group.start_soon(bystander, program, seed + number)
                for _ in range(length):
                    program.step(kernel)
                    if program.choose.random() < 0.3:
                        await checkpoint()
            await program.check()
        for buffer in program.buffers:
            buffer.close()
        assert device.memory_info().used_bytes == used
        assert not device.context.busy


@given(seed=st.integers(0, 2**32), length=st.integers(1, 60))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_programs_give_what_the_model_gives(anyio_backend: str, seed: int, length: int) -> None:
    anyio.run(run_program, seed, length, backend=anyio_backend)


async def end_badly(seed: int, how: str) -> None:
    """Cut a program off at a random point: everything ends, and nothing is left."""
    choose = random.Random(seed)
    rig, options = any_rig(choose)
    outcomes: list[BaseException | None] = []
    program: Program | None = None

    async def wait(op: zc.Op[Any]) -> None:
        try:
            await op
            outcomes.append(None)
        except (zc.AbandonedError, zc.CudaError) as error:
            outcomes.append(error)

    async with anyio.create_task_group() as outside:
        with anyio.CancelScope() as scope:
            try:
                async with rig.open(**options) as device:
                    rig.executor.is_open = choose.random() < 0.5
                    kernel = await load(device, EMPTY.name)
                    program = Program(device, choose)
                    for _ in range(choose.randrange(30)):
                        program.step(kernel)
                        if choose.random() < 0.3:
                            await checkpoint()
                    for op in program.ops:
                        outside.start_soon(wait, op)
                    if how == "cancel":
                        scope.cancel()
                    elif how == "reset":
                        await device.reset()
                    else:
                        raise KeyError(how)
            except KeyError:
                assert how == "error"
    assert program is not None
    assert len(outcomes) == len(program.ops)
    assert all(op.is_done for op in program.ops)
    assert program.device.is_closed
    assert program.device.context.arena.is_closed


@given(seed=st.integers(0, 2**32), how=st.sampled_from(["cancel", "reset", "error"]))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_programs_cut_off_anywhere_end_and_leave_nothing(anyio_backend: str, seed: int, how: str) -> None:
    async def bounded() -> None:
        with anyio.fail_after(30):
            await end_badly(seed, how)

    anyio.run(bounded, backend=anyio_backend)
