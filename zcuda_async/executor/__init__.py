"""Who runs kernels: the `KernelExecutor` interface and its implementations, one module each.

`pool` (worker processes, the default), `inline` (threads of this process, for debugging) and `stub`
(computes nothing).  Nothing is imported here, so that child processes stay light.
"""
