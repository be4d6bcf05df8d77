"""anyio in callbacks of an asyncio loop, where no task runs.

Much of the runtime happens in such callbacks: a worker's answer is read in one, and whatever the answer lets start
starts there; a program may submit in callbacks of its own as well.  anyio asks `sniffio`, where that is installed,
which event loop it is on.  sniffio looks at a context variable, and failing that at the current task, which a callback
lacks.  `anyio.run` sets the variable for the whole program, but `asyncio.run` and servers do not.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import TYPE_CHECKING, ParamSpec, TypeVar

try:
    import sniffio
except ImportError:  # then anyio takes a running asyncio loop for an answer, also in a callback
    _HAS_SNIFFIO = False
else:
    _HAS_SNIFFIO = True

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

__all__ = ("run_on_asyncio", "start_soon")

P = ParamSpec("P")
R = TypeVar("R")


def run_on_asyncio(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call `function` in a context in which anyio knows that it is on asyncio.

    Callbacks and tasks keep the context that they were registered in, so what `function` registers or starts
    may use all of anyio too, and so may the user's code that they call.
    """
    if not _HAS_SNIFFIO:
        return function(*args, **kwargs)
    context = copy_context()
    context.run(sniffio.current_async_library_cvar.set, "asyncio")
    return context.run(function, *args, **kwargs)


def start_soon(
    task_group: TaskGroup, function: Callable[..., Coroutine[object, object, None]], *arguments: object
) -> None:
    """`task_group.start_soon(function, *arguments)`, which anyio by itself refuses in an asyncio callback."""
    if _is_unknown_loop():
        run_on_asyncio(task_group.start_soon, function, *arguments)
    else:
        task_group.start_soon(function, *arguments)


def _is_unknown_loop() -> bool:
    """Whether sniffio cannot tell the event loop: an asyncio callback, as trio says that it runs in all it calls."""
    if not _HAS_SNIFFIO:
        return False
    try:
        sniffio.current_async_library()
    except sniffio.AsyncLibraryNotFoundError:
        return True
    return False
