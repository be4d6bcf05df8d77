"""Where loads and stores go: the launch's global memory, and the windows of a block and its threads."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from zcuda_async.interpreter.bits import mask, number
from zcuda_async.interpreter.exact import FORMATS, Format, add
from zcuda_async.ptx.ir import Instruction
from zcuda_async.ptx.table_syntax import TYPE_WIDTHS

if TYPE_CHECKING:
    from zcuda_async.interpreter.thread import Block, Thread

__all__ = (
    "LOCAL_WINDOW",
    "PARAM_WINDOW",
    "SHARED_WINDOW",
    "Memory",
    "ProcessMemory",
    "RegionMemory",
    "access",
    "shared_base",
    "shared_window",
    "space_of",
    "update_of",
)

SHARED_WINDOW: Final = 1 << 55
"""Where shared memory lies in the generic address space, unless the launch says otherwise."""

LOCAL_WINDOW: Final = 1 << 56
PARAM_WINDOW: Final = 1 << 57
_RANK_SHIFT: Final = 24
_OFFSET: Final = (1 << _RANK_SHIFT) - 1
"""From bit 24 on, an address in the shared windows of a cluster of several blocks has the block's rank, plus one."""

_SPACES: Final = ("global", "shared", "local", "param", "const")


class Memory(Protocol):
    """Global memory.  Both methods raise IndexError for addresses that are not part of it."""

    def load(self, address: int, size: int) -> bytes:
        """`size` bytes from `address` on."""

    def store(self, address: int, data: bytes) -> None:
        """Replace the bytes from `address` on."""


class RegionMemory:
    """Memory made of separate regions, each a bytearray at an address of its own."""

    def __init__(self, regions: Iterable[tuple[int, bytearray]] = ()) -> None:
        self._regions = sorted(regions, key=lambda region: region[0])

    def add(self, address: int, data: bytearray) -> None:
        """Make `data` (which is not copied) the memory from `address` on."""
        self._regions = sorted([*self._regions, (address, data)], key=lambda region: region[0])

    def _find(self, address: int, size: int) -> tuple[bytearray, int]:
        for base, data in self._regions:
            if base <= address and address + size <= base + len(data):
                return data, address - base
        raise IndexError(f"no memory at {address:#x} to {address + size:#x}")

    def load(self, address: int, size: int) -> bytes:
        """`size` bytes from `address` on."""
        data, offset = self._find(address, size)
        return bytes(data[offset : offset + size])

    def store(self, address: int, data: bytes) -> None:
        """Replace the bytes from `address` on."""
        region, offset = self._find(address, len(data))
        region[offset : offset + len(data)] = data


class ProcessMemory:
    """This process's own memory: **no checks**, a wrong address ends the program."""

    def load(self, address: int, size: int) -> bytes:
        """`size` bytes from `address` on."""
        return ctypes.string_at(address, size)

    def store(self, address: int, data: bytes) -> None:
        """Replace the bytes from `address` on."""
        ctypes.memmove(address, data, len(data))


def space_of(instruction: Instruction) -> str:
    """The state space that an instruction names; ``""`` for a generic address.  ``shared`` is ``shared::cta``."""
    if instruction.has("shared::cluster"):
        return "shared::cluster"
    names = (modifier.partition("::")[0] for modifier in instruction.modifiers)
    return next((name for name in names if name in _SPACES), "")


def shared_base(rank: int, cluster: tuple[int, int, int]) -> int:
    """Where the shared memory of the block of some rank begins in the addresses of its cluster's."""
    return rank + 1 << _RANK_SHIFT if cluster != (1, 1, 1) else 0


def shared_window(thread: Thread, address: int) -> tuple[Block, int]:
    """(block, offset in its shared memory) of an address in the shared windows of the thread's cluster.

    Raises:
        IndexError: The address is in none of them.
    """
    offset = address & _OFFSET
    block = next((block for block in thread.block.cluster.blocks if block.shared_base == address - offset), None)
    if block is None:
        raise IndexError(f"shared address {address:#x} is in no block of the cluster")
    if offset >= len(block.shared):
        raise IndexError(f"shared address {address:#x} is beyond the {len(block.shared)} bytes of block {block.rank}")
    return block, offset


