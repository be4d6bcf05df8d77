"""Instruction rows: loads, stores, addresses and atomics."""

from __future__ import annotations

from typing import Final

from zcuda_async.ptx.table_syntax import Row, relaxed_row, row

__all__ = ("MEMORY_ROWS", "SPACES")

# Sections of the PTX ISA manual; by title, because their numbers change between versions.
_MOVE_SECTION: Final = "Data Movement and Conversion"
_SYNC_SECTION: Final = "Parallel Synchronization and Communication"

SPACES: Final = ("global", "shared", "local", "const", "param", "shared::cluster")
"""State spaces as instructions carry them (``shared::cta`` reads as ``shared``)."""

_SHARED: Final = "shared shared::cta shared::cluster"
_LOADABLE: Final = f"global {_SHARED} local const param param::entry param::func"
_STORABLE: Final = f"global {_SHARED} local param param::func"
_SHARING: Final = f"global {_SHARED}"
_ANY_SHARED: Final = "shared shared::cta shared::cluster"
_ARRIVALS: Final = ("arrive", "arrive_drop")
_SCOPES: Final = "cta cluster gpu sys"
_VECTORS: Final = "v2 v4 v8"
_TYPES: Final = "b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64"
_CACHING: Final = {
    "evict": "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate",
    "keep": "L2::evict_normal L2::evict_first L2::evict_last",
    "fetch": "L2::64B L2::128B L2::256B",
}
"""Advice about caches: accepted and without meaning here."""

_HINTS: Final = "{.evict}{.keep}{.L2::cache_hint}"
_LOAD_TAIL: Final = "{.fetch}{.vec}.type d, [a]{, policy:b64}"
_STORE_TAIL: Final = "{.vec}.type [a], b{, policy:b64}"


def _load(syntax: str, **sets: str) -> Row:
    return relaxed_row(syntax, see=_MOVE_SECTION, vec=_VECTORS, type=_TYPES, **_CACHING, **sets)


def _store(syntax: str, **sets: str) -> Row:
    return relaxed_row(syntax, see=_MOVE_SECTION, vec=_VECTORS, type=_TYPES, **_CACHING, **sets)


_LOAD: Final = (
    _load(f"ld{{.weak}}{{.space}}{{.cache}}{_HINTS}{_LOAD_TAIL}", space=_LOADABLE, cache="ca cg cs lu cv"),
    _load("ld.volatile{.space}{.fetch}{.vec}.type d, [a]", space=_SHARING),
    _load(f"ld.order.scope{{.space}}{_HINTS}{_LOAD_TAIL}", order="relaxed acquire", scope=_SCOPES, space=_SHARING),
    _load("ld.mmio.relaxed.sys{.global}.type d, [a]"),
    _load(f"ld.global{{.cache}}.nc{_HINTS}{_LOAD_TAIL}", cache="ca cg cs"),
    relaxed_row("ldu{.space}{.vec}.type d, [a]", space="global", vec="v2 v4", type=_TYPES, see=_MOVE_SECTION),
)

_STORE: Final = (
    _store(f"st{{.weak}}{{.space}}{{.cache}}{_HINTS}{_STORE_TAIL}", space=_STORABLE, cache="wb cg cs wt"),
    _store("st.volatile{.space}{.vec}.type [a], b", space=_SHARING),
    _store(f"st.order.scope{{.space}}{_HINTS}{_STORE_TAIL}", order="relaxed release", scope=_SCOPES, space=_SHARING),
    _store("st.mmio.relaxed.sys{.global}.type [a], b"),
)

_PRIMARY: Final = "L2::evict_last L2::evict_normal L2::evict_first L2::evict_unchanged"
_SECONDARY: Final = "L2::evict_first L2::evict_unchanged"

_ADDRESSES: Final = (
    row("prefetch{.space}.level [a]", space="global local", level="L1 L2", see=_MOVE_SECTION),
    row("prefetch.global.level [a]", level="L2::evict_last L2::evict_normal", see=_MOVE_SECTION),
    row("prefetchu.L1 [a]", see=_MOVE_SECTION),
    row("applypriority{.global}.L2::evict_normal [a], size:128..128", see=_MOVE_SECTION),
    row("discard{.global}.L2 [a], size:128..128", see=_MOVE_SECTION),
    row("mapa{.shared::cluster}.type d, a:any, b:u32", type="u32 u64", see=_MOVE_SECTION),
    row("getctarank{.shared::cluster}.type d:u32, a:any", type="u32 u64", see=_MOVE_SECTION),
    row(
        "createpolicy.range{.global}.primary{.secondary}.b64 d, [a], primary:u32, total:u32",
        primary=_PRIMARY,
        secondary=_SECONDARY,
        see=_MOVE_SECTION,
    ),
    row(
        "createpolicy.fractional.primary{.secondary}.b64 d{, fraction:f32}",
        primary=_PRIMARY,
        secondary=_SECONDARY,
        see=_MOVE_SECTION,
    ),
    row("createpolicy.cvt.L2.b64 d, a", see=_MOVE_SECTION),
    row(
        "isspacep.space p, a:u64",
        space=f"global local const {_SHARED} param param::entry",
        see=_MOVE_SECTION,
    ),
    row(
        "cvta.space.u64 d, a:any",
        space=f"global local const {_SHARED} param param::entry",
        see=_MOVE_SECTION,
    ),
    row(
        "cvta.to.space.u64 d, a",
        space=f"global local const {_SHARED} param param::entry",
        see=_MOVE_SECTION,
    ),
)

