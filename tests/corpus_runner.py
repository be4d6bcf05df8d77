"""Runs a case of the corpus on a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from corpus.cases import In, Out, ptx_of
from corpus.textures import Seen

import zcuda_async as zc

__all__ = ("Runner",)


class Runner:
    """Launches a corpus kernel on a device and returns what its `Out` arguments hold afterwards.

    What it allocates goes to `owned`.
    """

    def __init__(self, device: zc.Device, variant: str, printed: list[str], owned: ExitStack) -> None:
        self.device = device
        self.variant = variant
        self.printed = printed
        self.owned = owned

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

    def _allocate(self, size: int) -> zc.Buffer:
        return self.owned.enter_context(self.device.allocate(max(1, size)))

    def _place(self, stream: zc.Stream, memory: dict[int, zc.Buffer], argument: Any) -> Any:
        """An array's buffer, uploaded the first time; other arguments are themselves."""
        if isinstance(argument, Seen):
            return self._see(stream, memory, argument)
        if not isinstance(argument, np.ndarray):
            return argument
        if id(argument) not in memory:
            memory[id(argument)] = self._allocate(argument.nbytes)
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
            buffer = self._allocate(argument.array.nbytes)
            stream.memcpy(buffer, _bytes(argument.array))
            values.append(buffer)
            if isinstance(argument, Out):
                outputs.append((argument.array, buffer))
        return values, outputs


def _bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.reshape(-1).view(np.uint8)
