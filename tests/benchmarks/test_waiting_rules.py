"""The model of SCOPES.md §3 on numbers worked out by hand, and rows of made-up records."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from benchmarks import waiting_rules
from benchmarks.waiting_model import RULES, model_of, model_speedup, rule_of
from benchmarks.waiting_rules import Line, lines, table
from harness.report.summary import headline
from harness.store.schema import Audit, Result
from harness.store.store import CellStore
from odin.errors import InputError
from tests.store.samples import cell, measurement, provenance, quality

ARMS = ("barrier", "barrier-planned", "quality", "quality-random", "predicted")
LIKE = {"quality-random": "quality"}


def records(planned_psnr: float = 21.4, scene: str = "fox", **changes: object) -> list[Result]:
    """One run of every arm: 300 ms per step, 85 of them exposed, 215 of `predicted`; 16 views would be B = 4."""
    found = []
    for name in ARMS:
        planned = name in ("barrier-planned", "quality", "predicted")
        own = {"quality_final": quality(planned_psnr)} if planned else {}
        if name == "quality-random":
            own = {"quality_final": quality(21.3), "final_digest": "aa" * 32}
        if name == "predicted":
            audits = [Audit(step=k, error=e, by_kind={}, pixel=0.1) for k, e in ((1, 0.01), (2, 0.06))]
            own |= {"audits": tuple(audits), "quality_final": quality(planned_psnr - 0.02)}
        m = measurement(LIKE.get(name, name), **(own | changes))  # type: ignore[arg-type]
        found.append(Result.done(cell(name, sequence=ARMS, scene=scene), m, provenance()))
    return found


def by_arm(results: list[Result]) -> dict[str, Line]:
    """Their lines."""
    return {line.arm: line for line in lines("s", results, headline(results, ARMS))}


def test_the_model_by_hand() -> None:
    # f = 0.295: T = 0.295 / 0.705 = 0.41844.
    assert model_speedup(0.0, 0.295) == 1.0
    assert model_speedup(1.0, 0.295) == pytest.approx(1 / 0.705) == pytest.approx(1.418, abs=5e-4)
    assert model_speedup(0.5, 0.5) == pytest.approx(2 / 1.5)
    assert model_speedup(0.7, 0.0) == 1.0
    assert model_speedup(-0.88, 0.295) == pytest.approx(0.79, abs=5e-3)  # the table's own row of recomputing
    with pytest.raises(InputError, match="An exposed share of 1"):
        model_speedup(0.5, 1.0)


@pytest.mark.parametrize(
    ("rule", "batch", "printed"),
    [
        ("all-or-nothing", 8, (1.00, 1.00, 1.00, 1.00)),
        ("(1)", 8, (1.31, 1.34, 1.07, 1.02)),
        ("(1)", 4, (1.32, 1.39, 1.08, 1.03)),
        ("(1')", 8, (1.32, 1.38, 1.10, 1.04)),
        ("(1')", 4, (None, None, 1.12, 1.06)),
        ("(1'')", 8, (1.40, 1.40, 1.34, 1.23)),
        ("(1'')", 4, (None, None, None, 1.25)),
        ("(4) gate", 8, (1.34, 1.39, 1.17, 1.22)),
        ("(4) predicted", 8, (1.42, 1.42, 1.42, 1.42)),
    ],
)
def test_hidden_shares_give_the_speedups_that_stand_beside_them(
    rule: str, batch: int, printed: tuple[float | None, ...]
) -> None:
    """SCOPES.md §3 prints both at f = 29.5 %, each rounded to two digits."""
    for scene, speedup in zip(("bonsai", "caliterra", "fox", "south_building"), printed, strict=True):
        hidden = RULES[rule][1][scene].get(batch)
        assert (hidden is None) == (speedup is None)
        if hidden is not None:
            assert model_speedup(hidden, 0.295) == pytest.approx(speedup, abs=0.0101)


def test_an_arm_is_modelled_by_what_it_waits_for() -> None:
    wanted = {
        "paper-quality": "all-or-nothing",
        "quality": "(1'')",
        "quality:groups=off": "(1')",
        "quality:groups=off:unit_order=off:early=off": "(1)",
        "quality:early=off": None,
        "quality:groups=off:early=off": None,
        "throughput": "(4) gate",
        "throughput:evidence=reduced": "(4) gate",
        "throughput:evidence=local": "(4) gate",
        "throughput:tau=0.1": None,
        "without-SAS": None,
        "predicted": "(4) predicted",
        "predicted:reads=stale": None,
        "quality-random": None,
        "predicted-random": None,
        "barrier": None,
        "barrier-planned": None,
    }
    assert {name: rule_of(name) for name in wanted} == wanted


def test_the_model_is_for_the_records_batch_where_there_is_one() -> None:
    assert [model_of("south_building", "quality", b).name for b in (4, 8, 16)] == [  # type: ignore[union-attr]
        "(1'') B 4", "(1'') B 8", "(1'') B 8",
    ]  # fmt: skip
    assert model_of("fox", "quality", 4).name == "(1'') B 8"  # type: ignore[union-attr]
    assert model_of("rooms", "quality", 8) is None


def test_a_line_has_the_headlines_numbers_and_the_model_at_the_realized_share() -> None:
    found = by_arm(records())
    one = found["quality"]
    assert (one.label, one.batch, one.model.name) == ("padded", 4, "(1'') B 8")  # type: ignore[union-attr]
    assert one.exposed.value == pytest.approx(85 / 300) and one.limit.value == pytest.approx(1.5)
    assert one.barrier.speedup.value == pytest.approx(300 / 240)
    assert one.planned.speedup.value == pytest.approx(298 / 240)
    assert one.barrier.hidden.value == pytest.approx(1 - 39 / 100)
    assert one.barrier.hidden_transfer.value == pytest.approx(1 - 21 / 85)
    assert one.planned.hidden_transfer.value == pytest.approx(1 - 21 / 84)
    # T = 85 / 215, h = 0.85
    assert one.modelled.value == pytest.approx((300 / 215) / (1 + 0.15 * 85 / 215))
    assert one.delta.value == pytest.approx(0.0) and one.audit_error.value is None
    assert found["predicted"].audits == "2, 1 failed"
    assert found["predicted"].audit_error.value == pytest.approx(0.06)
    assert found["predicted"].delta.value == pytest.approx(-0.02)
    assert found["predicted"].modelled.value == pytest.approx(300 / 215)
    assert found["barrier"].modelled.reason == "–: no model" and found["barrier"].delta.value is None
    assert found["quality-random"].delta.value == pytest.approx(0.0)
    assert found["quality-random"].planned.speedup.value is None


def test_an_order_that_costs_quality_fails_against_barrier_alone() -> None:
    found = by_arm(records(planned_psnr=20.0))
    one = found["quality"]
    assert one.barrier.speedup.reason.startswith("FAILED: quality band")  # type: ignore[union-attr]
    assert one.planned.speedup.value == pytest.approx(298 / 240)
    assert one.modelled.value is not None and one.delta.value == pytest.approx(0.0)
    row = next(line for line in table(list(found.values())).splitlines() if line.startswith("quality "))
    assert row.split()[:12] == [
        "quality", "padded", "240.0", "28.3", "%", "1.500×", "FAILED", "FAILED", "FAILED", "1.242×", "60.2", "%",
    ]  # fmt: skip


def test_another_pipeline_has_no_model() -> None:
    found = [r.model_copy(update={"cell": r.cell.model_copy(update={"config": _of("2dgs")})}) for r in records()]
    assert by_arm(found)["quality"].model is None
    found = [r.model_copy(update={"cell": r.cell.model_copy(update={"config": _of("3dgs")})}) for r in records()]
    assert by_arm(found)["quality"].model is not None


def _of(pipeline: str) -> dict[str, object]:
    return {"pipeline": {"name": pipeline}}


def test_the_table_says_where_the_model_ends() -> None:
    assert "is more than" not in table(list(by_arm(records()).values()))
    slower = {"breakdown": measurement("barrier").breakdown.model_copy(update={"transfer": 0.185, "step": 0.4})}
    found = records()
    base = found[0].measurement.model_copy(update=slower)  # type: ignore[union-attr]
    found[0] = found[0].model_copy(update={"measurement": base})
    assert "46.2 % exposed is more than the 33.3 % (T = 0.5)" in table(list(by_arm(found).values()))


def test_a_folder_of_records_is_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = CellStore(tmp_path)
    for result in records():
        store.write_result(result)
    out = tmp_path / "rows.csv"
    assert waiting_rules.main([str(tmp_path), "--csv", str(out)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("fox: 2 ranks, B = 4, 4 steps, link exposed-295, seed 1, n = 1 runs per arm, noise n/a")
    assert "modelled" in printed and "(4) predicted: nothing" in printed
    rows = {row["arm"]: row for row in csv.DictReader(out.read_text().splitlines())}
    assert list(rows) == list(ARMS)
    assert float(rows["quality"]["modelled_speedup"]) == pytest.approx(1.3172, abs=1e-4)
    assert rows["quality"]["modelled_hidden_share"] == "0.85" and rows["barrier"]["model"] == "–"


def test_a_missing_arm_fails_and_the_others_stand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = CellStore(tmp_path)
    for result in records():
        if result.cell.arm != "predicted":
            store.write_result(result)
    assert waiting_rules.main([str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "FAILED predicted: complete: 0 of 1 runs of the arm are recorded." in printed and "1.250×" in printed


def test_a_folder_without_records_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    CellStore(tmp_path)
    assert waiting_rules.main([str(tmp_path)]) == 2
    assert "holds no records yet" in capsys.readouterr().err
