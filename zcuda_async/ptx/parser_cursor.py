"""A position in the token list, and the small reads that every part of the parser is made of."""

from __future__ import annotations

from zcuda_async.ptx.errors import PtxError
from zcuda_async.ptx.ir import Immediate, Span
from zcuda_async.ptx.lexer import Source, Tokens, is_word, number

__all__ = ("Cursor",)


class Cursor:
    """Reads tokens one after another; never moves past the end."""

    __slots__ = ("padding", "position", "source", "texts", "tokens")

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.texts = tokens.texts
        self.source: Source = tokens.source
        self.position = 0
        self.padding = 0  # bytes of zeros that the initialisers read so far imply

    @property
    def text(self) -> str:
        """The token at the position; empty at the end of the text."""
        return self.texts[self.position]

    @property
    def following(self) -> str:
        """The token after it."""
        return self.texts[self.position + 1] if self.texts[self.position] else ""

    def span(self, position: int | None = None) -> Span:
        """Where a token stands (default: the current one)."""
        return self.tokens.span(self.position if position is None else position)

    def error(self, message: str, position: int | None = None) -> PtxError:
        """An error about a token (default: the current one), to be raised."""
        return self.source.error(message, self.span(position))

    def unexpected(self, wanted: str, position: int | None = None) -> PtxError:
        """The error for a token that is not what the grammar wants there."""
        text = self.texts[self.position if position is None else position]
        found = f"'{text}'" if text else "the end of the text"
        return self.error(f"expected {wanted}, found {found}", position)

    def advance(self) -> str:
        """Return the token and move on."""
        text = self.texts[self.position]
        if text:
            self.position += 1
        return text

    def accept(self, text: str) -> bool:
        """Move past the token if it is `text`."""
        if self.texts[self.position] != text:
            return False
        self.position += 1
        return True

    def expect(self, text: str) -> None:
        """Move past `text`, which must be there."""
        if self.texts[self.position] != text:
            raise self.unexpected(f"'{text}'")
        self.position += 1

    def name(self, what: str) -> str:
        """Read an identifier; `what` says in errors what it is the name of."""
        text = self.texts[self.position]
        if not is_word(text):
            raise self.unexpected(what)
        if "." in text:
            raise self.error(f"'{text}' is not a valid name: names have no dots")
        self.position += 1
        return text

    def integer(self, what: str, *, signed: bool = False) -> int:
        """Read an integer constant, or with `signed` one that may have a minus before it."""
        negative = signed and self.accept("-")
        value = self.number(what).value
        if not isinstance(value, int):
            raise self.error(f"expected {what}, found a floating-point constant", self.position - 1)
        return -value if negative else value

    def number(self, what: str) -> Immediate:
        """Read a number token."""
        text = self.texts[self.position]
        if not "0" <= text[:1] <= "9":
            raise self.unexpected(what)
        value = number(text)
        if value is None:
            raise self.error(f"'{text}' is not a number that fits in 64 bits")
        self.position += 1
        return value

    def skip_past(self, text: str) -> None:
        """Move past the next occurrence of a token."""
        start = self.position
        while self.texts[self.position] != text:
            if not self.texts[self.position]:
                raise self.error(f"no '{text}' after this", start)
            self.position += 1
        self.position += 1

    def skip_block(self) -> None:
        """Move past a ``{ … }`` block, with the blocks inside it."""
        start = self.position
        self.expect("{")
        depth = 1
        while depth:
            text = self.advance()
            if not text:
                raise self.error("'{' without its closing '}'", start)
            depth += (text == "{") - (text == "}")
