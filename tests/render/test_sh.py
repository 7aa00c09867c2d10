"""Colours against normalised real spherical harmonics in float64, fused and plain."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from pipelines.camera import Camera
from pipelines.render import sh as plain
from pipelines.render.cpu import CpuRenderer
from tests.render import dense
from tests.render.scenes import make_camera, make_rows

Colour = Callable[[torch.Tensor, torch.Tensor, Camera, int], torch.Tensor]
BOTH = pytest.mark.parametrize("colour", [CpuRenderer().colour, plain.colour])


def gradient(leaf: torch.Tensor) -> torch.Tensor:
    """Its gradient; zeros where the graph does not reach it (degree 0 has no direction)."""
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad


@BOTH
@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_values_and_gradients(colour: Colour, degree: int) -> None:
    camera = make_camera(seed=degree)
    geometry, sh = make_rows(300, camera, seed=degree, behind=0.5)
    rows = geometry, 3.0 * sh
    ours = [x.clone().requires_grad_() for x in rows]
    theirs = [x.double().requires_grad_() for x in rows]
    rgb, reference = colour(ours[0], ours[1], camera, degree), dense.colour(theirs[0], theirs[1], camera, degree)
    assert ((rgb - reference).abs() <= 3e-6).all()
    assert (rgb == 0.0).any()
    upstream = torch.randn(rgb.shape, generator=torch.Generator().manual_seed(0))
    rgb.backward(upstream)
    reference.backward(upstream.double())
    for a, b in zip(map(gradient, ours), map(gradient, theirs), strict=True):
        assert ((a - b).norm(dim=1) <= 3e-6 * (1.0 + b.norm(dim=1))).all()
    assert not gradient(ours[1])[:, 3 * (degree + 1) ** 2 :].any()


@BOTH
def test_unknown_degree_is_an_error(colour: Colour) -> None:
    camera = make_camera()
    geometry, sh = make_rows(3, camera)
    with pytest.raises(ValueError, match="degree 4"):
        colour(geometry, sh, camera, 4)
