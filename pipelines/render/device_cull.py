"""Scopes of views as torch operations, for a table on a device: the masks of `cull.cull_packed`, to the bit.

The same row test in the same order of operations, float64, one torch operation per rounding. Blocks are not tested
first: they change no mask, and a device does not branch.

Legend: N rows, V views, K = ⌈N / 64⌉ words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
import torch

from odin.bitmap import WORD, words
from odin.device.upload import to_device
from odin.inflation import Inflation
from pipelines.camera import Camera
from pipelines.render.conventions import ALPHA_MIN, DILATION, NEAR
from pipelines.render.view import pack_camera

_REACH = -2.0 * math.log(ALPHA_MIN)
_ROUNDING = 1e-6  # see cull_kernels.py
_LN2 = math.log(2.0)
_LOG2E = 1.0 / _LN2

# 2^k for each bit of a word; the last one is the sign.
_POWERS = np.left_shift(np.int64(1), np.arange(WORD, dtype=np.int64))

Vector = list[torch.Tensor]
Triple = list[float]


def cull_packed(geometry: torch.Tensor, cameras: Sequence[Camera], inflation: Inflation) -> torch.Tensor:
    """Conservative scopes as bitmaps, int64 [V, K] (the bits of odin/bitmap.py's uint64). The host does not wait.

    geometry: float32 [N, 11] on any device
    """
    point, radius, scale2 = balls(geometry[:, :6], inflation)
    return packed_masks(len(geometry), cameras, geometry.device, lambda view: _may_touch(point, radius, scale2, view))


def packed_masks(
    rows: int, cameras: Sequence[Camera], device: torch.device, mask: Callable[[list[Triple]], torch.Tensor]
) -> torch.Tensor:
    """Bitmaps, int64 [V, K], of what `mask` says of each packed camera, bool [N] on the device."""
    out = torch.zeros((len(cameras), words(rows)), dtype=torch.int64, device=device)
    powers = to_device(_POWERS, device, torch.int64)
    for v, camera in enumerate(cameras):
        bits = torch.zeros(words(rows) * WORD, dtype=torch.int64, device=device)
        bits[:rows] = mask(pack_camera(camera).tolist())
        out[v] = (bits.view(-1, WORD) * powers).sum(dim=1)  # distinct powers: a sum is a union, and wraps to the sign
    return out


def balls(shape: torch.Tensor, inflation: Inflation) -> tuple[Vector, torch.Tensor, torch.Tensor]:
    """Centres, radii and largest scale² of the rows, float64 [N] each; a row with NaN is a point at the origin.

    shape: float32 [N, 3 + S], positions and S log-scales
    """
    device = shape.device
    level = to_device(inflation.level, device, torch.int64)
    shift, growth = (to_device(x, device, torch.float64) for x in (inflation.shift, inflation.growth))
    x, y, z, *scales = shape.double().unbind(1)
    log_scale2 = 2.0 * (reduce(torch.maximum, scales) + growth.index_select(0, level))
    broken = torch.isnan(reduce(torch.add, scales, (x - x) + (y - y) + (z - z)))
    point = [torch.where(broken, 0.0, value) for value in (x, y, z)]
    radius = torch.where(broken, 0.0, shift.index_select(0, level))
    return point, radius, _exp(torch.where(broken, -math.inf, log_scale2))


def _exp(x: torch.Tensor) -> torch.Tensor:
    """`vectors.exp`, operation by operation."""
    x = x.clamp(-700.0, 700.0)
    n = torch.floor(x * _LOG2E + 0.5)
    r = x - n * _LN2
    y = 1.0 / 5040.0 + r * (1.0 / 40320.0)
    y = 1.0 / 120.0 + r * (1.0 / 720.0 + r * y)
    y = 1.0 / 6.0 + r * (1.0 / 24.0 + r * y)
    y = 1.0 + r * (1.0 + r * (0.5 + r * y))
    return y * ((n.to(torch.int64) + 1023) << 52).view(torch.float64)


def _may_touch(point: Vector, radius: torch.Tensor, scale2: torch.Tensor, view: list[Triple]) -> torch.Tensor:
    """`cull_kernels.may_touch` for all rows, bool [N]."""
    right, down, forward, shift, focal, middle, limit, grid = view
    size = point[0].abs() + point[1].abs() + point[2].abs() + abs(shift[0]) + abs(shift[1]) + abs(shift[2])
    r = radius + _ROUNDING * (size + 3.0 * radius)
    x, y, z = (dot(row, point) + shift[k] for k, row in enumerate((right, down, forward)))
    near, far = 1.0 / (z - r).clamp_min(NEAR), 1.0 / (z + r).clamp_min(NEAR)
    in_x = _may_meet(x, r, near, far, scale2, focal[0], middle[0], limit[0], grid[0])
    in_y = _may_meet(y, r, near, far, scale2, focal[1], middle[1], limit[1], grid[1])
    return (z + r > NEAR) & in_x & in_y


def _may_meet(
    c: torch.Tensor,
    radius: torch.Tensor,
    near: torch.Tensor,
    far: torch.Tensor,
    scale2: torch.Tensor,
    focal: float,
    middle: float,
    limit: float,
    grid: float,
) -> torch.Tensor:
    low, high = c - radius, c + radius
    low = low * torch.where(low < 0.0, near, far)
    high = high * torch.where(high > 0.0, near, far)
    gap = torch.maximum(low * focal + middle - grid, -(high * focal + middle))
    gap = (gap * (1.0 - 1e-5) - 0.01).clamp_min(0.0)
    slope, gain = ((c.abs() + radius) * near).clamp_max(limit), focal * near
    variance = scale2 * (gain * gain) * (1.0 + slope * slope)
    rounding = 1.001 + (5e-6 * variance).clamp_max(4.0)
    return gap * gap <= _REACH * (variance + DILATION) * rounding


def dot(a: Triple, b: Vector) -> torch.Tensor:
    """Products added from left to right."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
