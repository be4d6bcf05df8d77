"""Instructions that exchange values between the lanes of a warp.

Each is a function from the operands of the lanes that take part to the results of those lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Final

from zcuda_async.interpreter.bits import mask, number
from zcuda_async.interpreter.exact import FORMATS
from zcuda_async.interpreter.floating import FLOATING
from zcuda_async.interpreter.thread import InterpreterError
from zcuda_async.ptx.ir import Instruction

__all__ = ("EXCHANGES", "Exchange", "source_lane")

Exchange = Callable[[dict[int, tuple[int, ...]]], dict[int, tuple[int, ...]]]


def source_lane(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """Whose value ``shfl`` gives a lane, and whether that lane is inside of its segment."""
    by, clamp, segment = b & 31, c & 31, c >> 8 & 31
    highest = lane & segment | clamp & ~segment
    lowest = lane & segment
    if mode == "up":
        other, inside = lane - by, lane - by >= highest
    elif mode == "down":
        other, inside = lane + by, lane + by <= highest
    elif mode == "bfly":
        other, inside = lane ^ by, lane ^ by <= highest
    else:
        other = lowest | by & ~segment
        inside = other <= highest
    return (other if inside else lane), inside


def _shfl(instruction: Instruction) -> Exchange:
    mode = next(name for name in ("up", "down", "bfly", "idx") if instruction.has(name))

    def exchange(lanes: dict[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
        results: dict[int, tuple[int, ...]] = {}
        for lane, (_, b, c, _) in lanes.items():
            other, inside = source_lane(mode, lane, b, c)
            if other not in lanes:
                raise InterpreterError(f"shfl in lane {lane} reads lane {other}, which does not take part")
            results[lane] = (lanes[other][0], int(inside))
        return results

    return exchange


def _to_all(value: Callable[[dict[int, int]], int]) -> Callable[[Instruction], Exchange]:
    """An exchange that gives every lane the same, made from the first operands by lane."""

    def exchange(lanes: dict[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
        result = value({lane: operands[0] for lane, operands in lanes.items()})
        return dict.fromkeys(lanes, (result,))

    return lambda _: exchange


def _ballot(truths: dict[int, int]) -> int:
    return sum(truth << lane for lane, truth in truths.items())


def _vote(instruction: Instruction) -> Exchange:
    rules: dict[str, Callable[[dict[int, int]], int]] = {
        "all": lambda truths: int(all(truths.values())),
        "any": lambda truths: int(any(truths.values())),
        "uni": lambda truths: int(len(set(truths.values())) == 1),
        "ballot": _ballot,
    }
    return _to_all(next(rule for name, rule in rules.items() if instruction.has(name)))(instruction)


def _match(instruction: Instruction) -> Exchange:
    def any_(lanes: dict[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
        return {
            lane: (sum(1 << other for other, values in lanes.items() if values[0] == operands[0]),)
            for lane, operands in lanes.items()
        }

    def all_(lanes: dict[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
        same = len({operands[0] for operands in lanes.values()}) == 1
        return dict.fromkeys(lanes, (sum(1 << lane for lane in lanes) if same else 0, int(same)))

    return all_ if instruction.has("all") else any_


def _redux(instruction: Instruction) -> Exchange:
    kind = instruction.types[0]
    if kind == "f32":
        return _redux_float(instruction)
    rules: dict[str, Callable[[int, int], int]] = {
        "add": lambda a, b: a + b,
        "min": min,
        "max": max,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
    }
    rule = next(rule for name, rule in rules.items() if instruction.has(name))
    return _to_all(lambda values: reduce(rule, (number(v, kind) for v in values.values())) & mask(32))(instruction)


def _redux_float(instruction: Instruction) -> Exchange:
    choose = FLOATING["min" if instruction.has("min") else "max"](instruction)
    sign = FORMATS["f32"].sign_bit if instruction.has("abs") else 0

    def value(values: dict[int, int]) -> int:
        total = next(iter(values.values())) & ~sign
        for bits in values.values():
            result = choose(total, bits & ~sign)
            assert isinstance(result, int)
            total = result
        return total

    return _to_all(value)(instruction)


def _elect(_: Instruction) -> Exchange:
    return lambda lanes: {lane: (min(lanes), int(lane == min(lanes))) for lane in lanes}


EXCHANGES: Final[dict[str, Callable[[Instruction], Exchange]]] = {
    "shfl": _shfl,
    "vote": _vote,
    "match": _match,
    "redux": _redux,
    "elect": _elect,
    "activemask": lambda _: lambda lanes: dict.fromkeys(lanes, (sum(1 << lane for lane in lanes),)),
    "bar": lambda _: lambda lanes: dict.fromkeys(lanes, ()),
}
"""By opcode; ``bar`` is ``bar.warp.sync``."""
