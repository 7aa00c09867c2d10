"""The three localities of single views and the graphs made from them: nested, counted plainly, looked at for free."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import locality, locality_graphs
from benchmarks.gate_window import TAU, Training, row_norms
from benchmarks.view_sets import DEFAULTS, look_at_views, train
from harness.config import load
from harness.run.workload import load_workload
from odin.arms import arm
from odin.bitmap import unpack
from odin.errors import InputError

TINY = ["scene=rooms?views=16&width=48&height=36&points=400", "test_every=0", "steps=6"]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ODIN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def training() -> Training:
    work = load_workload(load([*DEFAULTS, *TINY, "densify_every=3", "views_per_unit=1"]))
    training = Training(work.recipe(), work.plan(arm("barrier")))
    train(training, 0, 5)
    return training


def test_sets_are_nested_and_counted_as_the_plain_gradient_says(training: Training) -> None:
    views = [0, 3, 7]
    sets = look_at_views(training, views)
    shares, rows = sets.shares(), len(training.recipe.table)
    for place, view in enumerate(views):
        # The plain way: the dense gradient of a step whose only view is this one.
        step = int(np.flatnonzero(training.plan.units[:, 0, 0] == view)[0]) if view in training.plan.units else None
        scope = unpack(sets.scopes[place], rows)
        start, stop = sets.activity.offsets[place : place + 2]
        active = sets.activity.rows[start:stop]
        assert scope[active].all() and 0 < len(active) <= scope.sum()
        norms = sets.activity.norms[start:stop]
        important = (norms > TAU * norms.mean()).sum()
        found = [shares[name][place] for name in ("geometry", "computation", "importance")]
        assert found == pytest.approx([scope.sum() / rows, len(active) / rows, important / rows])
        if step is not None:
            with training.recipe.unobserved():
                plain = row_norms(training.gradient(step, 0))
            assert np.array_equal(np.flatnonzero(plain), active)
            np.testing.assert_allclose(plain[active], norms, rtol=1e-6)


def test_looking_changes_nothing(training: Training) -> None:
    recipe = training.recipe
    before = recipe.table.digest(), recipe.statistics.local.clone()
    look_at_views(training, [1, 2])
    assert recipe.table.digest() == before[0] and bool((recipe.statistics.local == before[1]).all())


def test_the_table_has_every_moment_and_a_reset_changes_the_model(tmp_path: Path) -> None:
    out = tmp_path / "new" / "locality.csv"
    assert locality.main(["--scene", TINY[0].removeprefix("scene="), *TINY[1:], "--views", "4", "--out", str(out)]) == 0
    frame = pd.read_csv(out)
    assert list(frame.columns) == locality.CSV_COLUMNS and list(frame["moment"].unique()) == list(locality.MOMENTS)
    assert list(frame.groupby("moment", sort=False)["images"].first()) == [0, 12, 24, 24]
    assert (frame["geometry"] >= frame["computation"]).all() and (frame["computation"] >= frame["importance"]).all()
    means = frame.groupby("moment", sort=False)[["computation", "importance"]].mean()
    assert not means.loc["late"].equals(means.loc["after a reset"])


def test_graphs_of_the_example(tmp_path: Path) -> None:
    out = tmp_path / "graphs.csv"
    assert locality_graphs.main([*TINY, "--out", str(out)]) == 0
    frame = pd.read_csv(out)
    assert list(frame.columns) == locality_graphs.CSV_COLUMNS and len(frame) == 4 * 6
    assert frame["weight"].between(0, 1).all() and (frame["pairs"] == 16 * 15 / 2).all()
    tracks = frame[frame["graph"] == "tracks"].set_index(["first", "second"])["weight"]
    assert tracks[1, 2] == tracks.max() > 0


def test_the_example_is_two_coupled_pairs_far_from_each_other() -> None:
    weights = np.zeros((6, 6))
    for (a, b), w in {(1, 4): 0.8, (0, 1): 0.5, (2, 5): 0.6, (2, 3): 0.1, (4, 5): 0.05, (0, 3): 0.3}.items():
        weights[a, b] = weights[b, a] = w
    assert locality_graphs.example(weights) == (1, 4, 2, 5)
    with pytest.raises(InputError, match="4 training views"):
        locality_graphs.example(weights[:3, :3])


@pytest.mark.parametrize("module", [locality, locality_graphs])
def test_unknown_words_are_answered_with_a_sentence(module, capsys: pytest.CaptureFixture[str]) -> None:
    assert module.main(["stepz=3"]) == 2
    assert "stepz" in capsys.readouterr().err
