"""What the address of a device function is: a number that no memory has, the same in all kernels of a module."""

from __future__ import annotations

from typing import Final

from zcuda_async.ptx.ir import Module

__all__ = ("function_addresses",)

_FIRST: Final = 0x00F0_0000_0000_0010
"""No pointer of x86-64 or arm64 looks like it, and member function pointers keep their low bits free."""

_STEP: Final = 16


def function_addresses(module: Module) -> dict[str, int]:
    """The address of each ``.func`` that has a body."""
    functions = (function.name for function in module.functions if not function.is_entry)
    return {name: _FIRST + index * _STEP for index, name in enumerate(functions)}
