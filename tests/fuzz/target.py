"""What is done with one mutant: all that loading a module does, and the compiler where the text is small."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import llvmlite.binding as llvm

from zcuda_async.cli.coverage import examine
from zcuda_async.errors import CompileError
from zcuda_async.jit.compile import generate_ir, inspect_module
from zcuda_async.jit.host import host_target
from zcuda_async.jit.pipeline import assemble
from zcuda_async.module import decode_ptx
from zcuda_async.ptx import PtxError

__all__ = ("load", "load_bytes")

_SMALL = 12_000
"""Longest text whose kernels are compiled, in characters."""
_KERNELS = 2
_COVERAGE_LINES = 120


def load_bytes(data: bytes, depth: int, seen: Counter[str]) -> None:
    """As `load`, from the bytes of a file."""
    with suppress(CompileError):  # machine code, or not UTF-8: documented
        load(decode_ptx(data, "<fuzz>"), depth, seen)


def load(text: str, depth: int, seen: Counter[str]) -> None:
    """Read a module and compile it; anything but success or `PtxError` is a finding, and leaves as what it is.

    `depth` 0 reads the text; 1 also generates kernels' LLVM code, which LLVM must accept; 2 also makes machine
    code, and asks for the coverage report.  `seen` counts how far texts got.
    """
    seen["texts"] += 1
    if not text.startswith("\0"):  # that is how linked texts start
        with suppress(CompileError):
            decode_ptx(text, "<fuzz>")
    try:
        info = inspect_module(text, "<fuzz>")
    except PtxError as error:
        _check_message(error)
    else:
        seen["read"] += 1
        for kernel in info.kernels[:_KERNELS] if depth and len(text) <= _SMALL else ():
            block = kernel.required_block or (min(64, kernel.max_threads), 1, 1)
            _compile(text, kernel.name, block, depth, seen)
    if depth > 1 and text.count("\n") < _COVERAGE_LINES and not text.startswith("\0"):
        examine(text, "<fuzz>")
        seen["reports"] += 1


def _compile(text: str, name: str, block: tuple[int, int, int], depth: int, seen: Counter[str]) -> None:
    target = host_target()
    try:
        ir, suspends, _ = generate_ir(text, "<fuzz>", name, block, target=target)
    except PtxError as error:
        _check_message(error)
        return
    seen["generated"] += 1
    if depth > 1:
        assemble(ir, target, suspends=suspends)
        seen["assembled"] += 1
    else:
        llvm.parse_assembly(ir).verify()


def _check_message(error: PtxError) -> None:
    """Every refusal says where and why."""
    assert error.message, "a PtxError without a message"
    assert error.span.line >= 1
    assert str(error).startswith(f"{error.filename}:{error.span.line}:")
