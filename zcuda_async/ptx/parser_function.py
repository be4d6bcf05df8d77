"""``.entry`` and ``.func``: headers, directives and bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from zcuda_async.ptx.errors import PtxError
from zcuda_async.ptx.ir import Function, Instruction, Label, Operand, Param, Variable
from zcuda_async.ptx.lexer import is_word
from zcuda_async.ptx.parser_cursor import Cursor
from zcuda_async.ptx.parser_declarations import parameters, variables
from zcuda_async.ptx.parser_scope import MAX_DEPTH, MAX_RANGE, Names
from zcuda_async.ptx.statements import Statements
from zcuda_async.ptx.table import Form
from zcuda_async.ptx.table_registers import REGISTER_TYPES

__all__ = ("FunctionParser", "Header", "header", "skip_location")

_MAX_PARAM_BYTES: Final = 32764
_DIRECTIVE_NAMES: Final = """
    .maxntid .reqntid .minnctapersm .maxnctapersm .maxnreg .reqnctapercluster .maxclusterrank
    .explicitcluster .blocksareclusters .noreturn .abi_preserve .abi_preserve_control
"""
_INTEGER_DIRECTIVES: Final = frozenset(_DIRECTIVE_NAMES.split())


class Header:
    """A function's name, parameters and directives, as far as its ``{`` or ``;``."""

    __slots__ = ("directives", "is_entry", "name", "params", "position", "returns")

    def __init__(self, name: str, position: int, is_entry: bool) -> None:
        self.name = name
        self.position = position
        self.is_entry = is_entry
        self.returns: tuple[Param, ...] = ()
        self.params: tuple[Param, ...] = ()
        self.directives: tuple[tuple[str, tuple[int, ...]], ...] = ()


def header(cursor: Cursor, *, is_entry: bool) -> Header:
    """Read from after ``.entry`` or ``.func`` up to the body or the semicolon."""
    returns = parameters(cursor) if not is_entry and cursor.text == "(" else ()
    found = Header(cursor.name("the function's name"), cursor.position - 1, is_entry)
    found.returns = returns
    if cursor.text == "(":
        found.params = parameters(cursor)
    if is_entry and found.params and (size := found.params[-1].offset + found.params[-1].size) > _MAX_PARAM_BYTES:
        raise cursor.error(
            f"the parameters of '{found.name}' take {size} bytes; at most {_MAX_PARAM_BYTES} are allowed",
            found.position,
        )
    found.directives = _directives(cursor)
    return found


def _directives(cursor: Cursor) -> tuple[tuple[str, tuple[int, ...]], ...]:
    found: list[tuple[str, tuple[int, ...]]] = []
    while cursor.text.startswith("."):
        text = cursor.text
        if text == ".pragma":
            _skip_pragma(cursor)
            continue
        if text not in _INTEGER_DIRECTIVES:
            raise cursor.error(f"unknown directive '{text}' for a function")
        cursor.position += 1
        values: list[int] = []
        while "0" <= cursor.text[:1] <= "9":
            values.append(cursor.integer("a number"))
            if not cursor.accept(","):
                break
        found.append((text[1:], tuple(values)))
    return tuple(found)


