"""Integers as users pass them: Python's, and numpy's, which every computed size soon is."""

from __future__ import annotations

import operator
from typing import SupportsIndex

__all__ = ("as_integer",)


def as_integer(value: object) -> int | None:
    """The int that `value` stands for; None if it is none (a bool, a float, text)."""
    if type(value) is int:
        return value
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        return None
    try:
        return operator.index(value)
    except TypeError:  # an array of several elements
        return None
