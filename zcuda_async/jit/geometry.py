"""How the threads of a block are cut into groups of W = parts x lanes, and what that says of %tid."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ("Geometry",)


@dataclass(frozen=True, slots=True)
class Geometry:
    """A block shape and its cut: group g, part p, lane l is thread (g * parts + p) * lanes + l."""

    block: tuple[int, int, int]
    lanes: int
    parts: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        x, y, z = self.block
        return x * y * z

    @property
    def width(self) -> int:
        """W: threads of a group."""
        return self.lanes * self.parts

    @property
    def groups(self) -> int:
        """Groups of a block; the last may be partial."""
        return -(-self.threads // self.width)

    @property
    def is_one_row(self) -> bool:
        """Whether every group lies in one row of its block."""
        x, y, z = self.block
        return y * z == 1 or x % self.width == 0

    @property
    def is_partial(self) -> bool:
        """Whether the last group has lanes that are no threads."""
        return self.threads % self.width != 0
