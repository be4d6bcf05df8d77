"""How wide a group is: the number of parts, from register pressure and the block's shape."""

from __future__ import annotations

from typing import Final

from zcuda_async.jit.cfg import ControlFlow, is_cta_barrier
from zcuda_async.jit.geometry import Geometry
from zcuda_async.jit.layout import KernelLayout
from zcuda_async.jit.registers import block_instructions, reads, writes
from zcuda_async.jit.shapes import Analysis, analyse
from zcuda_async.ptx.ir import TYPE_BITS

__all__ = ("choose_geometry",)

_WARP: Final = 32
_MOST_PARTS: Final = 8
_MOST_PARTS_WHOLE_BLOCK: Final = 16
_MOST_PARTS_DIVERGING: Final = 4
_FEW_BARRIERS: Final = 4
_REGISTERS: Final = {16: 36, 8: 16, 4: 16}
"""Vector registers of a host whose vectors hold that many 32-bit lanes.

AVX-512 has 32; four more than that count as there, because not all that is alive at the fullest point is so for all
parts at once.
"""

_SCALARS: Final = 16
"""General registers for what loops change in each part: addresses and indices, of which a part has its own."""


def choose_geometry(
    flow: ControlFlow, layout: KernelLayout, block: tuple[int, int, int], lanes: int, *, needs_warps: bool
) -> Geometry:
    """The widest group whose live values fit the vector registers.

    A group is never wider than the block needs, prefers to divide it evenly (no masks for lanes that
    are no threads), and holds whole warps where the kernel has warp-level instructions.
    """
    threads = block[0] * block[1] * block[2]
    least = max(1, _WARP // lanes) if needs_warps else 1
    probe = analyse(flow, Geometry(block, lanes, max(2, least)), layout)
    room = min(_REGISTERS[lanes] // max(1, _pressure(probe, lanes)), _SCALARS // max(1, _changing_scalars(probe)))
    wanted = min(_limit(probe), max(1, room), -(-threads // lanes))
    parts = least
    while parts * 2 <= wanted:
        parts *= 2
    while parts > least and threads % (parts * lanes) and threads % lanes == 0:
        parts //= 2
    return Geometry(block, lanes, parts)


def _pressure(analysis: Analysis, lanes: int) -> int:
    """The most vector registers that one part's own values take at any point."""
    shapes = analysis.shapes

    def weight(name: str, bits: int) -> int:
        shape = shapes.get(name)
        if shape is None or shape.stride is not None or shape.same or bits == 1:
            return 0
        return max(1, bits // 32)

    most = 0
    for block in analysis.flow.blocks:
        if analysis.pending.body[block.index] is None:
            continue
        after: set[str] = set()
        for target in block.successors:
            after |= analysis.live[target]
        bits: dict[str, int] = {}
        instructions = list(block_instructions(block))
        for instruction in instructions:
            for register in (*reads(instruction), *writes(instruction)):
                bits[register.name] = TYPE_BITS[register.type]
        live = {name: weight(name, bits.get(name, 32)) for name in after}
        most = max(most, sum(live.values()))
        for instruction in reversed(instructions):
            for register in writes(instruction):
                live.pop(register.name, None)
            for register in reads(instruction):
                live[register.name] = weight(register.name, bits[register.name])
            most = max(most, sum(live.values()))
    return most


def _changing_scalars(analysis: Analysis) -> int:
    """The most scalars of one part that a loop carries from one iteration to the next and changes."""
    flow, most = analysis.flow, 0
    for head, last in analysis.flow.regions.items():
        inside = flow.blocks[head : last + 1]
        changed = {r.name for block in inside for item in block.instructions for r in writes(item)}
        shapes = [analysis.shapes[name] for name in analysis.live[head] & changed if name in analysis.shapes]
        most = max(most, sum(shape.stride is not None and not shape.same for shape in shapes))
    return most


def _parts_of_a_row(geometry: Geometry) -> int:
    """How many parts a row of a block of several rows has; no limit where rows are not cut into parts."""
    x, y, z = geometry.block
    return x // geometry.lanes if x % geometry.lanes == 0 and y * z > 1 else _MOST_PARTS


def _limit(analysis: Analysis) -> int:
    """The most parts worth having.

    A loop that walks through global memory wants the whole block in one group: then the block reads
    each stretch of memory once, in order, instead of every group coming back to its own share of it.
    So does a kernel with barriers: a group that is the whole block never has to stop at one.  Not so if it
    meets only a few, once each, and lanes part in between: masks of sixteen parts cost more than the stops, and in a
    group that is one row of its block at most, lanes do not part where it is the row that matters.
    Otherwise, where lanes may leave a loop at different times, wide groups would run half empty.
    """
    if analysis.flow.spins:  # whoever waits, waits for less company
        return max(1, _WARP // analysis.geometry.lanes)
    loops = [range(head, last + 1) for head, last in analysis.flow.regions.items()]
    if any(_streams(analysis, loop) for loop in loops):
        return _MOST_PARTS_WHOLE_BLOCK
    barriers = [block.index for block in analysis.flow.blocks if block.barrier and is_cta_barrier(block.barrier)]
    if barriers:
        is_often = len(barriers) > _FEW_BARRIERS or any(index in loop for index in barriers for loop in loops)
        is_divided = any(analysis.pending.waiting(block.index) for block in analysis.flow.blocks)
        if is_divided and not is_often:
            return min(_MOST_PARTS_DIVERGING, _parts_of_a_row(analysis.geometry))
        return _MOST_PARTS_WHOLE_BLOCK
    if any(analysis.pending.waiting(index) for loop in loops for index in loop):
        return _MOST_PARTS_DIVERGING
    return _MOST_PARTS


def _streams(analysis: Analysis, loop: range) -> bool:
    """Whether the loop loads consecutive global memory at an address that it advances, and no barrier."""
    blocks = [analysis.flow.blocks[index] for index in loop]
    if any(block.barrier is not None for block in blocks):
        return False
    changed = {r.name for block in blocks for item in block.instructions for r in writes(item)}
    for block in blocks:
        for item in block.instructions:
            if item.opcode != "ld" or not item.has("global"):
                continue
            base = getattr(item.operands[1], "base", None)
            shape = analysis.shapes.get(getattr(base, "name", ""))
            if shape is not None and shape.stride and getattr(base, "name", "") in changed:
                return True
    return False
