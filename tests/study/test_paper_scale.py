"""The paper's scale: every pair can be planned as a device accepts it, on scenes where the catalog has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.catalog.scenes import catalog
from harness.cli import main
from harness.study.command import plan_study
from harness.study.scale import load_scale
from odin.arms import arm
from odin.device.objection import device_objection
from paper_figs.exhibit import Study
from paper_figs.registry import EXHIBITS

STUDIES = [part.study for part in load_scale("paper").parts if part.study]


@pytest.fixture(autouse=True)
def captures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("ODIN_DATA", str(tmp_path / "captures"))
    return tmp_path / "captures"


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_is_what_the_catalog_and_a_device_have(study: str, captures: Path, tmp_path: Path) -> None:
    known = {(str(scene.folder(captures.resolve())), scene.images) for scene in catalog()}
    plan = plan_study(study, [f"out={tmp_path / 'out'}"])
    assert plan.pairs
    for pair in plan.pairs:
        engine, scene = pair.settings["engine"], pair.settings["scene"]
        assert (scene["path"], scene["images"]) in known
        assert engine["device"] == "cuda" or engine["name"] == "virtual"
        if engine["device"] == "cuda":
            assert not [name for name, _ in pair.cells if device_objection(arm(name))]


def test_every_exhibit_of_studies_can_be_made_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    roles = {name.removeprefix("paper-") for name in STUDIES}
    assert {need.role for exhibit in EXHIBITS for need in exhibit.needs if isinstance(need, Study)} <= roles
    assert "slowdown" in roles  # of the headline
    words = ["reproduce", "all", "scale=paper", "cluster=gpu", f"out={tmp_path / 'out'}", "--dry-run"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "cannot be planned" not in out and "3 of 3 pairs of paper-city" in out


def test_the_city_needs_several_nodes(tmp_path: Path) -> None:
    from slurm.profile import ClusterProfile

    pairs = plan_study("paper-city", [f"out={tmp_path / 'out'}"]).pairs
    layouts = [ClusterProfile(name="eight", ranks_per_node=8).layout(pair) for pair in pairs]
    assert [layout.nodes if layout else 1 for layout in layouts] == [1, 4, 8]
