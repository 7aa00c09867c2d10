"""Projection of surfels: against matrices and planes, boxes that cut nothing off, and the whole chain's gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pipelines.camera import Camera
from pipelines.render.surfels import SurfelRenderer
from tests.render import dense as ellipsoids
from tests.render import surfel_dense as dense
from tests.render.scenes import BACKGROUND, make_camera
from tests.render.surfel_dense import make_surfels
from tests.render.test_surfel_blend import MAPS, depth_order, edge_on, stacked, upstream

RENDERER = SurfelRenderer()


@pytest.mark.parametrize("fov", [20.0, 60.0, 110.0])
def test_homography_is_the_crossing_of_two_planes(fov: float) -> None:
    camera = make_camera(40, 30, fov=fov)
    geometry, _ = make_surfels(60, camera, seed=1)
    projection = RENDERER.project(geometry, camera)
    rows = dense.project(geometry.double(), camera)["rows"]
    assert (projection.means2d.double() - rows[:, :2, 2] / rows[:, 2:, 2]).abs().max() < 1e-5
    k = dense.transforms(rows)
    ours = projection.transforms.double()
    ours = ours * (k[:, 4:5] / ours[:, 4:5])
    assert (ours - k).norm() < 1e-6 * k.norm()
    dx, dy = dense._offsets(rows[:, :2, 2] / rows[:, 2:, 2], camera)
    for a, b in zip(dense.intersect(k, k, dx, dy), dense.intersect_planes(rows, camera), strict=True):
        assert ((a - b).abs() / (1 + b.abs())).median() < 1e-9


def test_behind_the_camera_is_culled() -> None:
    camera = make_camera()
    geometry, _ = make_surfels(200, camera, behind=0.5)
    projection = RENDERER.project(geometry, camera)
    behind = projection.depths <= 0.2
    assert 60 < behind.sum() < 140
    assert not projection.radii[behind].any() and (projection.extents[behind] < 0).all()
    assert not projection.transforms[behind].any()


def test_normals_face_the_camera() -> None:
    camera = make_camera()
    geometry, _ = make_surfels(200, camera)
    normals = RENDERER.project(geometry, camera).normals.numpy()
    points = geometry[:, :3].numpy() @ camera.rotation.T + camera.translation
    assert ((normals * points).sum(1) < 0).all()
    assert np.allclose(np.linalg.norm(normals, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("kind", ["ordinary", "thin", "edge on", "huge", "large"])
def test_boxes_hold_every_fragment(kind: str) -> None:
    """Alpha of at least 1/255 outside the box happens nowhere, except within rounding of the threshold."""
    camera = make_camera(64, 48)
    geometry, _ = make_surfels(300, camera, seed=4, pixels=12.0 if kind == "large" else 3.0)
    if kind == "thin":
        geometry[:, 3] -= 4.0
    if kind == "edge on":
        geometry, _ = edge_on(camera, 0.05)
    if kind == "huge":
        geometry[:, 3:5] += 2.5
    p = RENDERER.project(geometry, camera)
    exact = dense.project(geometry.double(), camera)
    dx, dy = dense._offsets(exact["means2d"], camera)
    u, v, depth = dense.intersect(exact["means2d"], dense.transforms(exact["rows"]), dx, dy)
    rho, blur = u * u + v * v, 2.0 * (dx * dx + dy * dy)
    met = rho <= blur
    alpha = exact["opacities"][:, None] * torch.exp(-0.5 * torch.where(met, rho, blur))
    seen = torch.where(met, depth, exact["depths"][:, None]) >= 0.2
    drawn = (alpha >= (1 + 1e-4) / 255) & seen & (exact["depths"] > 0.2)[:, None]
    x, y = dense._offsets(p.middles.double(), camera)
    inside = (x.abs() <= p.extents[:, :1]) & (y.abs() <= p.extents[:, 1:])
    assert drawn.any()
    assert not (drawn & ~inside).any()
    assert p.radii[drawn.any(1)].min() > 0


def chain(geometry: torch.Tensor, sh: torch.Tensor, camera: Camera, degree: int) -> dict[str, torch.Tensor]:
    """Gradients of geometry and sh, ours and the reference's, for one random gradient of all maps."""
    projection = RENDERER.project(geometry, camera)
    bins = RENDERER.bin(projection, camera)
    rgb = RENDERER.colour(geometry, sh, camera, degree)
    blended = RENDERER.blend(projection, bins, rgb, camera, BACKGROUND)
    leaf, colours = geometry.double().requires_grad_(), sh.double().requires_grad_()
    p = dense.project(leaf, camera)
    order = depth_order(projection)
    dx, dy = dense._offsets(p["means2d"][order], camera)
    hits = dense.intersect(p["means2d"][order], dense.transforms(p["rows"])[order], dx, dy)
    seen = ellipsoids.colour(leaf, colours, camera, degree)
    theirs, unsure, _ = dense.composite(p, hits, seen, order, camera, BACKGROUND.double())
    given = {n: g * (~unsure if g.ndim == 2 else ~unsure[..., None]) for n, g in upstream(camera).items()}
    sum((theirs[n] * given[n].double()).sum() for n in MAPS).backward()
    grads = RENDERER.blend_backward(projection, bins, blended, given["image"], stacked(given))
    ours, centres = RENDERER.project_backward(geometry, camera, projection, grads)
    direction, ours_sh = RENDERER.colour_backward(geometry, sh, camera, degree, rgb, grads.rgb)
    assert leaf.grad is not None and colours.grad is not None
    return {
        "geometry": ours + direction,
        "sh": ours_sh,
        "dense geometry": leaf.grad,
        "dense sh": colours.grad,
        "centres": centres,
    }


