"""Scopes of surfels as torch operations, for a table on a device: the masks of `cull.cull_packed`, to the bit.

The same row test in the same order of operations, as `render/device_cull.py` has it for 3D Gaussians.

Legend: N rows, V views, K = ⌈N / 64⌉ words.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from odin.inflation import Inflation
from pipelines.camera import Camera
from pipelines.render.conventions import NEAR
from pipelines.render.device_cull import Triple, Vector, balls, dot, packed_masks
from pipelines.render.surfels.conventions import BOUND
from pipelines.render.surfels.cull_kernels import BLUR, REACH, ROUNDING


def cull_packed(geometry: torch.Tensor, cameras: Sequence[Camera], inflation: Inflation) -> torch.Tensor:
    """Conservative scopes as bitmaps, int64 [V, K] (the bits of odin/bitmap.py's uint64). The host does not wait.

    geometry: float32 [N, 10] (surfel_columns.py order) on any device
    """
    point, shift, scale2 = balls(geometry[:, :5], inflation)
    disc = REACH * (1.0 + 1e-6) * torch.sqrt(scale2)
    return packed_masks(len(geometry), cameras, geometry.device, lambda view: _may_touch(point, shift, disc, view))


def _may_touch(point: Vector, shift: torch.Tensor, disc: torch.Tensor, view: list[Triple]) -> torch.Tensor:
    """`cull_kernels.may_touch` for all rows, bool [N]. disc: radius of the ball that holds a disc at rest."""
    right, down, forward, origin, focal, middle, _, grid = view
    size = point[0].abs() + point[1].abs() + point[2].abs() + abs(origin[0]) + abs(origin[1]) + abs(origin[2])
    centre = shift + ROUNDING * (size + 3.0 * shift)
    radius = centre + disc
    x, y, z = (dot(row, point) + origin[k] for k, row in enumerate((right, down, forward)))
    in_x = _may_meet(x, centre, radius, z, (focal[0], middle[0], grid[0]))
    in_y = _may_meet(y, centre, radius, z, (focal[1], middle[1], grid[1]))
    return (z + centre > NEAR) & ((z - radius <= BOUND) | (in_x & in_y))


def _may_meet(
    c: torch.Tensor, centre: torch.Tensor, radius: torch.Tensor, z: torch.Tensor, lens: tuple[float, float, float]
) -> torch.Tensor:
    low, high = _slopes(c, radius, z, BOUND)
    left, right = _slopes(c, centre, z, NEAR)
    low = torch.minimum(low * lens[0], left * lens[0] - BLUR) + lens[1]
    high = torch.maximum(high * lens[0], right * lens[0] + BLUR) + lens[1]
    margin = 3e-5 * (low.abs() + high.abs()) + 0.02
    return (low - margin < lens[2]) & (high + margin >= 0.0)


def _slopes(c: torch.Tensor, radius: torch.Tensor, z: torch.Tensor, least: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Bounds of (c ± radius) / depth, of depths z ± radius that are at least `least`."""
    near, far = 1.0 / (z - radius).clamp_min(least), 1.0 / (z + radius).clamp_min(least)
    low, high = c - radius, c + radius
    return low * torch.where(low < 0.0, near, far), high * torch.where(high > 0.0, near, far)
