"""The just-in-time compiler: PTX in, object code out.  Pure and blocking; it knows no event loop."""

from zcuda_async.jit.compile import compile_kernel, inspect_module

__all__ = ("compile_kernel", "inspect_module")
