"""Several PTX texts as one module, as CUDA's linker joins them (PTX ISA, "Linking Directives").

What is ``.visible`` is one thing for all texts and may be defined once; a ``.weak`` definition gives way to any
other; of ``.common`` variables the largest counts.  Everything else belongs to its text alone, and is renamed
where two texts use the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zcuda_async.ptx.errors import PtxError
from zcuda_async.ptx.ir import Address, Function, Instruction, Label, Module, Operand, Span, Symbol, Variable
from zcuda_async.ptx.ir import VectorOperand as Vector
from zcuda_async.ptx.parser import parse

__all__ = ("join_texts", "parse_texts", "split_texts")

_MARK: Final = "\0linked\0"
_STRENGTH: Final = {"extern": 0, "common": 1, "weak": 2, "visible": 3, "": 3}

Definition = Function | Variable


def join_texts(sources: Mapping[str, str]) -> str:
    """Several texts without NULs, by their file names, as the one string that stands for the linked module."""
    return _MARK + "\0".join(part for name, text in sources.items() for part in (name.replace("\0", "\\0"), text))


def split_texts(text: str, filename: str) -> list[tuple[str, str]]:
    """The file names and texts in a string of `join_texts`, or the one text that it is."""
    if not text.startswith(_MARK):
        return [(filename, text)]
    parts = text[len(_MARK) :].split("\0")
    return list(zip(parts[::2], parts[1::2], strict=True))


def parse_texts(text: str, filename: str) -> Module:
    """Parse a text, or parse and link those that `join_texts` joined.

    Raises:
        PtxError: A text is malformed, something is defined twice, or something is defined nowhere.
    """
    sources = split_texts(text, filename)
    if len(sources) == 1:
        return parse(sources[0][1], sources[0][0])
    units = [_Unit(index, name, body) for index, (name, body) in enumerate(sources)]
    return _Linker(units).link(filename)


class _Unit:
    """One text."""

    def __init__(self, index: int, filename: str, text: str) -> None:
        self.index = index
        self.filename = filename
        self.text = text
        self.module = parse(text, filename, is_linked=True)

    def error(self, message: str, span: Span) -> PtxError:
        lines = self.text.splitlines()
        return PtxError(message, self.filename, span, lines[span.line - 1] if span.line <= len(lines) else "")

    @property
    def definitions(self) -> Iterable[Definition]:
        yield from self.module.variables
        yield from self.module.functions


@dataclass(frozen=True, slots=True)
class _Found:
    """What a shared name stands for so far."""

    unit: _Unit
    definition: Definition

    @property
    def strength(self) -> int:
        return _STRENGTH[self.definition.linkage]


def _is_shared(definition: Definition) -> bool:
    is_dynamic = isinstance(definition, Variable) and definition.space == "shared" and definition.size is None
    is_kernel = isinstance(definition, Function) and definition.is_entry
    return definition.linkage != "" or is_dynamic or is_kernel


class _Linker:
    def __init__(self, units: Sequence[_Unit]) -> None:
        self._units = units
        self._found: dict[str, _Found] = {}

    def link(self, filename: str) -> Module:
        for unit in self._units:
            for definition in unit.definitions:
                if _is_shared(definition):
                    self._add(unit, definition)
        self._check_externs()
        taken = set(self._found)
        variables: list[Variable] = []
        functions: list[Function] = []
        for unit in self._units:
            names = self._names(unit, taken)
            variables += [_variable(v, names, unit.index) for v in unit.module.variables if self._is_kept(unit, v)]
            functions += [_function(f, names, unit, taken) for f in unit.module.functions if self._is_kept(unit, f)]
        first = self._units[0].module
        version = max(unit.module.version for unit in self._units)
        return Module(filename, version, first.target, first.address_size, tuple(variables), tuple(functions))

    def _add(self, unit: _Unit, definition: Definition) -> None:
        name, old = definition.name, self._found.get(definition.name)
        new = _Found(unit, definition)
        if old is None:
            self._found[name] = new
            return
        if type(old.definition) is not type(definition):
            raise unit.error(f"'{name}' is a {_kind(definition)} here, and a {_kind(old.definition)} in"
                             f" {_place(old)}", definition.span)  # fmt: skip
        if old.strength == new.strength == _STRENGTH["visible"]:
            raise unit.error(f"'{name}' is defined already, in {_place(old)}", definition.span)
        larger = old.strength == new.strength == _STRENGTH["common"] and _size(definition) > _size(old.definition)
        if new.strength > old.strength or larger:
            self._found[name] = new

    def _check_externs(self) -> None:
        """Every ``.extern`` variable is defined somewhere; functions are looked for where they are called."""
        for name, found in self._found.items():
            definition = found.definition
            is_dynamic = isinstance(definition, Variable) and definition.space == "shared" and definition.size is None
            if found.strength == 0 and not is_dynamic:
                files = ", ".join(unit.filename for unit in self._units)
                raise found.unit.error(f"'{name}' is not defined in any of {files}", definition.span)

    def _is_kept(self, unit: _Unit, definition: Definition) -> bool:
        return not _is_shared(definition) or self._found[definition.name] == _Found(unit, definition)

    def _names(self, unit: _Unit, taken: set[str]) -> dict[str, str]:
        """New names for what this text keeps to itself, where they are taken."""
        names: dict[str, str] = {}
        for definition in unit.definitions:
            if not _is_shared(definition):
                _rename(definition.name, unit, taken, names)
        return names


def _rename(name: str, unit: _Unit, taken: set[str], names: dict[str, str]) -> None:
    if name in taken:
        names[name] = f"{name}@{unit.index}"  # as no name in a text can be
    taken.add(names.get(name, name))


def _size(definition: Definition) -> int:
    return definition.size or 0 if isinstance(definition, Variable) else 0


def _kind(definition: Definition) -> str:
    return "variable" if isinstance(definition, Variable) else "function"


def _place(found: _Found) -> str:
    return f"{found.unit.filename}:{found.definition.span.line}"


def _variable(variable: Variable, names: Mapping[str, str], unit: int) -> Variable:
    relocations = tuple((at, names.get(symbol, symbol), addend) for at, symbol, addend in variable.relocations)
    span = replace(variable.span, unit=unit)
    return replace(variable, name=names.get(variable.name, variable.name), relocations=relocations, span=span)


def _function(function: Function, names: Mapping[str, str], unit: _Unit, taken: set[str]) -> Function:
    own = dict(names)
    for variable in function.variables:
        if variable.space not in ("local", "param"):
            _rename(variable.name, unit, taken, own)
    return replace(
        function,
        name=own.get(function.name, function.name),
        variables=tuple(_variable(variable, own, unit.index) for variable in function.variables),
        body=tuple(item if isinstance(item, Label) else _instruction(item, own, unit.index) for item in function.body),
        span=replace(function.span, unit=unit.index),
    )


def _instruction(item: Instruction, names: Mapping[str, str], unit: int) -> Instruction:
    operands = tuple(_operand(operand, names) for operand in item.operands)
    return replace(item, operands=operands, span=replace(item.span, unit=unit))


def _operand(operand: Operand, names: Mapping[str, str]) -> Operand:
    match operand:
        case Symbol(name, offset):
            return Symbol(names.get(name, name), offset)
        case Address(Symbol(name, inner), offset):
            return Address(Symbol(names.get(name, name), inner), offset)
        case Vector(elements):
            return Vector(tuple(_operand(element, names) for element in elements))
        case _:
            return operand
