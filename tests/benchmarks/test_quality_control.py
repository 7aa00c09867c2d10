"""Deltas of a table with known answers, and what of a folder of records enters it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.quality_control import ARMS, COUNTS, PERTURBATIONS, REFERENCE, audit_columns, deltas, main, runs, table
from harness.store.schema import Audit
from harness.store.store import CellStore
from odin.arms import AUDIT_LIMIT
from tests.benchmarks.made_up import TINY, make_up
from tests.store import samples

SHORT = [*TINY, "steps=4"]


def row(seed: int, arm: str, psnr: float, perturb: float = 0.0, densify: bool = True) -> dict[str, object]:
    return {
        "scene": "s",
        "densify": densify,
        "seed": seed,
        "arm": arm,
        "perturb": perturb,
        "psnr": psnr,
        "ssim": psnr / 40,
        **audit_columns(arm, ()),
    }


def frame_of(rows: Sequence[dict[str, object]]) -> pd.DataFrame:
    return pd.DataFrame(rows).astype({**COUNTS, "audit_error": float})


def audit(step: int, error: float) -> Audit:
    return Audit(step=step, error=error, by_kind={}, pixel=0.0)


def test_each_seed_is_compared_with_its_own_reference() -> None:
    rows = [row(s, REFERENCE, 20 + s) for s in range(3)]
    rows += [row(s, "predicted", 20 + s + d) for s, d in enumerate((-0.1, 0.0, 0.4))]
    rows += [row(s, REFERENCE, 20 + s + 0.2, 1e-6) for s in range(3)]
    frame = deltas(frame_of(rows)).set_index("arm")
    predicted = frame.loc["predicted"]
    assert (predicted["delta_db"], predicted["worst"], predicted["seeds"]) == (
        pytest.approx(0.1),
        pytest.approx(-0.1),
        3,
    )
    # t(0.975, 2) = 4.303; standard deviation of (-0.1, 0, 0.4) is 0.2646.
    assert predicted["high"] - predicted["delta_db"] == pytest.approx(4.3027 * 0.26458 / 3**0.5, rel=1e-4)
    control = frame.loc[f"{REFERENCE} ×(1 + 1e-06)"]
    assert control["delta_db"] == pytest.approx(0.2) and control["delta_ssim"] == pytest.approx(0.2 / 40)
    assert set(frame.index) == {"predicted", f"{REFERENCE} ×(1 + 1e-06)"}


def test_an_arm_is_compared_with_waiting_in_its_own_order() -> None:
    rows = [
        row(0, "barrier", 25.0),
        row(0, REFERENCE, 23.0),
        row(0, "predicted", 23.5),
        row(0, "predicted-random", 24.9),
    ]
    rows += [row(0, "barrier", 25.3, 1e-6)]
    frame = deltas(frame_of(rows)).set_index("arm")
    assert dict(frame["reference"]) == {
        "barrier": REFERENCE, "predicted": REFERENCE, "predicted-random": "barrier", "barrier ×(1 + 1e-06)": "barrier",
    }  # fmt: skip
    assert frame["delta_db"].round(9).to_dict() == {
        "barrier": 2.0, "predicted": 0.5, "predicted-random": -0.1, "barrier ×(1 + 1e-06)": 0.3,
    }  # fmt: skip


def test_a_seed_without_its_reference_does_not_count() -> None:
    rows = [row(0, REFERENCE, 20.0), row(0, "predicted", 20.5), row(1, "predicted", 30.0)]
    frame = deltas(frame_of(rows)).set_index("arm")
    assert frame.loc["predicted", ["seeds", "delta_db"]].tolist() == [1, pytest.approx(0.5)]
    alone = deltas(frame_of([row(1, "predicted", 30.0)])).set_index("arm")
    assert alone.loc["predicted", "seeds"] == 0 and np.isnan(alone.loc["predicted", "delta_db"])


def test_the_spread_of_controls_is_the_largest_of_any_single_one() -> None:
    """Not of their means, in which opposite signs would cancel; and of the scene's own kind of run."""
    rows = [row(s, arm, 20.0) for s in range(2) for arm in (REFERENCE, "barrier", "predicted")]
    rows += [row(s, REFERENCE, 20.0 + d, 1e-6) for s, d in enumerate((0.3, -0.3))]
    rows += [row(s, "barrier", 20.0 + d, 2e-6) for s, d in enumerate((0.1, -0.7))]
    rows += [row(s, arm, 19.0, densify=False) for s in range(2) for arm in (REFERENCE, "predicted")]
    frame = deltas(frame_of(rows))
    dense, fixed = frame[frame["densify"]], frame[~frame["densify"]]
    assert dense["control_spread_db"].tolist() == [pytest.approx(0.7)] * len(dense)
    assert len(fixed) == 1 and fixed["control_spread_db"].isna().all()


def test_audits_are_those_of_arms_that_have_them() -> None:
    found = audit_columns("predicted", [audit(50, 0.01), audit(100, 2 * AUDIT_LIMIT), audit(150, AUDIT_LIMIT)])
    assert found == {"audits": 3, "audit_error": 2 * AUDIT_LIMIT, "audits_failed": 1}
    assert audit_columns("predicted", ()) == {"audits": 0, "audit_error": None, "audits_failed": 0}
    assert set(audit_columns("throughput", ()).values()) == {None}


