"""Fig. 17: rejected windows, what they cost, and what quality's switches are worth."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from harness.measure.windows import WINDOW_COLUMNS, write_windows
from harness.store.store import WINDOWS
from paper_figs import fig17
from paper_figs.cells import Cells, Pair
from paper_figs.make import make
from tests.paper_figs.records import smoke


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    return Cells(smoke(tmp_path_factory.mktemp("fallback"), "fallback"))


def test_windows_that_a_plan_closes_are_no_rejections(cells: Cells) -> None:
    rows = fig17.rows(cells)
    found = {key: set(own["value"]) for key, own in rows.groupby(["quantity", "arm"])}
    assert list(found["rejected", "quality"]) == pytest.approx([1 / 7])  # one structural of 7
    assert found["rejected_planned", "quality"] == {0.0} and found["rejected_planned", "paper-quality"] == {1.0}


@pytest.mark.parametrize(
    ("reason", "closed"),
    [("structural", True), ("structural|memory", True), ("checkpoint", True), ("everything is waited for", False),
     ("conflict", False), ("an audit failed", False)],
)  # fmt: skip
def test_reasons_of_a_plan(reason: str, closed: bool) -> None:
    assert fig17._in_plan(reason) is closed


def test_without_seconds_of_windows_the_wait_is_a_bound(cells: Cells) -> None:
    rows = fig17.rows(cells)
    assert "wait_per_rejected" not in set(rows["quantity"])
    bounds = rows[rows["quantity"] == "wait_per_rejected_bound"]
    assert set(bounds["arm"]) == {"paper-quality"}  # the others rejected none
    pair = cells.pairs("fallback")[0]
    run = pair.run("paper-quality")
    assert run is not None
    waits = 1e3 * sum(run.breakdown.wait_by_rank) / run.ranks * run.steps
    own = bounds[bounds["scene"] == pair.scene]["value"].iloc[0]
    assert own == pytest.approx(waits / sum(run.windows.rejected.values()))


def test_seconds_of_windows_count_where_they_were_recorded(tmp_path: Path) -> None:
    """Those of rejected windows alone, and not of structural ones."""
    cells = Cells(smoke(tmp_path, "fallback"))
    pair = cells.pairs("fallback")[0]
    windows = [("rejected", "structural", 9.0), ("rejected", "everything is waited for", 0.002),
               ("rejected", "everything is waited for", 0.004), ("partial", "", 5.0)]  # fmt: skip
    frame = pd.DataFrame([dict.fromkeys(WINDOW_COLUMNS, 0) for _ in windows])
    frame["state"], frame["reason"], frame["transfer_s"] = zip(*windows, strict=True)
    frame["skew_s"] = 0.001
    found = pair.result("paper-quality")
    assert found is not None
    write_windows(frame.astype(WINDOW_COLUMNS), cells.root / "cells" / found.cell_id / WINDOWS)
    rows = fig17.rows(cells)
    own = rows[(rows["scene"] == pair.scene) & (rows["arm"] == "paper-quality")].set_index("quantity")["value"]
    assert own["wait_per_rejected"] == pytest.approx(4.0) and "wait_per_rejected_bound" not in own
    figure = fig17.draw(cells, rows)
    assert figure is not None
    faces = {str(line.get_markerfacecolor()) for line in figure.axes[1].lines if line.get_marker() == "v"}
    assert "none" in faces and len(faces) == 2  # filled where recorded, open where a bound


def test_a_switch_is_worth_its_ratio_of_steps(cells: Cells) -> None:
    rows = fig17.rows(cells)
    effects = rows[rows["quantity"] == "switch_effect"]
    assert set(effects["arm"]) == {"quality:groups=off", "quality:unit_order=off", "quality:early=off"}
    pair = cells.pairs("fallback")[0]
    off, on = pair.run("quality:groups=off"), pair.run("quality")
    assert off is not None and on is not None
    own = effects[(effects["arm"] == "quality:groups=off") & (effects["scene"] == pair.scene)]["value"].iloc[0]
    assert own == pytest.approx(off.breakdown.step / on.breakdown.step)
    text = "\n".join(fig17.findings(rows))
    assert "groups +" in text and "unit_order " in text and "early " in text


def test_a_switch_in_another_order_has_no_ratio(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Pair.run
    monkeypatch.setattr(
        Pair, "run", lambda self, arm: (run := plain(self, arm)) and run.model_copy(update={"plan_digest": arm[:16]})
    )
    assert "switch_effect" not in set(fig17.rows(cells)["quantity"])


def test_the_papers_numbers_are_read_and_not_written(cells: Cells) -> None:
    assert not any(text in fig17.note for text in ("1.3", "0.8 %", "98.6"))
    figure = fig17.draw(cells, fig17.rows(cells))
    assert figure is not None
    stars = {round(float(line.get_xdata()[0]), 1) for line in figure.axes[0].lines if line.get_marker() == "*"}
    assert stars == {1.3, 0.8, 98.6}
    text = "\n".join(fig17.remarks(cells))
    assert "The paper: 1.3 % (playroom), 0.8 % (drjohnson) and 98.6 % (kitchen)." in text


def test_a_ratio_that_failed_is_a_cross(tmp_path: Path) -> None:
    cells = Cells(smoke(tmp_path, "fallback", leave_out=1))  # quality, the last arm
    figure = fig17.draw(cells, fig17.rows(cells))
    assert figure is not None
    assert len([line for line in figure.axes[2].lines if line.get_marker() == "x"]) == len(cells.pairs("fallback"))
    assert any(text.get_text() == "failed a gate" for legend in figure.legends for text in legend.get_texts())


def test_a_rerun_is_byte_identical(cells: Cells, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        make(fig17, cells, tmp_path / folder)
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(names) == 5
    assert all((tmp_path / "one" / n).read_bytes() == (tmp_path / "two" / n).read_bytes() for n in names)
