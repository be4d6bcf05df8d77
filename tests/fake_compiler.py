"""A compiler for the compiler process that does what its "PTX" says (see `CompilerClient.start`)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from zcuda_async.jit.info import KernelCode, KernelInfo, ModuleInfo
from zcuda_async.ptx.errors import PtxError
from zcuda_async.ptx.ir import Span


def inspect_module(text: str, filename: str = "<ptx>") -> ModuleInfo:
    obey(text, filename)
    return ModuleInfo(
        kernels=(KernelInfo(name=text, params=(), param_bytes=0, static_shared=0),), globals_image=b"\n\0"
    )


def compile_kernel(text: str, filename: str, kernel: str, block: tuple[int, int, int]) -> KernelCode:
    obey(text, filename)
    return KernelCode(name=kernel, block=block, entry="entry", object_code=text.encode(), static_shared=0)


def obey(text: str, filename: str) -> None:
    command, _, argument = text.partition(" ")
    match command:
        case "bad":
            raise PtxError("unknown instruction frob.u32", filename, Span(3, 5, 8), "    frob.u32 %r1;")
        case "bug":
            raise KeyError("frob")
        case "abort":
            sys.stderr.write("LLVM ERROR: cannot select frob\n")
            sys.stderr.flush()
            os.abort()
        case "exit":
            os._exit(3)
        case "wait":  # until someone writes to that FIFO
            Path(argument).read_bytes()
        case "modules":  # what this process has imported
            Path(argument).write_text("\n".join(sys.modules))
