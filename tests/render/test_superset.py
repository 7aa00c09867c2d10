"""Any superset of the touched rows gives the same bits (D§5): image, and every gradient of a touched row."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.camera import Camera
from pipelines.render import projection, sh
from pipelines.render.cpu import CpuRenderer
from tests.render.scenes import BACKGROUND, make_camera, make_rows

RENDERER = CpuRenderer()


def render(geometry: torch.Tensor, colours: torch.Tensor, camera: Camera, degree: int) -> dict[str, torch.Tensor]:
    """One view forward and backward for a fixed dL/dimage; everything that must not depend on other rows."""
    geometry, colours = geometry.clone().requires_grad_(), colours.clone().requires_grad_()
    projected = RENDERER.project(geometry, camera)
    bins = RENDERER.bin(projected, camera)
    rgb = RENDERER.colour(geometry, colours, camera, degree)
    blended = RENDERER.blend(projected, bins, rgb, camera, BACKGROUND)
    generator = torch.Generator().manual_seed(7)
    upstream = torch.randn(blended.image.shape, generator=generator)
    grads = RENDERER.blend_backward(projected, bins, rgb, blended, upstream)
    outputs = [projected.means2d, projected.conics, projected.opacities, rgb]
    torch.autograd.backward(outputs, [grads.means2d, grads.conics, grads.opacities, grads.rgb])
    assert geometry.grad is not None and colours.grad is not None
    return {
        "image": blended.image,
        "alpha": blended.alpha,
        "fragments": torch.tensor([blended.fragments]),
        "rows.radii": projected.radii,
        "rows.extents": projected.extents,
        "rows.rgb": rgb.detach(),
        "rows.means2d": grads.means2d,
        "rows.contributed": grads.contributed,
        "rows.geometry": geometry.grad,
        "rows.sh": colours.grad,
    }


def assert_same_bits(small: dict[str, torch.Tensor], large: dict[str, torch.Tensor], rows: torch.Tensor) -> None:
    """rows: where the rows of `small` stand in `large`."""
    for name, value in small.items():
        other = large[name][rows] if name.startswith("rows.") else large[name]
        assert value.numpy().tobytes() == other.numpy().tobytes(), name


def invisible(rows: int, camera: Camera, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows behind the camera, beside the view, transparent, or with NaN."""
    geometry, colours = make_rows(rows, camera, seed=seed + 1000)
    geometry[0::4, :3] = 2.0 * torch.tensor(camera.centre) - geometry[0::4, :3]
    geometry[1::4, :3] += torch.tensor(200.0 * camera.rotation[0])
    geometry[2::4, 10] = -9.0
    geometry[3::4, 4] = float("nan")
    return geometry, colours


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    drawn=st.integers(0, 90),
    extra=st.integers(0, 70),
    degree=st.integers(0, 3),
    size=st.sampled_from([(48, 32), (37, 21), (16, 16)]),
)
def test_invisible_rows_change_nothing(seed: int, drawn: int, extra: int, degree: int, size: tuple[int, int]) -> None:
    camera = make_camera(*size, seed=seed)
    base, more = make_rows(drawn, camera, seed=seed), invisible(extra, camera, seed)
    order = torch.randperm(drawn + extra, generator=torch.Generator().manual_seed(seed))
    places = torch.sort(order[:drawn]).values
    rest = torch.sort(order[drawn:]).values
    tables = []
    for ours, others in zip(base, more, strict=True):
        table = torch.empty(drawn + extra, ours.shape[1])
        table[places], table[rest] = ours, others
        tables.append(table)
    large = render(tables[0], tables[1], camera, degree)
    assert not large["rows.radii"][rest].any() and not large["rows.geometry"][rest].any()
    assert_same_bits(render(*base, camera, degree), large, places)


def test_touched_rows_alone_are_enough() -> None:
    camera = make_camera(70, 45, seed=5)
    geometry, colours = make_rows(600, camera, seed=5, behind=0.4)
    large = render(geometry, colours, camera, 3)
    rows = torch.nonzero(large["rows.radii"] > 0)[:, 0]
    assert 100 < len(rows) < 500
    assert_same_bits(render(geometry[rows], colours[rows], camera, 3), large, rows)


def test_a_touched_row_is_missed() -> None:
    """The check above can fail: leave out one row that contributes."""
    camera = make_camera(70, 45, seed=5)
    geometry, colours = make_rows(100, camera, seed=5)
    large = render(geometry, colours, camera, 3)
    rows = torch.nonzero(large["rows.contributed"])[1:, 0]
    with pytest.raises(AssertionError, match="image"):
        assert_same_bits(render(geometry[rows], colours[rows], camera, 3), large, rows)


def plain_gradients(geometry: torch.Tensor, colours: torch.Tensor, camera: Camera) -> list[torch.Tensor]:
    """Outputs and gradients of the plain torch ops, all [M, …]."""
    geometry, colours = geometry.clone().requires_grad_(), colours.clone().requires_grad_()
    projected = projection.project(geometry, camera)
    outputs = [projected.means2d, projected.conics, projected.opacities, sh.colour(geometry, colours, camera, 3)]
    torch.autograd.backward(outputs, [x.detach() for x in outputs])
    assert geometry.grad is not None and colours.grad is not None
    return [*(x.detach() for x in outputs), projected.extents, projected.radii, geometry.grad, colours.grad]


@pytest.mark.parametrize("split", [1, 7, 16, 33])
def test_plain_ops_are_row_by_row(split: int) -> None:
    """torch's vector code and its scalar tail must not differ."""
    camera = make_camera(seed=9)
    geometry, colours = make_rows(67, camera, seed=9, behind=0.2)
    whole = plain_gradients(geometry, colours, camera)
    parts = [plain_gradients(g, c, camera) for g, c in zip(geometry.split(split), colours.split(split), strict=True)]
    for k, value in enumerate(whole):
        assert torch.equal(value, torch.cat([part[k] for part in parts])), k


def test_threads_share_a_renderer() -> None:
    cameras = [make_camera(48, 32, seed=k) for k in range(8)]
    scenes = [make_rows(300, camera, seed=3) for camera in cameras]

    def work(k: int) -> dict[str, torch.Tensor]:
        return render(*scenes[k], cameras[k], 3)

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(work, range(8)))
    for k in range(8):
        assert_same_bits(work(k), together[k], torch.arange(300))
