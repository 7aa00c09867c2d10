"""Plain float64 references of the surfel renderer under autograd: Huang et al. 2024 written with matrices and planes.

Legend: v rows in compositing order, P = H·W pixels.
"""

from __future__ import annotations

import numpy as np
import torch

from pipelines.camera import Camera
from tests.render.dense import HIGH, LOW, STOP, _offsets, quaternion_matrices
from tests.render.scenes import make_rows

NEAR, FAR = 0.2, 100.0
_UNSURE = 1e-5


def make_surfels(count: int, camera: Camera, seed: int = 0, **more: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of `make_rows` without their third scale: geometry [M, 10], sh [M, 48]."""
    geometry, sh = make_rows(count, camera, seed, **more)
    return torch.cat([geometry[:, :5], geometry[:, 6:]], dim=1), sh


def project(geometry: torch.Tensor, camera: Camera) -> dict[str, torch.Tensor]:
    """World-space points and tangents through the camera: centre [M, 2], homography `rows` [M, 3, 3] (image x·z,
    image y·z, z of centre + u·tangent + v·tangent), normals [M, 3], opacities, depths."""
    view = torch.tensor(np.asarray(camera.rotation))
    shift = torch.tensor(np.asarray(camera.translation))
    intrinsics = torch.tensor([[camera.fx, 0, camera.cx], [0, camera.fy, camera.cy], [0, 0, 1]], dtype=geometry.dtype)
    points = geometry[:, :3] @ view.T + shift
    turned = view @ quaternion_matrices(geometry[:, 5:9])
    scaled = turned[:, :, :2] * torch.exp(geometry[:, 3:5])[:, None, :]
    rows = intrinsics @ torch.cat([scaled, points[:, :, None]], dim=2)
    normals = turned[:, :, 2]
    facing = -torch.sign((normals * points).sum(1, keepdim=True))
    return {
        "means2d": rows[:, :2, 2] / rows[:, 2:, 2],
        "rows": rows,
        "normals": normals * facing,
        "opacities": torch.sigmoid(geometry[:, 9]),
        "depths": points[:, 2],
    }


def transforms(rows: torch.Tensor) -> torch.Tensor:
    """The eight numbers of the kernels from `rows`, up to one factor per row: [M, 8]."""
    z = rows[:, 2, 2]
    centre = rows[:, :2, 2] / z[:, None]
    a, b = (rows[:, axis, :2] - centre[:, axis, None] * rows[:, 2, :2] for axis in range(2))
    zu, zv = rows[:, 2, 0], rows[:, 2, 1]
    determinant = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    return torch.stack(
        [
            *(z * b[:, 1], -z * a[:, 1], -z * b[:, 0], z * a[:, 0]),
            *(determinant, zv * b[:, 0] - zu * b[:, 1], zu * a[:, 1] - zv * a[:, 0], z * determinant),
        ],
        dim=1,
    )


def intersect(means: torch.Tensor, k: torch.Tensor, dx: torch.Tensor, dy: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """u, v and depth [v, P] where the rays of pixels meet the surfels' planes."""
    c = [k[:, j, None] for j in range(8)]
    denominator = c[4] + c[5] * dx + c[6] * dy
    return (c[0] * dx + c[1] * dy) / denominator, (c[2] * dx + c[3] * dy) / denominator, c[7] / denominator


def intersect_planes(rows: torch.Tensor, camera: Camera) -> tuple[torch.Tensor, ...]:
    """The same as the paper writes it: the cross product of the two planes of a pixel's ray."""
    x, y = _offsets(torch.zeros(1, 2, dtype=rows.dtype), camera)
    across = x[..., None] * rows[:, 2][:, None] - rows[:, 0][:, None]
    down = y[..., None] * rows[:, 2][:, None] - rows[:, 1][:, None]
    line = torch.linalg.cross(across, down)
    u, v = line[..., 0] / line[..., 2], line[..., 1] / line[..., 2]
    depth = u * rows[:, 2, 0, None] + v * rows[:, 2, 1, None] + rows[:, 2, 2, None]
    return u, v, depth


def composite(
    p: dict[str, torch.Tensor],
    hits: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    rgb: torch.Tensor,
    order: torch.Tensor,
    camera: Camera,
    background: torch.Tensor,
) -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor]:
    """Composite rows over every pixel. hits: u, v, depth [v, P] in compositing order.

    Returns the maps (image [H, W, 3], alpha, depth, median, distortion, normal [H, W, 3]); unsure [H, W]; reached [M].
    """
    dx, dy = _offsets(p["means2d"][order], camera)
    u, v, depth = hits
    on_surface, blur = u * u + v * v, 2.0 * (dx * dx + dy * dy)
    met = on_surface <= blur
    depth = torch.where(met, depth, p["depths"][order][:, None])
    seen = depth >= NEAR
    raw = p["opacities"][order][:, None] * torch.exp(-0.5 * torch.where(met, on_surface, blur))
    alpha = torch.where((raw >= LOW) & seen, raw.clamp(max=HIGH), 0.0)
    after = torch.cumprod(1.0 - alpha, 0)
    live = after >= STOP
    with torch.no_grad():
        unsure = _unsure(raw, on_surface, blur, depth, alpha, after)
    alpha = torch.where(live, alpha, 0.0)
    after = torch.cumprod(1.0 - alpha, 0)
    before = torch.cat([torch.ones_like(after[:1]), after])[:-1]
    last = after[-1] if len(after) else torch.ones(camera.height * camera.width, dtype=rgb.dtype)
    weight = alpha * before
    mapped = FAR / (FAR - NEAR) * (1.0 - NEAR / torch.where(seen, depth, 1.0))
    # The sum over pairs, multiplied out: nothing is lost in float64.
    pairs = weight.sum(0) * (weight * mapped**2).sum(0) - (weight * mapped).sum(0) ** 2
    above = (weight > 0) & (before > 0.5)
    rank = torch.arange(1, len(order) + 1)[:, None] * above
    chosen = rank.argmax(0) if len(order) else torch.zeros(len(last), dtype=torch.int64)
    some = rank.amax(0) > 0 if len(order) else torch.zeros(len(last), dtype=torch.bool)
    picked = depth.gather(0, chosen[None])[0] if len(order) else torch.zeros_like(last)
    reached = torch.zeros(len(rgb), dtype=torch.bool)
    reached[order] = (alpha > 0.0).any(1)
    shape = camera.height, camera.width
    maps = {
        "image": torch.einsum("vp,vc->pc", weight, rgb[order]) + last[:, None] * background.to(rgb.dtype),
        "alpha": 1.0 - last,
        "depth": (weight * torch.where(seen, depth, 0.0)).sum(0),
        "median": torch.where(some, picked, 0.0),
        "distortion": pairs,
        "normal": torch.einsum("vp,vc->pc", weight, p["normals"][order]),
    }
    return {n: m.reshape(*shape, *m.shape[1:]) for n, m in maps.items()}, unsure.reshape(shape), reached


def _unsure(
    raw: torch.Tensor,
    on_surface: torch.Tensor,
    blur: torch.Tensor,
    depth: torch.Tensor,
    alpha: torch.Tensor,
    after: torch.Tensor,
) -> torch.Tensor:
    """Pixels [P] where float32 may decide otherwise: at an alpha, a transmittance, the near plane, or between the
    intersection and the low-pass filter (which jumps in depth)."""
    drawn = raw >= LOW * (1 - _UNSURE)
    running = torch.cat([torch.ones_like(after[:1]), after])[:-1] >= STOP * (1 - _UNSURE)
    close = ((raw / LOW - 1).abs() < _UNSURE) | ((raw / HIGH - 1).abs() < _UNSURE)
    close |= ((depth / NEAR - 1).abs() < _UNSURE) | ((on_surface - blur).abs() < _UNSURE * (1 + blur))
    close |= (alpha > 0) & (((after / STOP - 1).abs() < 2 * _UNSURE) | ((after / 0.5 - 1).abs() < _UNSURE))
    return (running & drawn & close).any(0)