def test_audits_of_seeds_are_summed_and_the_largest_error_is_kept() -> None:
    audited = {"audits": 5, "audit_error": 0.02, "audits_failed": 0}
    failed = {"audits": 4, "audit_error": 0.34, "audits_failed": 2}
    rows = [row(s, arm, 20.0) for s in range(2) for arm in (REFERENCE, "throughput")]
    rows += [row(0, "predicted", 20.0) | audited, row(1, "predicted", 20.0) | failed]
    frame = deltas(frame_of(rows)).set_index("arm")[["audits", "audit_error", "audits_failed"]]
    assert frame.loc["predicted"].tolist() == [9, 0.34, 2]
    assert frame.loc["throughput"].isna().all()


def test_a_record_becomes_a_row() -> None:
    results = [samples.result("predicted", audits=(audit(2, 0.04),)), samples.result("barrier")]
    changed = [r.cell.model_copy(update={"config": {"pipeline": {"densify": True, "perturb": 0.0}}}) for r in results]
    frame = table([r.model_copy(update={"cell": cell}) for r, cell in zip(results, changed, strict=True)])
    assert frame["arm"].tolist() == ["barrier", "predicted"]
    assert frame.loc[1, ["ranks", "batch", "steps", "audits", "audit_error"]].tolist() == [2, 4, 4, 1, 0.04]
    assert frame.loc[0, ["audits", "audit_error", "audits_failed"]].isna().all()


def test_every_arm_runs_with_and_without_densification_and_the_reference_perturbed() -> None:
    words = runs(7)
    assert all("seed=7" in w for w in words)
    assert sum(f"arms={','.join(ARMS)}" in w for w in words) == 2 and sum("densify=false" in w for w in words) == 1
    assert sum(any(x.startswith("perturb=") for x in w) for w in words) == 2


CELLS = 2 * len(ARMS) + 2 * len(PERTURBATIONS)  # of one seed


def summary(out: Path) -> pd.DataFrame:
    return pd.read_csv(out / "quality_deltas.csv")


def test_the_default_is_the_virtual_engine_with_eight_views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_up(monkeypatch)
    assert main([*TINY, "--seeds", "1", "--out", str(tmp_path)]) == 1  # made-up records have four steps, not 300
    results = [r for r in CellStore(tmp_path).results() if r.measurement is None]
    engine = results[0].cell.config["engine"]
    assert isinstance(engine, dict)
    assert [engine[key] for key in ("name", "ranks", "views_per_unit", "padded")] == ["virtual", 2, 4, False]
    assert results[0].cell.config["scale"] == {"steps": 300}


@pytest.mark.parametrize("words", [[], ["engine=process", "padded=true", "link=exposed-295"]])
def test_complete_records_end_in_0(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_up(monkeypatch)
    assert main([*SHORT, *words, "--seeds", "2", "--out", str(tmp_path)]) == 0
    assert len(pd.read_csv(tmp_path / "quality_control.csv")) == 2 * CELLS
    assert set(summary(tmp_path)["seeds"]) == {2}


def test_records_of_other_code_or_settings_do_not_count_as_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--seeds", "1", "--out", str(tmp_path)]
    make_up(monkeypatch, code="0" * 16, psnr=99.0)
    assert main([*SHORT, *out]) == 1
    assert f"done by other code only (commit {samples.provenance().git_sha[:12]})" in capsys.readouterr().out
    make_up(monkeypatch, psnr=98.0)
    assert main([*SHORT, "views_per_unit=2", *out]) == 0
    assert main([*SHORT, *out, "--first", "5"]) == 0
    make_up(monkeypatch)
    capsys.readouterr()
    assert main([*SHORT, *out]) == 0
    printed = capsys.readouterr().out
    assert f"Left out: {CELLS} records of other code versions, {2 * CELLS} of settings, seeds or scenes" in printed
    assert set(summary(tmp_path)["seeds"]) == {1}
    assert pd.read_csv(tmp_path / "quality_control.csv")["psnr"].max() < 98


def test_what_failed_or_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_up(monkeypatch, failed={"throughput": "rank 1 died"}, absent={"predicted-random"})
    assert main([*SHORT, "--seeds", "1", "--out", str(tmp_path)]) == 1
    missing = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Missing")]
    where = "seed=0 ranks=2 views_per_unit=4 optimizer=dense densify={} perturb=0"
    assert missing == [
        f"Missing: {arm} #1 ({where.format(densify)}): {why}"
        for densify in ("true", "false")
        for arm, why in (("throughput", "failed: rank 1 died"), ("predicted-random", "no record (pending)"))
    ]
    assert set(summary(tmp_path)["arm"]) & {"throughput", "predicted-random"} == set()


def test_a_headline_without_a_ratio_is_no_failure_and_one_that_could_not_start_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = ["--seeds", "1", "--out", str(tmp_path)]
    make_up(monkeypatch, exit_code=1)
    assert main([*SHORT, *out]) == 0
    make_up(monkeypatch, exit_code=70)
    assert main([*SHORT, *out]) == 70
    assert main([*SHORT, "views_per_unti=2", *out]) == 2
