"""Integer, logic and bit-field instructions (PTX ISA 9.7.1, 9.7.8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Builder, Type
from zcuda_async.jit.lower.dotproduct import dot_bytes
from zcuda_async.jit.lower.lanewise import Compute, lanewise
from zcuda_async.jit.lower.ternary import ternary
from zcuda_async.ptx.ir import TYPE_BITS, Instruction

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group

__all__ = ("INTEGER", "multiply")


def _is_signed(instruction: Instruction) -> bool:
    return instruction.types[0].startswith("s")


def _halfwords(instruction: Instruction, compute: Compute) -> Compute | None:
    """For ``.u16x2`` and ``.s16x2``: the computation on twice as many 16-bit lanes."""
    if not instruction.types[0].endswith("x2"):
        return None

    def run(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
        halves = Type("i16", 2 * max(kind.lanes, 1))
        value = compute(builder, instruction, halves, [builder.cast("bitcast", kind, arg, halves) for arg in args])
        return builder.cast("bitcast", halves, value, kind)

    return run


def _packed(compute: Compute) -> Compute:
    """A computation that has ``x2`` forms."""

    def run(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
        return (_halfwords(instruction, compute) or compute)(builder, instruction, kind, args)

    return run


def _simple(opcode: str) -> Compute:
    return lambda builder, _, kind, args: builder.binary(opcode, kind, args[0], args[1])


def _add(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    if instruction.has("sat"):
        return builder.intrinsic(f"s{instruction.opcode}.sat", kind, args[0], args[1])
    return builder.binary(instruction.opcode, kind, args[0], args[1])


def multiply(builder: Builder, instruction: Instruction, kind: Type, a: str, b: str) -> tuple[Type, str]:
    """``mul`` in its three forms: (type, value)."""
    if not instruction.has("wide") and not instruction.has("hi"):
        return kind, builder.binary("mul", kind, a, b)
    wide = kind.of(f"i{kind.bits * 2}")
    extend = "sext" if _is_signed(instruction) else "zext"
    a, b = builder.cast(extend, kind, a, wide), builder.cast(extend, kind, b, wide)
    product = builder.binary("mul", wide, a, b)
    if instruction.has("wide"):
        return wide, product
    high = builder.binary("lshr", wide, product, wide.const(kind.bits))
    return kind, builder.cast("trunc", wide, high, kind)


def _mul(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    return multiply(builder, instruction, kind, args[0], args[1])[1]


def _mad(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    wide, product = multiply(builder, instruction, kind, args[0], args[1])
    if instruction.has("sat"):
        return builder.intrinsic("sadd.sat", wide, product, args[2])
    return builder.binary("add", wide, product, args[2])


def _mul24(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    shift = kind.const(8)
    down = "ashr" if _is_signed(instruction) else "lshr"
    a, b = (builder.binary(down, kind, builder.binary("shl", kind, x, shift), shift) for x in args[:2])
    if instruction.has("hi"):  # bits 16..47 of the 48-bit product
        wide = kind.of("i64")
        extend = "sext" if _is_signed(instruction) else "zext"
        product = builder.binary("mul", wide, builder.cast(extend, kind, a, wide), builder.cast(extend, kind, b, wide))
        result = builder.cast("trunc", wide, builder.binary("lshr", wide, product, wide.const(16)), kind)
    else:
        result = builder.binary("mul", kind, a, b)
    if instruction.has("sat"):
        return builder.intrinsic("sadd.sat", kind, result, args[2])
    return builder.binary("add", kind, result, args[2]) if instruction.opcode == "mad24" else result


def _wide_type(instruction: Instruction) -> str:
    kind = instruction.types[0]
    return f"{kind[0]}{TYPE_BITS[kind] * 2}" if instruction.has("wide") else kind


def _mad_sources(instruction: Instruction) -> list[str]:
    return [instruction.types[0], instruction.types[0], _wide_type(instruction)]


def _divide(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    """Division by zero and MIN / -1 must not trap, in lanes that are switched off either."""
    a, b = args
    signed = _is_signed(instruction)
    zero = builder.compare("icmp eq", kind, b, kind.const(0))
    unsafe = zero
    if signed:
        lowest = builder.compare("icmp eq", kind, a, kind.const(-(1 << (kind.bits - 1))))
        minus = builder.compare("icmp eq", kind, b, kind.const(-1))
        overflow = builder.binary("and", kind.of("i1"), lowest, minus)
        unsafe = builder.binary("or", kind.of("i1"), zero, overflow)
    safe = builder.select(kind, unsafe, kind.const(1), b)
    opcode = ("s" if signed else "u") + instruction.opcode
    result = builder.binary(opcode, kind, a, safe)
    # PTX leaves the result of a division by zero open; NVIDIA's devices give all ones and the dividend.
    return builder.select(kind, zero, kind.const(-1) if instruction.opcode == "div" else a, result)


def _abs(builder: Builder, _: Instruction, kind: Type, args: Sequence[str]) -> str:
    return builder.call(kind, f"llvm.abs.{kind.suffix}", [(kind, args[0]), ("i1", "false")])


def _neg(builder: Builder, _: Instruction, kind: Type, args: Sequence[str]) -> str:
    return builder.binary("sub", kind, kind.const(0), args[0])


def _minmax(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    sign = "s" if _is_signed(instruction) else "u"
    value = builder.intrinsic(f"{sign}{instruction.opcode}", kind, args[0], args[1])
    return builder.intrinsic("smax", kind, value, kind.const(0)) if instruction.has("relu") else value


def _not(builder: Builder, _: Instruction, kind: Type, args: Sequence[str]) -> str:
    return builder.binary("xor", kind, args[0], kind.const(-1 if kind.elem != "i1" else 1))


def _cnot(builder: Builder, _: Instruction, kind: Type, args: Sequence[str]) -> str:
    zero = builder.compare("icmp eq", kind, args[0], kind.const(0))
    return builder.cast("zext", kind.of("i1"), zero, kind)


def _shift(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    """Shift amounts above the width act like the width (LLVM leaves them undefined)."""
    amount_kind = kind.of("i32")
    limit = kind.bits
    value, amount = args
    arithmetic = instruction.opcode == "shr" and _is_signed(instruction)
    opcode = "shl" if instruction.opcode == "shl" else ("ashr" if arithmetic else "lshr")
    if not amount.startswith("%"):
        return _shift_by_constant(builder, opcode, kind, value, amount)
    clamped = builder.intrinsic("umin", amount_kind, amount, amount_kind.const(limit - 1))
    change = "trunc" if kind.bits < 32 else "zext"
    shifted = builder.binary(opcode, kind, value, builder.cast(change, amount_kind, clamped, kind))
    if arithmetic:
        return shifted
    over = builder.compare("icmp ugt", amount_kind, amount, amount_kind.const(limit - 1))
    return builder.select(kind, over, kind.const(0), shifted)


def _shift_by_constant(builder: Builder, opcode: str, kind: Type, value: str, amount: str) -> str:
    by = _constant(amount)
    if by >= kind.bits:
        if opcode != "ashr":
            return kind.const(0)
        by = kind.bits - 1
    return builder.binary(opcode, kind, value, kind.const(by))


def _shift_sources(instruction: Instruction) -> list[str]:
    return [instruction.types[0], "u32"]


def _count_bits(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    if instruction.opcode == "popc":
        value = builder.intrinsic("ctpop", kind, args[0])
    else:
        value = builder.call(kind, f"llvm.ctlz.{kind.suffix}", [(kind, args[0]), ("i1", "false")])
    return builder.cast("trunc", kind, value, kind.of("i32"))


def _bfind(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    value = args[0]
    if _is_signed(instruction):  # the most significant bit that differs from the sign
        sign = builder.binary("ashr", kind, value, kind.const(kind.bits - 1))
        value = builder.binary("xor", kind, value, sign)
    zeros = builder.call(kind, f"llvm.ctlz.{kind.suffix}", [(kind, value), ("i1", "false")])
    shift = zeros
    if not instruction.has("shiftamt"):
        shift = builder.binary("sub", kind, kind.const(kind.bits - 1), zeros)
    none = builder.compare("icmp eq", kind, value, kind.const(0))
    result = builder.select(kind, none, kind.const(-1), shift)
    return builder.cast("trunc", kind, result, kind.of("i32"))


def _brev(builder: Builder, _: Instruction, kind: Type, args: Sequence[str]) -> str:
    return builder.intrinsic("bitreverse", kind, args[0])


def _byte(builder: Builder, kind: Type, value: str) -> str:
    return builder.binary("and", kind, value, kind.const(0xFF))


def _bit_mask(builder: Builder, kind: Type, length: str) -> str:
    """(1 << length) - 1 for a length in [0, bits]."""
    wide = builder.compare("icmp uge", kind, length, kind.const(kind.bits))
    safe = builder.select(kind, wide, kind.const(0), length)
    one = builder.binary("shl", kind, kind.const(1), safe)
    return builder.select(kind, wide, kind.const(-1), builder.binary("sub", kind, one, kind.const(1)))


def _shift_checked(builder: Builder, opcode: str, kind: Type, value: str, by: str) -> str:
    """A shift whose amount may reach or pass the width: that gives zero."""
    wide = builder.compare("icmp uge", kind, by, kind.const(kind.bits))
    safe = builder.select(kind, wide, kind.const(0), by)
    return builder.select(kind, wide, kind.const(0), builder.binary(opcode, kind, value, safe))


def _field_args(builder: Builder, kind: Type, position: str, length: str) -> tuple[str, str]:
    narrow = kind.of("i32")
    pair = [
        builder.cast("zext", narrow, _byte(builder, narrow, x), kind) if kind.bits == 64 else _byte(builder, kind, x)
        for x in (position, length)
    ]
    return pair[0], pair[1]


def _bfe(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    position, length = _field_args(builder, kind, args[1], args[2])
    mask = _bit_mask(builder, kind, length)
    field = builder.binary("and", kind, _shift_checked(builder, "lshr", kind, args[0], position), mask)
    if not _is_signed(instruction):
        return field
    # The sign bit is the field's top bit, or the operand's where the field reaches beyond it.
    last = builder.binary("sub", kind, builder.binary("add", kind, position, length), kind.const(1))
    last = builder.intrinsic("umin", kind, last, kind.const(kind.bits - 1))
    sign = builder.binary("and", kind, builder.binary("lshr", kind, args[0], last), kind.const(1))
    empty = builder.compare("icmp eq", kind, length, kind.const(0))
    fill = builder.binary("sub", kind, kind.const(0), sign)
    outside = builder.binary("xor", kind, mask, kind.const(-1))
    # Bits the operand does not have count as copies of the sign too.
    available = builder.intrinsic("usub.sat", kind, kind.const(kind.bits), position)
    inside = builder.binary("and", kind, mask, _bit_mask(builder, kind, available))
    outside = builder.binary("xor", kind, inside, kind.const(-1))
    signed = builder.binary("or", kind, field, builder.binary("and", kind, fill, outside))
    return builder.select(kind, empty, kind.const(0), signed)


def _bfe_sources(instruction: Instruction) -> list[str]:
    return [instruction.types[0], "u32", "u32"]


def _bfi(builder: Builder, _: Instruction, kind: Type, args: Sequence[str]) -> str:
    position, length = _field_args(builder, kind, args[2], args[3])
    mask = _shift_checked(builder, "shl", kind, _bit_mask(builder, kind, length), position)
    field = builder.binary("and", kind, _shift_checked(builder, "shl", kind, args[0], position), mask)
    keep = builder.binary("and", kind, args[1], builder.binary("xor", kind, mask, kind.const(-1)))
    return builder.binary("or", kind, field, keep)


def _bfi_sources(instruction: Instruction) -> list[str]:
    return [instruction.types[0], instruction.types[0], "u32", "u32"]


def _lop3(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    return ternary(builder, kind, int(getattr(instruction.operands[4], "value", 0)) & 0xFF, args[:3])


_plain_lop3 = lanewise(_lop3, source_types=lambda i: [i.types[0]] * 4)


def lop3(group: Group, instruction: Instruction) -> None:
    """``lop3``; its second form also gives p = (d != 0) op q."""
    boolean = next((name for name in ("or", "and") if instruction.has(name)), None)
    if boolean is None:
        _plain_lop3(group, instruction)
        return
    shape, extra = group.plain(instruction), instruction.operands[5]
    vector = shape.stride is None
    kind = Type("i32", group.lanes if vector else 0)
    truth = kind.of("i1")
    negated = 5 in instruction.negated_operands
    values, flags = [], []
    for part in range(group.count(shape)):
        args = [group.read(operand, "i32", part, vector=vector) for operand in instruction.operands[1:4]]
        values.append(_lop3(group.builder, instruction, kind, args))
        other = group.read(extra, "i1", part, vector=vector)
        if negated:
            other = group.builder.binary("xor", truth, other, truth.const(1))
        some = group.builder.compare("icmp ne", kind, values[-1], kind.const(0))
        flags.append(group.builder.binary(boolean, truth, some, other))
    group.write(instruction.operands[0], values, "i32", shape, instruction.guard)
    group.write(instruction.second_destination, flags, "i1", shape, instruction.guard)


def _funnel(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    """``shf``: LLVM's funnel shift, which becomes a rotation where both halves are one register."""
    low, high, amount = args
    is_left = instruction.has("l")
    shifted = builder.intrinsic("fshl" if is_left else "fshr", kind, high, low, amount)
    if instruction.has("wrap"):
        return shifted
    whole = builder.compare("icmp uge", kind, amount, kind.const(32))
    return builder.select(kind, whole, low if is_left else high, shifted)


