"""Targets: met, missed or not judged, with the paper's number and why; from made-up rows."""

from __future__ import annotations

import pandas as pd
import pytest

from paper_figs.matrix import ARMS
from paper_figs.targets import CELLS, TARGETS, Stated
from paper_figs.tidy import Rows
from paper_figs.verdict import verdicts

OWN = {"label": "virtual", "commit": "0123456789ab"}


def frame(*rows: tuple) -> pd.DataFrame:
    """(quantity, arm, value, n, unit[, pipeline]) each."""
    found = Rows("headline")
    for quantity, arm, value, n, unit, *pipeline in rows:
        found.add(quantity, value, arm=arm, n=n, unit=unit, pipeline=pipeline[0] if pipeline else "", **OWN)
    return found.frame()


def judged(rows: pd.DataFrame, what: str, arm: str) -> dict[str, str]:
    """The line of one target and arm."""
    found = [line for line in verdicts(rows) if line["target"].startswith(f"{what} ({arm}")]
    (line,) = [line for line in found if line["target"].startswith((f"{what} ({arm})", f"{what} ({arm},"))]
    return line


@pytest.mark.parametrize(
    ("value", "n", "says"),
    [(1.41, 8, "8 of 20 cells: not judged"), (1.1, 19, "19 of 20 cells: not judged"), (1.31, 20, "met"),
     (1.29, 20, "NOT met")],
)  # fmt: skip
def test_a_mean_over_too_few_cells_is_not_judged(value: float, n: int, says: str) -> None:
    line = judged(frame(("mean_speedup", "predicted", value, n, "ratio")), "mean speedup", "predicted")
    assert line["verdict"] == says and line["reached"] == f"{value:.3f}×, {n} of 20 cells (virtual)"


def test_a_larger_matrix_asks_for_all_of_its_cells() -> None:
    rows = frame(("matrix_cells", "", 52, 52, "cells"), ("mean_speedup", "predicted", 1.4, 30, "ratio"))
    assert judged(rows, "mean speedup", "predicted")["verdict"] == "30 of 52 cells: not judged"


def test_few_cells_are_explained_by_the_order_of_views() -> None:
    rows = frame(
        ("matrix_cells", "", 20, 20, "cells"),
        ("mean_speedup", "quality", 1.2, 8, "ratio"),
        ("in_quality_band", "barrier-planned", 0.4, 20, "share"),
        ("in_quality_band", "quality", 0.4, 20, "share"),
        ("in_quality_band", "throughput", 0.3, 20, "share"),
        ("mean_psnr_delta", "barrier-planned", -1.0, 20, "dB"),
        ("mean_speedup", "throughput", 1.2, 6, "ratio"),
    )
    missed = judged(rows, "mean speedup, exact", "quality")["missed"]
    assert "in 12 of 20 cells before anything overlaps" in missed and "-1.00 dB from barrier" in missed
    assert "throughput itself in 14" in judged(rows, "mean speedup of the paper's default", "throughput")["missed"]


def test_what_was_not_run_is_named() -> None:
    pipelines = [("matrix_cells", "", 5, 5, "cells", name) for name in ("2DGS", "3DGS")]
    rows = frame(
        ("matrix_cells", "", 20, 20, "cells"),
        *pipelines,
        ("cells_slowdown_1", "", 15, 15, "cells"),
        ("cells_slowdown_1", "", 5, 5, "cells", "3DGS"),
        ("mean_speedup_slowdown_1", "predicted-random", 1.4, 15, "ratio"),
    )
    line = next(v for v in verdicts(rows) if "overlap_slowdown" in v["target"] and "predicted-random" in v["target"])
    assert line["verdict"] == "15 of 20 cells: not judged"
    assert line["missed"] == "15 of 20 cells are recorded (2DGS is not run)."


def test_a_missed_share_names_the_runs_that_failed_an_audit() -> None:
    arm = "predicted-random"
    rows = frame(
        ("hidden_transfer_of_hideable", arm, 0.93, 20, "share"),
        ("failed_audits", arm, 6, 20, "runs"),
        ("failed_audits", arm, 5, 5, "runs", "2DGS"),
        ("failed_audits", arm, 1, 5, "runs", "DashGS"),
        ("failed_audits", arm, 0, 5, "runs", "3DGS"),
        ("hidden_transfer_of_hideable_passed", arm, 0.99, 14, "share"),
    )
    line = judged(rows, "hidden-transfer ÷ hideable", arm)
    assert line["verdict"] == "NOT met"
    assert line["missed"].startswith("5 of 5 runs of 2DGS and 1 of 5 runs of DashGS failed an audit (5 %)")
    assert "3DGS" not in line["missed"].replace("2DGS", "") and "99.0 %" in line["missed"]


def test_equal_bits_count_only_where_both_arms_were_trained() -> None:
    same, apart = ("same_bits", "quality", 1.0, 23, "share"), ("bits_trained_apart", "quality", 3, 23, "cells")
    what = "final bits are those of waiting in the same order"
    line = judged(frame(same, apart), what, "quality")
    assert line["verdict"] == "3 of 20 cells trained apart: not judged" and "In 20 of 23 cells" in line["missed"]
    differ = ("same_bits", "quality", 22 / 23, 23, "share")
    assert judged(frame(differ, apart), what, "quality")["verdict"] == "NOT met"  # one that differs is enough
    every = ("bits_trained_apart", "quality", 23, 23, "cells")
    assert judged(frame(same, every), what, "quality")["verdict"] == "met"


