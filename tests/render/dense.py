"""Plain float64 references: a dense compositor, matrix projection and colours, all under autograd.

Legend: v rows in compositing order, P = H·W pixels.
"""

from __future__ import annotations

import numpy as np
import torch

from pipelines.camera import Camera

LOW, HIGH, STOP = 1.0 / 255.0, 0.99, 1e-4
_UNSURE = 1e-5


def composite(
    means: torch.Tensor,
    conics: torch.Tensor,
    rgb: torch.Tensor,
    opacities: torch.Tensor,
    order: torch.Tensor,
    camera: Camera,
    background: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Composite every row over every pixel.

    Returns image [H, W, 3]; alpha [H, W]; unsure [H, W], pixels where float32 may decide otherwise at a threshold;
    reached [M], rows with alpha ≥ 1/255 at a live pixel.
    """
    dx, dy = _offsets(means[order], camera)
    a, b, c = conics[order].unbind(1)
    power = -0.5 * (a[:, None] * dx * dx + c[:, None] * dy * dy) - b[:, None] * dx * dy
    raw = opacities[order][:, None] * torch.exp(power)
    alpha = torch.where(raw >= LOW, raw.clamp(max=HIGH), 0.0)
    after = torch.cumprod(1.0 - alpha, 0)
    live = after >= STOP
    alpha = torch.where(live, alpha, 0.0)
    after = torch.cumprod(1.0 - alpha, 0)
    before = torch.cat([torch.ones_like(after[:1]), after])[:-1]
    last = after[-1] if len(after) else torch.ones(camera.height * camera.width, dtype=means.dtype)
    image = torch.einsum("vp,vc->pc", alpha * before, rgb[order]) + last[:, None] * background.to(means.dtype)
    with torch.no_grad():
        unsure = _near_threshold(raw, 1.0 - alpha, before, live)
        reached = torch.zeros(len(means), dtype=torch.bool)
        reached[order] = (alpha > 0.0).any(1)
    shape = camera.height, camera.width
    return image.reshape(*shape, 3), (1.0 - last).reshape(shape), unsure.reshape(shape), reached


def _offsets(means: torch.Tensor, camera: Camera) -> tuple[torch.Tensor, torch.Tensor]:
    ys, xs = torch.meshgrid(
        torch.arange(camera.height, dtype=means.dtype) + 0.5,
        torch.arange(camera.width, dtype=means.dtype) + 0.5,
        indexing="ij",
    )
    return xs.reshape(1, -1) - means[:, :1], ys.reshape(1, -1) - means[:, 1:]


def _near_threshold(raw: torch.Tensor, kept: torch.Tensor, before: torch.Tensor, live: torch.Tensor) -> torch.Tensor:
    """Pixels [P] where an alpha or a transmittance is within 1e-5 (relative) of a threshold while still live."""
    running = torch.cat([torch.ones_like(live[:1]), live])[:-1]
    stop = before * (1.0 - torch.where(raw >= LOW, raw.clamp(max=HIGH), 0.0))
    unsure = ((raw / LOW - 1.0).abs() < _UNSURE) | ((raw / HIGH - 1.0).abs() < _UNSURE)
    return (running & (unsure | ((stop / STOP - 1.0).abs() < _UNSURE))).any(0)


def quaternion_matrices(quaternions: torch.Tensor) -> torch.Tensor:
    """Rotation matrices [M, 3, 3] of quaternions wxyz [M, 4], normalised here."""
    w, x, y, z = torch.nn.functional.normalize(quaternions, dim=1).unbind(1)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return torch.stack([torch.stack(row, dim=1) for row in rows], dim=1)


def project(geometry: torch.Tensor, camera: Camera) -> tuple[torch.Tensor, ...]:
    """Matrix form of the projection, float64: means [M, 2], conics [M, 3], opacities [M], depths [M], covariance
    [M, 2, 2]. Rows at or behind the near plane get depth 1 and no meaning."""
    view = torch.tensor(np.asarray(camera.rotation))
    points = geometry[:, :3] @ view.T + torch.tensor(np.asarray(camera.translation))
    depths = points[:, 2]
    x, y, z = points[:, 0], points[:, 1], torch.where(depths > 0.2, depths, 1.0)
    means = torch.stack([camera.fx * x / z + camera.cx, camera.fy * y / z + camera.cy], dim=1)
    tx = (x / z).clamp(-1.3 * camera.tan_x, 1.3 * camera.tan_x) * z
    ty = (y / z).clamp(-1.3 * camera.tan_y, 1.3 * camera.tan_y) * z
    zero = torch.zeros_like(z)
    jacobian = torch.stack(
        [
            torch.stack([camera.fx / z, zero, -camera.fx * tx / z**2], dim=1),
            torch.stack([zero, camera.fy / z, -camera.fy * ty / z**2], dim=1),
        ],
        dim=1,
    )
    axes = quaternion_matrices(geometry[:, 6:10]) * torch.exp(geometry[:, 3:6])[:, None, :]
    spread = jacobian @ view @ axes
    covariance = spread @ spread.transpose(1, 2) + 0.3 * torch.eye(2, dtype=geometry.dtype)
    inverse = torch.linalg.inv(covariance)
    conics = torch.stack([inverse[:, 0, 0], inverse[:, 0, 1], inverse[:, 1, 1]], dim=1)
    return means, conics, torch.sigmoid(geometry[:, 10]), depths, covariance


def colour(geometry: torch.Tensor, sh: torch.Tensor, camera: Camera, degree: int) -> torch.Tensor:
    """Colours [M, 3] from real spherical harmonics, written with their normalisation instead of 3DGS's decimals."""
    direction = torch.nn.functional.normalize(geometry[:, :3] - torch.tensor(np.asarray(camera.centre)), dim=1)
    x, y, z = direction.unbind(1)
    pi = torch.pi
    one = torch.ones_like(x)
    root = [(1 / (4 * pi)) ** 0.5, (3 / (4 * pi)) ** 0.5, (15 / (4 * pi)) ** 0.5, (5 / (16 * pi)) ** 0.5]
    cubic = [(35 / (32 * pi)) ** 0.5, (105 / (4 * pi)) ** 0.5, (21 / (32 * pi)) ** 0.5, (7 / (16 * pi)) ** 0.5]
    basis = [
        root[0] * one,
        *(-root[1] * y, root[1] * z, -root[1] * x),
        *(root[2] * x * y, -root[2] * y * z, root[3] * (3 * z * z - 1), -root[2] * x * z),
        root[2] / 2 * (x * x - y * y),
        *(-cubic[0] * y * (3 * x * x - y * y), cubic[1] * x * y * z, -cubic[2] * y * (5 * z * z - 1)),
        *(cubic[3] * z * (5 * z * z - 3), -cubic[2] * x * (5 * z * z - 1), cubic[1] / 2 * z * (x * x - y * y)),
        -cubic[0] * x * (x * x - 3 * y * y),
    ]
    terms = (degree + 1) ** 2
    stacked = torch.stack(basis[:terms], dim=1)
    return (torch.einsum("mk,mkc->mc", stacked, sh.reshape(-1, 16, 3)[:, :terms]) + 0.5).clamp_min(0.0)