class FunctionParser:
    """Parses one body.  Scopes are kept on a stack of our own: no nesting exhausts Python's."""

    def __init__(self, cursor: Cursor, module_names: dict[str, Operand], forms: dict[str, Form]) -> None:
        self._cursor = cursor
        self._names = Names(module_names)
        self._statements = Statements(cursor, self._names, forms)
        self._variables: list[Variable] = []
        self._labels: dict[int, list[int]] = {}
        self._body: list[Instruction | Label] = []

    def function(self, head: Header) -> Function:
        """Read the body, from its ``{`` to its ``}``."""
        cursor = self._cursor
        self._labels = _labels_by_scope(cursor)
        params = tuple(self._parameter(param, head) for param in head.params)
        returns = tuple(self._parameter(param, head) for param in head.returns)
        self._read_body()
        return Function(
            head.name,
            head.is_entry,
            params,
            returns,
            tuple(self._names.registers),
            tuple(self._variables),
            tuple(self._body),
            cursor.span(head.position),
            head.directives,
        )

    def _parameter(self, param: Param, head: Header) -> Param:
        if self._names.scopes[0].declares(param.name):
            raise self._cursor.error(f"two parameters of '{head.name}' are called '{param.name}'", head.position)
        unique = self._names.declare_symbol(param.name)
        return Param(unique, param.type, param.size, param.align, param.offset, param.count)

    def _read_body(self) -> None:
        cursor, names, body = self._cursor, self._names, self._body
        instruction = self._statements.instruction
        opened = [cursor.position]
        self._enter(cursor.position)
        cursor.position += 1
        while True:
            text = cursor.text
            if text == "{":
                if len(opened) > MAX_DEPTH:
                    raise cursor.error(f"scopes are nested more than {MAX_DEPTH} deep")
                names.push()
                opened.append(cursor.position)
                self._enter(cursor.position)
                cursor.position += 1
            elif text == "}":
                cursor.position += 1
                opened.pop()
                if not opened:
                    return
                names.pop()
            elif text.startswith("."):
                self._directive(text)
            elif cursor.following == ":" and is_word(text):
                self._label(text)
            elif text == ";":
                cursor.position += 1
            elif text:
                body.append(instruction())
            else:
                raise cursor.error("'{' without its closing '}'", opened[-1])

    def _enter(self, position: int) -> None:
        """Declare the labels of the scope that opens here, so that branches may go forward."""
        cursor, scope = self._cursor, self._names.scopes[-1]
        for label in self._labels.get(position, ()):
            name = cursor.texts[label]
            self._check_new(name, label)
            after = cursor.texts[label + 2]
            if after == ".branchtargets":
                scope.targets[name] = label + 3
            elif after not in (".callprototype", ".calltargets"):
                self._names.declare_label(name)

    def _label(self, text: str) -> None:
        cursor = self._cursor
        cursor.position += 2
        if cursor.text in (".branchtargets", ".callprototype", ".calltargets"):
            cursor.skip_past(";")
            return
        label = self._names.visible.get(text) or self._names.find(text)
        assert isinstance(label, Label)
        self._body.append(label)

    def _directive(self, text: str) -> None:
        handler = _BODY_DIRECTIVES.get(text)
        if handler is None:
            raise self._cursor.error(f"unknown directive '{text}' in a function body")
        self._cursor.position += 1
        handler(self)

    def read_registers(self) -> None:
        """Read ``.reg .b32 %r<5>, a, b;`` after its ``.reg``."""
        cursor = self._cursor
        type_ = cursor.advance()[1:]
        if type_ not in REGISTER_TYPES:
            raise cursor.error(f"'.{type_}' is not a register type", cursor.position - 1)
        while True:
            position = cursor.position
            name = cursor.name("a register's name")
            if cursor.accept("<"):
                self._range(name, type_, position)
            else:
                self._check_new(name, position)
                self._names.declare_register(name, type_)
            if cursor.accept(";"):
                return
            if not cursor.accept(","):
                raise cursor.unexpected("',' or ';'")

    def _range(self, name: str, type_: str, position: int) -> None:
        cursor = self._cursor
        count = cursor.integer("how many registers")
        if not 0 < count <= MAX_RANGE:
            raise cursor.error(f"{name}<{count}>: a range has 1 to {MAX_RANGE} registers", position)
        cursor.expect(">")
        if name in self._names.scopes[-1].ranges:
            raise self._redeclared(name, position)
        self._names.declare_range(name, count, type_)

    def _check_new(self, name: str, position: int) -> None:
        if self._names.scopes[-1].declares(name):
            raise self._redeclared(name, position)

    def _redeclared(self, name: str, position: int) -> PtxError:
        return self._cursor.error(f"'{name}' is already declared in this scope", position)

    def read_space(self, space: str) -> None:
        """Read variables of a state space, after its directive."""
        cursor = self._cursor
        for variable in variables(cursor, space):
            if self._names.scopes[-1].declares(variable.name):
                raise cursor.source.error(f"'{variable.name}' is already declared in this scope", variable.span)
            unique = self._names.declare_symbol(variable.name)
            self._variables.append(_renamed(variable, unique))

    def read_pragma(self) -> None:
        """Read past ``.pragma "…";``."""
        self._cursor.position -= 1
        _skip_pragma(self._cursor)

    def read_location(self) -> None:
        """Read past ``.loc …``."""
        skip_location(self._cursor)


_BODY_DIRECTIVES: Final[Mapping[str, Callable[[FunctionParser], None]]] = {
    ".reg": FunctionParser.read_registers,
    ".shared": lambda parser: parser.read_space("shared"),
    ".local": lambda parser: parser.read_space("local"),
    ".global": lambda parser: parser.read_space("global"),
    ".const": lambda parser: parser.read_space("const"),
    ".param": lambda parser: parser.read_space("param"),
    ".pragma": FunctionParser.read_pragma,
    ".loc": FunctionParser.read_location,
}


def _renamed(variable: Variable, name: str) -> Variable:
    if name == variable.name:
        return variable
    return Variable(
        name,
        variable.space,
        variable.type,
        variable.size,
        variable.align,
        variable.span,
        variable.initial,
        variable.relocations,
    )


def _skip_pragma(cursor: Cursor) -> None:
    """``.pragma "nounroll";``: advice to the compiler."""
    cursor.expect(".pragma")
    while True:
        if not cursor.text.startswith('"'):
            raise cursor.unexpected("a string")
        cursor.position += 1
        if cursor.accept(";"):
            return
        cursor.expect(",")


def skip_location(cursor: Cursor) -> None:
    """``.loc 1 25 3, function_name $L__info_string0, inlined_at 1 10 5``, after its ``.loc``."""
    for what in ("a file number", "a line number", "a column number"):
        cursor.integer(what)
    while cursor.text == "," and cursor.following in ("function_name", "inlined_at"):
        cursor.position += 1
        if cursor.advance() == "function_name":
            cursor.name("a label")
            if cursor.accept("+"):
                cursor.integer("an offset")
        else:
            for what in ("a file number", "a line number", "a column number"):
                cursor.integer(what)
    cursor.accept(";")


def _labels_by_scope(cursor: Cursor) -> dict[int, list[int]]:
    """The labels of each scope of the body that starts here, keyed by the position of its ``{``."""
    texts, position = cursor.texts, cursor.position
    found: dict[int, list[int]] = {}
    opened: list[int] = []
    while text := texts[position]:
        if text == "{":
            opened.append(position)
        elif text == "}":
            opened.pop()
            if not opened:
                break
        elif text == ":":
            found.setdefault(opened[-1], []).append(position - 1)
        position += 1
    return found
