"""Colours from spherical harmonics as torch ops, for any device; `cpu/` has the same in fused kernels.

Row by row and term by term, so that any superset of rows gives the same bits (D§5).

Legend: M rows; k coefficient 0–15; columns 3·k + channel (coefficient-major, columns.py).
"""

from __future__ import annotations

import torch

from pipelines.camera import Camera
from pipelines.render.conventions import MAX_DEGREE

C0 = 0.28209479177387814
C1 = 0.4886025119029199
C2 = (1.0925484305920792, -1.0925484305920792, 0.31539156525252005, -1.0925484305920792, 0.5462742152960396)
C3 = (
    -0.5900435899266435,
    2.890611442640554,
    -0.4570457994644658,
    0.3731763325901154,
    -0.4570457994644658,
    1.445305721320277,
    -0.5900435899266435,
)


def colour(geometry: torch.Tensor, sh: torch.Tensor, camera: Camera, degree: int) -> torch.Tensor:
    """RGB of each row seen from the camera, max(0, SH(direction)·coefficients + 0.5).

    geometry: float32 [M, 11], only xyz is read. sh: float32 [M, 48]. degree: 0–3, higher coefficients are
    ignored and get zero gradients. Returns float32 [M, 3]. Raises ValueError for another degree.
    """
    basis = _basis(_directions(geometry, camera), check_degree(degree))
    columns = sh.t().contiguous().unbind(0)
    channels = []
    for channel in range(3):
        total = basis[0] * columns[channel]
        for k in range(1, len(basis)):
            total = total + basis[k] * columns[3 * k + channel]
        channels.append((total + 0.5).clamp_min(0.0))
    return torch.stack(channels, dim=1)


def check_degree(degree: int) -> int:
    """The degree itself; ValueError unless it is 0–3."""
    if not 0 <= degree <= MAX_DEGREE:
        raise ValueError(f"spherical harmonics of degree {degree}: the table holds degrees 0 to {MAX_DEGREE}")
    return degree


def _directions(geometry: torch.Tensor, camera: Camera) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Unit vectors from the camera centre to the rows."""
    centre = camera.centre
    x, y, z = (geometry[:, k] - float(centre[k]) for k in range(3))
    norm = torch.sqrt((x * x + y * y + z * z).clamp_min(1e-24))
    return x / norm, y / norm, z / norm


def _basis(direction: tuple[torch.Tensor, torch.Tensor, torch.Tensor], degree: int) -> list[torch.Tensor]:
    """The (degree + 1)² basis functions at unit vectors, each [M]."""
    x, y, z = direction
    basis = [torch.full_like(x, C0)]
    if degree >= 1:
        basis += [-C1 * y, C1 * z, -C1 * x]
    if degree >= 2:
        xx, yy, zz = x * x, y * y, z * z
        basis += [C2[0] * x * y, C2[1] * y * z, C2[2] * (2.0 * zz - xx - yy), C2[3] * x * z, C2[4] * (xx - yy)]
    if degree >= 3:
        basis += [
            C3[0] * y * (3.0 * xx - yy),
            C3[1] * x * y * z,
            C3[2] * y * (4.0 * zz - xx - yy),
            C3[3] * z * (2.0 * zz - 3.0 * xx - 3.0 * yy),
            C3[4] * x * (4.0 * zz - xx - yy),
            C3[5] * z * (xx - yy),
            C3[6] * x * (xx - 3.0 * yy),
        ]
    return basis
