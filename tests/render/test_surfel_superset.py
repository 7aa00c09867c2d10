"""Any superset of the touched surfels gives the same bits: maps, and every gradient of a touched row (D§5)."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.camera import Camera
from pipelines.render.surfels import SurfelRenderer
from pipelines.render.surfels.protocol import Weights
from pipelines.render.surfels.regularise import regularise
from tests.render.scenes import BACKGROUND, make_camera
from tests.render.surfel_dense import make_surfels
from tests.render.test_superset import assert_same_bits
from tests.render.test_surfel_blend import MAPS

RENDERER = SurfelRenderer()


def render(geometry: torch.Tensor, colours: torch.Tensor, camera: Camera, degree: int) -> dict[str, torch.Tensor]:
    """One view forward and backward; everything that must not depend on other rows."""
    projected = RENDERER.project(geometry, camera)
    bins = RENDERER.bin(projected, camera)
    rgb = RENDERER.colour(geometry, colours, camera, degree)
    blended = RENDERER.blend(projected, bins, rgb, camera, BACKGROUND)
    upstream = torch.randn(blended.image.shape, generator=torch.Generator().manual_seed(7))
    _, maps = regularise(blended, camera, Weights(normal=1.0, distortion=1.0, depth_ratio=0.5))
    grads = RENDERER.blend_backward(projected, bins, blended, upstream, maps)
    grad_geometry, centres = RENDERER.project_backward(geometry, camera, projected, grads)
    direction, grad_sh = RENDERER.colour_backward(geometry, colours, camera, degree, rgb, grads.rgb)
    found = {name: getattr(blended, name).contiguous() for name in MAPS}
    rows = {"radii": projected.radii, "extents": projected.extents, "rgb": rgb, "contributed": grads.contributed}
    rows |= {"geometry": grad_geometry, "centres": centres, "direction": direction.contiguous(), "sh": grad_sh}
    fragments = torch.tensor([blended.fragments])
    return found | {"fragments": fragments} | {f"rows.{name}": value for name, value in rows.items()}


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), degree=st.integers(0, 3), pixels=st.sampled_from([0.7, 4.0]))
def test_rows_that_are_not_drawn_change_no_bit(seed: int, degree: int, pixels: float) -> None:
    camera = make_camera(70, 45, seed=seed % 7)
    geometry, colours = make_surfels(300, camera, seed=seed, behind=0.3, pixels=pixels)
    geometry[2::9, 9], geometry[3::9, 4] = -9.0, float("nan")
    large = render(geometry, colours, camera, degree)
    rows = torch.nonzero(large["rows.radii"] > 0)[:, 0]
    assert 20 < len(rows) < 300
    small = render(geometry[rows], colours[rows], camera, degree)
    assert_same_bits(small, large, rows)


def test_a_touched_row_is_missed() -> None:
    """The check above can fail."""
    camera = make_camera(70, 45, seed=5)
    geometry, colours = make_surfels(100, camera, seed=5)
    large = render(geometry, colours, camera, 3)
    rows = torch.nonzero(large["rows.contributed"])[1:, 0]
    with pytest.raises(AssertionError, match="image"):
        assert_same_bits(render(geometry[rows], colours[rows], camera, 3), large, rows)
