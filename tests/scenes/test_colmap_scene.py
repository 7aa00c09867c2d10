"""COLMAP scenes end to end: what a Capture holds, and the inputs that users report (ACCEPTANCE.md A1–A4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pycolmap
import pytest
from PIL import Image

from harness.scenes import SceneSpec, load_scene
from odin.errors import InputError
from pipelines.capture import Capture

from .toy_scene import ToyCamera, ToyModel, draw, toy_model, write_images, write_model, write_toy_scene


def load(folder: Path, **changes: object) -> Capture:
    return load_scene(SceneSpec(path=str(folder), **{"test_every": 0, **changes}))


def track_lists(capture: Capture) -> list[list[int]]:
    tracks = capture.tracks
    return [list(tracks.views[a:b]) for a, b in zip(tracks.offsets, tracks.offsets[1:], strict=False)]


def shared_points(model: ToyModel) -> dict[tuple[str, str], int]:
    """Pair of names → points both observe, counted from the model by brute force."""
    seen = {image.name: {p for _, _, p in image.observed if p >= 0} for image in model.images}
    return {(a, b): len(seen[a] & seen[b]) for a, b in combinations(sorted(seen), 2)}


def shared_tracks(capture: Capture) -> dict[tuple[str, str], int]:
    names = [camera.name for camera in capture.cameras]
    sets: list[set[int]] = [set() for _ in names]
    for row, views in enumerate(track_lists(capture)):
        for view in views:
            sets[view].add(row)
    return {(names[a], names[b]): len(sets[a] & sets[b]) for a, b in combinations(range(len(names)), 2)}


def assert_equal(a: Capture, b: Capture) -> None:
    for left, right in zip(a.cameras, b.cameras, strict=True):
        assert (left.name, left.width, left.height) == (right.name, right.width, right.height)
        assert (left.fx, left.fy, left.cx, left.cy) == (right.fx, right.fy, right.cx, right.cy)
        np.testing.assert_array_equal(left.rotation, right.rotation)
        np.testing.assert_array_equal(left.translation, right.translation)
    for field in ("images", "train", "test", "points", "colours"):
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field))
    np.testing.assert_array_equal(a.tracks.offsets, b.tracks.offsets)
    np.testing.assert_array_equal(a.tracks.views, b.tracks.views)


def test_binary_and_text_give_equal_captures(tmp_path: Path) -> None:
    model = write_toy_scene(tmp_path / "a", kinds=["binary"])
    write_toy_scene(tmp_path / "b", model, kinds=["text"])
    binary, text = load(tmp_path / "a"), load(tmp_path / "b")
    assert_equal(binary, text)
    assert len(binary.cameras) == 12
    assert binary.points.shape == (300, 3)
    assert binary.manifest != text.manifest


def test_a_capture_holds_what_the_model_says(tmp_path: Path) -> None:
    model = write_toy_scene(tmp_path)
    capture = load(tmp_path)
    for camera, pixels, image in zip(capture.cameras, capture.images, model.images, strict=True):
        assert camera.name == image.name
        np.testing.assert_array_equal(pixels, draw(model, image))
        for x, y, point in image.observed[1:]:
            local = camera.rotation @ capture.points[point - 1] + camera.translation
            assert camera.fx * local[0] / local[2] + camera.cx == pytest.approx(x, abs=1e-9)
            assert camera.fy * local[1] / local[2] + camera.cy == pytest.approx(y, abs=1e-9)
    assert [tuple(rgb) for rgb in capture.colours] == [point.rgb for point in model.points]
    assert track_lists(capture) == [[image - 1 for image, _ in point.track] for point in model.points]


def test_pycolmap_reads_the_same(tmp_path: Path) -> None:
    write_toy_scene(tmp_path)
    capture = load(tmp_path)
    assert_matches_pycolmap(capture, tmp_path / "sparse" / "0")


def assert_matches_pycolmap(capture: Capture, folder: Path) -> None:
    """The plain reference for our reader: pycolmap's objects, one by one, at full image size."""
    reference = pycolmap.Reconstruction(folder)
    images = sorted(reference.images.values(), key=lambda image: image.name)
    view_of = {image.image_id: view for view, image in enumerate(images)}
    for camera, image in zip(capture.cameras, images, strict=True):
        pose = image.cam_from_world
        pose = pose() if callable(pose) else pose  # a property before pycolmap 3.12
        np.testing.assert_allclose(camera.rotation, pose.rotation.matrix(), atol=1e-12)
        np.testing.assert_allclose(camera.translation, pose.translation, atol=1e-12)
        assert camera.fx == pytest.approx(image.camera.focal_length_x)
        assert camera.cy == pytest.approx(image.camera.principal_point_y)
    points = [reference.points3D[key] for key in sorted(reference.points3D)]
    np.testing.assert_array_equal(capture.points, [point.xyz for point in points])
    np.testing.assert_array_equal(capture.colours, [point.color for point in points])
    expected = [[view_of[element.image_id] for element in point.track.elements] for point in points]
    assert track_lists(capture) == expected


