"""The stand-ins: the interfaces that the forks import, on our renderer, and no further than that."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
import torch

from pipelines import surfel_columns
from pipelines.adapters.pins import pins
from pipelines.adapters.shim import packages, rasterizer, surfels
from pipelines.adapters.shim.device import OnCpu, no_gpu
from pipelines.camera import Camera
from pipelines.columns import COLOUR, GEOMETRY, OPACITY, ROTATION, SCALE, XYZ
from pipelines.render.cpu import CpuRenderer
from pipelines.render.device_loss import l1_dssim
from pipelines.render.surfels import SurfelRenderer

WIDTH, HEIGHT, ROWS = 48, 32, 60


def camera() -> Camera:
    return Camera(
        name="",
        width=WIDTH,
        height=HEIGHT,
        fx=40.0,
        fy=40.0,
        cx=WIDTH / 2,
        cy=HEIGHT / 2,
        rotation=np.eye(3),
        translation=np.array([0.1, -0.2, 3.0]),
    )


def settings(kind: type, **more: object) -> object:
    """A fork's settings for `camera`: matrices transposed, as its kernels take them."""
    one = camera()
    pose = torch.eye(4)
    pose[:3, :3], pose[:3, 3] = torch.from_numpy(one.rotation).float(), torch.from_numpy(one.translation).float()
    return kind(
        image_height=HEIGHT,
        image_width=WIDTH,
        tanfovx=one.tan_x,
        tanfovy=one.tan_y,
        bg=torch.zeros(3),
        scale_modifier=1.0,
        viewmatrix=pose.T.contiguous(),
        projmatrix=torch.eye(4),
        sh_degree=2,
        campos=torch.from_numpy(one.centre).float(),
        prefiltered=False,
        debug=False,
        **more,
    )


def table(columns: int, scale: slice, rotation: slice, opacity: slice) -> torch.Tensor:
    random = torch.Generator().manual_seed(3)
    rows = 0.3 * torch.randn(ROWS, columns, generator=random)
    rows[:, scale] = -2.0 + 0.3 * torch.randn(ROWS, scale.stop - scale.start, generator=random)
    rows[:, rotation] = torch.nn.functional.normalize(torch.randn(ROWS, 4, generator=random), dim=1)
    rows[:, opacity] = torch.randn(ROWS, 1, generator=random)
    return rows


def leaves(rows: torch.Tensor, columns: object) -> dict[str, torch.Tensor]:
    """What a fork's render hands to a rasterizer, as leaves."""
    at = columns
    given = {
        "means3D": rows[:, at.XYZ],  # type: ignore[attr-defined]
        "scales": rows[:, at.SCALE].exp(),  # type: ignore[attr-defined]
        "rotations": rows[:, at.ROTATION],  # type: ignore[attr-defined]
        "opacities": torch.sigmoid(rows[:, at.OPACITY]),  # type: ignore[attr-defined]
        "shs": rows[:, at.COLOUR].reshape(ROWS, 16, 3),  # type: ignore[attr-defined]
        "means2D": torch.zeros(ROWS, 3),
    }
    return {name: value.clone().requires_grad_() for name, value in given.items()}


class Columns:
    XYZ, SCALE, ROTATION, OPACITY, COLOUR = XYZ, SCALE, ROTATION, OPACITY, COLOUR


def test_gaussians_have_our_renderers_image_and_gradients() -> None:
    rows, one, renderer = table(59, SCALE, ROTATION, OPACITY), camera(), CpuRenderer()
    given = leaves(rows, Columns)
    image, radii, depth = rasterizer.Rasterizer(settings(rasterizer.AntialiasedSettings, antialiasing=False))(**given)
    weights = torch.rand(3, HEIGHT, WIDTH, generator=torch.Generator().manual_seed(1))
    (image * weights).sum().backward()

    parameters = rows.clone().requires_grad_()
    projection = renderer.project(parameters[:, GEOMETRY], one)
    bins, rgb = renderer.bin(projection, one), renderer.colour(parameters[:, GEOMETRY], parameters[:, COLOUR], one, 2)
    blended = renderer.blend(projection, bins, rgb, one, torch.zeros(3))
    back = renderer.blend_backward(projection, bins, rgb, blended, weights.permute(1, 2, 0).contiguous())
    outputs = [projection.means2d, projection.conics, projection.opacities, rgb]
    (wanted,) = torch.autograd.grad(outputs, [parameters], [back.means2d, back.conics, back.opacities, back.rgb])

    assert image.shape == (3, HEIGHT, WIDTH)
    assert torch.allclose(image.detach().permute(1, 2, 0), blended.image, atol=1e-5)
    assert radii.dtype == torch.int32
    assert torch.equal(radii > 0, projection.radii > 0)
    assert depth.shape == (1, HEIGHT, WIDTH)
    opacity = given["opacities"].detach()
    found = torch.cat(
        [
            given["means3D"].grad,
            given["scales"].grad * given["scales"].detach(),
            given["rotations"].grad,
            given["opacities"].grad * opacity * (1 - opacity),
            given["shs"].grad.flatten(1),
        ],
        dim=1,
    )
    assert torch.linalg.norm(found - wanted) < 1e-3 * torch.linalg.norm(wanted)
    half = torch.tensor([WIDTH / 2, HEIGHT / 2])
    assert torch.allclose(given["means2D"].grad[:, :2], back.means2d * half, rtol=1e-2, atol=1e-3)
    assert not given["means2D"].grad[:, 2].any()