PARTS = {"xyz": slice(0, 3), "scale": slice(3, 5), "rotation": slice(5, 9), "opacity": slice(9, 10)}


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("pixels", [1.0, 5.0])
def test_gradients_of_the_whole_chain(degree: int, pixels: float) -> None:
    camera = make_camera(64, 48, seed=degree)
    found = chain(*make_surfels(150, camera, seed=degree, pixels=pixels), camera, degree)
    for name, part in PARTS.items():
        ours, theirs = found["geometry"][:, part].double(), found["dense geometry"][:, part]
        assert (ours - theirs).norm() <= 5e-5 * theirs.norm(), name
    assert (found["sh"].double() - found["dense sh"]).norm() <= 5e-5 * found["dense sh"].norm()


def test_statistic_is_the_gradient_of_the_homographys_last_column() -> None:
    """Upstream's: dL/d(x·z of the centre) · z with the rest of the homography held, here by finite differences of
    the dense image in float64."""
    camera = make_camera(48, 32)
    geometry, sh = make_surfels(12, camera, pixels=6.0)
    found = chain(geometry, sh, camera, 0)
    projection = RENDERER.project(geometry, camera)
    leaf = geometry.double()
    p = dense.project(leaf, camera)
    rows = p["rows"].detach().requires_grad_()
    means = rows[:, :2, 2] / rows[:, 2:, 2]
    order = depth_order(projection)
    dx, dy = dense._offsets(means[order], camera)
    hits = dense.intersect(means[order], dense.transforms(rows)[order], dx, dy)
    parts = p | {"means2d": means}
    seen = ellipsoids.colour(leaf, sh.double(), camera, 0)
    theirs, unsure, _ = dense.composite(parts, hits, seen, order, camera, BACKGROUND.double())
    given = {n: g * (~unsure if g.ndim == 2 else ~unsure[..., None]) for n, g in upstream(camera).items()}
    sum((theirs[n] * given[n].double()).sum() for n in MAPS).backward()
    assert rows.grad is not None
    expected = rows.grad[:, :2, 2] * rows[:, 2:, 2].detach()
    assert (found["centres"].double() - expected).norm() <= 5e-5 * expected.norm()


def test_misfits_are_errors() -> None:
    camera = make_camera()
    with pytest.raises(ValueError, match=r"expected torch\.float32"):
        RENDERER.project(torch.zeros(3, 11), camera)
    with pytest.raises(ValueError, match="degree"):
        RENDERER.colour(torch.zeros(3, 10), torch.zeros(3, 48), camera, 4)
