"""Densification, its statistics, Morton order, PLY files and checkpoints."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.errors import InputError
from pipelines.checkpoint import Checkpoint, Header, load, require_match, require_shape, save
from pipelines.columns import OPACITY, SCALE, XYZ
from pipelines.export import read_ply, write_ply
from pipelines.reference.densify import densify, reset_opacity
from pipelines.reference.morton import morton_order
from pipelines.reference.settings import Settings
from pipelines.reference.statistics import DensificationStatistics


def table(rows: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    out = rng.normal(size=(rows, 59)).astype(np.float32)
    out[:, SCALE] = np.log(0.001)
    out[:, OPACITY] = 2.0
    return out


def densified(parameters: np.ndarray, norm: np.ndarray, **more: bool):
    rng = np.random.default_rng(1)
    return densify(parameters, norm, Settings(), 1.0, rng, prune_large=more.get("prune_large", False))


def test_small_hot_rows_are_cloned_large_ones_split() -> None:
    parameters = table(5)
    parameters[3, SCALE] = np.log(0.5)
    norm = np.array([0.0, 1.0, 0.0, 1.0, 1e-5])
    result = densified(parameters, norm)
    assert (result.cloned, result.split, result.pruned) == (1, 1, 0)
    assert result.source.tolist() == [0, 1, 2, 4, -1, -1, -1]
    assert result.parameters[4].tobytes() == parameters[1].tobytes()
    assert np.allclose(np.exp(result.parameters[5:, SCALE]), 0.5 / 1.6)
    assert not np.allclose(result.parameters[5, XYZ], result.parameters[6, XYZ])


def test_faint_rows_are_pruned_and_large_ones_after_a_reset() -> None:
    parameters = table(4)
    parameters[0, OPACITY] = -10.0
    parameters[1, SCALE] = np.log(0.2)
    assert densified(parameters, np.zeros(4)).source.tolist() == [1, 2, 3]
    assert densified(parameters, np.zeros(4), prune_large=True).source.tolist() == [2, 3]


def test_reset_only_lowers() -> None:
    parameters = table(2)
    parameters[1, OPACITY] = -9.0
    reset_opacity(parameters, Settings())
    assert 1 / (1 + np.exp(-parameters[0, OPACITY])) == pytest.approx(0.01)
    assert parameters[1, OPACITY] == -9.0


@settings(max_examples=30, deadline=None)
@given(views=st.integers(1, 8), ranks=st.integers(1, 4), seed=st.integers(0, 100))
def test_statistics_do_not_depend_on_ranks_or_order(views: int, ranks: int, seed: int) -> None:
    rng, rows = np.random.default_rng(seed), 20
    seen = [
        (np.flatnonzero(rng.random(rows) < 0.6).astype(np.int32), rng.random(rows).astype(np.float32) * 1e-3)
        for _ in range(views)
    ]

    def add(statistics: DensificationStatistics, view: int) -> None:
        ids, norms = seen[view]
        statistics.add(ids, norms[ids], np.ones(len(ids), bool))

    one = DensificationStatistics(rows)
    for view in range(views):
        add(one, view)
    many = [DensificationStatistics(rows) for _ in range(ranks)]
    for view in rng.permutation(views):
        add(many[int(rng.integers(ranks))], int(view))
    total = sum(m.local for m in many)
    assert total.numpy().tobytes() == one.local.numpy().tobytes()
    expected = np.zeros(rows)
    for ids, norms in seen:
        expected[ids] += norms[ids]
    mean = DensificationStatistics.mean_norm(one.local.numpy()) * np.maximum(one.local.numpy()[:, 1], 1)
    assert np.allclose(mean, expected, atol=1e-9)


def test_morton_order_keeps_neighbours_together() -> None:
    rng = np.random.default_rng(0)
    xyz = rng.uniform(-3, 5, (4000, 3)).astype(np.float32)
    order = morton_order(xyz)
    assert sorted(order.tolist()) == list(range(4000))
    step = np.linalg.norm(np.diff(xyz[order], axis=0), axis=1).mean()
    assert step < 0.3 * np.linalg.norm(np.diff(xyz, axis=0), axis=1).mean()
    assert morton_order(np.zeros((3, 3), np.float32)).tolist() == [0, 1, 2]


def test_ply_round_trips(tmp_path: Path) -> None:
    parameters = table(7, seed=3)
    write_ply(tmp_path / "a.ply", parameters)
    assert read_ply(tmp_path / "a.ply").tobytes() == parameters.tobytes()
    assert [p.name for p in tmp_path.iterdir()] == ["a.ply"]


HEADER = Header(
    pipeline="3dgs",
    arm="quality",
    next_step=4,
    t=3,
    structural_version=1,
    sh_degree=2,
    resets=0,
    fallen=False,
    seed=0,
    plan="abc",
    manifest="def",
)


def checkpoint(rows: int = 6) -> Checkpoint:
    m = np.full((rows, 59), 0.5, np.float32)
    statistics = np.arange(2 * rows, dtype=np.int64).reshape(rows, 2)
    return Checkpoint(header=HEADER, parameters=table(rows), m=m, v=m.copy(), statistics=statistics)


def test_checkpoints_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    save(path, checkpoint())
    again = load(path)
    assert again.header == HEADER
    assert again.parameters.tobytes() == checkpoint().parameters.tobytes()
    assert again.statistics.tobytes() == checkpoint().statistics.tobytes()
    assert again.evidence is None and again.costs is None
    evidence, costs = np.array([np.nan, 0, 1, 2, 3, 4], np.float32), np.arange(9)
    save(path, replace(checkpoint(), header=replace(HEADER, fallen=True), evidence=evidence, costs=costs))
    again = load(path)
    assert again.header.fallen
    assert again.evidence.tobytes() == evidence.tobytes() and np.array_equal(again.costs, costs)


@pytest.mark.parametrize("cut", [0, 10, 200, 2000])
def test_half_a_checkpoint_is_a_clear_error(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "c.npz"
    save(path, checkpoint())
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(InputError, match="not a readable checkpoint"):
        load(path)


def test_swapped_or_broken_arrays_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    for broken in (
        replace(checkpoint(), m=np.zeros((5, 59), np.float32)),
        replace(checkpoint(), v=-checkpoint().v),
        replace(checkpoint(), statistics=np.zeros((6, 2))),
        replace(checkpoint(), evidence=np.zeros(5, np.float32)),
        replace(checkpoint(), evidence=np.zeros(6)),
        replace(checkpoint(), evidence=np.full(6, -1, np.float32)),
        replace(checkpoint(), costs=np.zeros(4)),
        replace(checkpoint(), costs=np.full(4, -1)),
    ):
        save(path, broken)
        with pytest.raises(InputError, match="unexpected shape, type or value"):
            load(path)


def rewritten(path: Path, change: Callable[[dict[str, bytes]], None], compression: int = zipfile.ZIP_STORED) -> None:
    """The same archive with other members; their checksums are right."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def swap(members: dict[str, bytes]) -> None:
    members["m.npy"], members["v.npy"] = members["v.npy"], members["m.npy"]


