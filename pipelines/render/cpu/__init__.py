"""The CPU renderer: 16×16 tiles, Numba kernels, one thread (D§12)."""

from pipelines.render.cpu.renderer import CpuRenderer
from pipelines.render.cpu.warm import warm_up

__all__ = ["CpuRenderer", "warm_up"]
