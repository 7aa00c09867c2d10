"""Every exhibit from made-up records: rows, pictures, captions, and what is said of what is missing."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import pytest

from harness.cli import main
from harness.report.exhibits import INDEX, Shown
from harness.store.schema import Label, Result
from harness.store.store import CellStore
from harness.study.command import plan_study
from harness.study.noted import noted_cells
from harness.study.reproduce import Asked, announcement
from odin.errors import InputError
from paper_figs.caption import caption
from paper_figs.cells import PAIRS, Cells, _alone, over_seeds, role_of
from paper_figs.exhibit import Exhibit, missing
from paper_figs.make import make, make_all
from paper_figs.registry import EXHIBITS, exhibits
from paper_figs.tidy import read_rows
from tests.paper_figs.records import smoke
from tests.store import samples

GOLDEN = Path(__file__).with_name("golden")
PICTURED = [e for e in EXHIBITS if e.name != "table2"]  # a table


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    return Cells(smoke(tmp_path_factory.mktemp("smoke")))


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda e: e.name)
def test_rows_and_caption(exhibit: Exhibit, cells: Cells) -> None:
    frame = exhibit.rows(cells)
    assert len(frame) and set(frame["exhibit"]) == {exhibit.name}
    text = caption(exhibit, frame, cells)
    assert (
        text.startswith(f"{exhibit.title}{'' if exhibit.title.endswith('?') else '.'} ")
        and "Evidence label" in text
        and text.splitlines()[-1].startswith("Commit ")
    )
    assert exhibit.note.endswith(".") and not missing(exhibit, cells)


@pytest.mark.parametrize("exhibit", PICTURED, ids=lambda e: e.name)
def test_pictures(exhibit: Exhibit, cells: Cells) -> None:
    before = dict(mpl.rcParams)
    figure = exhibit.draw(cells, exhibit.rows(cells))
    assert figure is not None
    figure.set_dpi(40)
    figure.canvas.draw()
    assert dict(mpl.rcParams) == before
    texts = " ".join(t.get_text() for axes in figure.axes for t in (axes.xaxis.label, axes.yaxis.label))
    supremes = " ".join(t.get_text() for t in (figure._supxlabel,) if t is not None)
    assert any(label in texts + supremes for label in ("virtual", "measured", "computed"))


@pytest.mark.parametrize("name", ["fig9", "table3"])
def test_rows_and_captions_are_the_golden_ones(name: str, cells: Cells, tmp_path: Path) -> None:
    (exhibit,) = exhibits([name])
    make(exhibit, cells, tmp_path)
    for kind in (".csv", "_caption.txt", ".tex"):
        assert (tmp_path / f"{name}{kind}").read_text() == (GOLDEN / f"{name}{kind}").read_text()


def test_a_rerun_is_byte_identical(cells: Cells, tmp_path: Path) -> None:
    (exhibit,) = exhibits(["fig14"])
    for folder in ("one", "two"):
        make(exhibit, cells, tmp_path / folder)
    names = sorted(p.name for p in (tmp_path / "one").iterdir())
    assert names == ["fig14.csv", "fig14.pdf", "fig14.png", "fig14.tex", "fig14_caption.txt"]
    assert all((tmp_path / "one" / n).read_bytes() == (tmp_path / "two" / n).read_bytes() for n in names)
    pdf = (tmp_path / "one" / "fig14.pdf").read_bytes()
    assert b"CreationDate" not in pdf and b"/Type3" not in pdf


def test_what_is_missing_is_named_with_its_command(tmp_path: Path) -> None:
    root = smoke(tmp_path, "tau")
    shown, frame = make(*exhibits(["fig14"]), Cells(root), tmp_path / "figures")
    assert frame.empty and shown.missing == "missing: study regions"
    assert shown.command == f"odin-bench reproduce all scale=smoke only=regions,tau out={root}"


def test_the_index_keeps_what_was_made_before(tmp_path: Path) -> None:
    cells = Cells(smoke(tmp_path, "tau", "planner"))
    make_all(exhibits(["table3"]), cells, whole=False)
    make_all(exhibits(["fig14"]), cells, whole=False)
    assert [(s.name, bool(s.missing)) for s in Shown.load(tmp_path / "figures" / INDEX)] == [
        ("table3", False),
        ("fig14", True),
    ]
    assert not (tmp_path / "summary.csv").exists()


def test_a_pair_that_failed_is_named_and_has_no_number(tmp_path: Path) -> None:
    cells = Cells(smoke(tmp_path, "timeline", "matrix", leave_out=1))
    (exhibit,) = exhibits(["fig9"])
    frame = exhibit.rows(cells)
    assert set(frame.loc[frame["quantity"] == "speedup", "arm"]) == {
        "throughput",
        "quality",
        "quality-random",
        "predicted",
    }
    text = caption(exhibit, frame, cells)
    assert (
        "FAILED pipeline=3dgs,fig1-3dgs" in text
        and "predicted-random: complete: 0 of 1 runs of the arm are recorded" in text
    )


def test_a_failure_says_of_which_pipeline(tmp_path: Path) -> None:
    """Also where the pipeline is none of the study's axes, as in the laptop scale's four matrices."""
    lines = [line for pair in Cells(smoke(tmp_path, "ablation", leave_out=1)).every_pair() for line in pair.failures]
    assert lines and all("(3DGS)" in line for line in lines)


def test_brackets_over_cells_are_not_called_an_interval_over_seeds(tmp_path: Path) -> None:
    cells = Cells(smoke(tmp_path, "matrix"))
    (exhibit,) = exhibits(["headline"])
    frame = exhibit.rows(cells)
    hidden = frame[frame["quantity"].str.startswith("hidden") & (frame["pipeline"] == "")]
    assert hidden["low"].notna().any()
    text = caption(exhibit, frame, cells)
    assert "the smallest and the largest place" in text
    assert "interval over seeds" not in text


def test_records_can_move_and_plans_are_not_needed(cells: Cells, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(cells.root, moved)
    for plan in moved.glob("studies/*/plan.json"):
        plan.unlink()
    assert all(str(cells.root) not in p.read_text() for p in moved.glob(f"studies/*/{PAIRS}"))
    (exhibit,) = exhibits(["fig9"])
    assert exhibit.rows(Cells(moved)).equals(exhibit.rows(cells))


def test_records_that_come_with_a_clone_are_done_and_stay_noted(tmp_path: Path) -> None:
    there, clone = smoke(tmp_path / "there", "tau"), tmp_path / "clone"
    before = Cells(there).pairs("tau")
    for path in (*there.glob("cells/*/result.json"), *there.glob(f"studies/*/{PAIRS}")):  # what git keeps
        (clone / path.relative_to(there)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, clone / path.relative_to(there))
    asked = Asked.of([f"out={clone}", "only=tau"])
    assert announcement(asked)[1].endswith("0 of 1 pairs of smoke-tau")
    assert "1 of 1 pairs" in announcement(Asked.of([f"out={clone}", "only=tau", "steps=9"]))[1]
    noted = (clone / "studies" / "smoke-tau" / PAIRS).read_bytes()
    plan_study("smoke-tau", [f"out={clone}"]).save()
    after = Cells(clone).pairs("tau")
    assert [p.results for p in after] == [p.results for p in before]
    assert (clone / "studies" / "smoke-tau" / PAIRS).read_bytes() == noted


def test_places_are_noted_without_paths(tmp_path: Path) -> None:
    (tmp_path / PAIRS).write_text('[{"where": {"capture": "bonsai,images_4"}, "cells": ["a-b", null]}]')
    assert noted_cells(tmp_path, {"capture": "/data/bonsai,images_4"}) == ["a-b"]
    assert noted_cells(tmp_path, {"capture": "/data/fox,images_4"}) == []
    (tmp_path / PAIRS).write_text("[{}]")
    assert noted_cells(tmp_path, {}) == [] == noted_cells(tmp_path / "absent", {})


def test_an_arm_of_a_device_stands_for_its_own(cells: Cells) -> None:
    pair = cells.pairs("timeline")[0]
    switched = replace(pair, sequence=("barrier", "predicted:audit=0:dispatch=static"))
    assert switched.called("predicted") == "predicted:audit=0:dispatch=static"
    assert pair.called("predicted") == "predicted" and pair.called("throughput") == "throughput"


def test_captures_of_a_known_dataset_are_counted(monkeypatch: pytest.MonkeyPatch, cells: Cells) -> None:
    from paper_figs import table2

    places = [Path("data") / name for name in ("mipnerf360/garden", "deepblending/playroom", "own/garden")]
    pair = cells.pairs("timeline")[0]
    pairs = []
    for place in places:
        result = pair.results[0]
        scene = {**result.cell.config["scene"], "path": str(place)}
        cell = result.cell.model_copy(update={"config": {**result.cell.config, "scene": scene}})
        pairs.append(replace(pair, results=(result.model_copy(update={"cell": cell}),)))
    monkeypatch.setattr(Cells, "every_pair", lambda self: pairs)
    rows = table2.rows(cells)
    counted = rows[rows["quantity"] == "captures_of_dataset"].set_index("scene")["value"].to_dict()
    assert counted == {"MipNeRF360": 1.0, "Tanks & Temples": 0.0, "DeepBlending": 1.0, "MatrixCity": 0.0}


def test_roles() -> None:
    assert [role_of(name) for name in ("smoke-matrix", "laptop-matrix.3dgs", "matrix", "my-matrix")] == [
        "matrix", "matrix", "matrix", "my-matrix",
    ]  # fmt: skip


def test_seeds_of_one_place_are_one_group(cells: Cells) -> None:
    groups = over_seeds(cells.pairs("quality"))
    assert [len(group) for group in groups] == [3, 3]
    assert {pair.seed for pair in groups[0]} == {0, 1, 2}


def test_the_limit_without_skew_is_of_the_exposed_share(cells: Cells) -> None:
    from paper_figs import headline

    matrix = [pair for pair in cells.pairs("matrix") if pair.numbers("barrier") is not None]
    shares = [pair.numbers("barrier").against.exposed.value for pair in matrix]
    found = headline.rows(cells).set_index("quantity")["value"]
    assert found["mean_exposed"] == pytest.approx(sum(shares) / len(shares))
    assert found["mean_limit_no_skew"] == pytest.approx(sum(1 / (1 - share) for share in shares) / len(shares))
    assert found["mean_limit_no_skew"] <= found["mean_limit"]


def test_means_under_jitter_are_of_every_draw(cells: Cells) -> None:
    """In these records both draws vary all cells alike, so the mean under jitter is the mean without."""
    from paper_figs import headline

    found = headline.rows(cells)
    jittered, plain = (found[found["quantity"] == q].set_index("arm") for q in ("speedup_jittered", "mean_speedup"))
    assert list(jittered.index) == list(plain.index) and (jittered["n"] == 2).all()
    assert jittered["value"].to_numpy() == pytest.approx(plain["value"].to_numpy())
    assert (jittered["low"] <= jittered["value"]).all() and (jittered["high"] >= jittered["value"]).all()


def test_the_headline_says_what_was_aimed_at(cells: Cells) -> None:
    from paper_figs import headline

    found = {row["target"]: row for row in headline.verdicts(headline.rows(cells))}
    exact = found["mean speedup, exact (quality)"]
    assert exact["aim"] == "≥ 1.200×" and exact["reached"].endswith("8 of 20 cells (virtual)")
    assert exact["paper"] == "1.000× to 1.230× (quality-first, a subset)"
    assert exact["verdict"] == "8 of 20 cells: not judged" and exact["why"].endswith(".")
    assert found["plan for 50,000 images, s (default)"]["reached"] == "not measured here"


def test_the_command(
    cells: Cells, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import typer

    from paper_figs.command import figures_app

    run = typer.main.get_command(figures_app)
    root = smoke(tmp_path / "run", "planner")
    with pytest.raises(SystemExit, match="0"):
        run.main(args=["table3", "fig9", f"out={root}"])
    out = capsys.readouterr().out
    assert "table3    " in out and "missing: study matrix. Make it with: odin-bench reproduce all" in out
    assert read_rows(root / "figures" / "table3.csv")["paper"].notna().any()
    for words, says in (
        (["fig99"], "nearest one is fig9"),
        (["scale=smoke"], "not 'scale=smoke'"),
        ([f"out={tmp_path}/no"], "neither"),
    ):
        with pytest.raises(SystemExit, match="2"):
            run.main(args=words)
        assert says in capsys.readouterr().err
    assert main(["reproduce", "all", "scale=smoke", "only=planner", f"out={root}", "--dry-run"]) == 0
    assert "planner              about 0.0 of 0.5 minutes: table is there" in capsys.readouterr().out


def test_a_folder_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="reproduce all scale=smoke"):
        Cells(tmp_path)


def test_disturbed_cells_are_in_no_exhibit(tmp_path: Path) -> None:
    """Faults that were injected on purpose say nothing of an arm."""
    store, cell = CellStore(tmp_path), samples.cell("barrier", 0)
    for faults, label in (([], cell.label), (["slow"], Label.DISTURBED)):
        own = {"faults": faults} if faults else {}
        made = samples.cell("barrier", 0, pair=label.value, identity=cell.identity | own, config=cell.config | own,
                            label=label)  # fmt: skip
        store.write_result(Result.done(made, samples.measurement(), samples.provenance()))
    (pair,) = _alone(store)
    assert pair.label == cell.label.value
