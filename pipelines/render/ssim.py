"""The photometric loss of 3DGS, (1 - w)·L1 + w·(1 - SSIM), with its gradient, and SSIM as a metric.

SSIM by the `inria` protocol: 11×11 Gaussian window with σ = 1.5, zero padding, per channel, mean over all values.
torch's conv2d would take 40–80 % of a CPU step (D§12).

Legend: H, W image size.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from odin.dense import dense
from pipelines.render.ssim_kernels import MARGIN, RADIUS, absolute_difference, loss_gradient, ssim_scores

Image = NDArray[np.float32] | torch.Tensor

_SIGMA = 1.5


def l1_dssim(image: Image, target: Image, weight: float = 0.2) -> tuple[float, torch.Tensor]:
    """Loss and its gradient with respect to `image`.

    image, target: float32 [H, W, 3], numpy or CPU tensors, 0…1. weight: of 1 - SSIM against L1.
    Returns the loss and a float32 tensor [H, W, 3]. Raises ValueError if the shapes differ.
    """
    return l1_dssim_rows(image, target, 0, len(image), weight)


def l1_dssim_rows(
    image: Image, target: Image, first: int, last: int, weight: float = 0.2
) -> tuple[float, torch.Tensor]:
    """The share of pixel rows first … last - 1 in the loss of an image, and the loss's gradient with respect to them,
    float32 [last - first, W, 3], to the bit.

    The shares of all rows add up to the loss. Of the image (float32 [H, W, 3]) only these rows and 2 · RADIUS on either
    side are looked at. Raises ValueError if the shapes differ.
    """
    x, y, height, n = _flat(image, target)
    low, high, count = max(first - 2 * RADIUS, 0), min(last + 2 * RADIUS, height), height * n
    x, y = x[low * n : high * n], y[low * n : high * n]
    partials, out = np.empty((3, high - low, n), np.float32), np.empty(len(x), np.float32)
    taps, padded, blurred, scores = _buffers(n)
    ssim_scores(x, y, high - low, n, first - low, last - low, taps, padded, blurred, scores, partials)
    loss_gradient(x, y, high - low, n, taps, padded, blurred, partials, -weight / count, (1.0 - weight) / count, out)
    own = slice((first - low) * n, (last - low) * n)
    structure = (last - first) / height - float(scores.sum()) / count
    loss = (1.0 - weight) * absolute_difference(x[own], y[own]) / count + weight * structure
    return loss, torch.from_numpy(out[own].reshape(last - first, n // 3, 3))


def ssim(image: Image, target: Image) -> float:
    """Mean SSIM of two images float32 [H, W, 3], 0…1. Raises ValueError if the shapes differ."""
    x, y, height, n = _flat(image, target)
    taps, padded, blurred, scores = _buffers(n)
    ssim_scores(x, y, height, n, 0, height, taps, padded, blurred, scores, np.empty((3, 0, n), np.float32))
    return float(scores.sum()) / (height * n)


def gaussian_taps() -> NDArray[np.float64]:
    """The 11 taps of the window along one axis, float64, sum 1."""
    offsets = np.arange(-RADIUS, RADIUS + 1)
    taps = np.exp(-(offsets**2) / (2.0 * _SIGMA**2))
    return np.asarray(taps / taps.sum(), np.float64)


def _buffers(n: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    return gaussian_taps(), np.zeros((5, n + 2 * MARGIN)), np.empty((5, n)), np.zeros(n)


def _flat(image: Image, target: Image) -> tuple[NDArray[np.float32], NDArray[np.float32], int, int]:
    """Both images as flat float32 arrays, the height, and the values in a row."""
    x, y = (v.detach().numpy() if isinstance(v, torch.Tensor) else v for v in (image, target))
    if x.shape != y.shape or x.ndim != 3 or x.shape[2] != 3:
        raise ValueError(f"images have shapes {x.shape} and {y.shape}, expected the same [H, W, 3]")
    height, width, _ = x.shape
    flat = [dense(v, np.float32).reshape(-1) for v in (x, y)]
    return flat[0], flat[1], height, 3 * width
