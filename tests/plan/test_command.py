"""`odin-bench plan` in process on a tiny capture: what it prints, writes and refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.cli import main
from harness.measure.profile import Profile
from harness.plan.capture import training_views
from harness.plan.conflicts import conflicts
from harness.plan.document import read_plan
from harness.plan.orders import annealed_units
from harness.plan.planned import Planned, make
from harness.plan.settings import read_words
from harness.plan.text import report
from harness.run.warmup import Calibration
from harness.run.workload import Workload, load_workload
from odin.bitmap import pack, unpack
from odin.budget import Budget
from odin.comm.link import Link
from odin.phases import Phase
from odin.planner.sas import reason_counts, reasons
from odin.tracks import Tracks

TINY = "rooms?views=16&width=64&height=48&points=600"
# Twenty steps; SH degrees rise after steps 5 and 11.
WORDS = [f"scene={TINY}", "steps=20", "sh_at=6,12", "densify=false"]


def profile(path: Path, odin_s: float = 1e-9) -> Path:
    """Prices per row: 1 µs for what training does, `odin_s` for what only Odin does."""
    price = {p.value: (odin_s if p.category.value == "odin" else 1e-6, 0.0, 0.0, 0.0, 1e-6) for p in Phase}
    fitted = Profile(name="test", source="made up", coefficients=price, samples={}, residual={})
    calibration = Calibration(profile=fitted, stretch=1.0, link=Link(name="none"), compute=0.0)
    path.write_text(calibration.to_json())
    return path


@pytest.fixture(scope="module")
def workload() -> Workload:
    return load_workload(read_words(WORDS)[0])


def planned(workload: Workload, *words: str, profile: Path | None = None) -> Planned:
    config, _ = read_words([*WORDS, *words])
    other = Workload(config=config, capture=workload.capture)
    return make(other, training_views(other), profile)


def test_a_capture_from_words_to_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *WORDS, f"out={tmp_path}", "memory=1GB"]) == 0
    printed, said = capsys.readouterr()
    for line in (
        "20 steps × 4 views (2 ranks × 2) over 14 training views",
        "coupling: tracks: Jaccard",
        "note: K 4 → 3: 14 views, 4 per step",
        "regions: 3",
        "capture order",
        "random order",
        "windows: 17 of 19 are candidates, 2 stay blocking",
        "blocking, structural event: 2 (after step 5, 11)",
        "evaluated: structural events; memory ≤ 1000000000 B; gain not evaluated",
        "predicted conflicts of 17 windows",
        "geometry  11 of 59",
        "colour    48 of 59",
        "no prediction",
    ):
        assert line in printed
    assert "ms per step" not in printed  # nothing is predicted without prices
    assert "conflicts of windows: 17/17 (100 %), done" in said
    path = Path(printed.split("Plan: ")[1].split(",")[0])
    named = read_plan(path)
    assert reason_counts(named.plan) == {"structural event": 2}
    assert named.plan.digest() in str(path)
    assert len(named.views) == 14
    for stem in ("schedule", "coupling"):
        assert (path.parent / f"{stem}.png").read_bytes()[:4] == b"\x89PNG"
        assert (path.parent / f"{stem}.pdf").read_bytes()[:5] == b"%PDF-"
        assert (path.parent / f"{stem}_caption.txt").read_text(encoding="utf-8").count("\n") == 1


def test_every_reason_is_seen(workload: Workload, tmp_path: Path) -> None:
    prices = profile(tmp_path / "p.json")
    free = planned(workload, profile=prices)
    assert reason_counts(free.plan) == {"structural event": 2}
    assert free.candidate_s < free.blocking_s
    assert any("predicted by the phase task graph" in line for line in report(free))
    tight = planned(workload, "memory=1B", profile=prices)
    assert reason_counts(tight.plan) == {"memory budget": 19, "structural event": 2}
    # Nothing is transferred, or Odin's own work costs more than it hides.
    for words, odin_s in ((["link=none"], 1e-9), ([], 1e-3)):
        useless = planned(workload, *words, profile=profile(tmp_path / "q.json", odin_s))
        assert reason_counts(useless.plan) == {"no gain": 17, "structural event": 2}
    paper = planned(workload, "sas=paper", "coupling_limit=0.1")
    blocked = np.array(["coupling limit" in reasons(flag) for flag in paper.plan.blocking])
    assert blocked.any()
    assert not blocked.all()
    assert np.array_equal(blocked, paper.couplings > 0.1)


def test_conflicts_are_those_of_the_masks(workload: Workload) -> None:
    """Against sets of rows from the recipe's masks, taken one by one."""
    recipe, plan = workload.recipe(), planned(workload).plan
    rows = len(recipe.table)
    for found in list(conflicts(recipe, plan, Budget()))[:3]:
        from harness.plan.conflicts import _scopes

        a, b = (unpack(_scopes(recipe, plan, s), rows) for s in (found.step, found.step + 1))
        written = a.any(axis=0)
        assert found.write == written.sum()
        assert found.raw == (written & b.any(axis=0)).sum()
        assert found.first == (written & b[:: plan.views_per_unit].any(axis=0)).sum()
        assert sum(found.nbytes.values()) == 4 * rows * 59  # every arm sends the dense gradient
        assert sum(found.update.values()) == pytest.approx(found.write)
        assert found.update["update geometry"] * 59 / 11 == pytest.approx(found.raw)
        assert found.update["update colours"] * 59 / 48 == pytest.approx(found.raw)


