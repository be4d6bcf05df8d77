"""What the names in a function body mean: registers, labels, variables, nested ``{}`` scopes.

Register ranges (``.reg .b32 %r<5>``) are not expanded: a register is made when it is first used, so a
range costs nothing however long it is.  A name that is declared again in another scope gets a suffix
(``h``, ``h#1``, …), which PTX names cannot contain, so names are unique within the function.
"""

from __future__ import annotations

from typing import Final

from zcuda_async.ptx.ir import Immediate, Label, Operand, Register, SpecialRegister, Symbol
from zcuda_async.ptx.table_special import SPECIAL_REGISTERS

__all__ = ("MAX_DEPTH", "MAX_RANGE", "Names", "Scope")

MAX_DEPTH: Final = 200
"""How deep ``{}`` scopes may be nested."""

MAX_RANGE: Final = 1_000_000
"""How many registers one ``.reg`` range may declare."""

_MAX_INDEX_DIGITS: Final = len(str(MAX_RANGE))
_WARP_SIZE: Final = Immediate(32)


class Scope:
    """The declarations of one ``{}`` scope.  `ranges` maps a prefix to its count and type."""

    __slots__ = ("names", "ranges", "targets")

    def __init__(self) -> None:
        self.names: dict[str, Operand] = {}
        self.ranges: dict[str, tuple[int, str]] = {}
        self.targets: dict[str, int] = {}  # .branchtargets lists: name -> position of the first target

    def declares(self, name: str) -> bool:
        """Whether the name is taken in this very scope."""
        return name in self.names or name in self.targets or self.range_type(name) is not None

    def range_type(self, name: str) -> str | None:
        """The type of a register that a range of this scope contains."""
        if not self.ranges:
            return None
        digits = len(name) - len(name.rstrip("0123456789"))
        for size in range(1, min(digits, _MAX_INDEX_DIGITS) + 1):
            if (found := self.ranges.get(name[:-size])) and _is_index(name[-size:], found[0]):
                return found[1]
        return None


class Names:
    """Resolves the names of one function.

    `visible` is what the current scope has resolved so far: the parser looks there first.
    """

    def __init__(self, module: dict[str, Operand]) -> None:
        self._module = module
        self._taken: set[str] = set()
        self._renamed = 0
        self.scopes: list[Scope] = [Scope()]
        self.registers: list[Register] = []
        self.visible: dict[str, Operand] = {}
        self._saved: list[dict[str, Operand]] = []

    def push(self) -> None:
        """Enter a nested scope."""
        self.scopes.append(Scope())
        self._saved.append(self.visible)
        self.visible = {}

    def pop(self) -> None:
        """Leave it."""
        self.scopes.pop()
        self.visible = self._saved.pop()

    def unique(self, name: str) -> str:
        """The name that a declaration gets in this function."""
        unique = name
        while unique in self._taken:
            self._renamed += 1
            unique = f"{name}#{self._renamed}"
        self._taken.add(unique)
        return unique

    def declare_register(self, name: str, type_: str) -> None:
        """Declare one register in the current scope."""
        self._bind(name, self._make_register(name, type_))

    def declare_range(self, prefix: str, count: int, type_: str) -> None:
        """Declare ``prefix<count>`` in the current scope."""
        self.scopes[-1].ranges[prefix] = (count, type_)
        self.visible.clear()

    def declare_label(self, name: str) -> None:
        """Declare a label in the current scope."""
        self._bind(name, Label(self.unique(name)))

    def declare_symbol(self, name: str) -> str:
        """Declare a variable or parameter in the current scope; returns its unique name."""
        if name in self._module:
            self._taken.add(name)  # keep clear of the module's names: symbols carry nothing but a name
        unique = self.unique(name)
        self._bind(name, Symbol(unique))
        return unique

    def find(self, name: str) -> Operand | None:
        """What the name means here, or None.  Remembers the answer in `visible`."""
        found = self._search(name)
        if found is not None:
            self.visible[name] = found
        return found

    def branch_targets(self, name: str) -> int | None:
        """The token position of a ``.branchtargets`` list."""
        return next((scope.targets[name] for scope in reversed(self.scopes) if name in scope.targets), None)

    def _bind(self, name: str, operand: Operand) -> None:
        self.scopes[-1].names[name] = operand
        self.visible[name] = operand

    def _search(self, name: str) -> Operand | None:
        for scope in reversed(self.scopes):
            if (operand := scope.names.get(name)) is not None:
                return operand
            if (type_ := scope.range_type(name)) is not None:
                register = self._make_register(name, type_)
                scope.names[name] = register
                return register
        if (operand := self._module.get(name)) is not None:
            return operand
        if name in SPECIAL_REGISTERS:
            return SpecialRegister(name)
        return _WARP_SIZE if name == "WARP_SZ" else None

    def _make_register(self, name: str, type_: str) -> Register:
        register = Register(self.unique(name), type_)
        self.registers.append(register)
        return register


def _is_index(digits: str, count: int) -> bool:
    return (digits == "0" or digits[0] != "0") and int(digits) < count
