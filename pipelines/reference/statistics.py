"""Densification statistics that do not depend on the order of views or the number of ranks.

Upstream adds float norms of screen-space gradients; sums in another order differ in the last bit, and a threshold
turns that into another primitive. Here each view's norm is rounded once to a fixed point of 2⁻⁴⁰ and summed as
int64, so any grouping over ranks gives the same sum (D§5).

Legend: N primitives, M rows of a view.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

ONE = float(2**40)  # in fixed point
LARGEST = float(2**10)  # never seen; 2¹⁰ · 2⁴⁰ · 8,192 visits still fit an int64

Size = tuple[int, int]  # width and height in pixels


class DensificationStatistics:
    """Sums since the last structural event: `local` int64 [N, 2], fixed-point gradient norm and visit count."""

    def __init__(self, rows: int) -> None:
        self.local = torch.zeros((rows, 2), dtype=torch.int64)

    def observe(self, rows: NDArray[np.int32], means2d: torch.Tensor, visible: NDArray[np.bool_], size: Size) -> None:
        """Add one view. means2d: float32 [M, 2], gradient per pixel; size: of the image. Upstream's statistic is the
        norm of the gradient in normalised device coordinates."""
        half = np.array([size[0] / 2, size[1] / 2], np.float32)
        ndc = means2d.numpy() * half
        self.add(rows, np.sqrt(ndc[:, 0] * ndc[:, 0] + ndc[:, 1] * ndc[:, 1]), visible)

    def sums(self) -> NDArray[np.int64]:
        """The sums on the host, int64 [N, 2]."""
        sums: NDArray[np.int64] = self.local.cpu().numpy()
        return sums

    def add(self, rows: NDArray[np.int32], norms: NDArray[np.float32], visible: NDArray[np.bool_]) -> None:
        """Add one view: screen-space gradient norms (NDC units) of the rows that were visible in it. [M] each."""
        fixed = np.rint(np.minimum(norms[visible].astype(np.float64), LARGEST) * ONE).astype(np.int64)
        sums = self.local.numpy()
        seen = rows[visible]
        sums[seen, 0] += fixed
        sums[seen, 1] += 1

    @staticmethod
    def mean_norm(sums: NDArray[np.int64]) -> NDArray[np.float64]:
        """Mean norm of each row over its visits, [N]; 0 where it was never visible."""
        return sums[:, 0] / ONE / np.maximum(sums[:, 1], 1)


class DeviceStatistics(DensificationStatistics):
    """The same sums on a device, to the bit: rows of a view are tensors (int64, bool), and nothing waits."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self.local = torch.zeros((rows, 2), dtype=torch.int64, device=device)

    def observe(self, rows: Any, means2d: torch.Tensor, visible: Any, size: Size) -> None:
        """Add one view. Rows that were not visible add nothing; leaving them out would need their number."""
        x, y = means2d[:, 0] * (size[0] / 2), means2d[:, 1] * (size[1] / 2)
        norms = (x * x + y * y).double().sqrt().float()  # float32 roots are not correctly rounded everywhere
        fixed = torch.round(norms.double().clamp(max=LARGEST) * ONE).to(torch.int64)
        both = torch.stack([torch.where(visible, fixed, 0), visible.to(torch.int64)], dim=1)
        self.local.index_add_(0, rows, both)
