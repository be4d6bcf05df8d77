"""PTX text to `ir.Module`.

One pass over the tokens.  Functions are parsed in place; what they declare never leaves them, and
what the module declares is visible to everything after it, as in PTX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from zcuda_async.ptx.ir import Function, Module, Operand, Symbol, Variable
from zcuda_async.ptx.lexer import Source, tokenize
from zcuda_async.ptx.parser_cursor import Cursor
from zcuda_async.ptx.parser_declarations import variables
from zcuda_async.ptx.parser_function import FunctionParser, Header, header, skip_location
from zcuda_async.ptx.table import Form
from zcuda_async.ptx.verifier import verify

__all__ = ("parse",)

_UNSUPPORTED: Final = frozenset((".texref", ".samplerref", ".surfref", ".tex", ".reg", ".param"))
_LINKAGE: Final = frozenset((".visible", ".extern", ".weak", ".common"))


def parse(text: str, filename: str = "<ptx>", *, is_linked: bool = False) -> Module:
    """Parse and check a PTX module.

    Args:
        text: The PTX source; zero characters at its end are ignored.
        filename: What errors call it.
        is_linked: Whether a linker will find what ``.extern`` variables stand for; otherwise they are refused.

    Raises:
        PtxError: The text is malformed or uses what is not supported.  Nothing else is raised,
            whatever the text; time and memory are proportional to its length.
    """
    source = Source(text.rstrip("\0"), filename)
    module, signatures = _ModuleParser(Cursor(tokenize(source)), is_linked=is_linked).module()
    verify(module, source, signatures)
    return module


class _ModuleParser:
    def __init__(self, cursor: Cursor, *, is_linked: bool) -> None:
        self._cursor = cursor
        self._is_linked = is_linked
        self._linkage = ""
        self._version = (0, 0)
        self._target: tuple[str, ...] = ()
        self._address_size = 64
        self._names: dict[str, Operand] = {}
        self._signatures: dict[str, tuple[int, int]] = {}
        self._defined: set[str] = set()
        self._forms: dict[str, Form] = {}
        self._aliases: list[tuple[str, str, int]] = []
        self._variables: list[Variable] = []
        self._functions: list[Function] = []

    def module(self) -> tuple[Module, Mapping[str, tuple[int, int]]]:
        """Read the whole text; also returns (returns, parameters) counts by function name."""
        cursor = self._cursor
        if cursor.text != ".version":
            raise cursor.error("a PTX module starts with '.version'")
        while cursor.text:
            self._item()
        if not self._target:
            raise cursor.error("the module has no '.target'", 0)
        self._add_aliases()
        module = Module(
            cursor.source.filename,
            self._version,
            self._target,
            self._address_size,
            tuple(self._variables),
            tuple(self._functions),
        )
        return module, self._signatures

    def _add_aliases(self) -> None:
        """Give the functions that ``.alias`` names a second name each."""
        known = {function.name: function for function in self._functions}
        for name, aliased, position in self._aliases:
            if aliased not in known:
                raise self._cursor.error(
                    f"'{aliased}' has no body in this file, so '{name}' cannot stand for it", position
                )
            if name in known:
                raise self._cursor.error(f"'{name}' has a body already", position)
            if self._signatures.get(name) != self._signatures[aliased]:
                raise self._cursor.error(f"'{name}' must be declared with the parameters of '{aliased}'", position)
            self._functions.append(replace(known[aliased], name=name))

    def _item(self) -> None:
        cursor = self._cursor
        if cursor.accept(";"):
            return
        linkage = []
        while cursor.text in _LINKAGE:
            linkage.append(cursor.advance())
        self._linkage = linkage[-1][1:] if linkage else ""
        text = cursor.text
        handler = _ITEMS.get(text)
        if handler is None:
            if text.startswith("."):
                kind = "unsupported" if text in _UNSUPPORTED else "unknown"
                raise cursor.error(f"{kind} directive '{text}'")
            raise cursor.unexpected("a directive")
        cursor.position += 1
        handler(self, text, ".extern" in linkage)

    def read_version(self, _text: str, _is_extern: bool) -> None:
        cursor = self._cursor
        text = cursor.text
        major, dot, minor = text.partition(".")
        if not (dot and major.isdecimal() and minor.isdecimal() and len(text) < 8):
            raise cursor.unexpected("a version such as 8.0")
        if self._version != (0, 0):
            raise cursor.error("the module has a '.version' already")
        self._version = (int(major), int(minor))
        cursor.position += 1

    def read_target(self, _text: str, _is_extern: bool) -> None:
        cursor = self._cursor
        names = [cursor.name("a target such as sm_80")]
        while cursor.accept(","):
            names.append(cursor.name("a target option"))
        self._target = tuple(names)

    def read_address_size(self, _text: str, _is_extern: bool) -> None:
        size = self._cursor.integer("32 or 64")
        if size != 64:
            raise self._cursor.error(
                f"address size {size} is not supported; compile for 64-bit addresses", self._cursor.position - 1
            )

    def read_function(self, text: str, _is_extern: bool) -> None:
        cursor = self._cursor
        head = header(cursor, is_entry=text == ".entry")
        self._declare_function(head)
        if cursor.accept(";"):
            return
        if cursor.text != "{":
            raise cursor.unexpected("'{' or ';'")
        if head.name in self._defined:
            raise cursor.error(f"'{head.name}' has a body already", head.position)
        self._defined.add(head.name)
        function = FunctionParser(cursor, self._names, self._forms).function(head)
        self._functions.append(replace(function, linkage=self._linkage))

    def _declare_function(self, head: Header) -> None:
        signature = (len(head.returns), len(head.params))
        known = self._signatures.get(head.name)
        if known is None and head.name in self._names:
            raise self._cursor.error(f"'{head.name}' is already declared as a variable", head.position)
        if known is not None and known != signature:
            raise self._cursor.error(f"'{head.name}' was declared with other parameters before", head.position)
        self._signatures[head.name] = signature
        self._names[head.name] = Symbol(head.name)

    def read_variables(self, text: str, is_extern: bool) -> None:
        cursor = self._cursor
        for found in variables(cursor, text[1:], is_extern=is_extern, is_linked=self._is_linked):
            variable = replace(found, linkage=self._linkage)
            if variable.name in self._names:
                raise cursor.source.error(f"'{variable.name}' is already declared", variable.span)
            self._names[variable.name] = Symbol(variable.name)
            self._variables.append(variable)

    def read_alias(self, _text: str, _is_extern: bool) -> None:
        """``.alias name, function;`` (PTX ISA 11.6.3): the function is called by either name."""
        cursor = self._cursor
        position = cursor.position
        name = cursor.name("the alias")
        cursor.expect(",")
        self._aliases.append((name, cursor.name("a function's name"), position))
        cursor.expect(";")

    def read_file(self, _text: str, _is_extern: bool) -> None:
        """``.file 1 "kernel.cu", 1700000000, 512``: only for debuggers."""
        cursor = self._cursor
        cursor.integer("a file number")
        if not cursor.text.startswith('"'):
            raise cursor.unexpected("a file name in quotes")
        cursor.position += 1
        while cursor.accept(","):
            cursor.integer("a number")

    def read_section(self, _text: str, _is_extern: bool) -> None:
        """``.section .debug_info { … }``: only for debuggers."""
        self._cursor.advance()
        self._cursor.skip_block()

    def read_pragma(self, _text: str, _is_extern: bool) -> None:
        self._cursor.skip_past(";")

    def read_location(self, _text: str, _is_extern: bool) -> None:
        skip_location(self._cursor)


_ITEMS: Final[Mapping[str, Callable[[_ModuleParser, str, bool], None]]] = {
    ".version": _ModuleParser.read_version,
    ".target": _ModuleParser.read_target,
    ".address_size": _ModuleParser.read_address_size,
    ".entry": _ModuleParser.read_function,
    ".func": _ModuleParser.read_function,
    ".global": _ModuleParser.read_variables,
    ".const": _ModuleParser.read_variables,
    ".shared": _ModuleParser.read_variables,
    ".local": _ModuleParser.read_variables,
    ".alias": _ModuleParser.read_alias,
    ".file": _ModuleParser.read_file,
    ".section": _ModuleParser.read_section,
    ".pragma": _ModuleParser.read_pragma,
    ".loc": _ModuleParser.read_location,
}
