"""How exact the approximate instructions are, over all inputs: ``python -m benchmarks.accuracy``."""

__all__ = ()
