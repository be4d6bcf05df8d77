"""Evaluate families on the device and compare, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

import zcuda_async as zc
from benchmarks.accuracy.errors import Errors, compare
from benchmarks.accuracy.formats import Array
from benchmarks.accuracy.functions import Family, Function
from benchmarks.accuracy.kernels import BLOCK, as_words, kernel_text, spellings_of, word_of

__all__ = ("Check", "Inputs", "Sweep", "family_inputs", "special_bits", "sweep")

NAN64: Final = 0x7FFFFFFF00000000
"""The only NaN that the gross approximations of f64 give."""
_CHUNK: Final = 1 << 21
_BLOCK: Final = 1 << 15
"""Samples that numpy compares at once: the arrays stay in the processor's cache."""
_PAIRS: Final = 1 << 26
_DOUBLES: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class Inputs:
    """`count` samples: operand k of sample i has the bits ``k + i * steps[k]``."""

    count: int
    steps: tuple[int, ...]

    def bits(self, family: Family, start: int, stop: int) -> list[Array]:
        """The operands of the samples from `start` to `stop`."""
        numbers = np.arange(start, stop, dtype=np.uint64)
        with np.errstate(over="ignore"):
            return [
                (np.uint64(k) + numbers * np.uint64(step)).astype(family.format.word)
                for k, step in enumerate(self.steps)
            ]


@dataclass(slots=True)
class Sweep:
    """What came of a family: its inputs and each instruction's errors."""

    inputs: Inputs
    errors: dict[str, Errors]


def family_inputs(family: Family, stride: int) -> Inputs:
    """All bit patterns of one narrow operand, else so many samples; every `stride`-th of them."""
    if family.steps:
        count = _PAIRS if family.format.width == 32 else _DOUBLES
        return Inputs(-(-count // stride), family.steps)
    every = 1 << family.format.width
    step = 1 if every <= 1 << 16 else stride
    return Inputs(-(-every // step), (step,))


def special_bits(family: Family) -> list[Array]:
    """The operands that come first: +0 and -0, then those of the manual's tables."""
    form = family.format
    named = [form.encode(x) for function in family.functions for x, _ in function.specials]
    bits = np.array([0, 1 << (form.width - 1), *named], form.word)
    return [bits] * family.arguments


async def sweep(device: zc.Device, family: Family, stride: int, report: Callable[[str], None]) -> Sweep:
    """Evaluate a family at its inputs; the next chunk is computed while numpy looks at the last."""
    kernel = await device.load_ptx(kernel_text(family), "accuracy.ptx").get_kernel("evaluate")
    inputs, word = family_inputs(family, stride), word_of(family)
    size = -(-min(_CHUNK, inputs.count) // BLOCK) * BLOCK
    rows = family.arguments + len(spellings_of(family))
    check = Check(family)
    with device.allocate_pinned(2 * rows * size * word.itemsize) as memory:
        buffers = np.frombuffer(memory.view(), word).reshape(2, rows, size)
        async with device.create_stream() as stream:
            before: tuple[list[Array], Array] | None = None
            for turn, bits in enumerate(_chunks(family, inputs, size)):
                buffer, count = buffers[turn % 2], len(bits[0])
                buffer[: family.arguments, :count] = as_words(family, bits)
                where = memory.handle + turn % 2 * buffer.nbytes
                out = where + family.arguments * size * word.itemsize
                running = stream.launch(kernel, zc.LaunchConfig(grid=size // BLOCK, block=BLOCK), where, out, size)
                if before is not None:
                    check.add(*before)
                await running
                before = bits, buffer[family.arguments :, :count]
                if turn % 128 == 1:
                    report(f"{family.functions[0].spelling}: {(turn - 1) * size / inputs.count:.0%}")
            if before is not None:
                check.add(*before)
    return Sweep(inputs, check.errors)


def _chunks(family: Family, inputs: Inputs, size: int) -> Iterator[list[Array]]:
    yield special_bits(family)
    for start in range(0, inputs.count, size):
        yield inputs.bits(family, start, min(start + size, inputs.count))


class Check:
    """Compares results with what is exact; the first that it gets are those of `special_bits`."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._zeros: dict[str, Array] = {}
        self.errors = {function.spelling: Errors(function) for function in family.functions}

    def add(self, bits: list[Array], results: Array) -> None:
        """Compare the results for operands: one row for each of `spellings_of`."""
        rows = dict(zip(spellings_of(self._family), results, strict=True))
        if not self._zeros:
            self._zeros = {name: row[:2].astype(self._family.format.word) for name, row in rows.items()}
            self._check_tables(bits, rows)
        with np.errstate(all="ignore"):
            for start in range(0, results.shape[1], _BLOCK):
                self._add_block(
                    [operand[start : start + _BLOCK] for operand in bits],
                    {name: row[start : start + _BLOCK] for name, row in rows.items()},
                )

    def _check_tables(self, bits: Sequence[Array], rows: dict[str, Array]) -> None:
        form, at = self._family.format, 2
        for function in self._family.functions:
            expected = [y for _, y in function.specials]
            got = rows[function.spelling][at : at + len(expected)].astype(form.word)
            want = np.array([form.encode(y) for y in expected], form.word)
            with np.errstate(invalid="ignore"):
                numbers = np.isnan(form.decode(want)) & np.isnan(form.decode(got)) & (not function.zero_bits)
            want = np.where(np.isnan(form.decode(want)), form.word.type(NAN64), want) if function.zero_bits else want
            inputs = [operand[at : at + len(expected)] for operand in bits]
            self.errors[function.spelling].note("the manual's table", (got != want) & ~numbers, inputs)
            at += len(expected)

    def _add_block(self, bits: list[Array], rows: dict[str, Array]) -> None:
        family, form = self._family, self._family.format
        values = [form.decode(operand) for operand in bits]
        want = family.reference(*values)
        for function in family.functions:
            errors, plain = self.errors[function.spelling], rows[function.spelling].astype(form.word)
            compare(errors, family, bits, values, want, plain)
            if function.flushed is not None:
                wrong = rows[function.flushed].astype(form.word) != self._flushed(function, bits[0], plain)
                errors.note(".ftz", wrong, bits)
            if function.pair is not None:
                errors.note("packed", rows[function.pair] != 0, bits)

    def _flushed(self, function: Function, bits: Array, plain: Array) -> Array:
        """What ``.ftz`` has to give, from what the instruction gives without and for zeros."""
        form = self._family.format
        subnormal, flushed = form.is_subnormal(bits), form.flush(plain)
        if not subnormal.any():
            return flushed
        sign = (bits >> form.word.type(form.width - 1)).astype(np.intp)
        return np.where(subnormal, self._zeros[function.spelling][sign], flushed)
