"""Loss and SSIM against torch's conv2d and autograd in float64."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from pipelines.render.ssim import gaussian_taps, l1_dssim, l1_dssim_rows, ssim


def reference(image: torch.Tensor, target: torch.Tensor, weight: float) -> tuple[float, float, torch.Tensor]:
    """Loss, SSIM and gradient, as in 3DGS (`inria` protocol)."""
    x, y = image.double().requires_grad_(), target.double()
    taps = torch.tensor(gaussian_taps())
    window = torch.outer(taps, taps).expand(3, 1, 11, 11)

    def blur(field: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv2d(field.permute(2, 0, 1)[None], window, padding=5, groups=3)

    mx, my = blur(x), blur(y)
    xx, yy, xy = blur(x * x) - mx * mx, blur(y * y) - my * my, blur(x * y) - mx * my
    c1, c2 = 0.01**2, 0.03**2
    score = ((2 * mx * my + c1) * (2 * xy + c2) / ((mx * mx + my * my + c1) * (xx + yy + c2))).mean()
    loss = (1.0 - weight) * (x - y).abs().mean() + weight * (1.0 - score)
    loss.backward()
    assert x.grad is not None
    return loss.item(), score.item(), x.grad


def pair(kind: str, height: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(height)
    noise = torch.rand(height, width, 3, generator=generator)
    target = {
        "noise": noise,
        "flat": 0.7 + 0.002 * noise,
        "ramp": torch.linspace(0.0, 1.0, width)[None, :, None].expand(height, width, 3),
        "black": 0.0 * noise,
    }[kind]
    return (target + 0.05 * torch.randn(height, width, 3, generator=generator)).clamp(0.0, 1.0), target


@pytest.mark.parametrize("kind", ["noise", "flat", "ramp", "black"])
@pytest.mark.parametrize(("height", "width"), [(48, 64), (33, 17), (5, 3), (1, 1), (11, 40)])
def test_against_torch(kind: str, height: int, width: int) -> None:
    image, target = pair(kind, height, width)
    for weight in (0.2, 1.0, 0.0):
        loss, gradient = l1_dssim(image, target, weight)
        expected, score, expected_gradient = reference(image, target, weight)
        assert abs(loss - expected) <= 1e-6 and abs(ssim(image, target) - score) <= 1e-6
        assert (gradient - expected_gradient).norm() <= 1e-5 * expected_gradient.norm()
        assert gradient.dtype == torch.float32 and gradient.shape == image.shape


@pytest.mark.parametrize("height", [1, 12, 33])
def test_rows_have_their_share_of_the_loss_and_the_bits_of_its_gradient(height: int) -> None:
    image, target = pair("noise", height, 17)
    loss, gradient = l1_dssim(image, target)
    edges = sorted({0, height // 3, height - 1, height})
    parts = [l1_dssim_rows(image, target, first, last) for first, last in pairwise(edges)]
    assert sum(share for share, _ in parts) == pytest.approx(loss, rel=1e-12)
    assert torch.equal(torch.cat([rows for _, rows in parts]), gradient)


def test_equal_images() -> None:
    image, _ = pair("noise", 20, 30)
    loss, gradient = l1_dssim(image, image)
    assert abs(loss) < 1e-12 and gradient.abs().max() < 1e-8
    assert abs(ssim(image.numpy(), image) - 1.0) < 1e-12


def test_window_is_the_published_one() -> None:
    taps = gaussian_taps()
    assert taps.shape == (11,) and np.isclose(taps.sum(), 1.0)
    assert np.isclose(taps[5] / taps[4], np.exp(1.0 / 4.5))


def test_shapes_must_agree() -> None:
    image, target = pair("noise", 20, 30)
    with pytest.raises(ValueError, match="shapes"):
        l1_dssim(image, target[:-1])
    with pytest.raises(ValueError, match="shapes"):
        ssim(image[..., 0], target[..., 0])
