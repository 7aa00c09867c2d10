"""Native sums over more than two ranks: no claim about bits, and the largest difference instead."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.report.gates import Pair, failures, judge
from harness.report.headline import report_headline
from harness.report.reduction import model_differences, reduction_lines, reduction_of, sums_depend_on_layout
from harness.report.summary import Headline, headline
from harness.report.table import csv_text, plain_text
from harness.run.headline import _show
from harness.store.schema import Result
from harness.store.store import MODEL, CellStore
from pipelines.columns import COLUMNS
from pipelines.export import write_ply
from tests.store.samples import ARMS, cell, measurement, provenance, sequence


def summed(arm: str, repeat: int, reduce: str, ranks: int, arms: tuple[str, ...] = (), **changes: object) -> Result:
    """A done cell that summed over `ranks` in this way; its `sequence` is `arms`, or as ever."""
    engine = {"ranks": ranks, "reduce": reduce}
    base = cell(arm, repeat)
    identity, config = {**base.identity, "engine": engine}, {**base.config, "engine": engine}
    place = {"sequence": arms} if arms else {}
    made = cell(arm, repeat, identity=identity, config=config, **place)
    return Result.done(made, measurement(arm, 1 + 0.004 * repeat, ranks=ranks, **changes), provenance())


def three_ranks(reduce: str, **changes: object) -> list[Result]:
    """A mirrored sequence of three ranks; `quality` ends in another state than `barrier-planned`."""
    changed = {"quality": {"final_digest": "dd" * 32}}
    return [summed(arm, k, reduce, 3, **changed.get(arm, {}), **changes) for k in (0, 1) for arm in ARMS]


def exact(summary: Headline) -> list[str | None]:
    return [row.numbers.exact if row.numbers else None for row in summary.rows]


def test_native_sums_over_three_ranks_are_not_judged() -> None:
    native = three_ranks("native")
    assert exact(headline(native)) == ["baseline", "reference", "native sums", "native sums"]
    assert "Native reduction: not compared bit for bit, because over 3 ranks" in headline(native).caption
    assert "native sums" in plain_text(headline(native)) and ",native sums\n" in csv_text(headline(native))


def test_ordered_sums_over_three_ranks_are_held_to_their_bits() -> None:
    ordered = three_ranks("ordered")
    summary = headline(ordered)
    assert exact(summary) == ["baseline", "reference", None, "no"]
    assert "bit-identity: quality is an exact arm" in summary.rows[2].failure
    assert "Sums over the 3 ranks are taken in rank order (reduce=ordered)." in summary.caption
    equal = [summed(r.cell.arm, r.cell.repeat, "ordered", 3) for r in ordered]
    assert exact(headline(equal)) == ["baseline", "reference", "yes", "no"]


@pytest.mark.parametrize("reduce", ["native", "ordered"])
def test_two_ranks_are_held_to_their_bits_in_either_reduction(reduce: str) -> None:
    two = [summed(arm, k, reduce, 2) for k in (0, 1) for arm in ARMS]
    assert exact(headline(two)) == ["baseline", "reference", "yes", "no"]
    assert not sums_depend_on_layout(two) and not list(reduction_lines(two, {}))
    differs = [r for r in two if r.cell.arm == "barrier"], [summed("quality", 0, reduce, 2, final_digest="de" * 32)]
    reference = tuple(r.measurement for r in two if r.cell.arm == "barrier-planned" and r.measurement)
    pair = Pair(baseline=tuple(differs[0]), arm=tuple(differs[1]), expected=(2, 1), reference=reference)
    assert "bit-identity" in failures(judge(pair))


def test_a_record_without_the_key_is_native() -> None:
    assert {reduction_of(r) for r in sequence()} == {"native"}
    assert not sums_depend_on_layout([Result.skipped(cell(), "left out", provenance())])


def write_models(folder: Path, rows: dict[str, int], results: list[Result], move: float = 0.0) -> CellStore:
    """Records, and models of so many primitives; `quality` has one parameter moved."""
    store = CellStore(folder)
    for record in results:
        store.write_result(record)
        if record.cell.repeat == 0 and record.cell.arm in rows:
            model = np.ones((rows[record.cell.arm], COLUMNS), np.float32)
            model[-1, -1] += move if record.cell.arm == "quality" else 0.0
            write_ply(store.path(record.cell_id) / MODEL, model)
    return store


def test_the_largest_difference_stands_in_the_caption(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    native = three_ranks("native")
    store = write_models(tmp_path, {"barrier-planned": 5, "quality": 5}, native, move=0.25)
    assert model_differences(store, native) == {"quality": "0.25"}
    assert report_headline(tmp_path) == 0
    told = "Largest difference of a parameter of the final model from that of waiting in the same order: quality 0.25."
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ({"barrier-planned": 5, "quality": 6}, "n/a (6 against 5 primitives)"),
        ({"barrier-planned": 5}, "n/a (a model file is missing)"),
    ],
)
def test_models_that_cannot_be_compared(tmp_path: Path, rows: dict[str, int], says: str) -> None:
    native = three_ranks("native")
    assert model_differences(write_models(tmp_path, rows, native), native) == {"quality": says}


def test_models_are_read_only_where_bits_are_not_compared(tmp_path: Path) -> None:
    ordered = three_ranks("ordered")
    assert model_differences(write_models(tmp_path, {}, ordered), ordered) == {}
    alone = [r for r in three_ranks("native") if r.cell.arm != "barrier-planned"]
    assert model_differences(CellStore(tmp_path), alone) == {}


def test_cells_without_a_baseline_say_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arms = ("barrier-planned", "quality")
    native = [summed(arm, 0, "native", 3, arms) for arm in arms]
    assert _show(write_models(tmp_path, dict.fromkeys(arms, 5), native), native) == 0
    printed = capsys.readouterr().out
    assert "not compared bit for bit" in printed and "quality 0." in printed
