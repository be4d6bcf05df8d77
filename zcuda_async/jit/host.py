"""The processor that code is compiled for."""

from __future__ import annotations

from functools import lru_cache

import llvmlite.binding as llvm

from zcuda_async.jit.lower.group import Target

__all__ = ("host_target", "initialise_llvm")


@lru_cache(maxsize=1)
def initialise_llvm() -> int:
    """Set LLVM up for this host, once; its major version."""
    # Arithmetic is not to move down to where its result is used: behind a row of joins all the operands stay alive.
    llvm.set_option("zcuda", "-disable-machine-sink")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return int(llvm.llvm_version_info[0])


@lru_cache(maxsize=1)
def host_target() -> Target:
    """This host: N is 16 lanes with AVX-512, 8 with AVX2, else 4."""
    initialise_llvm()
    features = llvm.get_host_cpu_features()
    has_avx512 = all(features.get(name) for name in ("avx512f", "avx512vl", "avx512bw", "avx512dq"))
    lanes = 16 if has_avx512 else 8 if features.get("avx2") else 4
    return Target(llvm.get_host_cpu_name(), features.flatten(), lanes, has_avx512)
