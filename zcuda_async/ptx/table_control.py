"""Instruction rows: control flow, barriers, fences and warp-level exchange."""

from __future__ import annotations

from typing import Final

from zcuda_async.ptx.table_syntax import Row, row

__all__ = ("CONTROL_ROWS",)

# Sections of the PTX ISA manual; by title, because their numbers change between versions.
_FLOW_SECTION: Final = "Control Flow"
_OTHER_SECTION: Final = "Miscellaneous"
_STACK_SECTION: Final = "Stack Manipulation"
_SYNC_SECTION: Final = "Parallel Synchronization and Communication"
_MOVE_SECTION: Final = "Data Movement and Conversion"

_SCOPES: Final = "cta cluster gpu sys"

_FLOW: Final = (
    row("bra{.uni} target:label", see=_FLOW_SECTION),
    row("brx.idx{.uni} index:u32, targets:labels", see=_FLOW_SECTION),
    row("call{.uni} returns:list, callee:callee, arguments:list{, prototype:name}", see=_FLOW_SECTION),
    row("ret{.uni}", see=_FLOW_SECTION),
    row("exit", see=_FLOW_SECTION),
    row("trap", see=_OTHER_SECTION),
    row("brkpt", see=_OTHER_SECTION),
    row("nanosleep.u32 duration:u32", see=_OTHER_SECTION),
    row("alloca.u64 d, size{, align:1..65536}", see=_STACK_SECTION),
    row("stacksave.u64 d", see=_STACK_SECTION),
    row("stackrestore.u64 a", see=_STACK_SECTION),
    row("pmevent a:0..15", see=_OTHER_SECTION),
    row("pmevent.mask a:0..65535", see=_OTHER_SECTION),
)

_BARRIERS: Final = (
    row("bar{.cta}.sync a:u32(0..15){, b:u32}", see=_SYNC_SECTION),
    row("bar{.cta}.arrive a:u32(0..15), b:u32", see=_SYNC_SECTION),
    row("bar{.cta}.red.popc.u32 d, a:u32(0..15){, b:u32}, {!}c:pred", see=_SYNC_SECTION),
    row("bar{.cta}.red.combine.pred p, a:u32(0..15){, b:u32}, {!}c:pred", combine="and or", see=_SYNC_SECTION),
    row("barrier{.cta}.sync{.aligned} a:u32(0..15){, b:u32}", see=_SYNC_SECTION),
    row("barrier{.cta}.arrive{.aligned} a:u32(0..15), b:u32", see=_SYNC_SECTION),
    row("barrier{.cta}.red.popc{.aligned}.u32 d, a:u32(0..15){, b:u32}, {!}c:pred", see=_SYNC_SECTION),
    row(
        "barrier{.cta}.red.combine{.aligned}.pred p, a:u32(0..15){, b:u32}, {!}c:pred",
        combine="and or",
        see=_SYNC_SECTION,
    ),
    row("barrier.cluster.arrive{.order}{.aligned}", order="release relaxed", see=_SYNC_SECTION),
    row("barrier.cluster.wait{.acquire}{.aligned}", see=_SYNC_SECTION),
    row("bar.warp.sync mask:u32", see=_SYNC_SECTION),
    row("membar.level", level="cta gl sys", see=_SYNC_SECTION),
    row("fence{.order}.scope", order="sc acq_rel acquire release", scope=_SCOPES, see=_SYNC_SECTION),
    row("fence.mbarrier_init.release.cluster", see=_SYNC_SECTION),
    row("fence.proxy.kind", kind="alias async", see=_SYNC_SECTION),
    row("fence.proxy.async.space", space="global shared shared::cta shared::cluster", see=_SYNC_SECTION),
    row("griddepcontrol.action", action="launch_dependents wait", see=_SYNC_SECTION),
)

_WARP: Final = (
    row("shfl.sync.mode.b32 d[|p], a, b:u32, c:u32, mask:u32", mode="up down bfly idx", see=_MOVE_SECTION),
    row("vote.sync.mode.pred p, {!}a, mask:u32", mode="all any uni", see=_SYNC_SECTION),
    row("vote.sync.ballot.b32 d, {!}a:pred, mask:u32", see=_SYNC_SECTION),
    row("match.any.sync.type d:u32, a, mask:u32", type="b32 b64", see=_SYNC_SECTION),
    row("match.all.sync.type d[|p]:u32, a, mask:u32", type="b32 b64", see=_SYNC_SECTION),
    row("activemask.b32 d", see=_SYNC_SECTION),
    row("redux.sync.operation.type d, a, mask:u32", operation="add min max", type="u32 s32", see=_SYNC_SECTION),
    row("redux.sync.operation.b32 d, a, mask:u32", operation="and or xor", see=_SYNC_SECTION),
    row("redux.sync.operation{.abs}{.NaN}.f32 d, a, mask:u32", operation="min max", see=_SYNC_SECTION),
    row("elect.sync d|p:u32, mask:u32", see=_SYNC_SECTION),
)

CONTROL_ROWS: Final[tuple[Row, ...]] = (*_FLOW, *_BARRIERS, *_WARP)
