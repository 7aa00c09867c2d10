"""The 2DGS recipe: its table, schedules, densification and file, apart from training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from odin.errors import InputError, RunError
from odin.inflation import Inflation
from odin.keeper import Keeper
from odin.recipe import Event
from pipelines import surfel_columns as columns
from pipelines.export import fields, read_ply, write_ply
from pipelines.reference.surfel_settings import SurfelSettings
from pipelines.reference.twodgs import SurfelSplatting
from pipelines.render.surfels import SurfelRenderer
from tests.pipelines.adversary import POINTS, capture


def recipe(**settings: object) -> SurfelSplatting:
    return SurfelSplatting(capture(3), SurfelSettings(**settings), SurfelRenderer(), steps=600, batch=2)


def test_table_has_58_columns_in_two_groups() -> None:
    model = recipe()
    assert model.table.parameters.shape == (round(0.9 * POINTS), 58)
    assert [(g.first, g.last) for g in model.table.layout.groups][:2] == [(0, 10), (10, 58)]
    covered = sorted(k for part in model.kinds.values() for k in range(part.start, part.stop))
    assert covered == list(range(58))
    rotation = model.table.parameters[:, columns.ROTATION]
    assert rotation.min() >= 0 and rotation.max() < 1 and rotation.std() > 0.2
    assert torch.equal(model.table.parameters[:, 3], model.table.parameters[:, 4])


def test_learning_rates_and_displacement() -> None:
    model = recipe()
    lr = model.learning_rates(0)
    s = model.settings
    assert lr.shape == (58,)
    assert lr[columns.SCALE].tolist() == [s.scaling_lr] * 2 and lr[columns.ROTATION].tolist() == [s.rotation_lr] * 4
    assert lr[columns.OPACITY] == s.opacity_lr and lr[columns.F_REST].max() == s.feature_lr / 20
    shift, growth = model.displacement(0, 2.0)
    assert shift == pytest.approx(2 * np.sqrt(3) * lr[0]) and growth == pytest.approx(2 * s.scaling_lr)


def test_terms_start_at_their_images() -> None:
    settings = SurfelSettings(lambda_dist=100.0, depth_ratio=1.0)
    weights = [settings.weights(images, 600) for images in (0, 59, 60, 139, 140, 599)]
    assert [w.distortion for w in weights] == [0.0, 0.0, 100.0, 100.0, 100.0, 100.0]
    assert [w.normal for w in weights] == [0.0, 0.0, 0.0, 0.0, 0.05, 0.05]
    assert {w.depth_ratio for w in weights} == {1.0}


def test_settings_that_mean_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="lambda_dist"):
        SurfelSettings(lambda_dist=-1.0)
    with pytest.raises(InputError, match="depth_ratio"):
        SurfelSettings(depth_ratio=1.5)


def test_terms_change_the_gradient_only_after_their_start() -> None:
    plain, termed = (recipe(lambda_normal=n, lambda_dist=d) for n, d in ((0.0, 0.0), (5.0, 100.0)))
    found = []
    for step in (0, 500):
        keeper = Keeper()
        keeper.step = step
        for model in (plain, termed):
            rows = np.flatnonzero(np.ones(len(model.table), bool)).astype(np.int32)
            frame = model.project(0, rows, keeper)
            model.render(frame, keeper)
            model.backward_colours(frame)
            found.append(model.backward_geometry(frame))
    assert np.array_equal(found[0], found[1])
    assert not np.allclose(found[2], found[3])
    assert np.array_equal(found[0], found[2])


def test_split_samples_lie_in_the_surfel_and_weak_rows_are_pruned() -> None:
    model = recipe()
    table = model.table
    with torch.no_grad():
        table.parameters[:, columns.SCALE] = 2.0  # large: split
        table.parameters[:10, columns.OPACITY] = -3.2  # opacity 0.039, below 2DGS's 0.05 and above 3DGS's 0.005
        table.parameters[10:, columns.OPACITY] = 0.0
    before = table.parameters.clone()
    model.statistics.local[10:, 0] = 1 << 40
    model.statistics.local[10:, 1] = 1
    model.restructure(0, Event.DENSIFY, 1, lambda tensor: None, Keeper())
    rows = len(before)
    assert len(model.table) == 2 * (rows - 10)
    after = model.table.parameters.numpy()
    assert np.allclose(after[:, columns.SCALE], 2.0 - np.log(1.6), atol=1e-6)
    # Each child lies in the plane of a row with its rotation.
    parents = {tuple(row): k for k, row in enumerate(before[:, columns.ROTATION].tolist())}
    for child in after[:40]:
        parent = before[parents[tuple(child[columns.ROTATION].tolist())]].numpy()
        w, x, y, z = parent[columns.ROTATION] / np.linalg.norm(parent[columns.ROTATION])
        normal = np.array([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)])
        offset = child[:3] - parent[:3]
        assert abs(offset @ normal) < 1e-4 * (1 + np.linalg.norm(offset))


def test_densifying_right_after_a_reset_is_refused() -> None:
    model = recipe()
    model.restructure(0, Event.RESET, 1, lambda tensor: None, Keeper())
    with pytest.raises(RunError, match="pruned all"):
        model.restructure(1, Event.DENSIFY, 2, lambda tensor: None, Keeper())


def test_reset_lowers_opacities() -> None:
    model = recipe()
    model.table.m[:] = 1.0
    model.restructure(0, Event.RESET, 1, lambda tensor: None, Keeper())
    assert torch.sigmoid(model.table.parameters[:, columns.OPACITY]).max() <= 0.0100001
    assert not model.table.m[:, columns.OPACITY].any() and model.table.m[:, :3].all()


def test_ply_round_trips_with_two_scales(tmp_path: Path) -> None:
    parameters = np.random.default_rng(0).normal(size=(7, 58)).astype(np.float32)
    write_ply(tmp_path / "a.ply", parameters)
    assert read_ply(tmp_path / "a.ply").tobytes() == parameters.tobytes()
    text = (tmp_path / "a.ply").read_bytes()
    assert b"scale_1" in text and b"scale_2" not in text
    assert fields(2)[-7:] == ["opacity", "scale_0", "scale_1", "rot_0", "rot_1", "rot_2", "rot_3"]


def test_ellipsoids_and_back() -> None:
    table = np.random.default_rng(1).normal(size=(5, 58)).astype(np.float32)
    solid = columns.as_ellipsoids(table)
    assert solid.shape == (5, 59) and (solid[:, 5] == -50).all()
    assert columns.from_ellipsoids(solid).tobytes() == table.tobytes()


def test_scope_holds_what_is_drawn_and_image_needs_no_more() -> None:
    model = recipe()
    scope = model.scope(range(len(model.cameras)), Inflation.none(len(model.table)))
    assert scope.shape[0] == len(model.cameras)
    camera = model.cameras[1]
    whole = model.project(1, np.arange(len(model.table), dtype=np.int32), Keeper())
    model.render(whole, Keeper())
    assert np.array_equal(model.image(camera), whole.image.numpy())


def test_replaced_settings_keep_their_kind() -> None:
    assert isinstance(replace(SurfelSettings(), densify_at=(3,)), SurfelSettings)