def _generic_shared(thread: Thread, address: int) -> tuple[bytearray, int] | None:
    """(shared memory, offset) of a generic address, if it points into any of the cluster."""
    try:
        block, offset = shared_window(thread, address - thread.block.launch.shared_window)
    except IndexError:
        return None
    return block.shared, offset


def access(thread: Thread, space: str, address: int, size: int, data: bytes | None = None) -> bytes:
    """Load `size` bytes, or store `data`, in a state space; the address must be a multiple of the size.

    Raises:
        IndexError: The address is outside of the space.
        ValueError: The address is misaligned.
    """
    if address % size:
        raise ValueError(f"address {address:#x} is not a multiple of {size}")
    launch = thread.block.launch
    if space == "shared":
        return _in_window(thread.block.shared, address - thread.block.shared_base, size, data)
    if space == "shared::cluster":
        block, offset = shared_window(thread, address)
        return _in_window(block.shared, offset, size, data)
    found = _generic_shared(thread, address) if not space else None
    if found is not None:
        return _in_window(*found, size, data)
    for name, base, window in (("local", LOCAL_WINDOW, thread.local), ("param", PARAM_WINDOW, thread.params)):
        if space == name:
            return _in_window(window, address, size, data)
        if not space and base <= address < base + len(window):
            return _in_window(window, address - base, size, data)
    if data is None:
        return launch.memory.load(address, size)
    launch.memory.store(address, data)
    return data


def _in_window(window: bytearray, offset: int, size: int, data: bytes | None) -> bytes:
    if not 0 <= offset <= len(window) - size:
        raise IndexError(f"offset {offset:#x} of a window of {len(window)} bytes")
    if data is None:
        return bytes(window[offset : offset + size])
    window[offset : offset + size] = data
    return data


# ---------------------------------------------------------------------- atomics


def _limited(kind: str, choose: Callable[[int, int], int]) -> Callable[[int, int], int]:
    if kind in FORMATS:
        return _limited_float(FORMATS[kind], choose)
    width = TYPE_WIDTHS[kind]
    return lambda old, b: choose(number(old, kind), number(b, kind)) & mask(width)


def _limited_float(form: Format, choose: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """``min`` or ``max`` of floats: -0 is below +0, and a NaN loses."""

    def key(bits: int) -> int:
        size = bits & (form.sign_bit - 1)
        return -size - 1 if bits & form.sign_bit else size

    def update(old: int, b: int) -> int:
        numbers = [bits for bits in (old, b) if not form.is_nan(bits)]
        if len(numbers) < 2:
            return numbers[0] if numbers else form.nan_bits
        keys = {key(bits): bits for bits in numbers}
        return keys[choose(*map(key, numbers))]

    return update


def _sum(kind: str) -> Callable[[int, int], int]:
    if kind not in FORMATS:
        return lambda old, b: (old + b) & mask(TYPE_WIDTHS[kind])
    form = FORMATS[kind]
    return lambda old, b: form.encode(add(form.decode(old), form.decode(b)))


_UPDATES: Final[dict[str, Callable[[str], Callable[..., int]]]] = {
    "and": lambda _: lambda old, b: old & b,
    "or": lambda _: lambda old, b: old | b,
    "xor": lambda _: lambda old, b: old ^ b,
    "add": _sum,
    "min": lambda kind: _limited(kind, min),
    "max": lambda kind: _limited(kind, max),
    "inc": lambda _: lambda old, b: 0 if old >= b else old + 1,
    "dec": lambda _: lambda old, b: b if old == 0 or old > b else old - 1,
    "exch": lambda _: lambda _old, b: b,
    "cas": lambda _: lambda old, b, c: c if old == b else old,
}


def update_of(instruction: Instruction) -> Callable[..., int]:
    """What an ``atom`` or ``red`` makes of the old value of an element and its operands."""
    name = next(name for name in _UPDATES if instruction.has(name))
    kind = instruction.types[0]
    if not kind.endswith("x2"):
        return _UPDATES[name](kind)
    half = _UPDATES[name](kind.removesuffix("x2"))
    return lambda old, b: half(old & mask(16), b & mask(16)) | half(old >> 16, b >> 16) << 16