def _pair_of_bytes(builder: Builder, kind: Type, index: int, control: str) -> str:
    """``.rc16``: byte 0 or 1 of one of the two halves of a."""
    half = builder.binary("shl", kind, builder.binary("and", kind, control, kind.const(1)), kind.const(1))
    return builder.binary("add", kind, half, kind.const(index % 2))


_PERMUTES: Final[dict[str, Callable[[Builder, Type, int, str], str]]] = {
    "f4e": lambda b, kind, index, control: b.binary("add", kind, control, kind.const(index)),
    "b4e": lambda b, kind, index, c: b.binary("and", kind, b.binary("sub", kind, c, kind.const(index)), kind.const(7)),
    "rc8": lambda _builder, _kind, _index, control: control,
    "ecl": lambda b, kind, index, control: b.intrinsic("umax", kind, control, kind.const(index)),
    "ecr": lambda b, kind, index, control: b.intrinsic("umin", kind, control, kind.const(index)),
    "rc16": _pair_of_bytes,
}
"""``prmt`` mode → the selector of destination byte `index`, from the two control bits."""


def _constant(text: str) -> int:
    """The number in a scalar or splat constant."""
    return int(text.removeprefix("splat (i32 ").removesuffix(")")) & 0xFFFFFFFF


def _permuted(builder: Builder, kind: Type, a: str, b: str, selectors: int) -> str:
    """``prmt`` with known selectors and no signs: one shuffle of bytes."""
    lanes = max(kind.lanes, 1)
    octets = Type("i8", 4 * lanes)
    picks = [selectors >> 4 * at & 7 for at in range(4)]
    a, b = (builder.cast("bitcast", kind, value, octets) for value in (a, b))
    places = [4 * lane + pick % 4 + (4 * lanes if pick & 4 else 0) for lane in range(lanes) for pick in picks]
    return builder.cast("bitcast", octets, builder.shuffle(octets, a, b, places), kind)


