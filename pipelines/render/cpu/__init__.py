"""The CPU renderer: 16×16 tiles, Numba kernels, one thread (D§12)."""
