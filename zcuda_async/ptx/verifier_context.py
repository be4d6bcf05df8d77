"""What the rules know about the names around an instruction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zcuda_async.ptx.ir import Function, Label, Module, Param, Variable

__all__ = ("Context",)


class Context:
    """State spaces of symbols, labels, and the signatures of functions: (returns, parameters)."""

    __slots__ = ("_inner", "_outer", "labels", "param_bytes", "params", "signatures")

    def __init__(
        self,
        outer: Mapping[str, str],
        inner: Mapping[str, str],
        labels: frozenset[str],
        signatures: Mapping[str, tuple[int, int]],
        params: tuple[Param, ...] = (),
    ) -> None:
        self._outer = outer
        self._inner = inner
        self.labels = labels
        self.signatures = signatures
        self.params = {param.name: param for param in params}
        self.param_bytes = params[-1].offset + params[-1].size if params else 0

    @classmethod
    def of_module(cls, module: Module, signatures: Mapping[str, tuple[int, int]]) -> Context:
        """What is known outside functions."""
        spaces = _spaces(module.variables) | dict.fromkeys(signatures, "function")
        return cls(spaces, {}, frozenset(), signatures)

    def of_function(self, function: Function) -> Context:
        """What is known inside one."""
        inner = _spaces(function.variables) | _params(function.params) | _params(function.returns)
        labels = frozenset(item.name for item in function.body if isinstance(item, Label))
        return Context(self._outer, inner, labels, self.signatures, function.params)

    def space(self, name: str) -> str | None:
        """The state space of a variable or parameter, ``function`` for a function, None if unknown."""
        return self._inner.get(name) or self._outer.get(name)


def _spaces(variables: Iterable[Variable]) -> dict[str, str]:
    return {variable.name: variable.space for variable in variables}


def _params(params: Iterable[Param]) -> dict[str, str]:
    return {param.name: "param" for param in params}
