"""What the groups of a block share while it runs: who has arrived at which barrier, who has exited.

One struct per resident block, in the worker's scratch memory (or on the stack where the block is a
single group).  Compiled code reaches it as ``%state``.
"""

from __future__ import annotations

from typing import Final

__all__ = ("ENTRY_FIELDS", "HELPERS", "STATE_FIELDS", "STATE_SIZE", "entry_offset", "result_offset")

STATE_FIELDS: Final[dict[str, tuple[int, str]]] = {
    "live": (0, "i32"),  # threads that have not exited
    "progress": (4, "i32"),  # set when anybody was let through a barrier
    "spinning": (8, "i32"),  # set when anybody went round a spin loop
    "deadlock": (12, "i32"),  # set when the groups must say where they wait, and end
    "shared": (16, "i64"),  # address of the block's shared memory; in a cluster, of the first block's
    "leader": (24, "i64"),  # the state of the cluster's block 0; of the block itself without clusters
    "cluster_live": (32, "i32"),  # in the leader: threads of the cluster that have not exited
    "rank": (36, "i32"),  # of the block in its cluster
    "index": (40, "i64"),  # of the block in the grid; -1: no block
    "ctaid_x": (48, "i32"),
    "ctaid_y": (52, "i32"),
    "ctaid_z": (56, "i32"),
    "stride": (60, "i32"),  # bytes from one block's shared memory to that of the next in the cluster
}

_NAMES: Final = 17
"""Barriers 0 to 15, and the cluster's."""
_ENTRIES: Final = 64
_ENTRY_SIZE: Final = 32
_RESULTS: Final = _ENTRIES + _NAMES * _ENTRY_SIZE
_RESULTS_SIZE: Final = 4 * 8
STATE_SIZE: Final = -(-(_RESULTS + _NAMES * _RESULTS_SIZE) // 64) * 64

ENTRY_FIELDS: Final[dict[str, int]] = {"generation": 0, "arrived": 4, "trues": 8, "falses": 12, "count": 16}
"""One barrier.  `generation` goes up each time it opens; `count` is 0 while all threads are waited for.

Behind the entries each barrier has the votes (trues, falses) of its last four generations.
"""


def entry_offset(name: int) -> int:
    """Where a barrier's entry is, in bytes from the state's start."""
    return _ENTRIES + name * _ENTRY_SIZE


def result_offset(name: int) -> int:
    """Where a barrier's votes are."""
    return _RESULTS + name * _RESULTS_SIZE


HELPERS: Final = f"""
define internal void @zcuda.open(ptr %state, i32 %name) alwaysinline {{
  %entry.offset = mul i32 %name, {_ENTRY_SIZE}
  %entry.from = add i32 %entry.offset, {_ENTRIES}
  %entry = getelementptr i8, ptr %state, i32 %entry.from
  %generation = load i32, ptr %entry
  %next = add i32 %generation, 1
  store i32 %next, ptr %entry
  %arrived.at = getelementptr i8, ptr %entry, i32 4
  store i32 0, ptr %arrived.at
  %trues.at = getelementptr i8, ptr %entry, i32 8
  %votes = load i64, ptr %trues.at
  store i64 0, ptr %trues.at
  %turn = and i32 %generation, 3
  %turn.offset = mul i32 %turn, 8
  %result.offset = mul i32 %name, {_RESULTS_SIZE}
  %result.from = add i32 %result.offset, {_RESULTS}
  %result.at = add i32 %result.from, %turn.offset
  %result = getelementptr i8, ptr %state, i32 %result.at
  store i64 %votes, ptr %result
  %progress = getelementptr i8, ptr %state, i32 4
  store i32 1, ptr %progress
  ret void
}}

define internal i32 @zcuda.arrive(
    ptr %state, ptr %live, i32 %name, i32 %count, i32 %n, i32 %trues, i32 %falses) alwaysinline {{
  %offset = mul i32 %name, {_ENTRY_SIZE}
  %from = add i32 %offset, {_ENTRIES}
  %entry = getelementptr i8, ptr %state, i32 %from
  %generation = load i32, ptr %entry
  %arrived.at = getelementptr i8, ptr %entry, i32 4
  %arrived.old = load i32, ptr %arrived.at
  %arrived = add i32 %arrived.old, %n
  store i32 %arrived, ptr %arrived.at
  %trues.at = getelementptr i8, ptr %entry, i32 8
  %trues.old = load i32, ptr %trues.at
  %trues.new = add i32 %trues.old, %trues
  store i32 %trues.new, ptr %trues.at
  %falses.at = getelementptr i8, ptr %entry, i32 12
  %falses.old = load i32, ptr %falses.at
  %falses.new = add i32 %falses.old, %falses
  store i32 %falses.new, ptr %falses.at
  %count.at = getelementptr i8, ptr %entry, i32 16
  store i32 %count, ptr %count.at
  %everyone = load i32, ptr %live
  %all = icmp eq i32 %count, 0
  %wanted = select i1 %all, i32 %everyone, i32 %count
  %enough = icmp sge i32 %arrived, %wanted
  br i1 %enough, label %opens, label %done
opens:
  call void @zcuda.open(ptr %state, i32 %name)
  br label %done
done:
  ret i32 %generation
}}

define internal void @zcuda.recount(ptr %state, i32 %name, i32 %live) alwaysinline {{
  %offset = mul i32 %name, {_ENTRY_SIZE}
  %from = add i32 %offset, {_ENTRIES}
  %entry = getelementptr i8, ptr %state, i32 %from
  %arrived.at = getelementptr i8, ptr %entry, i32 4
  %arrived = load i32, ptr %arrived.at
  %count.at = getelementptr i8, ptr %entry, i32 16
  %count = load i32, ptr %count.at
  %some = icmp ne i32 %arrived, 0
  %all = icmp eq i32 %count, 0
  %enough = icmp sge i32 %arrived, %live
  %waited = and i1 %some, %all
  %opens = and i1 %waited, %enough
  br i1 %opens, label %open, label %done
open:
  call void @zcuda.open(ptr %state, i32 %name)
  br label %done
done:
  ret void
}}

define internal void @zcuda.leave(ptr %state, i32 %n) noinline {{
entry:
  %live.old = load i32, ptr %state
  %live = sub i32 %live.old, %n
  store i32 %live, ptr %state
  br label %name
name:
  %number = phi i32 [0, %entry], [%next, %name.done]
  call void @zcuda.recount(ptr %state, i32 %number, i32 %live)
  br label %name.done
name.done:
  %next = add i32 %number, 1
  %more = icmp ult i32 %next, 16
  br i1 %more, label %name, label %cluster
cluster:
  %leader.at = getelementptr i8, ptr %state, i32 24
  %leader = load ptr, ptr %leader.at
  %cluster.at = getelementptr i8, ptr %leader, i32 32
  %cluster.old = load i32, ptr %cluster.at
  %cluster.live = sub i32 %cluster.old, %n
  store i32 %cluster.live, ptr %cluster.at
  call void @zcuda.recount(ptr %leader, i32 16, i32 %cluster.live)
  ret void
}}
"""
