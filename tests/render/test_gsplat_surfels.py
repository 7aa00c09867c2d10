"""The gsplat backend of surfels around plain stand-ins for gsplat's calls, against the CPU renderer."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from odin.errors import InputError
from pipelines.render.gsplat import GsplatSurfelRenderer, binding
from tests.render.plain_gsplat import PlainGsplat
from tests.render.scenes import make_camera
from tests.render.surfel_backends import compare, maps_of, render
from tests.render.surfel_dense import make_surfels

CPU = torch.device("cpu")


@pytest.mark.parametrize(("rows", "seed", "width", "height"), [(60, 1, 64, 48), (40, 2, 50, 35), (1, 3, 16, 16)])
def test_the_adapter_renders_what_the_cpu_renderer_does(rows: int, seed: int, width: int, height: int) -> None:
    found = compare(GsplatSurfelRenderer(PlainGsplat()), rows, seed, width, height, CPU)
    assert max(found[name] for name in ("image", "alpha", "normal")) <= 0.01, found
    assert max(found[name] for name in ("geometry", "sh", "statistic")) <= 5e-3, found


def test_depths_are_those_of_centres() -> None:
    """The median is one of them, the expected depth lies between them, and a distortion is not negative."""
    camera = make_camera(16, 16)
    geometry, sh = make_surfels(6, camera, seed=4, pixels=6.0)
    seen = maps_of(render(GsplatSurfelRenderer(PlainGsplat()), geometry, sh, camera, CPU))
    assert torch.isfinite(seen["distortion"]).all() and float(seen["distortion"].min()) > -1e-6
    depths = GsplatSurfelRenderer(PlainGsplat()).project(geometry, camera).depths
    assert all(float((depths - d).abs().min()) < 1e-5 for d in seen["median"].unique() if d > 0)
    mean = (seen["depth"] / seen["alpha"])[seen["alpha"] > 0.1]
    assert float(mean.min()) >= float(depths.min()) - 1e-4 and float(mean.max()) <= float(depths.max()) + 1e-4


def test_a_superset_of_rows_changes_nothing() -> None:
    camera = make_camera(64, 48, seed=5)
    geometry, sh = make_surfels(60, camera, seed=5, behind=0.4)
    renderer = GsplatSurfelRenderer(PlainGsplat())
    drawn = renderer.project(geometry, camera).radii > 0
    assert 0 < int(drawn.sum()) < len(drawn)
    whole, part = (render(renderer, g, s, camera, CPU) for g, s in ((geometry, sh), (geometry[drawn], sh[drawn])))
    assert torch.equal(whole.blended.image, part.blended.image)
    assert torch.equal(whole.geometry[drawn], part.geometry) and torch.equal(whole.sh[drawn], part.sh)
    assert not whole.geometry[~drawn].any()


def test_a_gsplat_without_surfels_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "load", lambda: SimpleNamespace(__version__="1.6.0"))
    with pytest.raises(InputError, match="no rasterize_to_pixels_2dgs"):
        binding.load_surfels()
