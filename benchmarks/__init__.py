"""Benchmarks: this project beside gcc, PoCL, numba and Warp, and the cost of its runtime.

Run ``python -m benchmarks --help``.
"""