# operation, types: what atom and red share
_OPERATIONS: Final = (
    ("and or xor", "b32 b64"),
    ("add", "u32 s32 u64 f32 f64"),
    ("inc dec", "u32"),
    ("min max", "u32 s32 u64 s64"),
)


def _atom(tail: str, operands: str, *, space: str = _SHARING, **sets: str) -> Row:
    syntax = f"atom{{.order}}{{.scope}}{{.space}}{tail}{{.L2::cache_hint}}.type d, [a], {operands}{{, policy:b64}}"
    order = "relaxed acquire release acq_rel"
    return row(syntax, order=order, scope=_SCOPES, space=space, see=_SYNC_SECTION, **sets)


def _red(tail: str, *, space: str = _SHARING, **sets: str) -> Row:
    syntax = f"red{{.order}}{{.scope}}{{.space}}{tail}{{.L2::cache_hint}}.type [a], b{{, policy:b64}}"
    return row(syntax, order="relaxed release", scope=_SCOPES, space=space, see=_SYNC_SECTION, **sets)


_ATOMIC: Final = (
    *(_atom(".operation", "b", operation=operation, type=types) for operation, types in _OPERATIONS),
    _atom(".add.noftz", "b", type="f16 f16x2 bf16 bf16x2"),
    _atom(".exch", "b", type="b32 b64 b128"),
    _atom(".cas", "b, c", type="b16 b32 b64 b128"),
    _atom(".add.vec", "b", vec="v2 v4", type="f32", space="global"),
    _atom(".operation.noftz.vec", "b", operation="add min max", vec="v2 v4 v8", type="f16 bf16", space="global"),
    _atom(".operation.noftz.vec", "b", operation="add min max", vec="v2 v4", type="f16x2 bf16x2", space="global"),
    *(_red(".operation", operation=operation, type=types) for operation, types in _OPERATIONS),
    _red(".add.noftz", type="f16 f16x2 bf16 bf16x2"),
    _red(".add.vec", vec="v2 v4", type="f32", space="global"),
    _red(".operation.noftz.vec", operation="add min max", vec="v2 v4 v8", type="f16 bf16", space="global"),
    _red(".operation.noftz.vec", operation="add min max", vec="v2 v4", type="f16x2 bf16x2", space="global"),
)

_ASYNC_COPY: Final = (
    row(
        "cp.async.ca.shared.global{.L2::cache_hint}{.fetch} [to], [from], size:4..16{, used:u32}{, policy:b64}",
        fetch=_CACHING["fetch"],
        see=_MOVE_SECTION,
    ),
    row(
        "cp.async.cg.shared.global{.L2::cache_hint}{.fetch} [to], [from], size:16..16{, used:u32}{, policy:b64}",
        fetch=_CACHING["fetch"],
        see=_MOVE_SECTION,
    ),
    row("cp.async.commit_group", see=_MOVE_SECTION),
    row("cp.async.wait_group count:0..1000000", see=_MOVE_SECTION),
    row("cp.async.wait_all", see=_MOVE_SECTION),
    row("cp.async.mbarrier.arrive{.noinc}{.space}.b64 [a]", space=_ANY_SHARED, see=_MOVE_SECTION),
)


def _mbarrier(syntax: str, **sets: str) -> Row:
    head, _, operands = syntax.partition(" ")
    return row(f"mbarrier.{head}{{.space}}.b64 {operands}", see=_SYNC_SECTION, space=_ANY_SHARED, **sets)


_ORDERS: Final = {"order": "release acquire relaxed", "scope": "cta cluster"}

_MBARRIER: Final = (
    _mbarrier("init [a], count:u32"),
    _mbarrier("inval [a]"),
    *(_mbarrier(f"{name}{{.order}}{{.scope}} [a], bytes:u32", **_ORDERS) for name in ("expect_tx", "complete_tx")),
    *(_mbarrier(f"{name}{{.order}}{{.scope}} d, [a]{{, count:u32}}", **_ORDERS) for name in _ARRIVALS),
    *(_mbarrier(f"{name}.expect_tx{{.order}}{{.scope}} d, [a], bytes:u32", **_ORDERS) for name in _ARRIVALS),
    *(_mbarrier(f"{name}.noComplete{{.order}}{{.scope}} d, [a], count:u32", **_ORDERS) for name in _ARRIVALS),
    _mbarrier("test_wait{.order}{.scope} p, [a], state:b64", **_ORDERS),
    _mbarrier("test_wait.parity{.order}{.scope} p, [a], phase:u32", **_ORDERS),
    _mbarrier("try_wait{.order}{.scope} p, [a], state:b64{, hint:u32}", **_ORDERS),
    _mbarrier("try_wait.parity{.order}{.scope} p, [a], phase:u32{, hint:u32}", **_ORDERS),
    row("mbarrier.pending_count.b64 d:u32, state:b64", see=_SYNC_SECTION),
)

MEMORY_ROWS: Final[tuple[Row, ...]] = (*_LOAD, *_STORE, *_ADDRESSES, *_ATOMIC, *_ASYNC_COPY, *_MBARRIER)