def test_scopes_look_as_far_ahead_as_the_runtime(workload: Workload) -> None:
    """A window's scopes hold every row of the plain scopes, and more once updates are outstanding."""
    from harness.plan.conflicts import _scopes
    from odin.inflation import Inflation

    recipe, plan = workload.recipe(), planned(workload).plan
    sizes = []
    for step in (0, 4):
        plain = recipe.scope([int(v) for v in plan.views(step)], Inflation.none(len(recipe.table)))
        ahead = _scopes(recipe, plan, step)
        assert not (plain & ~ahead).any()
        sizes.append(int(unpack(ahead & ~plain, len(recipe.table)).sum()))
    assert sizes[0] == 0 < sizes[1]
    assert pack(unpack(ahead, len(recipe.table))).shape == ahead.shape


def test_a_capture_without_tracks_says_so(workload: Workload) -> None:
    bare = replace(workload.capture, tracks=Tracks.empty(16))
    lines = list(report(planned(Workload(config=workload.config, capture=bare))))
    assert any(line.startswith("coupling: no tracks: frustum overlap; full graph") for line in lines)
    assert any(line.startswith("14 views see no track") for line in lines)


def test_too_few_views_for_two_regions(workload: Workload) -> None:
    lines = list(report(planned(workload, "views_per_unit=4")))
    assert "note: K 4 → 1: 14 views, 8 per step; below 2 regions the order is random" in lines
    assert "regions: none; the order is random" in lines


def test_one_step_has_no_windows(workload: Workload) -> None:
    config = replace(workload.config, scale=replace(workload.config.scale, steps=1))
    one = make(Workload(config=config, capture=workload.capture), training_views(workload), None)
    lines = list(report(one))
    assert "order quality: one step has no windows to judge" in lines
    assert "windows: 0 of 0 are candidates, 0 stay blocking" in lines


def test_annealing_finds_no_worse_an_order_and_says_where_it_does_not_search(
    workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = planned(workload)
    by_name = {q.name: q for q in made.qualities}
    assert by_name["annealing"].mean <= by_name["plan"].mean + 1e-6
    units = annealed_units(made.graph, made.plan, 0)
    assert units is not None
    views, count = units.reshape(-1), made.plan.train_count
    for first in range(0, len(views) - count + 1, count):  # every epoch is still a permutation
        assert sorted(views[first : first + count]) == list(range(count))
    monkeypatch.setattr("harness.plan.orders.ANNEAL_BELOW", 2)
    assert {q.name: q.note for q in planned(workload).qualities}["annealing"] == "not searched for 2 views or more"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ranks=8"], "A step needs 16 different views (8 ranks × 2 per unit), but there are 14 training views"),
        (["profile=/no/such/file"], "is not a file"),
        (["profile={tmp}/broken.json"], "is not a phase profile"),
        (["scene=/no/such/folder"], "/no/such/folder"),
        (["sas=papers"], "sas=paper"),
    ],
)
def test_wrong_input_ends_in_one_paragraph(words, message, tmp_path, capsys) -> None:
    (tmp_path / "broken.json").write_text("{}")
    given = [*WORDS, *(word.format(tmp=tmp_path) for word in words), f"out={tmp_path / 'out'}"]
    assert main(["plan", *given]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert message in last
    assert not (tmp_path / "out").exists()
