"""Run as a new process: compiles a module's kernels once on one core, prints the milliseconds of each phase.

The compiler itself knows nothing of this: the functions between which its phases lie are wrapped here, by
name.  A phase's time is that of its functions without the other phases' functions that they call.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.compile_source import BLOCK, KERNEL, long_kernel
from benchmarks.problems import KERNELS, KERNELS_PTX, MORE_KERNELS, MORE_PTX, make_problem

__all__ = ("PHASES", "SOURCES")

PHASES: Final = ("parse", "verify", "analyse", "generate IR", "LLVM passes", "emit", "load")

_FUNCTIONS: Final = (
    ("parse", "zcuda_async.jit.compile", "parse_texts"),
    ("verify", "zcuda_async.ptx.parser", "verify"),
    ("analyse", "zcuda_async.jit.compile", "expand_calls"),
    ("analyse", "zcuda_async.jit.compile", "_prepare"),
    ("analyse", "zcuda_async.jit.compile", "choose_geometry"),
    ("analyse", "zcuda_async.jit.compile", "analyse"),
    ("generate IR", "zcuda_async.jit.compile", "generate_ir"),
    ("LLVM passes", "zcuda_async.jit.pipeline", "optimise"),
    ("emit", "zcuda_async.jit.compile", "assemble"),
    ("load", "zcuda_async.executor.native", "NativeCode"),
)
"""Where each phase's functions are looked up when they are called."""

_Block = tuple[int, int, int]


def _shapes(kernels: Sequence[str]) -> dict[str, _Block]:
    blocks = {kernel: (*make_problem(kernel, scale=0).block, 1, 1) for kernel in kernels}
    return {kernel: (block[0], block[1], block[2]) for kernel, block in blocks.items()}


SOURCES: Final[dict[str, Callable[[], tuple[str, dict[str, _Block]]]]] = {
    "the eight kernels": lambda: (KERNELS_PTX.read_text(), _shapes(KERNELS)),
    "the twelve more": lambda: (MORE_PTX.read_text(), _shapes(MORE_KERNELS)),
    "5,000 instructions": lambda: (long_kernel(5000), {KERNEL: BLOCK}),
}
"""By name: PTX, and the block shape of each kernel to compile."""


class _Stopwatch:
    """Milliseconds by phase, each without what it calls."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._inner: list[float] = []

    def wrap(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            self._inner.append(0.0)
            start = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                elapsed = (time.perf_counter() - start) * 1e3
                self.spent[phase] += elapsed - self._inner.pop()
                if self._inner:
                    self._inner[-1] += elapsed

        return timed

    def install(self) -> None:
        for phase, module_name, name in _FUNCTIONS:
            module = importlib.import_module(module_name)
            setattr(module, name, self.wrap(phase, getattr(module, name)))


def _compile(text: str, kernels: dict[str, _Block], directory: Path) -> dict[str, float]:
    """Compile, load and store every kernel, timing the phases."""
    start = time.perf_counter()
    from zcuda_async.executor import native
    from zcuda_async.jit import compile as compiler
    from zcuda_async.jit.cache import ObjectCache, cache_key

    imported = time.perf_counter()
    watch = _Stopwatch()
    watch.install()
    compiler.inspect_module(text, "module.ptx")
    codes = [compiler.compile_kernel(text, "module.ptx", kernel, block) for kernel, block in kernels.items()]
    loaded = [native.NativeCode(code.object_code, code.entry) for code in codes]
    total = time.perf_counter() - imported
    cache = ObjectCache.open(directory)
    for code in codes:
        cache.put(cache_key(text, code.name, code.block), code.to_bytes())
    for code in loaded:
        code.close()
    return {**watch.spent, "total": total * 1e3, "import": (imported - start) * 1e3}


def _load(text: str, kernels: dict[str, _Block], directory: Path) -> dict[str, float]:
    """Find every kernel in the cache and load it."""
    from zcuda_async.executor.native import NativeCode
    from zcuda_async.jit.cache import ObjectCache, cache_key
    from zcuda_async.jit.info import KernelCode

    start = time.perf_counter()
    cache = ObjectCache.open(directory)
    found = [cache.get(cache_key(text, kernel, block)) for kernel, block in kernels.items()]
    codes = [KernelCode.from_bytes(payload) for payload in found if payload is not None]
    if len(codes) != len(kernels):
        raise SystemExit("a kernel that was just compiled is not in the cache")
    loaded = [NativeCode(code.object_code, code.entry) for code in codes]
    total = time.perf_counter() - start
    for code in loaded:
        code.close()
    return {"cached load": total * 1e3}


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("compile", "load"))
    parser.add_argument("source", choices=tuple(SOURCES))
    parser.add_argument("directory", type=Path, help="the object cache")
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    work = {"compile": _compile, "load": _load}[options.what]
    print(json.dumps(work(*SOURCES[options.source](), options.directory)))


if __name__ == "__main__":
    _main()
