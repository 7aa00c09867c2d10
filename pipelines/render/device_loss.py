"""The photometric loss of 3DGS as torch operations, for images on a device; `ssim.py` has it in kernels.

Legend: H, W image size.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from odin.device.upload import to_device
from pipelines.render.ssim import gaussian_taps

_C1, _C2 = 0.01**2, 0.03**2


def l1_dssim(image: torch.Tensor, photo: torch.Tensor, weight: float = 0.2) -> tuple[torch.Tensor, torch.Tensor]:
    """(1 - weight)·L1 + weight·(1 - SSIM) as a tensor [], and its gradient with respect to `image`.

    image, photo: float32 [H, W, 3], 0…1, on one device. SSIM as in `ssim.py`: 11×11 Gaussian window with σ = 1.5,
    zero padding, mean over all values.
    """
    with torch.enable_grad():
        x = image.detach().requires_grad_()
        value = (1.0 - weight) * (x - photo).abs().mean() + weight * (1.0 - _ssim(x, photo))
    (gradient,) = torch.autograd.grad(value, x)
    return value.detach(), gradient


def _ssim(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    taps = to_device(gaussian_taps(), x.device, x.dtype)
    a, b = (image.permute(2, 0, 1)[:, None] for image in (x, y))  # [3, 1, H, W]
    blurred = _blur(torch.cat([a, b, a * a, b * b, a * b]), taps)
    mean_a, mean_b, square_a, square_b, product = blurred.chunk(5)
    var_a, var_b = square_a - mean_a * mean_a, square_b - mean_b * mean_b
    covariance = product - mean_a * mean_b
    above = (2.0 * mean_a * mean_b + _C1) * (2.0 * covariance + _C2)
    below = (mean_a * mean_a + mean_b * mean_b + _C1) * (var_a + var_b + _C2)
    return (above / below).mean()


def _blur(planes: torch.Tensor, taps: torch.Tensor) -> torch.Tensor:
    """Separable blur of [P, 1, H, W] with zero padding. Not in TF32: variances are small differences."""
    reach = len(taps) // 2
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        rows = functional.conv2d(planes, taps.view(1, 1, 1, -1), padding=(0, reach))
        return functional.conv2d(rows, taps.view(1, 1, -1, 1), padding=(reach, 0))
