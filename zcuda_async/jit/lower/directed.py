"""Arithmetic and conversions rounded toward zero, minus or plus infinity.

AVX-512 instructions on whole registers carry their rounding mode.  Everything else calls a function of its
own that changes the processor's rounding mode around one instruction: LLVM moves no arithmetic into or
out of such a (``strictfp``) function and never inlines it into ordinary code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zcuda_async.jit.builder import Builder, Type

__all__ = ("DIRECTED", "directed", "directed_cast")

DIRECTED: Final = {"rm": 9, "rp": 10, "rz": 11}
"""Modifier → AVX-512 embedded-rounding operand."""

_ROUNDING: Final = {"rz": 0, "rp": 2, "rm": 3}
"""Modifier → argument of ``llvm.set.rounding``; 1 is to nearest."""

_CONSTRAINED: Final = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "fma": "fma", "sqrt": "sqrt"}
_METADATA: Final = 'metadata !"round.dynamic", metadata !"fpexcept.strict"'


def directed(builder: Builder, name: str, mode: str, kind: Type, args: Sequence[str]) -> str:
    """`name` (add, sub, mul, div, fma or sqrt) of `args` in rounding mode `mode`."""
    if kind.lanes == 16 and "avx512" in builder.features:
        return (_embedded if kind.elem == "float" else _embedded_doubles)(builder, name, mode, kind, args)
    intrinsic = f"llvm.experimental.constrained.{_CONSTRAINED[name]}.{kind.suffix}"
    return _in_mode(builder, f"{name}.{mode}.{kind.suffix}", mode, intrinsic, kind, [(kind, arg) for arg in args])


def directed_cast(builder: Builder, opcode: str, mode: str, source: Type, value: str, to: Type) -> str:
    """``fptrunc``, ``sitofp`` or ``uitofp`` in rounding mode `mode`."""
    intrinsic = f"llvm.experimental.constrained.{opcode}.{to.suffix}.{source.suffix}"
    name = f"{opcode}.{mode}.{to.suffix}.{source.suffix}"
    return _in_mode(builder, name, mode, intrinsic, to, [(source, value)])


def _embedded(builder: Builder, name: str, mode: str, kind: Type, args: Sequence[str]) -> str:
    function = "llvm.x86.avx512." + ("vfmadd" if name == "fma" else name) + ".ps.512"
    pairs: list[tuple[Type | str, str]] = [(kind, value) for value in args]
    return builder.call(kind, function, [*pairs, ("i32", str(DIRECTED[mode]))])


def _embedded_doubles(builder: Builder, name: str, mode: str, kind: Type, args: Sequence[str]) -> str:
    """Eight lanes at a time, which is how many a register holds."""
    half = Type("double", 8)
    function = "llvm.x86.avx512." + ("vfmadd" if name == "fma" else name) + ".pd.512"
    results = []
    for start in (0, 8):
        pairs: list[tuple[Type | str, str]] = [(half, builder.slice(kind, value, start, 8)) for value in args]
        results.append(builder.call(half, function, [*pairs, ("i32", str(DIRECTED[mode]))]))
    return builder.concat(half, results)[1]


def _in_mode(
    builder: Builder, name: str, mode: str, intrinsic: str, result: Type, args: Sequence[tuple[Type, str]]
) -> str:
    """Call the function `name`, which is defined on first use and calls `intrinsic` in another rounding mode."""
    width = 512 if "avx512" in builder.features else 256
    types = ", ".join(str(kind) for kind, _ in args)
    names = ", ".join(f"{kind} %{at}" for at, (kind, _) in enumerate(args))
    builder.declarations |= {
        "declare void @llvm.set.rounding(i32)",
        f"declare {result} @{intrinsic}({types}, metadata, metadata)",
        f"""\
define internal {result} @zcuda.{name}({names}) noinline nounwind strictfp \
"prefer-vector-width"="{width}" "min-legal-vector-width"="{width}" {{
  call void @llvm.set.rounding(i32 {_ROUNDING[mode]}) strictfp
  %result = call {result} @{intrinsic}({names}, {_METADATA}) strictfp
  call void @llvm.set.rounding(i32 1) strictfp
  ret {result} %result
}}""",
    }
    given = ", ".join(f"{kind} {value}" for kind, value in args)
    return builder.op(f"call {result} @zcuda.{name}({given})")
