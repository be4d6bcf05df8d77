"""Changes to PTX text by what it consists of: tokens, parts of opcodes, numbers, registers, lines, functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Final

from .seeds import Seeds

__all__ = ("mutant",)

_TOKEN: Final = re.compile(r'"[^"\n]*"|[%$.]?[\w$]+(?:(?:\.|::)\w+)*|\s+|.', re.DOTALL)
_NUMBERS: Final = (
    "0", "-1", "1", "2", "3", "7", "8", "16", "31", "32", "33", "63", "64", "127", "128", "255", "256", "1023", "1024",
    "1025", "4096", "32767", "65535", "65536", "2147483647", "2147483648", "-2147483648", "4294967295", "4294967296",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551615",
    "18446744073709551616", "9" * 40, "0x", "0xFFFFFFFF", "0x" + "F" * 17, "0b11", "017", "08", "1U", "0f7F800000",
    "0fFFC00000", "0f0", "0dFFF0000000000000", "0d0000000000000001", "1.5", "1e999", "-0", "00000000000000000000",
)  # fmt: skip
_ODD: Final = (
    "{", "}", "<", ">", "[", "]", "(", ")", ",", ";", ":", "-", "|", "!", "@", "_", "+", "=", '"', "'", "\\", "\0",
    "/*", "*/", "//", "\n", "\t", "\r", "é", "\ud800", "\U0001f600", "%", "$", ".", "::", "#", "~", "?", "|%p1",
)  # fmt: skip
_TYPES: Final = (
    "b8", "b16", "b32", "b64", "b128", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f16", "f16x2", "bf16",
    "bf16x2", "f32", "f64", "pred", "tf32", "e4m3x2", "u16x2", "s16x2", "v2", "v4", "texref",
)  # fmt: skip
_VERSIONS: Final = ("1.0", "6.3", "7.8", "8.0", "8.7", "9.9", "99999999999.1", "8", "x")
_TARGETS: Final = ("sm_10", "sm_52", "sm_70", "sm_75", "sm_80", "sm_90", "sm_90a", "sm_100", "sm_", "compute_80")

Change = Callable[[list[str], Random, Seeds], None]


def _place(tokens: list[str], random: Random, wanted: Callable[[str], bool]) -> int:
    """An index of a token of some kind; any index if there is none near a place chosen at random."""
    start = random.randrange(len(tokens))
    for index in range(start, min(start + 400, len(tokens))):
        if wanted(tokens[index]):
            return index
    return start


def _is_word(token: str) -> bool:
    return not token.isspace()


def _is_number(token: str) -> bool:
    return token[:1].isdigit()


def _is_dotted(token: str) -> bool:
    return "." in token[1:]


def _is_register(token: str) -> bool:
    return token[:1] == "%" and len(token) > 1


def _delete(tokens: list[str], random: Random, _: Seeds) -> None:
    start = _place(tokens, random, _is_word)
    del tokens[start : start + random.choice((1, 1, 1, 2, 3, 8))]


def _duplicate(tokens: list[str], random: Random, _: Seeds) -> None:
    start = _place(tokens, random, _is_word)
    piece = tokens[start : start + random.choice((1, 1, 2, 4, 12))]
    tokens[start:start] = piece * random.choice((1, 1, 1, 2, 60))


def _swap(tokens: list[str], random: Random, _: Seeds) -> None:
    one, two = (_place(tokens, random, _is_word) for _ in range(2))
    tokens[one], tokens[two] = tokens[two], tokens[one]


def _replace(tokens: list[str], random: Random, seeds: Seeds) -> None:
    tokens[_place(tokens, random, _is_word)] = random.choice(seeds.words)


def _insert(tokens: list[str], random: Random, seeds: Seeds) -> None:
    words = random.choice((seeds.words, _ODD, _NUMBERS))
    tokens.insert(random.randrange(len(tokens) + 1), random.choice(words))


def _number(tokens: list[str], random: Random, _: Seeds) -> None:
    tokens[_place(tokens, random, _is_number)] = random.choice(_NUMBERS)


def _near_number(tokens: list[str], random: Random, _: Seeds) -> None:
    at = _place(tokens, random, str.isdigit)
    if tokens[at].isdecimal():
        tokens[at] = str(int(tokens[at]) * random.choice((1, 2, -1, 1 << 20)) + random.choice((-1, 0, 1)))


def _modifier(tokens: list[str], random: Random, seeds: Seeds) -> None:
    """Take one part of an opcode out, put one in, exchange one, or exchange two."""
    at = _place(tokens, random, _is_dotted)
    parts = tokens[at].split(".")
    index = random.randrange(1, len(parts)) if len(parts) > 1 else 0
    how = random.randrange(5)
    if how == 0:
        del parts[index]
    elif how == 1:
        parts.insert(index, random.choice(seeds.modifiers)[1:])
    elif how == 2:
        parts[index] = random.choice(seeds.modifiers)[1:]
    elif how == 3:
        parts[index] = random.choice(_TYPES)
    else:
        random.shuffle(parts)
    tokens[at] = ".".join(parts)


def _opcode(tokens: list[str], random: Random, _: Seeds) -> None:
    """Give one instruction the opcode of another."""
    one, two = (_place(tokens, random, lambda token: _is_dotted(token) and token[0] not in "%.") for _ in range(2))
    tokens[one] = tokens[two]


def _spelling(tokens: list[str], random: Random, seeds: Seeds) -> None:
    """Another spelling of an instruction: other types, spaces, modes."""
    at = _place(tokens, random, lambda token: token.partition(".")[0] in seeds.opcodes and _is_dotted(token))
    known = seeds.opcodes.get(tokens[at].partition(".")[0])
    if known:
        tokens[at] = random.choice(known)


def _branch(tokens: list[str], random: Random, _: Seeds) -> None:
    """A branch to any label of the text."""
    labels = [token for token, colon in pairwise(tokens) if colon == ":" and token != ":"]
    at = _place(tokens, random, lambda token: token.partition(".")[0] == "bra")
    targets = [index for index in range(at, min(at + 4, len(tokens))) if tokens[index] in labels]
    if targets:
        tokens[targets[0]] = random.choice(labels)


def _guard(tokens: list[str], random: Random, _: Seeds) -> None:
    """A guard for an instruction that had none; for one that had, the opposite."""
    at = _place(tokens, random, lambda token: _is_dotted(token) and token[0] not in "%.")
    before = "".join(tokens[max(0, at - 4) : at]).rstrip()
    sign = max((index for index in range(max(0, at - 4), at) if tokens[index] == "@"), default=None)
    if sign is not None and before[-1:] not in ";{}:":
        if tokens[sign + 1] == "!":
            del tokens[sign + 1]
        else:
            tokens.insert(sign + 1, "!")
        return
    register = tokens[_place(tokens, random, lambda token: token.startswith("%p"))]
    if register.startswith("%p"):
        tokens[at:at] = ["@", *random.choice(((), ("!",))), register, " "]


def _like_register(tokens: list[str], random: Random, _: Seeds) -> None:
    """Another register of the same name but for the number."""
    at = _place(tokens, random, _is_register)
    start = tokens[at].rstrip("0123456789")
    tokens[at] = tokens[_place(tokens, random, lambda token: _is_register(token) and token.startswith(start))]


def _register(tokens: list[str], random: Random, _: Seeds) -> None:
    one, two = (_place(tokens, random, _is_register) for _ in range(2))
    tokens[one] = tokens[two]


def _everywhere(tokens: list[str], random: Random, seeds: Seeds) -> None:
    """One word, wherever it stands."""
    old = tokens[_place(tokens, random, _is_word)]
    new = random.choice((random.choice(seeds.words), tokens[_place(tokens, random, _is_word)], random.choice(_TYPES)))
    tokens[:] = [new if token == old else token for token in tokens]


def _lines(tokens: list[str]) -> list[str]:
    return "".join(tokens).splitlines(keepends=True)


def _splice(tokens: list[str], random: Random, seeds: Seeds) -> None:
    """Lines of other texts, somewhere."""
    lines = _lines(tokens)
    at = random.randrange(len(lines) + 1)
    lines[at:at] = [random.choice(seeds.lines) + "\n" for _ in range(random.choice((1, 1, 2, 5)))]
    tokens[:] = _TOKEN.findall("".join(lines))


def _move_line(tokens: list[str], random: Random, _: Seeds) -> None:
    lines = _lines(tokens)
    line = lines.pop(random.randrange(len(lines))) if lines else ""
    lines.insert(random.randrange(len(lines) + 1), line)
    tokens[:] = _TOKEN.findall("".join(lines))


def _repeat_lines(tokens: list[str], random: Random, _: Seeds) -> None:
    lines = _lines(tokens)
    at = random.randrange(max(1, len(lines)))
    piece = lines[at : at + random.choice((1, 2, 5, 20))]
    lines[at:at] = piece * random.choice((1, 1, 5, 30))
    tokens[:] = _TOKEN.findall("".join(lines))


def _other_text(tokens: list[str], random: Random, seeds: Seeds) -> None:
    """The end of another text behind the start of this one."""
    other = _TOKEN.findall(random.choice(seeds.texts))
    tokens[random.randrange(len(tokens)) :] = other[random.randrange(len(other)) :]


def _nest(tokens: list[str], random: Random, _: Seeds) -> None:
    start = random.randrange(len(tokens))
    end = min(len(tokens), start + random.randrange(40))
    depth = random.choice((1, 2, 50, 2000))
    opening, closing = random.choice((("{", "}"), ("(", ")"), ("[", "]"), ("-", ""), ("!", "")))
    tokens[start:end] = [opening * depth, *tokens[start:end], closing * depth]


def _cut(tokens: list[str], random: Random, _: Seeds) -> None:
    del tokens[random.randrange(len(tokens)) :]


def _head(tokens: list[str], random: Random, _: Seeds) -> None:
    """Another version or target."""
    at = _place(tokens, random, lambda token: token.startswith(("sm_", "compute_")))
    tokens[at] = random.choice(_TARGETS)
    if random.random() < 0.5 and ".version" in tokens:
        at = tokens.index(".version") + 2
        tokens[at : at + 1] = [random.choice(_VERSIONS)]


def _characters(tokens: list[str], random: Random, _: Seeds) -> None:
    text = "".join(tokens)
    at = random.randrange(len(text) + 1)
    piece = "".join(chr(random.choice((random.randrange(128), random.randrange(0x3000)))) for _ in range(3))
    tokens[:] = _TOKEN.findall(text[:at] + piece + text[at + random.randrange(4) :])


_CHANGES: Final[dict[Change, int]] = {
    _modifier: 6, _spelling: 6, _branch: 5, _guard: 5, _like_register: 6, _number: 6, _near_number: 4, _register: 3,
    _opcode: 4, _replace: 3,
    _swap: 3, _delete: 3, _duplicate: 3, _insert: 3, _everywhere: 3, _splice: 5, _move_line: 3, _repeat_lines: 2,
    _other_text: 1, _nest: 1, _cut: 1, _head: 1, _characters: 1,
}  # fmt: skip


_GENTLE: Final[dict[Change, int]] = {
    change: _CHANGES[change]
    for change in (_spelling, _like_register, _near_number, _number, _move_line, _opcode, _branch, _guard)
}  # fmt: skip
"""What leaves most texts readable, so that more of them reach the compiler."""


def mutant(text: str, random: Random, seeds: Seeds, largest: int = 60_000) -> str:
    """The text with a few changes (mostly one or two, so that much of it still means something)."""
    tokens = _TOKEN.findall(text)
    count = random.choice((1, 1, 1, 2, 2, 3, 5, 12))
    changes = _GENTLE if random.random() < 0.5 else _CHANGES
    for change in random.choices(list(changes), weights=list(changes.values()), k=count):
        if tokens:
            change(tokens, random, seeds)
    return "".join(tokens)[:largest]
