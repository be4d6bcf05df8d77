"""One texel per lane, from memory to four channels of 32 bits: a function that all fetches of a kernel share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zcuda_async.jit.builder import Type
from zcuda_async.jit.lower.half import widen
from zcuda_async.jit.lower.texture_code import CHANNELS, Code
from zcuda_async.jit.texture_header import CONVERSIONS

__all__ = ("texel_function",)

_SRGB: Final = "zcuda.srgb"
_SRGB_LINE: Final = 0.04045


def texel_function(features: str, lanes: int) -> tuple[str, set[str]]:
    """(name, texts): the function ``channels @name(ptr header, <N x i64> addresses)`` and what it needs.

    Addresses are those of texels, which lie at multiples of their size.
    """
    code = Code(features, lanes)
    words = _load(code)
    channels = _split(code, words)
    channels = _convert(code, channels)
    missing = code.b.compare("icmp ult", Type("i32"), code.field("channels"), "4")
    channels[3] = code.either(missing, code.ints, code.splat_field("alpha"), channels[3])
    name = f"zcuda.texel.{lanes}"
    return name, {code.text(name, [(code.longs, "%address")], channels), *code.b.declarations, _srgb_table()}


def _cases(code: Code, field: str, cases: dict[int, Callable[[], list[str]]], otherwise: list[str]) -> list[str]:
    """Four vectors: those of the case that the header's field has."""
    b = code.b
    labels = {value: b.block_name("case") for value in cases}
    start, done = b.block_name("start"), b.block_name("cases.done")
    b.line(f"br label %{start}")
    b.label(start)
    arms = " ".join(f"i32 {value}, label %{label}" for value, label in labels.items())
    b.line(f"switch i32 {code.field(field)}, label %{done} [{arms}]")
    results = [(start, otherwise)]
    for value, make in cases.items():
        b.label(labels[value])
        result = make()
        end = b.block_name("case.end")
        b.line(f"br label %{end}")
        b.label(end)
        b.line(f"br label %{done}")
        results.append((end, result))
    b.label(done)
    return [
        b.op(f"phi {code.ints} " + ", ".join(f"[{values[index]}, %{label}]" for label, values in results))
        for index in range(CHANNELS)
    ]


def _load(code: Code) -> list[str]:
    """The texel's bytes as words, the first in the lowest address; those beyond its size are 0."""
    b, zero = code.b, code.ints.const(0)
    pointers = Type("ptr", code.lanes)

    def at(address: str, offset: int) -> str:
        moved = b.binary("add", code.longs, address, code.longs.const(offset)) if offset else address
        return b.op(f"inttoptr {code.longs} {moved} to {pointers}")

    def part(bits: int) -> list[str]:
        # Whole words are gathered: processors have no gathers of less.
        aligned = b.binary("and", code.longs, "%address", code.longs.const(-4))
        word = code.gather(code.ints, at(aligned, 0), 4)
        within = b.cast("trunc", code.longs, b.binary("and", code.longs, "%address", code.longs.const(3)), code.ints)
        shifted = b.binary("lshr", code.ints, word, b.binary("shl", code.ints, within, code.ints.const(3)))
        return [b.binary("and", code.ints, shifted, code.ints.const((1 << bits) - 1)), zero, zero, zero]

    def whole(count: int) -> list[str]:
        words = [code.gather(code.ints, at("%address", 4 * index), 4) for index in range(count)]
        return words + [zero] * (CHANNELS - count)

    cases: dict[int, Callable[[], list[str]]] = {
        1: lambda: part(8),
        2: lambda: part(16),
        4: lambda: whole(1),
        8: lambda: whole(2),
        16: lambda: whole(4),
    }
    return _cases(code, "texel_bytes", cases, [zero] * CHANNELS)


def _split(code: Code, words: list[str]) -> list[str]:
    """The channels in the words."""
    b, ints = code.b, code.ints

    def split(bits: int) -> list[str]:
        per_word = 32 // bits
        shifted = [
            b.binary("lshr", ints, words[index // per_word], ints.const(index % per_word * bits))
            for index in range(CHANNELS)
        ]
        return [b.binary("and", ints, value, ints.const((1 << bits) - 1)) for value in shifted]

    return _cases(code, "channel_bits", {8: lambda: split(8), 16: lambda: split(16)}, words)


def _convert(code: Code, channels: list[str]) -> list[str]:
    b, ints, floats = code.b, code.ints, code.floats
    bits = code.field("channel_bits")

    def extended() -> list[str]:
        by = b.splat(ints, b.op(f"sub i32 32, {bits}"))
        return [b.binary("ashr", ints, b.binary("shl", ints, value, by), by) for value in channels]

    def half(value: str) -> str:
        narrow = b.cast("trunc", ints, value, ints.of("i16"))
        return code.as_bits(
            widen(b, floats.of("half"), b.cast("bitcast", ints.of("i16"), narrow, floats.of("half")))[1]
        )

    def normal(opcode: str, values: list[str], top: tuple[float, float]) -> list[str]:
        is_byte = b.op(f"icmp eq i32 {bits}, 8")
        most = b.splat(floats, b.op(f"select i1 {is_byte}, float {_single(top[0])}, float {_single(top[1])}"))
        return [b.binary("fdiv", floats, b.op(f"{opcode} {ints} {value} to {floats}"), most) for value in values]

    def snorm() -> list[str]:
        values = normal("sitofp", extended(), (127.0, 32767.0))
        return [code.as_bits(b.intrinsic("maxnum", floats, value, floats.const(-1.0))) for value in values]

    def linear(value: str) -> str:
        at = b.op(f"getelementptr float, ptr @{_SRGB}, {ints} {b.binary('and', ints, value, ints.const(255))}")
        return code.as_bits(code.gather(floats, at, 4))

    def unorm(values: list[str]) -> list[str]:
        return [code.as_bits(value) for value in normal("uitofp", values, (255.0, 65535.0))]

    makers: dict[str, Callable[[], list[str]]] = {
        "signed": extended,
        "half": lambda: [half(value) for value in channels],
        "unorm": lambda: unorm(channels),
        "snorm": snorm,
        "srgb": lambda: [*map(linear, channels[:3]), *unorm(channels[3:])],
    }
    return _cases(code, "conversion", {CONVERSIONS.index(name): make for name, make in makers.items()}, channels)


def _single(value: float) -> str:
    return Type("float").const(value)


def _srgb_table() -> str:
    """The 256 linear values, as the sRGB standard has them."""
    values = []
    for number in range(256):
        x = number / 255
        values.append(x / 12.92 if x <= _SRGB_LINE else ((x + 0.055) / 1.055) ** 2.4)
    kind = Type("float")
    entries = ", ".join(f"float {kind.const(value)}" for value in values)
    return f"@{_SRGB} = internal constant [256 x float] [{entries}], align 64"
