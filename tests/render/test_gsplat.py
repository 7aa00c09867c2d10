"""The gsplat backend around plain stand-ins for gsplat's calls, against the CPU renderer; and what is refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from odin.errors import InputError
from pipelines.render.cpu import CpuRenderer
from pipelines.render.gsplat import GsplatRenderer, load
from pipelines.render.gsplat.binding import unsuited
from tests.render.backends import differences, render, scene
from tests.render.plain_gsplat import PlainGsplat

CPU = torch.device("cpu")


@pytest.mark.parametrize(("rows", "seed", "width", "height"), [(60, 1, 64, 48), (40, 2, 50, 35), (1, 3, 16, 16)])
def test_the_adapter_renders_what_the_cpu_renderer_does(rows: int, seed: int, width: int, height: int) -> None:
    what = scene(rows, seed, width, height)
    found = differences(render(GsplatRenderer(PlainGsplat()), *what, CPU), render(CpuRenderer(), *what, CPU))
    assert found["pixels"] <= 0.01 and found["alpha"] <= 0.01, found
    assert found["loss"] <= 1e-4, found
    assert found["geometry"] <= 5e-3 and found["sh"] <= 5e-3, found


def test_a_superset_of_rows_changes_nothing() -> None:
    geometry, sh, camera = scene(40, 4)
    camera_rows = GsplatRenderer(PlainGsplat()).project(geometry, camera).radii > 0
    whole = render(GsplatRenderer(PlainGsplat()), geometry, sh, camera, CPU)
    drawn = render(GsplatRenderer(PlainGsplat()), geometry[camera_rows], sh[camera_rows], camera, CPU)
    assert torch.equal(whole.image, drawn.image)
    assert torch.equal(whole.geometry[camera_rows], drawn.geometry)
    assert torch.equal(whole.sh[camera_rows], drawn.sh)
    assert not whole.geometry[~camera_rows].any()


def test_each_call_is_made_once_per_view() -> None:
    library = PlainGsplat()
    render(GsplatRenderer(library), *scene(10, 5), CPU)
    assert library.calls == {"isect_tiles": 1, "isect_offset_encode": 1, "rasterize_to_pixels": 1}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device here")
def test_without_a_device_there_is_one_paragraph() -> None:
    with pytest.raises(InputError, match=r"torch .* sees none here\. Use a machine with"):
        load()


def test_without_gsplat_there_is_one_paragraph(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(__import__("sys").modules, "gsplat", None)
    with pytest.raises(InputError, match=r"cannot be imported .* Install it with .*gsplat>=1\.5"):
        GsplatRenderer()


@pytest.mark.parametrize(
    ("library", "said"),
    [
        (SimpleNamespace(__version__="1.6.0"), "it has no isect_tiles"),
        (
            SimpleNamespace(**dict.fromkeys(("isect_tiles", "isect_offset_encode", "rasterize_to_pixels"), print)),
            "is 0",
        ),
        (PlainGsplat(), ""),
    ],
)
def test_an_unsuited_library_is_told(library: object, said: str) -> None:
    assert said in unsuited(library)
    assert bool(said) == bool(unsuited(library))
