"""A1–A4: scenes with a missing image, odd ids, a distorted camera, no tracks."""

from __future__ import annotations

import csv
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from harness.config import load
from harness.plan.capture import training_views
from harness.run.workload import load_workload
from harness.store.schema import Status
from odin.planner import LocalityGraph
from tests.acceptance.bench import Bench, assert_once_an_epoch, assert_refused, assert_trained
from tests.scenes.toy_scene import ToyCamera, ToyModel, draw, toy_model, write_toy_scene

STEPS = ["steps=26", "views_per_unit=1"]  # two epochs of 12 views, of 11 as well


def brute_force(model: ToyModel, names: tuple[str, ...]) -> np.ndarray:
    """Jaccard similarity of every two views' sets of points (eq. 1), [V, V], 0 on the diagonal."""
    seen = {image.name: {p for _, _, p in image.observed if p >= 0} for image in model.images}
    found = np.zeros((len(names), len(names)))
    for a, b in combinations(range(len(names)), 2):
        both, either = seen[names[a]] & seen[names[b]], seen[names[a]] | seen[names[b]]
        found[a, b] = found[b, a] = len(both) / len(either) if either else 0.0
    return found


def dense(graph: LocalityGraph) -> np.ndarray:
    """All weights, [V, V]."""
    found = np.zeros((graph.view_count, graph.view_count))
    rows = np.repeat(np.arange(graph.view_count), graph.degree)
    found[rows, graph.neighbours] = graph.weights
    return found


def test_a1_a_missing_image_stops_the_run_before_it_starts(bench: Bench, tmp_path: Path) -> None:
    write_toy_scene(tmp_path / "scene")
    (tmp_path / "scene/images/view_05.png").unlink()
    ended = bench.reproduce(tmp_path / "scene")
    assert_refused(ended, str(tmp_path / "scene/images"), "1 of 12 images", "view_05.png", "skip_missing=true")
    assert "compile" not in ended.err, "rank processes were started"
    assert ended.code == 2


def test_a1_the_skip_option_leaves_the_other_views_as_they_were(bench: Bench, tmp_path: Path) -> None:
    model = write_toy_scene(tmp_path / "scene")
    (tmp_path / "scene/images/view_05.png").unlink()
    ended, named = bench.plan(tmp_path / "scene", "skip_missing=true", *STEPS)
    assert "view_05.png" in ended.err
    assert len(named.views) == 11 and "view_05.png" not in named.views
    assert_once_an_epoch(named.plan.units[:22], 11)
    workload = load_workload(load([f"scene={tmp_path / 'scene'}", "test_every=0", "skip_missing=true"]))
    views, capture = training_views(workload), workload.capture
    assert views.names == named.views
    np.testing.assert_allclose(dense(views.full_graph()), brute_force(model, views.names), atol=1e-6)
    poses = {image.name: image for image in model.images}
    for camera, pixels in zip(capture.cameras, capture.images, strict=True):
        np.testing.assert_array_equal(pixels, draw(model, poses[camera.name]), err_msg=camera.name)
        xyz = capture.points @ camera.rotation.T + camera.translation
        at = xyz[:, :2] / xyz[:, 2:] * (camera.fx, camera.fy) + (camera.cx, camera.cy)
        own = [(x, y, p - 1) for x, y, p in poses[camera.name].observed if p > 0]
        for x, y, row in own:
            np.testing.assert_allclose(at[row], (x, y), atol=1e-9)
            np.testing.assert_array_equal(pixels[int(y), int(x)], capture.colours[row])


