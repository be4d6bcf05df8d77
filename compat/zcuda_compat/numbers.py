"""Python ints as C's integer types take them."""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

__all__ = ("c_int", "c_uint", "size_t")


def _in_range(value: SupportsIndex, low: int, high: int, name: str) -> int:
    number = index(value)
    if not low <= number <= high:
        raise OverflowError(f"{name} holds {low} to {high}, got {number}")
    return number


def c_int(value: SupportsIndex) -> int:
    """`value` as an ``int``; TypeError or OverflowError if it is none."""
    return _in_range(value, -(2**31), 2**31 - 1, "int")


def c_uint(value: SupportsIndex) -> int:
    """`value` as an ``unsigned int``; TypeError or OverflowError if it is none."""
    return _in_range(value, 0, 2**32 - 1, "unsigned int")


def size_t(value: SupportsIndex) -> int:
    """`value` as a ``size_t``; TypeError or OverflowError if it is none."""
    return _in_range(value, 0, 2**64 - 1, "size_t")
