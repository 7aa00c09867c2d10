"""Recordings timed again: the virtual engine's clock; the committed fits follow from the committed inputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from harness.config import Compute, load
from harness.profiles import fit as fitting
from harness.profiles.calibration import committed_prices, require_same_basis
from harness.profiles.load import link_profile
from harness.profiles.recording import exposed, record_run, save
from harness.profiles.recording import load as load_recording
from harness.run.execute import execute
from harness.run.together import run_threads
from harness.run.workload import Workload, load_workload
from harness.study.file import load_study
from odin.arms import arm
from odin.comm.link import Link
from odin.comm.virtual import VirtualTransport
from odin.errors import InputError
from odin.keeper import Entry, NominalKeeper

TINY = "rooms?views=24&width=64&height=48&points=600"
WORDS = [f"scene={TINY}", "engine=virtual", "ranks=4", "steps=8", "densify_at=[4]", "sh_at=[2]", "test_every=0"]
COMPUTE = Compute(name="rtx4090", scale_rows=128.0, scale_pixels=14.0, overlap_slowdown=1.05)


@pytest.fixture(scope="module")
def workload() -> Workload:
    return load_workload(load(WORDS))


def test_a_recording_is_timed_as_the_run_itself(workload: Workload, tmp_path: Path) -> None:
    prices, link, slowdown = committed_prices(COMPUTE), Link(name="x", alpha=1e-5, beta=2e8), 1.3
    recording = record_run(workload, "barrier")

    def rank(transport: VirtualTransport) -> list[Entry]:
        keeper = NominalKeeper(prices.price, transport.pace(slowdown))
        return execute(workload, arm("barrier"), transport, keeper).entries

    timelines = run_threads(4, link, rank)
    waits = [e for entries in timelines for e in entries if e.kind == "wait"]
    transfer = sum(e.end - e.start - max(0.0, min(e.end, e.last_join) - e.start) for e in waits) / 4
    save(recording, tmp_path / "r.parquet")
    again = load_recording(tmp_path / "r.parquet")
    pd.testing.assert_frame_equal(again, recording)
    wall = max(entries[-1].end for entries in timelines)
    assert exposed(again, prices.price, link, slowdown) == pytest.approx((wall, transfer))


def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="is no recording"):
        load_recording(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_text("x")
    with pytest.raises(InputError, match="cannot be read"):
        load_recording(tmp_path / "b.parquet")


@pytest.mark.parametrize("pipeline", list(fitting.SHARES))
def test_the_committed_fit_shows_its_share_on_the_committed_recordings(pipeline: str) -> None:
    profile = link_profile(f"fig1-{pipeline}")
    scenes = fitting.recordings(profile.fit.recorded)
    assert [scene.scene for scene in profile.fit.scenes] == list(scenes)
    link = Link(name="fit", beta=profile.beta.value).carrying(profile.fit.scale_rows)
    share = fitting.mean_share(scenes, committed_prices(COMPUTE), link, profile.fit.overlap_slowdown)
    assert share == pytest.approx(profile.exposed.value, abs=1e-4)
    require_same_basis(profile, COMPUTE)


@pytest.mark.parametrize("pipeline", list(fitting.SHARES))
def test_a_fit_is_of_the_matrix(pipeline: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same scenes, steps and ranks as the cells whose clock it sets, at another seed."""
    monkeypatch.setenv("ODIN_DATA", "/captures")
    study, profile = load_study(f"laptop-matrix.{fitting.PIPELINES[pipeline]}"), link_profile(f"fig1-{pipeline}")
    assert (study.base["link"], study.base["pipeline"]) == (profile.name, fitting.PIPELINES[pipeline])
    assert (study.base["scale.steps"], study.base["engine.ranks"]) == (profile.fit.steps, profile.fit.ranks)
    places = {tuple(sorted(map(str, place.values()))) for _, place in study.axes["scene"]}
    said = [fitting.words(pipeline, scene.scene, Path("/captures")) for scene in profile.fit.scenes]
    fitted = {tuple(sorted(w.partition("=")[2] for w in some if w.startswith(("scene=", "images=")))) for some in said}
    assert fitted == places and profile.fit.seed != 0 and "seed" not in study.base


def test_a_fit_holds_for_its_own_scale_and_prices_only() -> None:
    profile = link_profile("fig1-3dgs")
    with pytest.raises(InputError, match=r"scale_rows=1, scale_pixels=14 are refused"):
        require_same_basis(profile, replace(COMPUTE, scale_rows=1.0))
    other = profile.model_copy(update={"fit": profile.fit.model_copy(update={"compute": "rtx4090@0"})})
    with pytest.raises(InputError, match="was fitted with rtx4090@0"):
        require_same_basis(other, COMPUTE)
