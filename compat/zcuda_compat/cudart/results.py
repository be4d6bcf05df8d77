"""The decorators that turn results and exceptions into cuda.bindings' ``(error, value...)`` tuples.

A failure is remembered for cudaGetLastError; success leaves that alone.  Values are None after a failure.
Misuse that is not CUDA's business (a str as a size, a blocking call on the event loop) raises, as it
does in cuda.bindings.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

import anyio

from zcuda_async import CudaError, Status
from zcuda_compat.cudart.enums import cudaError_t
from zcuda_compat.thread import THREAD, as_cuda_error

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("SUCCESS", "status_call", "two_value_call", "value_call")

P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")

SUCCESS: Final = cudaError_t(Status.cudaSuccess)
_FAILURES: Final = (CudaError, anyio.ClosedResourceError, MemoryError)


def status_call(function: Callable[P, None]) -> Callable[P, tuple[cudaError_t]]:
    """Make a call that returns ``(error,)``."""

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> tuple[cudaError_t]:
        try:
            _check_callback()
            function(*arguments, **named)
        except _FAILURES as error:
            return (_failed(error),)
        return (SUCCESS,)

    return call


def value_call(function: Callable[P, A]) -> Callable[P, tuple[cudaError_t, A | None]]:
    """Make a call that returns ``(error, value)``."""

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> tuple[cudaError_t, A | None]:
        try:
            _check_callback()
            return SUCCESS, function(*arguments, **named)
        except _FAILURES as error:
            return _failed(error), None

    return call


def two_value_call(function: Callable[P, tuple[A, B]]) -> Callable[P, tuple[cudaError_t, A | None, B | None]]:
    """Make a call that returns ``(error, value, value)``."""

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> tuple[cudaError_t, A | None, B | None]:
        try:
            _check_callback()
            first, second = function(*arguments, **named)
        except _FAILURES as error:
            return _failed(error), None, None
        return SUCCESS, first, second

    return call


def _check_callback() -> None:
    if THREAD.in_callback:
        raise CudaError(
            Status.cudaErrorNotPermitted,
            "a host function called CUDA, which its stream would wait for; only signal another thread from there",
        )


def _failed(error: Exception) -> cudaError_t:
    failure = THREAD.failure = as_cuda_error(error)
    return cudaError_t(failure.code)
