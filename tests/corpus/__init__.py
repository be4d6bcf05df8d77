"""CUDA kernels in the spirit of the well-known samples and benchmarks, each with a check on the CPU."""