def test_a2_ids_with_gaps_an_empty_view_and_untracked_observations(bench: Bench, tmp_path: Path) -> None:
    ids = [3, 7, 50, 900, 901, 4_000_000_000, 12, 11, 77, 5, 2, 1000]
    model = toy_model().unseen_by(4).with_ids(ids, range(10, 10 + 7 * 300, 7))
    write_toy_scene(tmp_path / "scene", model, kinds=["text"])
    lines = (tmp_path / "scene/sparse/0/images.txt").read_text()
    assert "view_04.png\n\n" in lines and " -1 " in lines
    _, named = bench.plan(tmp_path / "scene", *STEPS)
    assert len(named.views) == 12
    assert_once_an_epoch(named.plan.units, 12)
    workload = load_workload(load([f"scene={tmp_path / 'scene'}", "test_every=0"]))
    graph = training_views(workload).full_graph()
    np.testing.assert_allclose(dense(graph), brute_force(model, named.views), atol=1e-6)
    assert (graph.degree == 0).tolist() == [name == "view_04.png" for name in named.views]
    assert_trained(bench.reproduce(tmp_path / "scene"))


def two_cameras(distortion: float) -> ToyModel:
    """The fixture with the last five views taken by a SIMPLE_RADIAL camera."""
    model, pinhole = toy_model(), ToyCamera()
    other = ToyCamera(camera_id=6, model="SIMPLE_RADIAL", params=(*pinhole.params[1:], distortion))
    images = tuple(replace(image, camera_id=6) if image.image_id > 7 else image for image in model.images)
    return replace(model, cameras=(pinhole, other), images=images)


def test_a3_a_distorted_camera_is_refused_with_the_command_to_run(bench: Bench, tmp_path: Path) -> None:
    scene = tmp_path / "scene"
    write_toy_scene(scene, two_cameras(0.05))
    ended = bench.reproduce(scene)
    command = f"colmap image_undistorter --image_path {scene / 'images'} --input_path {scene / 'sparse/0'}"
    assert_refused(ended, "camera 6 is SIMPLE_RADIAL with distortion 0.05", "used by 5 image(s)", command)
    assert "compile" not in ended.err and ended.code == 2


def test_a3_without_distortion_it_runs(bench: Bench, tmp_path: Path) -> None:
    write_toy_scene(tmp_path / "scene", two_cameras(0.05))
    assert bench.reproduce(tmp_path / "scene").code == 2
    write_toy_scene(tmp_path / "scene", two_cameras(0.0))
    assert_trained(bench.reproduce(tmp_path / "scene"))  # the record of the refusal is gone


def test_a4_points_without_any_track_train(bench: Bench, tmp_path: Path) -> None:
    write_toy_scene(tmp_path / "scene", toy_model().without_tracks())
    ended, named = bench.plan(tmp_path / "scene", *STEPS)
    assert "coupling: no tracks: frustum overlap" in ended.out
    assert named.plan.provenance["graph"] == "no tracks: frustum overlap"
    assert_once_an_epoch(named.plan.units, 12)
    trained = bench.reproduce(tmp_path / "scene")
    assert_trained(trained)
    assert "no tracks: views are ordered by how far their frusta overlap" in trained.err


def test_a1_in_a_study_the_row_and_the_record_failed_and_the_others_stay(bench: Bench, tmp_path: Path) -> None:
    write_toy_scene(tmp_path / "scene")
    (tmp_path / "scene/images/view_05.png").unlink()
    study = tmp_path / "own.yaml"
    axes = f"scene: ['{tmp_path / 'scene'}', '{tmp_path / 'nowhere'}']"
    settings = "test_every: 0, ranks: 1, steps: 4, link: none, padded: false"
    study.write_text(f"set: {{{settings}}}\naxes: {{{axes}}}\npairs: [[barrier]]\n")
    ended = bench("run", str(study))
    assert ended.code == 1 and "Traceback" not in ended.out + ended.err
    reasons = [str(record.reason) for record in ended.records]
    assert {record.status for record in ended.records} == {Status.FAILED} and len(reasons) == 2
    rows = list(csv.DictReader((bench.folder / "studies/own/table.csv").read_text().splitlines()))
    first = [row for row in rows if row["state"] == "failed"]
    assert len(first) == 2 and all(row["reason"] in reasons for row in first)
    assert "view_05.png" in first[0]["reason"] and "does not exist" in first[1]["reason"]
