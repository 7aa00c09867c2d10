"""The records that come with the project, the headline made from them, and the README say the same. Trains nothing."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from harness.store.identity import ROOT
from odin.arms import arm as arm_named
from paper_figs import fig12, fig19, headline
from paper_figs.cells import Cells
from paper_figs.lookup import Lookup
from paper_figs.matrix import ARMS, hidden_wait

LAPTOP = ROOT / "results" / "laptop"
KEPT = ("cells/*/result.json", "studies/*/pairs.json", "benchmarks/*")  # what git keeps
# | quality-random (barrier's own bits) | 20 of 20 | 1.203× | … of the table with the column "cells with a ratio"
ROW = r"^\|\s*{arm}\b[^|]*\|\s*(\d+)\s+of\s+(\d+)\s*\|\s*([\d.]+)×\s*\|"


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    folder = tmp_path_factory.mktemp("laptop")
    for pattern in KEPT:
        for path in LAPTOP.glob(pattern):
            copy = folder / path.relative_to(LAPTOP)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    return Cells(folder)


@pytest.fixture(scope="module")
def frame(cells: Cells) -> pd.DataFrame:
    return headline.rows(cells)


@pytest.fixture(scope="module")
def found(frame: pd.DataFrame) -> Lookup:
    return Lookup(frame)


@pytest.fixture(scope="module")
def lines(frame: pd.DataFrame) -> dict[str, dict[str, str]]:
    return {line["target"]: line for line in headline.verdicts(frame)}


@pytest.mark.parametrize("arm", ["quality-random", "predicted-random"])
def test_the_readme_quotes_these_records(arm: str, found: Lookup) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme[readme.index("cells with a ratio") :]
    quoted = re.search(ROW.format(arm=arm), table, re.MULTILINE)
    assert quoted, f"README.md has no row of {arm} below 'cells with a ratio'"
    row = found.row("mean_speedup", arm)
    assert row is not None
    assert quoted.groups() == (str(row["n"]), f"{found.value('matrix_cells'):.0f}", f"{row['value']:.3f}")


def test_means_are_of_the_cells_that_have_a_ratio(cells: Cells, found: Lookup) -> None:
    matrix = cells.pairs("matrix")
    assert found.value("matrix_cells") == len(matrix)
    for arm in ARMS:
        own = [numbers.speedup for pair in matrix if (numbers := pair.numbers(arm)) is not None]
        row = found.row("mean_speedup", arm)
        assert row is not None and row["n"] == len(own) and row["value"] == pytest.approx(sum(own) / len(own))


def test_waiting_in_the_same_order_is_the_baseline_of_nearly_all_cells(cells: Cells, found: Lookup) -> None:
    for arm in ARMS:
        every, own = found.row("mean_speedup_same_order", arm), found.row("mean_speedup", arm)
        assert every is not None and own is not None and own["n"] <= every["n"] >= len(cells.pairs("matrix")) - 1
        if arm_named(arm).reference == "barrier":
            assert (every["value"], every["n"]) == (own["value"], own["n"])


def test_the_papers_share_of_wait_stands_beside_waits_alone(cells: Cells, found: Lookup) -> None:
    for row in (
        found.row("hidden_wait", "throughput"),
        Lookup(fig19.rows(cells)).row("hidden_wait", "throughput", None),
    ):
        assert row is None or row["paper"] == 0.82
    wait, lost = found.row("hidden_wait", "throughput"), found.row("hidden", "throughput")
    assert wait is not None and lost is not None and lost["paper"] != lost["paper"] and wait["value"] > lost["value"]
    shown = fig19.rows(cells)
    assert set(shown.loc[shown["paper"].notna(), "quantity"]) == {"hidden_wait"}


def test_hidden_wait_is_of_transfer_and_skew(cells: Cells) -> None:
    pair = fig19.representative(cells)
    assert pair is not None
    arm, base = pair.numbers("quality"), pair.numbers("barrier")
    assert arm is not None and base is not None
    left, of = arm.parts.transfer + arm.parts.skew, base.parts.transfer + base.parts.skew
    assert hidden_wait(arm.parts, base.parts) == pytest.approx(1 - left / of)
    alone = base.parts.model_copy(update={"transfer": 0.0, "skew": 0.0})
    assert hidden_wait(arm.parts, alone) is None


def test_no_arm_of_fig_12_is_faster_than_its_transfer_allows(cells: Cells) -> None:
    (remark,) = fig12.remarks(cells)
    bound = float(remark.partition("above ")[2].partition("×")[0])
    frame = fig12.rows(cells)
    replicated = frame.loc[frame["arm"].str.startswith("DDP"), "value"]
    assert 0.9 * bound < replicated.max() < bound
    asked = float(remark.partition("at most ")[2].partition(" ms")[0])
    waits = float(remark.partition("waits ")[2].partition(" ms")[0])
    assert waits / asked == pytest.approx(7.6 / bound, rel=0.01)


def test_bits_that_were_copied_are_no_evidence(cells: Cells, found: Lookup) -> None:
    for arm in ("quality", "quality-random"):
        both = [(pair.run(arm), pair.run(arm_named(arm).reference)) for pair in cells.every_pair()]
        known = [(one, other) for one, other in both if one is not None and other is not None]
        trained = [(a, b) for a, b in known if a.retimed_from is None and b.retimed_from is None]
        assert found.value("same_bits", arm) == 1.0
        assert found.value("bits_trained_apart", arm) == len(trained) < len(known)


def test_what_is_missed_or_not_judged_says_why(lines: dict[str, dict[str, str]]) -> None:
    open_ = [line for line in lines.values() if line["verdict"] == "NOT met" or "not judged" in line["verdict"]]
    assert open_ and all(line["missed"].endswith(".") for line in open_)
    met = [line for line in lines.values() if line["verdict"] == "met"]
    assert met and not any(line["missed"] for line in met)


def test_no_mean_over_a_part_of_the_matrix_is_met(lines: dict[str, dict[str, str]]) -> None:
    means = {name: line for name, line in lines.items() if name.startswith(("mean speedup", "hidden-transfer"))}
    for line in means.values():
        assert ("20 of 20 cells" in line["reached"]) == (line["verdict"] in ("met", "NOT met"))
        assert "[" in line["reached"]


def test_numbers_of_the_paper_stand_where_it_states_them(lines: dict[str, dict[str, str]]) -> None:
    for name, line in lines.items():
        if name.startswith(("mean speedup", "hidden", "city", "plan")):
            assert re.search(r"\d", line["paper"]), name
    cities = [line for name, line in lines.items() if name.startswith("city at 64")]
    for line in cities:
        assert line["paper"].startswith("1.890×")
        assert all(word in line["beside"] for word in ("exposed", "limit", "hidden-transfer", "hidden-observe"))


def test_the_caption_says_what_is_so_by_construction_and_deterministic(cells: Cells) -> None:
    said = " ".join(headline.remarks(cells))
    assert "by construction" in said and "fig1-3dgs 22.9 %" in said and "fig1-dash 32.3 %" in said
    assert "deterministic" in said and "Review 2" in said
    assert "can exceed 100 %" in headline.note and "so that more can be hidden" in fig19.note


def test_records_are_part_of_the_repository() -> None:
    assert len(list(Path(LAPTOP).glob("cells/*/result.json"))) >= 140  # 20 cells of the matrix × 7 arms
