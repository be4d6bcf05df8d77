"""The kernels a pool knows: their ids, and their object code where workers can read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zcuda_async.executor.protocol import COMMAND, Command
from zcuda_async.executor.schedule import BlockCost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zcuda_async.jit.info import KernelCode
    from zcuda_async.memory.arena import Arena

__all__ = ("CodeTable", "KnownCode")

_LIMIT: Final = 1024


class KnownCode:
    """A kernel that workers can load: `load_command` tells them to.

    `in_flight` counts its unfinished launches, `cost` what its blocks take.
    """

    __slots__ = ("code", "cost", "id", "in_flight", "load_command", "staged")

    def __init__(self, number: int, code: KernelCode, staged: int) -> None:
        self.id: Final = number
        self.code: Final = code
        self.staged: Final = staged
        self.cost: Final = BlockCost()
        self.in_flight = 0
        sizes = (len(code.entry.encode()), len(code.object_code))
        self.load_command: Final = COMMAND.pack(Command.LOAD, number, staged, *sizes)

    @property
    def unload_command(self) -> bytes:
        """Tells a worker to forget this code."""
        return COMMAND.pack(Command.UNLOAD, self.id, 0, 0, 0)


class CodeTable:
    """Stages each kernel's object code in the arena's host heap once, whoever launches it.

    Holds at most 1024 kernels: adding one more evicts the least recently added ones that are not
    running; launching such a kernel again adds it again.
    """

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        # Keyed by identity on the hot path (the entry keeps the object alive), by content on the other.
        self._by_identity: dict[int, tuple[KernelCode, KnownCode]] = {}
        self._by_content: dict[KernelCode, KnownCode] = {}
        self._next_id = 1

    def find(self, code: KernelCode) -> KnownCode | None:
        """Return the entry of this very object, if it was launched before."""
        entry = self._by_identity.get(id(code))
        return None if entry is None else entry[1]

    def add(self, code: KernelCode) -> KnownCode:
        """Return the entry for `code`, staging it if its content is new.

        Raises:
            CudaError: `cudaErrorMemoryAllocation` if the host heap has no room for the object code.
        """
        known = self._by_content.get(code)
        if known is None:
            known = self._stage(code)
            self._by_content[code] = known
        self._by_identity[id(code)] = (code, known)
        return known

    def evict(self) -> Iterator[KnownCode]:
        """Drop entries beyond the limit; yields each, so that workers can be told."""
        if len(self._by_identity) > 4 * _LIMIT:
            self._by_identity.clear()
        for known in list(self._by_content.values())[:-_LIMIT]:
            if not known.in_flight:
                self._drop(known)
                yield known

    def close(self) -> None:
        """Give the staged code's memory back."""
        for known in self._by_content.values():
            self._arena.host_heap.free(known.staged)
        self._by_content.clear()
        self._by_identity.clear()

    def _stage(self, code: KernelCode) -> KnownCode:
        data = code.entry.encode() + code.object_code
        staged = self._arena.host_heap.allocate(len(data))
        self._arena.view(staged, len(data))[:] = data
        self._next_id += 1
        return KnownCode(self._next_id, code, staged)

    def _drop(self, known: KnownCode) -> None:
        del self._by_content[known.code]
        self._by_identity = {key: entry for key, entry in self._by_identity.items() if entry[1] is not known}
        self._arena.host_heap.free(known.staged)
