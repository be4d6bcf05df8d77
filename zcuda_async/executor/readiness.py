"""Calls back whenever a socket is readable, the shortest way each event loop offers.

`anyio.wait_readable` registers the socket anew and switches tasks for every message, which on asyncio
takes longer than the message itself; there a standing reader callback is used instead.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

import anyio

from zcuda_async.callbacks import run_on_asyncio

__all__ = ("notify_closing", "watch_readable")

_watched: Final[dict[int, asyncio.Future[None]]] = {}


async def watch_readable(sock: socket.socket, on_readable: Callable[[], bool]) -> None:
    """Call `on_readable()` each time `sock` has something to read, until it returns False.

    Returns also when `notify_closing` is called for the socket.  What `on_readable` raises comes out here.
    """
    if _is_asyncio_task():
        await _watch_with_callback(sock, on_readable)
        return
    try:
        await anyio.wait_readable(sock)
        while on_readable():
            await anyio.wait_readable(sock)
    except anyio.ClosedResourceError:
        pass


def notify_closing(sock: socket.socket) -> None:
    """Wake what waits for `sock`; close it only once that has returned."""
    future = _watched.get(sock.fileno())
    if future is not None and not future.done():
        future.set_result(None)
    anyio.notify_closing(sock)


def _is_asyncio_task() -> bool:
    """False on trio, also where trio is a guest of an asyncio loop."""
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False


async def _watch_with_callback(sock: socket.socket, on_readable: Callable[[], bool]) -> None:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def step() -> None:
        if ended.done():
            return
        try:
            if not on_readable():
                ended.set_result(None)
        except BaseException as error:  # noqa: BLE001 - raised in the watching task
            ended.set_exception(error)

    fd = sock.fileno()
    run_on_asyncio(loop.add_reader, fd, step)
    _watched[fd] = ended
    try:
        await ended
    finally:
        del _watched[fd]
        loop.remove_reader(fd)
