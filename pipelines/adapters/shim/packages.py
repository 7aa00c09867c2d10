"""simple_knn and fused_ssim on the CPU, and small packages that the forks import and do not need here."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import torch
from scipy.spatial import cKDTree

from pipelines.adapters.shim.made import made
from pipelines.render.ssim import l1_dssim


def dist_cuda2(points: torch.Tensor) -> torch.Tensor:
    """Mean squared distance to the three nearest other points, [P], of points [P, 3]."""
    values = points.detach().numpy().astype(np.float64)
    distances, _ = cKDTree(values).query(values, k=4)
    return torch.from_numpy((distances[:, 1:] ** 2).mean(axis=1).astype(np.float32))


class _Ssim(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, image: torch.Tensor, photo: torch.Tensor) -> torch.Tensor:
        loss, gradient = l1_dssim(_channels_last(image), _channels_last(photo), 1.0)
        ctx.save_for_backward(-gradient.permute(2, 0, 1)[None])
        return torch.tensor(1.0 - loss)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grads[0], None


def _channels_last(image: torch.Tensor) -> torch.Tensor:
    return image.detach()[0].permute(1, 2, 0).contiguous()


def fused_ssim(img1: torch.Tensor, img2: torch.Tensor, padding: str = "same", train: bool = True) -> torch.Tensor:
    """Mean SSIM of images [1, 3, H, W], 0…1; its gradient goes to `img1` only."""
    if padding != "same":
        raise ValueError(f"padding is {padding!r}; the stand-in has the zero-padded window only")
    value: torch.Tensor = _Ssim.apply(img1, img2)
    return value


class _Bar:
    """A progress bar that shows nothing."""

    def __init__(self, items: Iterable[Any] = (), **_: object) -> None:
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def update(self, *_: object) -> None:
        """Nothing is shown."""

    def set_postfix(self, *_: object, **__: object) -> None:
        """Nothing is shown."""

    def close(self) -> None:
        """Nothing is shown."""


def extensions() -> dict[str, ModuleType]:
    """Modules in the place of the small CUDA extensions."""
    inner = made("simple_knn._C", distCUDA2=dist_cuda2)
    knn, ssim = made("simple_knn", _C=inner), made("fused_ssim", fused_ssim=fused_ssim)
    return {module.__name__: module for module in (inner, knn, ssim)}


def missing() -> dict[str, ModuleType]:
    """Packages that the forks import for logging, depth maps and viewers, where they are not installed."""
    stand_ins = [made("tqdm", tqdm=_Bar), *(made(name) for name in ("cv2", "joblib", "websockets", "psutil"))]
    return {module.__name__: module for module in stand_ins if importlib.util.find_spec(module.__name__) is None}