def _prmt(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    """Each selector picks a byte of {b, a}; in the default mode its top bit replicates the sign."""
    mode = next((name for name in _PERMUTES if instruction.has(name)), None)
    if mode is None and not args[2].startswith("%") and not _constant(args[2]) & 0x8888:
        return _permuted(builder, kind, args[0], args[1], _constant(args[2]))
    wide = kind.of("i64")
    joined = builder.binary(
        "or",
        wide,
        builder.binary("shl", wide, builder.cast("zext", kind, args[1], wide), wide.const(32)),
        builder.cast("zext", kind, args[0], wide),
    )
    total = kind.const(0)
    for index in range(4):
        if mode is None:
            nibble = builder.binary("lshr", kind, args[2], kind.const(4 * index))
        else:
            nibble = _PERMUTES[mode](builder, kind, index, builder.binary("and", kind, args[2], kind.const(3)))
        which = builder.binary("shl", kind, builder.binary("and", kind, nibble, kind.const(7)), kind.const(3))
        picked = builder.binary("lshr", wide, joined, builder.cast("zext", kind, which, wide))
        byte = _byte(builder, kind, builder.cast("trunc", wide, picked, kind))
        top = builder.binary("lshr", kind, byte, kind.const(7))
        sign = builder.binary("mul", kind, top, kind.const(0xFF))
        replicate = builder.compare("icmp ne", kind, builder.binary("and", kind, nibble, kind.const(8)), kind.const(0))
        byte = builder.select(kind, replicate, sign, byte)
        total = builder.binary("or", kind, total, builder.binary("shl", kind, byte, kind.const(8 * index)))
    return total


def _sad(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    sign = "s" if _is_signed(instruction) else "u"
    larger = builder.intrinsic(f"{sign}max", kind, args[0], args[1])
    smaller = builder.intrinsic(f"{sign}min", kind, args[0], args[1])
    return builder.binary("add", kind, builder.binary("sub", kind, larger, smaller), args[2])


def _dot_sources(instruction: Instruction) -> list[str]:
    return ["b32", "b32", "b32"]


def _u32(_: Instruction) -> str:
    return "u32"


INTEGER: Final[dict[str, Lowering]] = {
    "add": lanewise(_packed(_add)),
    "sub": lanewise(_add),
    "mul": lanewise(_mul, result_type=_wide_type),
    "mad": lanewise(_mad, source_types=_mad_sources, result_type=_wide_type),
    "mul24": lanewise(_mul24),
    "mad24": lanewise(_mul24),
    "div": lanewise(_divide),
    "rem": lanewise(_divide),
    "abs": lanewise(_abs),
    "neg": lanewise(_neg),
    "min": lanewise(_packed(_minmax)),
    "max": lanewise(_packed(_minmax)),
    "and": lanewise(_simple("and")),
    "or": lanewise(_simple("or")),
    "xor": lanewise(_simple("xor")),
    "not": lanewise(_not),
    "cnot": lanewise(_cnot),
    "shl": lanewise(_shift, source_types=_shift_sources),
    "shr": lanewise(_shift, source_types=_shift_sources),
    "popc": lanewise(_count_bits, result_type=_u32),
    "clz": lanewise(_count_bits, result_type=_u32),
    "bfind": lanewise(_bfind, result_type=_u32),
    "brev": lanewise(_brev),
    "bfe": lanewise(_bfe, source_types=_bfe_sources),
    "bfi": lanewise(_bfi, source_types=_bfi_sources),
    "lop3": lop3,
    "shf": lanewise(_funnel, source_types=lambda i: [i.types[0]] * 3),
    "prmt": lanewise(_prmt, source_types=lambda i: [i.types[0]] * 3),
    "sad": lanewise(_sad),
    "dp4a": lanewise(dot_bytes, source_types=_dot_sources, result_type=_u32),
}