def test_seeds_of_the_worst_scene() -> None:
    what = "PSNR without densification, worst scene, same order"
    for value, seeds, says in ((0.01, 2, "2 of 3 seeds: not judged"), (0.03, 2, "NOT met"), (0.01, 3, "met")):
        rows = frame(("largest_psnr_delta_fixed", "predicted", value, 4, "dB"),
                     ("fewest_seeds_fixed", "predicted", seeds, seeds, "seeds"))  # fmt: skip
        assert judged(rows, what, "predicted")["verdict"] == says


def test_the_city_stands_beside_the_papers_speedups() -> None:
    rows = frame(
        ("speedup_64", "predicted", 0.8, 1, "ratio", "Grendel"),
        ("speedup_64", "barrier-planned", 0.7, 1, "ratio", "Grendel"),
        ("observe_ms_64", "barrier-planned", 6.0, 1, "ms", "Grendel"),
        ("observe_ms_64", "barrier", 3.0, 1, "ms", "Grendel"),
        ("exposed_64", "barrier", 0.39, 1, "share", "Grendel"),
        ("hidden_transfer_64", "predicted", -0.45, 1, "share", "Grendel"),
        ("hidden_transfer_64", "quality", -0.66, 1, "share", "Grendel"),
        ("hidden_publish_64", "predicted", 0.9, 1, "share", "Grendel"),
    )
    line = judged(rows, "city at 64 ranks, speedup", "predicted")
    assert line["paper"] == "1.890× (MatrixCity)" and line["verdict"] == "no aim: below the paper's"
    assert (
        "few owners" in line["missed"]
        and "0.700×" in line["missed"]
        and "6 ms a step instead of 3 ms" in line["missed"]
    )
    assert line["beside"] == "barrier's own 39.0 %; hidden-transfer -45.0 %; quality's -66.0 %"
    publish = judged(rows, "city at 64 ranks, hidden-publish", "predicted")
    assert publish["verdict"] == "met" and publish["missed"] == "" and publish["paper"].startswith("1.890×")


def test_the_paper_is_told_also_where_nothing_is_measured() -> None:
    lines = {(t.quantity, arm): (t, line) for (t, arm), line in zip(
        [(t, arm) for t in TARGETS for arm in t.arms], verdicts(frame()), strict=True)}  # fmt: skip
    for target, line in lines.values():
        assert line["verdict"] == "–" and line["reached"].startswith("not measured")
        assert not isinstance(target.paper, Stated) or line["paper"], line["target"]
    assert lines["mean_speedup", "quality"][1]["paper"].startswith("1.000× to 1.230×")
    assert lines["mean_speedup", "throughput"][1]["paper"].startswith("1.220×")
    assert lines["equivalence_bound", "throughput"][1]["paper"].startswith("±1.0 %")
    assert lines["plan_seconds_50000", "default"][1]["paper"] == "9.45 s"
    assert lines["hidden_wait", "throughput"][1]["paper"].startswith("82.0 %")
    assert "benchmarks.admission" in lines["admission_share", "quality"][1]["reached"]


def test_quality_over_too_few_pairs_says_what_is_known() -> None:
    rows = frame(
        ("equivalence_bound", "predicted", 0.049, 12, "share"),
        ("quality_delta", "predicted", -0.035, 12, "share"),
        ("quality_delta", "barrier-planned", -0.044, 12, "share"),
        ("equivalence_bound", "predicted-random", 0.017, 48, "share"),
        ("quality_delta", "predicted-random", 0.004, 48, "share"),
        ("largest_perturbed_spread", "perturbed", 0.41, 6, "dB"),
    )
    what = "PSNR, equivalent with densification: 90 % interval's end"
    few, whole = (judged(rows, what, arm) for arm in ("predicted", "predicted-random"))
    assert few["verdict"] == "12 of 48 pairs: not judged" and whole["verdict"] == "NOT met"
    assert few["missed"].startswith(
        "12 of 48 pairs are recorded. The plan's order of views alone (barrier-planned) ends -4.4 %"
    )
    assert whole["missed"].startswith("Densification is chaotic") and "0.41 dB" in whole["missed"]


def test_every_aim_of_the_design_has_a_line() -> None:
    assert CELLS == 20
    quantities = {(target.quantity, arm) for target in TARGETS for arm in target.arms}
    assert {("mean_speedup", arm) for arm in ARMS} <= quantities
    assert {(q, arm) for q in ("equivalence_bound", "largest_psnr_delta_fixed")
            for arm in ("throughput", "predicted")} <= quantities  # fmt: skip
    assert {"same_bits", "hidden_publish_64", "speedup_32", "speedup_64", "plan_seconds_50000", "hazard_share",
            "admission_share", "extra_memory_of_bound",
            "same_bits_processes"} <= {quantity for quantity, _ in quantities}  # fmt: skip
