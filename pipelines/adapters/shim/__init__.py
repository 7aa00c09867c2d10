"""Stand-ins for what the forks need of a GPU: device names, extension modules on our CPU renderer, small packages.

With them the adapters are tested, and a fork trains, without a GPU. They stand for the interfaces that FORKS.md §5
lists, not for the forks' kernels: numbers of quality and time are those of our renderer.
"""

from __future__ import annotations

import sys
from types import ModuleType

from pipelines.adapters.pins import Pin

__all__ = ["install"]


def install(pin: Pin) -> None:
    """Put the stand-ins that a fork imports among the modules. Packages that are installed are left alone."""
    from pipelines.adapters.shim import packages, rasterizer, split, surfels

    modules: dict[str, ModuleType] = packages.extensions()
    if "diff_surfel_rasterization" in pin.extensions:
        modules["diff_surfel_rasterization"] = surfels.module()
    elif "gsplat" in pin.extensions:
        modules |= {module.__name__: module for module in split.module()}
    else:
        modules["diff_gaussian_rasterization"] = rasterizer.module(pin)
    for name, module in packages.missing().items():
        modules.setdefault(name, module)
    sys.modules.update(modules)
