"""The just-in-time compiler: PTX in, object code out.  Pure and blocking; it knows no event loop.

Importing this package is cheap, because the runtime needs its plain data types (`jit.info`,
`jit.abi`); LLVM is loaded by the first call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zcuda_async.jit.info import KernelCode, ModuleInfo

__all__ = ("compile_kernel", "inspect_module")


def inspect_module(text: str, filename: str = "<ptx>") -> ModuleInfo:
    """Parse and verify PTX; see `jit.compile.inspect_module`."""
    from zcuda_async.jit import compile as compiler

    return compiler.inspect_module(text, filename)


def compile_kernel(text: str, filename: str, kernel: str, block: tuple[int, int, int]) -> KernelCode:
    """Compile one kernel for one block shape; see `jit.compile.compile_kernel`."""
    from zcuda_async.jit import compile as compiler

    return compiler.compile_kernel(text, filename, kernel, block)
