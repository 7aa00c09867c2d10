"""State into a fork's model and out again, which row became which, keyed draws, and scenes as files."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from plyfile import PlyData
from torch import nn

from odin.errors import InputError, RunError
from odin.table import ParameterTable
from pipelines.adapters import modules
from pipelines.adapters.cameras import our_camera, reach, watched
from pipelines.adapters.draws import drawn_from
from pipelines.adapters.mapping import GAUSSIANS, SURFELS, TensorMapping
from pipelines.adapters.modules import Fork, open_fork
from pipelines.adapters.pins import MARKER, Checkout, pins
from pipelines.adapters.staging import staged, view_name, view_number
from pipelines.adapters.structure import Followed, laid_in, taken_out
from pipelines.camera import Camera
from pipelines.reference.settings import Settings

ROWS = 7
each = pytest.mark.parametrize("tensors", [GAUSSIANS, SURFELS], ids=["gaussians", "surfels"])


class Toy:
    """A model with what all forks' models have: leaves, optimizers by group name, prune and postfix."""

    def __init__(self, tensors: TensorMapping, *, apart: bool) -> None:
        groups = []
        for kind in tensors.kinds:
            leaf = nn.Parameter(torch.zeros(ROWS, *kind.shape))
            setattr(self, kind.attribute, leaf)
            groups.append({"params": [leaf], "lr": 0.1, "name": kind.group})
        self.optimizer = torch.optim.Adam(groups[:5] if apart else groups)
        self.shoptimizer = torch.optim.Adam(groups[5:]) if apart else None

    @property
    def get_xyz(self) -> torch.Tensor:
        return self._xyz

    def prune_points(self, mask: torch.Tensor) -> None:
        self._xyz = self._xyz[~mask]

    def densification_postfix(self, xyz: torch.Tensor) -> None:
        self._xyz = torch.cat([self._xyz, xyz])

    def densify(self) -> None:
        """A copy of row 2, then without rows 0 and 2."""
        self.densification_postfix(self._xyz[2:3])
        self.prune_points(torch.tensor([True, False, True] + [False] * (len(self._xyz) - 3)))


def table(tensors: TensorMapping) -> ParameterTable:
    random_ = torch.Generator().manual_seed(0)
    made = ParameterTable(torch.randn(ROWS, tensors.layout.columns, generator=random_), tensors.layout)
    made.m.copy_(torch.randn(made.m.shape, generator=random_))
    made.v.copy_(torch.rand(made.v.shape, generator=random_))
    made.t = 9
    return made


@each
@pytest.mark.parametrize("apart", [False, True])
def test_what_goes_in_comes_out(tensors: TensorMapping, apart: bool) -> None:
    model, own = Toy(tensors, apart=apart), table(tensors)
    laid_in(model, tensors, own)
    p, m, v = taken_out(model, tensors)
    assert torch.equal(p, own.parameters) and torch.equal(m, own.m) and torch.equal(v, own.v)
    assert all(float(state["step"]) == 9.0 for state in model.optimizer.state.values())
    # Twice: no state of replaced leaves is left behind.
    laid_in(model, tensors, own)
    assert len(model.optimizer.state) == (5 if apart else 6)


@each
def test_columns_are_covered_once(tensors: TensorMapping) -> None:
    columns = [n for kind in tensors.kinds for n in range(kind.columns.start, kind.columns.stop)]
    assert columns == list(range(tensors.layout.columns))
    assert sum(int(np.prod(kind.shape)) for kind in tensors.kinds) == len(columns)
    assert tensors.kinds[tensors.geometry - 1].columns.stop == tensors.layout.groups[0].last


@each
def test_leaves_share_storage_and_no_version_counter(tensors: TensorMapping) -> None:
    rows = torch.randn(ROWS, tensors.layout.columns)
    leaves = tensors.leaves(rows)
    assert torch.equal(tensors.table(leaves), rows)
    loss = leaves["_xyz"].square().sum()
    rows.mul_(2.0)  # an alias by detach would make the backward pass fail here
    loss.backward()
    assert leaves["_xyz"].grad is not None
    assert torch.equal(leaves["_xyz"].data, rows[:, :3])


def test_rows_are_followed() -> None:
    model = Toy(GAUSSIANS, apart=False)
    laid_in(model, GAUSSIANS, table(GAUSSIANS))
    before = model._xyz.detach().clone()
    with Followed(model, ROWS) as followed:
        model.densify()
    assert followed.source.tolist() == [1, 3, 4, 5, 6, -1]
    kept = followed.source >= 0
    assert torch.equal(model._xyz.detach()[kept], before[followed.source[kept]])
    assert "prune_points" not in vars(model), "the model's own methods are back"


def test_draws_are_keyed_and_put_back() -> None:
    def draw() -> tuple:
        return random.random(), float(np.random.rand()), float(torch.rand(()))  # noqa: NPY002 (what forks draw from)

    torch.manual_seed(1)
    before = torch.get_rng_state()
    seen = []
    for key in ((3, 1), (3, 1), (3, 2), (3, 1, 1)):
        with drawn_from(*key):
            seen.append(draw())
    assert seen[0] == seen[1]
    assert len({seen[0], seen[2], seen[3]}) == 3
    assert torch.equal(torch.get_rng_state(), before)


