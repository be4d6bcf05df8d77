"""What a contestant is, and which of them are here."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from benchmarks.problems import Problem

__all__ = ("PEERS", "Peer", "PeerMissingError", "Run", "nothing", "open_peers")

PEERS: Final = ("gcc", "zcuda", "pocl", "numba", "warp")
"""Names in the order of the columns; each is a module ``<name>_peer`` with an ``open_peer``."""


class PeerMissingError(Exception):
    """The peer cannot run here; the message says why."""


async def nothing() -> None:
    """Stand in for `Run.fetch` where the answer already lies in the problem's arrays."""


@dataclass(frozen=True, slots=True)
class Run:
    """One kernel ready to go.

    `launch` runs it and waits, `fetch` brings the answer to the problem's arrays, `close` frees what it holds.
    """

    launch: Callable[[], Awaitable[None]]
    fetch: Callable[[], Awaitable[None]] = nothing
    close: Callable[[], None] = lambda: None


class Peer(Protocol):
    """A way to run the kernels."""

    async def prepare(self, problem: Problem) -> Run | None:
        """Compile and place everything; None if the peer has no such kernel."""


@asynccontextmanager
async def open_peers(names: Sequence[str], report: Callable[[str], None]) -> AsyncIterator[dict[str, Peer]]:
    """Open the peers of those names; `report` hears of each that is missing."""
    async with AsyncExitStack() as stack:
        peers: dict[str, Peer] = {}
        for name in names:
            report(f"starting {name}")
            try:
                module = importlib.import_module(f"benchmarks.peers.{name}_peer")
                opened: AbstractAsyncContextManager[Peer] = module.open_peer()
                peers[name] = await stack.enter_async_context(opened)
            except (ImportError, PeerMissingError) as exc:
                report(f"{name} is left out: {exc}")
        yield peers
