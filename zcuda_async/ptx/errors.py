"""The one exception that bad PTX raises, and how it prints."""

from __future__ import annotations

from typing import Final

from zcuda_async.ptx.ir import Span

__all__ = ("PtxError",)

_START: Final = Span(1, 1, 1)
_WINDOW: Final = 160
"""Longest piece of a source line that is shown, in characters."""


class PtxError(Exception):
    """PTX text that is malformed, or that asks for something this project does not support.

    ``str()`` gives three lines: ``file:line:col: error: message``, the source line, and carets
    under the part that is meant.

    Attributes:
        message: What is wrong, what was found, and what is allowed.
        filename: The name that was given to `parse`.
        span: Where it stands (1-based line and column, length in characters).
        source_line: The whole line of the text, without its newline.
    """

    def __init__(self, message: str, filename: str = "<ptx>", span: Span = _START, source_line: str = "") -> None:
        super().__init__(message, filename, span, source_line)
        self.message = message
        self.filename = filename
        self.span = span
        self.source_line = source_line

    def __str__(self) -> str:
        span = self.span
        head = f"{self.filename}:{span.line}:{span.column}: error: {self.message}"
        return f"{head}\n{_picture(self.source_line, span)}"


def _picture(line: str, span: Span) -> str:
    """The source line and the carets; long lines are cut to a window around the span."""
    start = max(0, span.column - 1 - _WINDOW // 2)
    shown = line[start : start + _WINDOW]
    column = span.column - 1 - start
    pad = "".join("\t" if character == "\t" else " " for character in shown[:column])
    carets = "^" * max(1, min(span.length, len(shown) - column))
    return f"    {shown}\n    {pad}{carets}"
