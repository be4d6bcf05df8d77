"""Instruction rows: control flow, barriers, fences and warp-level exchange (PTX ISA 9.7.9, 9.7.12, 9.7.13, 9.7.19)."""

from __future__ import annotations

from typing import Final

from zcuda_async.ptx.table_syntax import Row, row

__all__ = ("CONTROL_ROWS",)

_SCOPES: Final = "cta cluster gpu sys"

_FLOW: Final = (
    row("bra{.uni} target:label", see="9.7.12.3"),
    row("brx.idx{.uni} index:u32, targets:labels", see="9.7.12.4"),
    row("call{.uni} returns:list, callee:callee, arguments:list{, prototype:name}", see="9.7.12.5"),
    row("ret{.uni}", see="9.7.12.6"),
    row("exit", see="9.7.12.7"),
    row("trap", see="9.7.19.4"),
    row("brkpt", see="9.7.19.1"),
    row("nanosleep.u32 duration:u32", see="9.7.19.2"),
    row("pmevent a:0..15", see="9.7.19.3"),
    row("pmevent.mask a:0..65535", see="9.7.19.3"),
)

_BARRIERS: Final = (
    row("bar{.cta}.sync a:u32(0..15){, b:u32}", see="9.7.13.1"),
    row("bar{.cta}.arrive a:u32(0..15), b:u32", see="9.7.13.1"),
    row("bar{.cta}.red.popc.u32 d, a:u32(0..15){, b:u32}, {!}c:pred", see="9.7.13.1"),
    row("bar{.cta}.red.combine.pred p, a:u32(0..15){, b:u32}, {!}c:pred", combine="and or", see="9.7.13.1"),
    row("barrier{.cta}.sync{.aligned} a:u32(0..15){, b:u32}", see="9.7.13.1"),
    row("barrier{.cta}.arrive{.aligned} a:u32(0..15), b:u32", see="9.7.13.1"),
    row("barrier{.cta}.red.popc{.aligned}.u32 d, a:u32(0..15){, b:u32}, {!}c:pred", see="9.7.13.1"),
    row(
        "barrier{.cta}.red.combine{.aligned}.pred p, a:u32(0..15){, b:u32}, {!}c:pred", combine="and or", see="9.7.13.1"
    ),
    row("barrier.cluster.arrive{.order}{.aligned}", order="release relaxed", see="9.7.13.3"),
    row("barrier.cluster.wait{.acquire}{.aligned}", see="9.7.13.3"),
    row("bar.warp.sync mask:b32", see="9.7.13.2"),
    row("membar.level", level="cta gl sys", see="9.7.13.4"),
    row("fence{.order}.scope", order="sc acq_rel acquire release", scope=_SCOPES, see="9.7.13.4"),
    row("fence.proxy.kind", kind="alias async", see="9.7.13.4"),
    row("fence.proxy.async.space", space="global shared shared::cta shared::cluster", see="9.7.13.4"),
    row("griddepcontrol.action", action="launch_dependents wait", see="9.7.13.13"),
)

_WARP: Final = (
    row("shfl.sync.mode.b32 d[|p], a, b:b32, c:b32, mask:b32", mode="up down bfly idx", see="9.7.9.6"),
    row("vote.sync.mode.pred p, {!}a, mask:b32", mode="all any uni", see="9.7.13.9"),
    row("vote.sync.ballot.b32 d, {!}a:pred, mask:b32", see="9.7.13.9"),
    row("match.any.sync.type d:b32, a, mask:b32", type="b32 b64", see="9.7.13.10"),
    row("match.all.sync.type d[|p]:b32, a, mask:b32", type="b32 b64", see="9.7.13.10"),
    row("activemask.b32 d", see="9.7.13.11"),
    row("redux.sync.operation.type d, a, mask:b32", operation="add min max", type="u32 s32", see="9.7.13.12"),
    row("redux.sync.operation.b32 d, a, mask:b32", operation="and or xor", see="9.7.13.12"),
    row("redux.sync.operation{.abs}{.NaN}.f32 d, a, mask:b32", operation="min max", see="9.7.13.12"),
    row("elect.sync d|p:b32, mask:b32", see="9.7.13.15"),
)

CONTROL_ROWS: Final[tuple[Row, ...]] = (*_FLOW, *_BARRIERS, *_WARP)