def test_rows_that_are_not_handed_in_change_no_bit() -> None:
    """A view is rendered from its scope alone; superset and subset must have the same image and gradients."""
    rows = table(59, SCALE, ROTATION, OPACITY)
    rows[::3, XYZ] = torch.tensor([0.0, 0.0, -20.0])  # behind the camera
    kept = torch.arange(ROWS) % 3 > 0
    seen = []
    for chosen in (torch.ones(ROWS, dtype=torch.bool), kept):
        given = {k: v.detach()[chosen].requires_grad_() for k, v in leaves(rows, Columns).items()}
        call = rasterizer.Rasterizer(settings(rasterizer.AntialiasedSettings, antialiasing=False))
        image, *_ = call(**given)
        image.square().sum().backward()
        seen.append((image.detach(), given["means3D"].grad))
    assert torch.equal(seen[0][0], seen[1][0])
    assert torch.equal(seen[0][1][kept], seen[1][1])


def test_taming_gets_thirteen_outputs_and_scores_only_when_asked() -> None:
    rows = table(59, SCALE, ROTATION, OPACITY)
    module = rasterizer.module(pins()["taminggs"])
    plain = module.GaussianRasterizer(settings(module.GaussianRasterizationSettings, pixel_weights=None))
    asked = settings(module.GaussianRasterizationSettings, pixel_weights=torch.ones(HEIGHT, WIDTH))
    given = leaves(rows, Columns)
    given["dc"], given["shs"] = given["shs"][:, :1], given["shs"][:, 1:]
    without, scored = plain(**given), module.GaussianRasterizer(asked)(**given)
    assert len(without) == len(scored) == 13
    assert torch.equal(without[0], scored[0])
    assert not without[9].any()
    assert torch.equal(scored[9], scored[10]), "of unit weights the sum is the number of pixels"
    assert (scored[10][scored[1] == 0] == 0).all()


def test_surfels_have_our_renderers_maps() -> None:
    rows = table(58, surfel_columns.SCALE, surfel_columns.ROTATION, surfel_columns.OPACITY)
    given, one, renderer = leaves(rows, surfel_columns), camera(), SurfelRenderer()
    image, radii, maps = surfels.SurfelRasterizer(settings(rasterizer.Settings))(**given)
    projection = renderer.project(rows[:, surfel_columns.GEOMETRY], one)
    bins = renderer.bin(projection, one)
    rgb = renderer.colour(rows[:, surfel_columns.GEOMETRY], rows[:, surfel_columns.COLOUR], one, 2)
    blended = renderer.blend(projection, bins, rgb, one, torch.zeros(3))
    for channel, plane in ((0, blended.depth), (1, blended.alpha), (5, blended.median), (6, blended.distortion)):
        assert torch.allclose(maps[channel], plane, atol=1e-4), channel
    assert torch.allclose(maps[2:5].permute(1, 2, 0), blended.normal, atol=1e-4)
    (image.sum() + maps[0].sum()).backward()
    assert torch.isfinite(given["means3D"].grad).all()
    assert given["means2D"].grad.shape == (ROWS, 3)
    assert (given["means2D"].grad[radii == 0] == 0).all()


def test_only_what_a_fork_has_is_there() -> None:
    assert not hasattr(rasterizer.module(pins()["3dgs"]), "SparseGaussianAdam")
    assert hasattr(rasterizer.module(pins()["dashgs"]), "SparseGaussianAdam")


def test_the_fused_loss_is_torchs() -> None:
    random = torch.Generator().manual_seed(5)
    image, photo = (torch.rand(3, HEIGHT, WIDTH, generator=random) for _ in range(2))
    leaf = image.clone().requires_grad_()
    value = packages.fused_ssim(leaf[None], photo[None])
    value.backward()
    loss, gradient = l1_dssim(image.permute(1, 2, 0).double(), photo.permute(1, 2, 0).double(), 1.0)
    assert math.isclose(float(value.detach()), 1.0 - float(loss), rel_tol=1e-5, abs_tol=1e-6)
    assert torch.allclose(leaf.grad, -gradient.permute(2, 0, 1).float(), atol=1e-6)


def test_neighbours() -> None:
    points = torch.tensor([[0.0, 0, 0], [1.0, 0, 0], [0, 2.0, 0], [0, 0, 3.0]])
    assert torch.allclose(packages.dist_cuda2(points)[0], torch.tensor((1.0 + 4.0 + 9.0) / 3.0))


def test_selective_adam_moves_visible_rows_only() -> None:
    parameter = torch.nn.Parameter(torch.zeros(4, 2))
    optimizer = rasterizer.SparseGaussianAdam([{"params": [parameter], "lr": 0.1, "name": "xyz"}], lr=0.0, eps=1e-15)
    parameter.grad = torch.ones(4, 2)
    seen = torch.tensor([True, False, True, False])
    optimizer.step(seen, 4)
    moved = 0.1 * 0.1 / math.sqrt(0.001)  # lr · (1 - β1) / √(1 - β2): no bias correction
    assert torch.allclose(parameter[seen], torch.tensor(-moved), rtol=1e-4)
    assert not parameter[~seen].any()


def test_cuda_is_the_cpu_inside_and_nowhere_else() -> None:
    with OnCpu(), no_gpu():
        assert torch.zeros(2, device="cuda").device.type == "cpu"
        assert torch.ones(2).cuda().to("cuda:0").to(torch.device("cuda")).device.type == "cpu"
        torch.cuda.synchronize()
        torch.cuda.Event(enable_timing=True).record()
    elsewhere: list[bool] = []

    def other() -> None:
        try:
            torch.zeros(2, device="cuda:77")
            elsewhere.append(False)
        except Exception:
            elsewhere.append(True)

    with OnCpu():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert elsewhere == [True]


@pytest.mark.parametrize("name", ["tqdm", "cv2"])
def test_installed_packages_are_left_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert name in packages.missing()
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    assert packages.missing() == {}
