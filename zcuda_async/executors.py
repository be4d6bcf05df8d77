"""The executors by name: the built-in ones, and plug-ins found through an entry point."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from zcuda_async.threads import import_in_thread

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from zcuda_async.executor.base import KernelExecutor
    from zcuda_async.memory.arena import Arena

__all__ = ("ENTRY_POINT_GROUP", "ExecutorFactory", "executor_factory")

ExecutorFactory = Callable[["Arena", "TaskGroup", "int | None"], Awaitable["KernelExecutor"]]
"""Starts an executor for an arena, its tasks in the device's task group; the int is the number of workers asked for."""

ENTRY_POINT_GROUP: Final = "zcuda_async.executors"


async def _pool(arena: Arena, task_group: TaskGroup, workers: int | None) -> KernelExecutor:
    await import_in_thread("zcuda_async.executor.pool")
    from zcuda_async.executor.pool import PoolExecutor

    return await PoolExecutor.start(arena, task_group, workers)


async def _inline(arena: Arena, task_group: TaskGroup, workers: int | None) -> KernelExecutor:
    from zcuda_async.executor.inline import InlineExecutor

    return await InlineExecutor.start(arena, task_group, workers)


async def _stub(arena: Arena, task_group: TaskGroup, workers: int | None) -> KernelExecutor:
    from zcuda_async.executor.stub import StubExecutor

    return await StubExecutor.start(arena, task_group, workers)


_BUILT_IN: Final[dict[str, ExecutorFactory]] = {"pool": _pool, "inline": _inline, "stub": _stub}


def executor_factory(executor: str | ExecutorFactory) -> ExecutorFactory:
    """The factory itself, or the one of that name; ValueError if there is none."""
    if not isinstance(executor, str):
        return executor
    if executor in _BUILT_IN:
        return _BUILT_IN[executor]
    from importlib.metadata import entry_points

    plug_ins = entry_points(group=ENTRY_POINT_GROUP)
    if executor in plug_ins.names:
        factory: ExecutorFactory = plug_ins[executor].load()
        return factory
    known = ", ".join([*_BUILT_IN, *sorted(plug_ins.names)])
    raise ValueError(f"no executor is named {executor!r}; choose one of {known}, or pass a factory")
