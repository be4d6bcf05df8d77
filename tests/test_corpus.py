"""The corpus: CUDA kernels compiled by nvcc for several architectures, run and checked against numpy.

Every case runs as nvcc optimises it for compute_80, and one in three of the others.  `ZCUDA_EXHAUSTIVE=1` runs every
case in every variant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import corpus
import numpy as np
import pytest
from corpus.cases import CASES, EXHAUSTIVE, VARIANTS, Case, In, Out, ptx_of
from corpus.textures import Seen

import zcuda_async as zc

for topic in iter_modules(corpus.__path__):
    if topic.name != "build":
        import_module(f"corpus.{topic.name}")  # a topic's cases are made when it is imported

EXPECTED_REFUSAL: dict[str, str] = {
    "dynamic: parent": r"__cudaCDP2\w+ belongs to dynamic parallelism: kernels that launch kernels are not supported",
}
"""Cases that need what is not there yet, and what the refusal says."""

pytestmark = [pytest.mark.anyio, pytest.mark.pool, pytest.mark.timeout(120)]


def selected() -> list[Any]:
    """Cases and variants to run now."""
    chosen = []
    for number, case in enumerate(CASES):
        for index, variant in enumerate(VARIANTS):
            if EXHAUSTIVE or index == 0 or number % 3 == index - 1:
                chosen.append(pytest.param(case, variant, id=f"{case.name}-{variant}"))
    return chosen


class Runner:
    """Launches a corpus kernel on a device and returns what its `Out` arguments hold afterwards."""

    def __init__(self, device: zc.Device, variant: str, printed: list[str]) -> None:
        self.device = device
        self.variant = variant
        self.printed = printed

    async def __call__(
        self,
        source: str,
        grid: Any,
        block: Any,
        arguments: Sequence[Any],
        *,
        kernel: str | None = None,
        shared: int = 0,
        sym: dict[str, np.ndarray[Any, Any]] | None = None,
        cooperative: bool = False,
    ) -> list[np.ndarray[Any, Any]]:
        with self.device.load_ptx(ptx_of(source, self.variant), source) as module:
            function = await module.get_kernel(kernel or source)
            if shared > 48 << 10:
                function.max_dynamic_shared_bytes = shared
            async with self.device.create_stream() as stream:
                values, outputs = self._upload(stream, arguments)
                for name, value in (sym or {}).items():
                    address, _ = await module.get_global(name)
                    stream.memcpy(address, value, value.nbytes)
                config = zc.LaunchConfig(grid=grid, block=block, shared_bytes=shared, cooperative=cooperative)
                stream.launch(function, config, *values)
                for array, buffer in outputs:
                    stream.memcpy(_bytes(array), buffer)
                await stream.sync()
        return [array for array, _ in outputs]

    async def sequence(
        self,
        source: str,
        launches: Sequence[Any],
        results: Sequence[np.ndarray[Any, Any]],
        symbols: Mapping[str, np.ndarray[Any, Any]],
    ) -> list[np.ndarray[Any, Any]]:
        with self.device.load_ptx(ptx_of(source, self.variant), source) as module:
            async with self.device.create_stream() as stream:
                memory: dict[int, zc.Buffer] = {}
                for name, value in symbols.items():
                    address, _ = await module.get_global(name)
                    stream.memcpy(address, value, value.nbytes)
                for launch in launches:
                    values = [self._place(stream, memory, argument) for argument in launch.args]
                    function = await module.get_kernel(launch.kernel)
                    config = zc.LaunchConfig(launch.grid, launch.block, launch.shared, cooperative=launch.cooperative)
                    stream.launch(function, config, *values)
                got = [np.empty_like(array) for array in results]
                for copy, array in zip(got, results, strict=True):
                    place = memory[id(array)]
                    stream.memcpy(_bytes(copy), place.view() if isinstance(place, zc.Array) else place)
                await stream.sync()
        return got

    def _place(self, stream: zc.Stream, memory: dict[int, zc.Buffer], argument: Any) -> Any:
        """An array's buffer, uploaded the first time; other arguments are themselves."""
        if isinstance(argument, Seen):
            return self._see(stream, memory, argument)
        if not isinstance(argument, np.ndarray):
            return argument
        if id(argument) not in memory:
            memory[id(argument)] = self.device.allocate(max(1, argument.nbytes))
            stream.memcpy(memory[id(argument)], _bytes(np.ascontiguousarray(argument)))
        return memory[id(argument)]

    def _see(self, stream: zc.Stream, memory: dict[int, zc.Buffer], seen: Seen) -> zc.Buffer:
        """A texture or surface of an array."""
        if seen.buffer:
            buffer = self._place(stream, memory, seen.array)
            return self.device.create_texture(buffer, seen.options, format=seen.format)
        if id(seen.array) not in memory:
            *outer, h, w = (0, 0, *seen.sizes)
            layers, depth = (outer[-1], 0) if seen.layered else (0, outer[-1])
            levels = 3 if seen.level_sizes else 1
            array = self.device.create_array(
                seen.format, w, h, depth, layers=layers, is_cubemap=seen.cube, levels=levels, surface=not seen.cube
            )
            memory[id(seen.array)] = array
            view = array.view()
            stream.memcpy(view, _bytes(seen.array)[: view.size])
        array = memory[id(seen.array)]
        assert isinstance(array, zc.Array)
        if seen.options is not None:
            return self.device.create_texture(array, seen.options)
        return self.device.create_surface(array, level=seen.level)

    def _upload(self, stream: zc.Stream, arguments: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        values: list[Any] = []
        outputs = []
        for argument in arguments:
            if not isinstance(argument, In):
                values.append(argument)
                continue
            buffer = self.device.allocate(max(1, argument.array.nbytes))
            stream.memcpy(buffer, _bytes(argument.array))
            values.append(buffer)
            if isinstance(argument, Out):
                outputs.append((argument.array, buffer))
        return values, outputs


def _bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.reshape(-1).view(np.uint8)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(("case", "variant"), selected())
async def test_kernel(case: Case, variant: str, anyio_backend: str) -> None:
    printed: list[str] = []
    async with zc.open_device(0, printf=printed.append) as device:
        if case.name in EXPECTED_REFUSAL:
            with pytest.raises(zc.CompileError, match=EXPECTED_REFUSAL[case.name]):
                await case.check(Runner(device, variant, printed))
        else:
            await case.check(Runner(device, variant, printed))


async def test_some_kernels_under_either_event_loop() -> None:
    async with zc.open_device(0) as device:
        for case in CASES[:4]:
            await case.check(Runner(device, "sm80", []))


def test_there_are_at_least_sixty_kernels() -> None:
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)
