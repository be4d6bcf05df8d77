"""What mutants start from: the PTX that the tests have, whole or one function at a time."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ("TESTS", "Seeds", "load_seeds", "small_seeds")

TESTS: Final = Path(__file__).parents[1]
_LARGEST: Final = 24_000
"""Longer texts are taken apart; characters."""
_FUNCTION: Final = re.compile(r"^[^\n{};]*\.(?:entry|func)\b", re.MULTILINE)


class Seeds:
    """Texts to mutate, texts that link, and words and lines to put into them."""

    def __init__(self, texts: list[str], linked: list[str]) -> None:
        self.texts = texts
        self.linked = linked
        self.lines = sorted({line for text in texts for line in text.splitlines() if 3 < len(line) < 200})
        words = {word for line in self.lines for word in re.findall(r"[.%]?[\w$]+(?:\.[\w:]+)*|[^\s\w]", line)}
        self.words = sorted(word for word in words if len(word) < 40)
        spelled = re.findall(r"(?<!\S)[a-z]\w*\.[\w.:]+", (TESTS / "ptx" / "spellings.txt").read_text())
        self.opcodes: dict[str, list[str]] = {}
        for word in [*sorted(words), *spelled]:
            if re.fullmatch(r"[a-z]\w*\.[\w.:]+", word):
                self.opcodes.setdefault(word.partition(".")[0], []).append(word)
        self.modifiers = sorted({part for word in words for part in re.findall(r"(?<=\w)\.[A-Za-z]\w*", word)})


def _pieces(text: str) -> Iterator[str]:
    """A long text's functions, each behind what stands before the first."""
    starts = [match.start() for match in _FUNCTION.finditer(text)]
    if not starts:
        return
    head = text[: starts[0]][:4000]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        yield head + text[start : min(end, start + _LARGEST)]


def _taken(text: str) -> Iterator[str]:
    if len(text) <= _LARGEST:
        yield text
    else:
        yield from _pieces(text)


def _in_folder() -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted((TESTS / "ptx").glob("*.ptx"))}


def _make(texts: dict[str, str]) -> Seeds:
    linked = [text for name, text in texts.items() if name.startswith("link_")]
    return Seeds([piece for text in texts.values() for piece in _taken(text)], linked)


@cache
def small_seeds() -> Seeds:
    """Those of ``tests/ptx`` only."""
    return _make(_in_folder())


@cache
def load_seeds() -> Seeds:
    """Those of ``tests/ptx`` and of ``tests/corpus``."""
    texts = _in_folder()
    with tarfile.open(TESTS / "corpus" / "ptx.tar.xz") as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None:
                texts[member.name] = file.read().decode()
    return _make(texts)