def test_text_is_used_where_there_is_no_complete_binary_model(tmp_path: Path) -> None:
    write_toy_scene(tmp_path, kinds=["text", "binary"])
    (tmp_path / "sparse/0/points3D.bin").unlink()
    assert len(load(tmp_path).points) == 300


def test_a_model_directly_in_sparse_is_found(tmp_path: Path) -> None:
    model = toy_model()
    write_images(tmp_path / "images", model)
    write_model(tmp_path / "sparse", model)
    assert len(load(tmp_path).cameras) == 12


def test_views_are_sorted_by_name_whatever_the_ids(tmp_path: Path) -> None:
    model = toy_model(views=5)
    names = ["e.png", "sub dir/a b.png", "c.png", "B.png", "sub dir/Z.png"]
    images = tuple(replace(image, name=name) for image, name in zip(model.images, names, strict=True))
    model = replace(model, images=images[::-1])
    write_toy_scene(tmp_path / "a", model, kinds=["text"])
    write_toy_scene(tmp_path / "b", model, kinds=["binary"])
    capture = load(tmp_path / "a")
    assert [camera.name for camera in capture.cameras] == sorted(names)
    assert_equal(capture, load(tmp_path / "b"))
    for camera, pixels in zip(capture.cameras, capture.images, strict=True):
        image = next(image for image in model.images if image.name == camera.name)
        np.testing.assert_array_equal(pixels, draw(model, image))


@pytest.mark.parametrize(("every", "test"), [(0, []), (8, [0, 8]), (5, [0, 5, 10]), (100, [0])])
def test_split(tmp_path: Path, every: int, test: list[int]) -> None:
    write_toy_scene(tmp_path)
    capture = load(tmp_path, test_every=every)
    assert list(capture.test) == test
    assert sorted([*capture.test, *capture.train]) == list(range(12))
    assert capture.train.dtype == capture.test.dtype == np.int32


def test_holding_out_every_view_is_refused(tmp_path: Path) -> None:
    write_toy_scene(tmp_path)
    with pytest.raises(InputError, match="test_every=1 holds out all 12"):
        load(tmp_path, test_every=1)