def test_one_fork_in_a_process(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules, "_opened", [])
    monkeypatch.setattr("sys.path", [])
    first = Checkout(pin=pins()["3dgs"], folder=tmp_path / "a", commit="", changed=False)
    second = Checkout(pin=pins()["2dgs"], folder=tmp_path / "b", commit="", changed=False)
    assert open_fork(first, stand_ins=False) is open_fork(first, stand_ins=False)
    with pytest.raises(RunError, match=r"already imported the fork 3dgs .* 2dgs .* needs one of its own"):
        open_fork(second, stand_ins=False)


def test_what_a_fork_lacks_is_one_paragraph(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / MARKER).parent.mkdir()
    (tmp_path / "needs_an_extension.py").write_text("import no_such_extension")
    monkeypatch.syspath_prepend(str(tmp_path))
    checkout = Checkout(pin=pins()["3dgs"], folder=tmp_path, commit="", changed=False)
    fork = Fork(checkout, stand_ins=False)
    with pytest.raises(InputError, match=r"No module named 'no_such_extension'.*odin-bench doctor"):
        fork.module("needs_an_extension")
    with pytest.raises(RunError, match="belongs to"):
        fork.module("json")


def view(width: int, height: int) -> SimpleNamespace:
    pose = torch.eye(4)
    pose[3, :3] = torch.tensor([1.0, 2.0, 3.0])
    return SimpleNamespace(
        image_name="000002", image_width=width, image_height=height, FoVx=1.0, FoVy=0.8, world_view_transform=pose
    )


def test_scopes_are_taken_of_a_margin_around_the_image() -> None:
    """A row that the forks' kernels count in up to 2 pixels outside is in the box; nothing moves."""
    camera = our_camera(view(64, 48))
    wide = watched(camera)
    assert (wide.width - camera.width, wide.height - camera.height) == (16, 16)
    assert (wide.fx, wide.fy) == (camera.fx, camera.fy)
    assert (wide.cx - camera.cx, wide.cy - camera.cy) == (8, 8)


def test_cameras_keep_their_field_of_view() -> None:
    whole, half = our_camera(view(64, 48)), our_camera(view(64, 48), (24, 32))
    assert (half.width, half.height, half.fx) == (32, 24, pytest.approx(whole.fx / 2))
    assert np.allclose(whole.translation, [1, 2, 3])
    assert (whole.cx, whole.cy) == (32, 24)
    assert 0.0 < reach([whole]) < 1.0


def test_wider_lenses_reach_further() -> None:
    narrow, wide = our_camera(view(64, 48)), our_camera(view(64, 48))
    wide = Camera(**{**vars(wide), "fx": wide.fx / 2, "fy": wide.fy / 2})
    assert reach([narrow, wide]) == reach([wide]) > reach([narrow])


def capture(points: int) -> SimpleNamespace:
    """Three views, of which the last two are trained on."""
    random_ = np.random.default_rng(0)
    cameras = [
        Camera(name=f"x/{n}.jpg", width=8, height=6, fx=7.0 + n, fy=7.5, cx=4.5, cy=3.0, rotation=np.eye(3),
               translation=np.array([n, 0.25, -1e-9]))
        for n in range(3)
    ]  # fmt: skip
    return SimpleNamespace(
        name="toy",
        cameras=cameras,
        images=[random_.integers(0, 256, (6, 8, 3), dtype=np.uint8) for _ in range(3)],
        train=np.array([1, 2], np.int32),
        points=random_.normal(size=(points, 3)),
        colours=random_.integers(0, 256, (points, 3), dtype=np.uint8),
        manifest="m",
    )


def test_a_scene_becomes_files_that_lose_nothing(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODIN_CACHE", str(tmp_path))
    given = capture(20)
    folder = staged(given, Settings(seed=1, initial_subsample=0.5))
    assert folder.is_relative_to(tmp_path)
    for number, index in enumerate(given.train):
        with Image.open(folder / "images" / view_name(number)) as image:
            assert (np.asarray(image) == given.images[index]).all()
    lens = (folder / "sparse" / "0" / "cameras.txt").read_text().splitlines()[1].split()
    assert lens[1] == "PINHOLE" and [float(n) for n in lens[4:]] == [9.0, 7.5, 4.5, 3.0]
    pose = (folder / "sparse" / "0" / "images.txt").read_text().splitlines()[2].split()
    assert [float(n) for n in pose[5:8]] == [2.0, 0.25, -1e-9]
    assert view_number(pose[9]) == view_number("000001") == 1
    vertices = PlyData.read(str(folder / "sparse" / "0" / "points3D.ply"))["vertex"]
    kept = np.stack([vertices[axis] for axis in "xyz"], axis=1)
    assert len(kept) == 10
    assert all((given.points.astype(np.float32) == row).all(axis=1).any() for row in kept)
    # Made once; another seed starts from other points.
    assert staged(given, Settings(seed=1, initial_subsample=0.5)) == folder
    assert staged(given, Settings(seed=2, initial_subsample=0.5)) != folder


def test_too_few_points_are_refused(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODIN_CACHE", str(tmp_path))
    with pytest.raises(InputError, match="at least 4"):
        staged(capture(3), Settings())
