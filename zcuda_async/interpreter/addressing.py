"""Where an address operand points, and checked accesses there: the one way that instructions reach memory."""

from __future__ import annotations

from zcuda_async.interpreter.bits import mask
from zcuda_async.interpreter.memory import access, space_of
from zcuda_async.interpreter.operands import address_of, place_of, reader
from zcuda_async.interpreter.thread import MemoryFaultError, Reader, Thread, line_of
from zcuda_async.ptx.ir import Address, Immediate, Instruction, Operand, Symbol
from zcuda_async.ptx.table_syntax import TYPE_WIDTHS

__all__ = ("Place",)


class Place:
    """The memory that one address operand of an instruction names.

    `space` is for instructions whose operands are in different ones; else it is the instruction's, or, where that
    names none, the variable's own.
    """

    __slots__ = ("_instruction", "_name", "_space", "address")

    def __init__(self, instruction: Instruction, operand: Operand, space: str = "") -> None:
        assert isinstance(operand, Address)
        self._instruction = instruction
        self._space = space or space_of(instruction)
        self._name = operand.base.name if not self._space and isinstance(operand.base, Symbol) else ""
        self.address = _address(operand)

    def load(self, thread: Thread, address: int, size: int) -> bytes:
        """`size` bytes from `address` on.

        Raises:
            MemoryFaultError: There is no memory, or the address is no multiple of the size.
        """
        return self._access(thread, address, size, None)

    def store(self, thread: Thread, address: int, data: bytes) -> None:
        """Replace the bytes from `address` on; raises as `load` does."""
        self._access(thread, address, len(data), data)

    def _access(self, thread: Thread, address: int, size: int, data: bytes | None) -> bytes:
        space = place_of(thread, self._name)[0] if self._name else self._space
        try:
            return access(thread, space, address & mask(64), size, data)
        except (IndexError, ValueError) as error:
            raise MemoryFaultError(f"{line_of(self._instruction)}: {error}") from None


def _address(operand: Address) -> Reader:
    base, offset = operand.base, operand.offset
    if isinstance(base, Symbol):
        return lambda thread: address_of(thread, base.name) + base.offset + offset
    if isinstance(base, Immediate):
        return lambda _: int(base.value) + offset
    read, ones = reader(base, base.type), mask(TYPE_WIDTHS[base.type])
    return lambda thread: (read(thread) + offset) & ones
