"""What is used of gsplat's public API, imported when a renderer is made.

Read off gsplat 1.5.3 and 1.6.0, which agree in these calls. 1.5.3 clamps alpha at 0.999 where the CPU renderer and
1.6.0 have 0.99, so the two differ where a row is almost opaque.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol

import torch

from odin.errors import InputError

USED = ("isect_tiles", "isect_offset_encode", "rasterize_to_pixels")
OLDEST = (1, 5)  # radii are [..., N, 2] from here on
INSTALL = "python -m pip install 'gsplat>=1.5'"


class Library(Protocol):
    """The calls, for I images with N rows each."""

    def isect_tiles(
        self,
        means2d: torch.Tensor,
        radii: torch.Tensor,
        depths: torch.Tensor,
        tile_size: int,
        tile_width: int,
        tile_height: int,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Tiles per row, sorted keys (image | tile | depth), and the row of each key; [I, N, 2], [I, N, 2], [I, N] in.
        The sort is stable, so equal depths stay in row order. Stops the host once, for the number of keys."""
        ...

    def isect_offset_encode(
        self, isect_ids: torch.Tensor, n_images: int, tile_width: int, tile_height: int
    ) -> torch.Tensor:
        """First key of each tile, int32 [I, tile_height, tile_width]."""
        ...

    def rasterize_to_pixels(
        self,
        means2d: torch.Tensor,
        conics: torch.Tensor,
        colors: torch.Tensor,
        opacities: torch.Tensor,
        image_width: int,
        image_height: int,
        tile_size: int,
        isect_offsets: torch.Tensor,
        flatten_ids: torch.Tensor,
        backgrounds: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Colours [I, H, W, 3] and alphas [I, H, W, 1], differentiable in the first four."""
        ...


class SurfelLibrary(Library, Protocol):
    """And the one of 2DGS."""

    def rasterize_to_pixels_2dgs(
        self,
        means2d: torch.Tensor,
        ray_transforms: torch.Tensor,
        colors: torch.Tensor,
        opacities: torch.Tensor,
        normals: torch.Tensor,
        densify: torch.Tensor,
        image_width: int,
        image_height: int,
        tile_size: int,
        isect_offsets: torch.Tensor,
        flatten_ids: torch.Tensor,
        backgrounds: torch.Tensor | None = None,
        *,
        distloss: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Colours [I, H, W, C], alphas [I, H, W, 1], normals [I, H, W, 3], distortion and median [I, H, W, 1].

        ray_transforms: [I, N, 3, 3], from (u, v, 1) on a surfel to image coordinates times depth. The last channel of
        the colours is what the median is taken of; a number of channels that is no power of two is padded behind it.
        """
        ...


def load_surfels() -> SurfelLibrary:
    """As `load`, for a gsplat that also has 2DGS."""
    library: Any = load()
    if not callable(getattr(library, "rasterize_to_pixels_2dgs", None)):
        raise InputError(
            f"The installed gsplat has no rasterize_to_pixels_2dgs, which pipeline=2dgs renders with on a device. "
            f"Install another with {INSTALL}."
        )
    found: SurfelLibrary = library
    return found


def load() -> Library:
    """gsplat, if it is installed, new enough, and there is a device for it. Raises InputError that says what is
    missing. Its kernels are compiled on first use where the package was installed without them."""
    if not torch.cuda.is_available():
        raise InputError(
            f"engine.device=cuda needs a CUDA device, and torch {torch.__version__} sees none here. Use a machine with "
            "a GPU (odin-bench doctor says what it would run), or leave device=cuda out: the CPU renderer needs none."
        )
    try:
        library: Any = importlib.import_module("gsplat")
    except ImportError as error:
        raise InputError(
            f"engine.device=cuda renders with gsplat, which cannot be imported ({error}). Install it with {INSTALL}, "
            "or leave device=cuda out: the CPU renderer needs nothing more."
        ) from error
    problem = unsuited(library)
    if problem:
        raise InputError(f"The installed gsplat cannot be used: {problem}. Install another with {INSTALL}.")
    found: Library = library
    return found


def unsuited(library: Any) -> str:
    """Why an imported gsplat does not have what is used of it; "" if it does."""
    absent = [name for name in USED if not callable(getattr(library, name, None))]
    if absent:
        return f"it has no {', '.join(absent)}"
    version = str(getattr(library, "__version__", "0"))
    numbers = tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit())
    return "" if numbers >= OLDEST else f"its version is {version}, older than {'.'.join(map(str, OLDEST))}"
