"""2DGS end to end on two ranks: exact arms are exact, resume is exact, it learns, and the command line runs it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.cli import main
from harness.config import load
from harness.run.execute import render_views
from harness.run.workload import Workload, load_workload
from harness.store.schema import Status
from harness.store.store import CellStore
from odin.arms import ARMS
from odin.errors import InputError
from odin.keeper import Keeper
from odin.publication import Publication, UrgentPublication, WindowState
from odin.publication.layout import REST, Classes
from odin.runtime import Runtime
from pipelines.export import read_ply
from pipelines.reference.twodgs import SurfelSplatting
from tests.odin.threads import run_ranks
from tests.run.test_checkpoints import END, STOP, Stop
from tests.run.test_checkpoints import train as train_with_checkpoints

TINY = "rooms?views=16&width=48&height=36&points=400"
WORDS = [f"scene={TINY}", "pipeline=2dgs", "lambda_dist=10", "lambda_normal=0.05"]
# Nothing is densified soon after a reset, which leaves every opacity below what 2DGS prunes.
EVENTS = ["densify_at=[25,50]", "reset_at=[52]", "sh_at=[10,20]", "test_every=0"]
ARMS_RUN = ("barrier", "barrier-planned", "quality", "throughput", "predicted")


@pytest.fixture(scope="module")
def workload() -> Workload:
    return load_workload(load([*WORDS, *EVENTS, "steps=60"]))


def train(workload: Workload, arm: str, policy: type[Publication] | None = None) -> list[Runtime]:
    plan = workload.plan(ARMS[arm])

    def work(transport: object) -> Runtime:
        runtime = Runtime(workload.recipe(), plan, ARMS[arm], transport, Keeper(), policy=policy)
        runtime.run()
        return runtime

    return run_ranks(2, work)[0]


class WithoutHazardCheck(UrgentPublication):
    """The mutant: nothing is taken for a conflict, so pending rows are read stale."""

    def classes(self, step: int, found: Classes) -> Classes:
        return Classes(last=found.last, need=np.full_like(found.need, REST))


def test_quality_equals_waiting_and_a_mutant_does_not(workload: Workload) -> None:
    waited, quality = train(workload, "barrier-planned"), train(workload, "quality")
    digests = {r.recipe.table.digest() for r in (*waited, *quality)}
    assert len(digests) == 1
    assert isinstance(waited[0].recipe, SurfelSplatting) and waited[0].version == 5
    assert [w.state for w in quality[0].publication.windows].count(WindowState.PARTIAL) > 20
    mutant = train(workload, "quality", WithoutHazardCheck)
    assert mutant[0].recipe.table.digest() not in digests


def test_resume_equals_the_uninterrupted_run(tmp_path: Path) -> None:
    events = ["densify_at=[30]", "reset_at=[50]", "sh_at=[10]", "test_every=0"]
    workload = load_workload(load([*WORDS, *events, "steps=60"]))
    whole = train_with_checkpoints(workload, "quality", tmp_path / "whole.npz")
    with pytest.raises(Stop):
        train_with_checkpoints(workload, "quality", tmp_path / "cut.npz", stop=STOP)
    resumed = train_with_checkpoints(workload, "quality", tmp_path / "cut.npz")
    assert [r.step for r in resumed[0].records] == list(range(STOP, END))
    assert len({r.recipe.table.digest() for r in (*whole, *resumed)}) == 1
    other = Workload(config=load([f"scene={TINY}", *events, "steps=60"]), capture=workload.capture)
    with pytest.raises(InputError, match="made with pipeline '2dgs'"):
        train_with_checkpoints(other, "quality", tmp_path / "cut.npz")


def test_learns_five_decibels_in_640_images() -> None:
    """160 steps of 4 views, no densification, no distortion."""
    workload = load_workload(load([f"scene={TINY}", "pipeline=2dgs", "steps=160", "test_every=8", "densify=false"]))
    photos = {workload.capture.cameras[i].name: workload.capture.images[i] / 255.0 for i in workload.capture.test}

    def psnr(recipe: SurfelSplatting) -> float:
        renders = render_views(recipe, workload)
        return float(np.mean([-10 * np.log10(((renders[n].clip(0, 1) - p) ** 2).mean()) for n, p in photos.items()]))

    assert psnr(train(workload, "barrier")[0].recipe) > psnr(workload.recipe()) + 5.0


def test_the_headline_with_surfels(tmp_path: Path) -> None:
    words = [f"scene={TINY}", "pipeline=2dgs", "steps=12", "densify_at=[6]", f"arms=[{','.join(ARMS_RUN)}]"]
    fast = ["link=none", "padded=false", "mirrored=false"]
    assert main(["reproduce", "headline", f"out={tmp_path}", *words, *fast]) in (0, 1)
    results = {r.cell.arm: r for r in CellStore(tmp_path).results()}
    assert set(results) == set(ARMS_RUN) and {r.status for r in results.values()} == {Status.DONE}
    measured = {arm: r.measurement for arm, r in results.items()}
    assert measured["quality"].final_digest == measured["barrier-planned"].final_digest
    for arm, result in results.items():
        model = read_ply(CellStore(tmp_path).path(result.cell_id) / "model.ply")
        assert model.shape == (measured[arm].primitives.final, 58)


def test_its_keys_are_refused_elsewhere() -> None:
    assert load(["pipeline=2dgs", "lambda_dist=100"]).pipeline.lambda_dist == 100.0
    with pytest.raises(InputError, match="pipeline=2dgs"):
        load(["pipeline=3dgs", "lambda_dist=100"])
    with pytest.raises(InputError, match="depth_ratio"):
        load(["pipeline=2dgs", "depth_ratio=2"])
