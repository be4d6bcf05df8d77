"""Memory that parent and workers see at the same address: the arena, its allocators and raw copies."""