def swap_columns(members: dict[str, bytes]) -> None:
    """Moments of one column group under another: same shapes, all of them plausible."""
    m = np.load(io.BytesIO(members["m.npy"]))
    whole = io.BytesIO()
    np.save(whole, np.ascontiguousarray(np.roll(m, 3, axis=1)))
    members["m.npy"] = whole.getvalue()


@pytest.mark.parametrize("change", [swap, swap_columns, lambda members: members.pop("v.npy")])
def test_moments_of_another_place_are_noticed(tmp_path: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    path = tmp_path / "c.npz"
    rng = np.random.default_rng(0)
    save(path, replace(checkpoint(), m=rng.random((6, 59), np.float32), v=rng.random((6, 59), np.float32)))
    rewritten(path, change)
    with pytest.raises(InputError, match=r"not those that were saved together|lacks v"):
        load(path)


def test_sizes_are_checked_before_anything_is_allocated(tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    save(path, checkpoint())

    def huge(members: dict[str, bytes]) -> None:
        old = b"'shape': (6, 59), }"
        new = b"'shape': (999999999999, 59), }"
        found = members["m.npy"].index(old)
        rest = members["m.npy"][found + len(old) + len(new) - len(old) :]
        members["m.npy"] = members["m.npy"][:found] + new + rest

    rewritten(path, huge)
    with pytest.raises(InputError, match=r"announces shape \(999999999999, 59\) of float32 and has 1416 bytes"):
        load(path)
    save(path, checkpoint())
    rewritten(path, lambda members: None, zipfile.ZIP_DEFLATED)
    with pytest.raises(InputError, match="is compressed"):
        load(path)


def test_a_table_of_another_pipeline_or_plan_is_refused(tmp_path: Path) -> None:
    fits = {"columns": 59, "held": None, "views": 9, "steps": 10}
    found = replace(checkpoint(), costs=np.zeros(9, np.int64))
    require_shape(tmp_path, found, **fits)
    for key, other in {"columns": 58, "held": 45, "views": 8, "steps": 3}.items():
        with pytest.raises(InputError, match="Resume with the code and the settings that wrote it"):
            require_shape(tmp_path, found, **{**fits, key: other})


@pytest.mark.parametrize(
    ("key", "value"),
    [("next_step", "4"), ("next_step", -1), ("t", True), ("seed", 2**64), ("fallen", 0), ("arm", None),
     ("state", {"scale": "1"}), ("state", {"scale": float("inf")}), ("version", 4), ("more", 1)],
)  # fmt: skip
def test_a_header_of_other_types_is_refused(tmp_path: Path, key: str, value: object) -> None:
    path = tmp_path / "c.npz"
    save(path, checkpoint())

    def change(members: dict[str, bytes]) -> None:
        document = json.loads(np.load(io.BytesIO(members["header.npy"])).tobytes())
        document["header"][key] = value
        whole = io.BytesIO()
        np.save(whole, np.frombuffer(json.dumps(document).encode(), np.uint8))
        members["header.npy"] = whole.getvalue()

    rewritten(path, change)
    with pytest.raises(InputError, match="not a readable checkpoint"):
        load(path)


def test_a_pickle_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    np.savez(path, header=np.array([{"a": 1}], dtype=object), parameters=1, m=1, v=1, statistics=1)
    with pytest.raises(InputError, match="not a readable checkpoint"):
        load(path)


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    fits = {"pipeline": "3dgs", "arm": "quality", "plan": "abc", "manifest": "def", "seed": 0}
    require_match(tmp_path, HEADER, **fits)
    for key, other in {"pipeline": "2dgs", "arm": "throughput", "plan": "x", "manifest": "x", "seed": 1}.items():
        with pytest.raises(InputError, match=f"made with {key}"):
            require_match(tmp_path, HEADER, **{**fits, key: other})
