"""Programs as trees of statements: how they become PTX, and how a failing one becomes smaller."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

__all__ = ("If", "Labels", "Line", "Loop", "Statement", "Tangle", "render", "smaller")


@dataclass(frozen=True)
class Line:
    """Instructions that stand or fall together."""

    text: str


@dataclass(frozen=True)
class If:
    """``if (condition) then else otherwise``; `setup` computes the predicate."""

    setup: str
    condition: str
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


@dataclass(frozen=True)
class Loop:
    """A loop: `setup` sets the counter `counter` to the number of turns.

    In the text of its body, ``BREAK`` and ``NEXT`` stand for the labels to go on at.
    """

    setup: str
    counter: str
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Tangle:
    """Blocks that jump to each other at will until `fuel` runs out: irreducible graphs included.

    Each block is (body, setup, condition, target, other target); target len(blocks) is the way out.
    """

    fuel: str
    first: int
    blocks: tuple[tuple[tuple[Statement, ...], str, str, int, int], ...]


Statement = Line | If | Loop | Tangle


class Labels:
    """Fresh labels."""

    def __init__(self) -> None:
        self.count = 0

    def new(self) -> str:
        self.count += 1
        return f"L{self.count}"


def render(statements: Sequence[Statement], labels: Labels, loop: tuple[str, str] | None) -> Iterator[str]:
    """The statements as PTX; `loop` is where BREAK and NEXT lead."""
    for statement in statements:
        match statement:
            case Line(text):
                yield _with_labels(text, loop, labels)
            case If(setup, condition, then, otherwise):
                other, end = labels.new(), labels.new()
                negated = condition[1:] if condition.startswith("!") else "!" + condition
                yield setup
                yield f"@{negated} bra {other};"
                yield from render(then, labels, loop)
                yield f"bra {end};"
                yield f"{other}:"
                yield from render(otherwise, labels, loop)
                yield f"{end}:"
            case Loop(setup, counter, body):
                head, following, end = labels.new(), labels.new(), labels.new()
                guard = f"%q{labels.count}"
                yield setup
                yield f"{head}:"
                yield f".reg .pred {guard};"
                yield f"setp.eq.u32 {guard}, {counter}, 0;"
                yield f"@{guard} bra {end};"
                yield from render(body, labels, (end, following))
                yield f"{following}:"
                yield f"sub.u32 {counter}, {counter}, 1;"
                yield f"bra {head};"
                yield f"{end}:"
            case Tangle():
                yield from _render_tangle(statement, labels)


def _render_tangle(tangle: Tangle, labels: Labels) -> Iterator[str]:
    places = [labels.new() for _ in range(len(tangle.blocks) + 1)]
    fuel, empty = f"%fuel{labels.count}", f"%empty{labels.count}"
    yield f".reg .b32 {fuel};"
    yield f".reg .pred {empty};"
    yield tangle.fuel.replace("FUEL", fuel)
    yield f"bra {places[tangle.first]};"
    for at, (body, setup, condition, target, other) in enumerate(tangle.blocks):
        yield f"{places[at]}:"
        yield from render(body, labels, None)
        yield f"setp.eq.u32 {empty}, {fuel}, 0;"
        yield f"@{empty} bra {places[-1]};"
        yield f"sub.u32 {fuel}, {fuel}, 1;"
        yield setup
        yield f"@{condition} bra {places[target]};"
        yield f"bra {places[other]};"
    yield f"{places[-1]}:"


def _with_labels(text: str, loop: tuple[str, str] | None, labels: Labels) -> str:
    if loop is not None:
        text = text.replace("BREAK", loop[0]).replace("NEXT", loop[1])
    elif "BREAK" in text or "NEXT" in text:
        return ""
    while "SKIP" in text:
        text = text.replace("SKIP", labels.new())
    return text


def smaller(statements: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...]]:
    """Trees with one statement left out, replaced by its parts, or itself made smaller."""
    size = len(statements)
    step = size
    while step > 1:  # whole stretches first
        step //= 2
        for at in range(0, size, step):
            yield statements[:at] + statements[at + step :]
    for at, statement in enumerate(statements):
        before, after = statements[:at], statements[at + 1 :]
        yield before + after
        if isinstance(statement, If):
            yield (*before, Line(statement.setup), *statement.then, *after)
            yield (*before, Line(statement.setup), *statement.otherwise, *after)
            yield from ((*before, replace(statement, then=then), *after) for then in smaller(statement.then))
            yield from ((*before, replace(statement, otherwise=rest), *after) for rest in smaller(statement.otherwise))
        elif isinstance(statement, Loop):
            yield (*before, Line(statement.setup), *statement.body, *after)
            yield from ((*before, replace(statement, body=body), *after) for body in smaller(statement.body))
        elif isinstance(statement, Tangle):
            for index, block in enumerate(statement.blocks):
                for body in smaller(block[0]):
                    blocks = (*statement.blocks[:index], (body, *block[1:]), *statement.blocks[index + 1 :])
                    yield (*before, replace(statement, blocks=blocks), *after)
