"""The special registers that may be read, with their types."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ("SPECIAL_REGISTERS",)

_VECTORS: Final = (
    "tid",
    "ntid",
    "ctaid",
    "nctaid",
    "clusterid",
    "nclusterid",
    "cluster_ctaid",
    "cluster_nctaid",
)
_WORDS: Final = (
    "laneid",
    "warpid",
    "nwarpid",
    "smid",
    "nsmid",
    "lanemask_eq",
    "lanemask_le",
    "lanemask_lt",
    "lanemask_ge",
    "lanemask_gt",
    "clock",
    "clock_hi",
    "globaltimer_lo",
    "globaltimer_hi",
    "cluster_ctarank",
    "cluster_nctarank",
    "total_smem_size",
    "aggr_smem_size",
    "dynamic_smem_size",
    "reserved_smem_offset_begin",
    "reserved_smem_offset_end",
    "reserved_smem_offset_cap",
    "reserved_smem_offset_0",
    "reserved_smem_offset_1",
    *(f"pm{index}" for index in range(8)),
)

SPECIAL_REGISTERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{f"%{name}.{axis}": "u32" for name in _VECTORS for axis in "xyz"},
        **{f"%{name}": "u32" for name in _WORDS},
        **{f"%envreg{index}": "b32" for index in range(32)},
        **{f"%pm{index}_64": "u64" for index in range(8)},
        "%gridid": "u64",
        "%clock64": "u64",
        "%globaltimer": "u64",
        "%current_graph_exec": "u64",
        "%is_explicit_cluster": "pred",
    }
)
"""Name (with the percent sign) to PTX type."""