def test_manifest_depends_on_content_and_split_and_not_on_the_place(tmp_path: Path) -> None:
    write_toy_scene(tmp_path / "a")
    write_toy_scene(tmp_path / "b")
    first = load(tmp_path / "a").manifest
    assert load(tmp_path / "b").manifest == first
    assert load(tmp_path / "b", test_every=8).manifest != first
    file = tmp_path / "b/images/view_01.png"
    Image.fromarray(np.asarray(Image.open(file)) // 2).save(file)
    assert load(tmp_path / "b").manifest != first


def test_nothing_is_written_below_the_scene(tmp_path: Path) -> None:
    write_toy_scene(tmp_path, kinds=["binary", "text"])

    def listing() -> Iterator[tuple[Path, int]]:
        return ((path, path.stat().st_mtime_ns) for path in sorted(tmp_path.rglob("*")))

    before = list(listing())
    load(tmp_path)
    assert list(listing()) == before


def test_smaller_folders_rescale_each_axis_on_its_own(tmp_path: Path) -> None:
    write_toy_scene(tmp_path)
    (tmp_path / "images_5").mkdir()
    for file in (tmp_path / "images").iterdir():
        Image.open(file).resize((10, 7)).save(tmp_path / "images_5" / file.name)
    full, small = load(tmp_path).cameras[0], load(tmp_path, images="images_5").cameras[0]
    assert (small.width, small.height) == (10, 7)
    assert small.fx == pytest.approx(full.fx * 10 / 48)
    assert small.fy == pytest.approx(full.fy * 7 / 36)
    assert (small.cx, small.cy) == (pytest.approx(5.0), pytest.approx(3.5))


# A1: layout


def test_a_missing_image_is_named(tmp_path: Path) -> None:
    write_toy_scene(tmp_path)
    (tmp_path / "images/view_05.png").unlink()
    with pytest.raises(InputError, match=r"1 of 12 images of the model are missing: view_05.png\."):
        load(tmp_path)


def test_skipping_a_missing_image_keeps_every_other_pose(tmp_path: Path) -> None:
    model = write_toy_scene(tmp_path)
    whole = load(tmp_path)
    (tmp_path / "images/view_05.png").unlink()
    told: list[str] = []
    spec = SceneSpec(path=str(tmp_path), test_every=0, skip_missing=True)
    capture = load_scene(spec, progress=told.append)
    assert len(capture.cameras) == len(capture.train) == capture.tracks.view_count == 11
    assert any("view_05.png" in line for line in told)
    for camera, pixels in zip(capture.cameras, capture.images, strict=True):
        view = int(camera.name[5:7]) - 1
        np.testing.assert_array_equal(camera.rotation, whole.cameras[view].rotation)
        np.testing.assert_array_equal(pixels, draw(model, model.images[view]))
    expected = {pair: n for pair, n in shared_points(model).items() if "view_05.png" not in pair}
    assert shared_tracks(capture) == expected


def test_skipping_does_not_help_when_all_are_missing(tmp_path: Path) -> None:
    write_toy_scene(tmp_path)
    for file in (tmp_path / "images").iterdir():
        file.rename(file.with_suffix(".PNG"))
    with pytest.raises(InputError, match=r"12 of 12 .* and 7 more\. The folder has view_01.PNG"):
        load(tmp_path, skip_missing=True)


# A2: the COLMAP model


@pytest.mark.parametrize("kind", ["binary", "text"])
def test_ids_with_gaps_an_empty_view_and_untracked_observations(tmp_path: Path, kind: str) -> None:
    model = toy_model().unseen_by(4)
    ids = [3, 7, 50, 900, 901, 1000, 4_000_000_000, 12, 11, 77, 5, 2]
    model = model.with_ids(ids, [7 * row + 1_000_000 for row in range(300)][::-1])
    write_toy_scene(tmp_path, model, kinds=[kind])
    if kind == "text":
        assert "view_04.png\n\n" in (tmp_path / "sparse/0/images.txt").read_text()
    capture = load(tmp_path)
    assert len(capture.cameras) == 12
    assert 3 not in capture.tracks.views
    assert shared_tracks(capture) == shared_points(model)


def test_the_last_observation_line_may_be_missing(tmp_path: Path) -> None:
    write_toy_scene(tmp_path, toy_model().unseen_by(12), kinds=["text"])
    file = tmp_path / "sparse/0/images.txt"
    file.write_text(file.read_text().rstrip("\n"))
    assert len(load(tmp_path).cameras) == 12


def test_windows_line_ends_and_byte_order_mark(tmp_path: Path) -> None:
    write_toy_scene(tmp_path / "a", kinds=["text"])
    write_toy_scene(tmp_path / "b", kinds=["text"])
    for file in (tmp_path / "b/sparse/0").iterdir():
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    assert_equal(load(tmp_path / "a"), load(tmp_path / "b"))


# A3: image content


def with_second_camera(model: ToyModel, camera: ToyCamera) -> ToyModel:
    images = tuple(
        replace(image, camera_id=camera.camera_id) if image.image_id > 7 else image for image in model.images
    )
    return replace(model, cameras=(*model.cameras, camera), images=images)


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("SIMPLE_RADIAL", (44.0, 24.0, 18.0, 0.05)),
        ("RADIAL", (44.0, 24.0, 18.0, 0.0, 1e-9)),
        ("OPENCV", (44.0, 44.0, 24.0, 18.0, 0.0, 0.0, 0.0, 0.01)),
        ("OPENCV_FISHEYE", (44.0, 44.0, 24.0, 18.0, 0.0, 0.0, 0.0, 0.0)),
    ],
)
def test_a_distorted_camera_is_refused(tmp_path: Path, kind: str, params: tuple[float, ...]) -> None:
    camera = ToyCamera(camera_id=9, model=kind, params=params)
    write_toy_scene(tmp_path, with_second_camera(toy_model(), camera))
    with pytest.raises(InputError) as raised:
        load(tmp_path)
    message = str(raised.value)
    assert f"camera 9 is {kind}" in message
    assert "used by 5 image(s)" in message
    command = f"colmap image_undistorter --image_path {tmp_path}/images --input_path {tmp_path}/sparse/0"
    assert f"{command} --output_path {tmp_path}_undistorted" in message


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("SIMPLE_PINHOLE", (44.0, 24.0, 18.0)),
        ("SIMPLE_RADIAL", (44.0, 24.0, 18.0, 0.0)),
        ("RADIAL", (44.0, 24.0, 18.0, 0.0, 0.0)),
        ("OPENCV", (44.0, 44.0, 24.0, 18.0, 0.0, 0.0, 0.0, 0.0)),
    ],
)
@pytest.mark.parametrize("written", ["binary", "text"])
def test_zero_distortion_is_a_pinhole(tmp_path: Path, kind: str, params: tuple[float, ...], written: str) -> None:
    plain = toy_model()
    write_toy_scene(tmp_path / "plain", plain)
    changed = with_second_camera(plain, ToyCamera(camera_id=9, model=kind, params=params))
    write_toy_scene(tmp_path / "changed", changed, kinds=[written])
    assert_equal(load(tmp_path / "plain"), load(tmp_path / "changed"))


def test_a_distorted_camera_that_nobody_uses_does_not_matter(tmp_path: Path) -> None:
    bent = ToyCamera(camera_id=9, model="SIMPLE_RADIAL", params=(44.0, 24.0, 18.0, 0.05))
    write_toy_scene(tmp_path, replace(toy_model(), cameras=(ToyCamera(), bent)))
    assert len(load(tmp_path).cameras) == 12


# A4: degenerate


@pytest.mark.parametrize("kind", ["binary", "text"])
def test_points_without_tracks_load(tmp_path: Path, kind: str) -> None:
    write_toy_scene(tmp_path, toy_model().without_tracks(), kinds=[kind])
    capture = load(tmp_path)
    assert capture.points.shape == (300, 3)
    assert (capture.tracks.track_count, capture.tracks.view_count) == (0, 12)
