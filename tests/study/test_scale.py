"""Scales: all that exhibits need is in them, in parts; what runs is what is missing."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from harness.cli import main
from harness.study import reproduce
from harness.study.command import plan_study
from harness.study.file import STUDIES
from harness.study.reproduce import Asked, announcement, reproduce_all
from harness.study.run import run_pair
from harness.study.scale import load_scale, read_scale, scale_names
from odin.errors import InputError
from paper_figs.exhibit import Study, Table
from paper_figs.registry import EXHIBITS
from tests.study.studies import plan, record

MOST_MINUTES = {"smoke": 20.0, "laptop": 360.0}


@pytest.fixture(autouse=True)
def captures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ODIN_DATA", str(tmp_path / "captures"))


@pytest.mark.parametrize("name", scale_names())
def test_every_need_of_an_exhibit_has_a_part(name: str) -> None:
    scale = load_scale(name)
    parts = {part.name.partition(".")[0]: part for part in scale.parts}
    for need in {need for exhibit in EXHIBITS for need in exhibit.needs}:
        part = parts[need.part()]
        assert bool(part.study) == isinstance(need, Study) and bool(part.benchmark) == isinstance(need, Table)
    assert sum(part.minutes or 0 for part in scale.parts) <= MOST_MINUTES.get(name, float("inf"))
    assert name != "laptop" or all((part.minutes or 0) <= 60 for part in scale.parts)


@pytest.mark.parametrize("name", scale_names())
def test_every_part_can_be_run(name: str) -> None:
    for part in load_scale(name).parts:
        if part.study:
            assert (STUDIES / f"{part.study}.yaml").exists()
            assert part.study.removeprefix(f"{name}-").partition(".")[0] == part.name.partition(".")[0]
        else:
            assert importlib.util.find_spec(f"benchmarks.{part.benchmark}") is not None
            assert any("{csv}" in argument for argument in part.arguments)


def test_every_study_of_a_scale_is_in_it() -> None:
    for name in scale_names():
        studies = {path.stem for path in STUDIES.glob(f"{name}-*.yaml")}
        assert studies == {part.study for part in load_scale(name).parts if part.study}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({}, "parts is written as"),
        ({"parts": {"a": {"minutes": 1}}}, "a study or a benchmark"),
        ({"parts": {"a": {"study": "smoke", "minutes": 0}}}, "minutes above 0"),
        ({"parts": {"a": {"study": "smoke", "benchmark": "planner", "minutes": 1}}}, "a study or a benchmark"),
        ({"parts": {"a": {"study": "smoke", "minutes": 1, "hours": 2}}}, "a study or a benchmark"),
    ],
)
def test_a_scale_that_means_nothing_is_refused(data: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_scale("odd", data)


def test_words(tmp_path: Path) -> None:
    asked = Asked.of(["scale=laptop", f"out={tmp_path}", "only=matrix,tau", "seed=3"])
    assert [part.name for part in asked.parts] == [
        "matrix.3dgs",
        "matrix.2dgs",
        "matrix.taminggs",
        "matrix.dashgs",
        "tau",
    ]
    assert asked.words == ("seed=3",) and asked.out == tmp_path
    with pytest.raises(InputError, match="nearest one is matrix"):
        Asked.of(["only=matrx"])
    with pytest.raises(InputError, match="no scale 'tiny'"):
        Asked.of(["scale=tiny"])


def test_minutes_come_first(tmp_path: Path) -> None:
    head, *lines = announcement(Asked.of([f"out={tmp_path}", "only=tau,planner"]))
    assert "About 1 minutes on two idle cores" in head
    assert "1 of 1 pairs of smoke-tau" in lines[0] and "benchmark planner" in lines[1]


def test_captures_that_are_nowhere_are_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ODIN_DATA")
    assert "which is not set" in "".join(announcement(Asked.of(["scale=laptop", f"out={tmp_path}", "only=tau"])))


def test_only_what_is_missing_is_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[str] = []
    monkeypatch.setattr(reproduce, "run_command", lambda name, words: ran.append(f"{name} {words[0]}") or 0)
    monkeypatch.setattr(
        "harness.study.run.run_pairs", lambda plan, pairs, refresh: ran.append(f"{plan.name} {len(pairs)}") or []
    )
    monkeypatch.setattr("harness.study.command.finish", lambda plan: [])
    asked = Asked.of([f"out={tmp_path}", "only=regions"])
    assert reproduce_all(asked, dry_run=False, refresh=False) == 0
    assert ran == ["smoke-regions 3", f"figures out={tmp_path}", f"report {tmp_path}"]


def test_a_part_that_breaks_leaves_the_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(reproduce, "run_command", lambda name, words: 0)

    def broken(part: object, asked: object, refresh: bool) -> int:
        raise InputError("no such scene")

    ran: list[str] = []
    monkeypatch.setattr(reproduce, "_study", broken)
    monkeypatch.setattr(reproduce, "_benchmark", lambda part, asked, refresh: ran.append(part.name) or 0)
    asked = Asked.of([f"out={tmp_path}", "only=tau,planner"])
    assert reproduce_all(asked, dry_run=False, refresh=False) == 2 and ran == ["planner"]


@pytest.mark.parametrize(("virtual", "ran"), [(True, ["predicted"]), (False, ["barrier", "predicted"] * 2)])
def test_one_missing_cell_is_run_alone_where_nothing_is_timed(
    virtual: bool, ran: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    engine = {"engine": "virtual", "compute": "rtx4090", "link": "fig1-3dgs", "mirrored": False, "steps": 4}
    made = plan(tmp_path, seeds=[0], **({"set": engine} if virtual else {}))
    (pair,) = made.pairs
    for index, (arm, _) in enumerate(pair.cells):
        if arm == "barrier" or index not in (len(pair.cells) - 1, 1):
            record(made, pair, index)
    seen: list[str] = []
    monkeypatch.setattr(
        "harness.study.run.identify", lambda config, cells: (pair.ids("5c" * 32, _version()), "5c" * 32)
    )
    monkeypatch.setattr(
        "harness.study.run.run_cells", lambda config, cells, ids, store, **how: seen.extend(c.arm for c in cells)
    )
    assert run_pair(made, pair) == ""
    assert sorted(seen) == sorted(ran)


def _version() -> str:
    from harness.store.identity import code_version

    return code_version()


def test_the_headline_of_a_scale_is_its_matrix(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["reproduce", "headline", "scale=laptop", f"out={tmp_path}", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "matrix.3dgs" in out and "tau" not in out
    assert plan_study("laptop-matrix.3dgs", [f"out={tmp_path}"]).pairs[0].settings["engine"]["ranks"] == 8
