"""States of cells from plan and index: as the store says them, in well under a second, without torch."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from harness.cli import main
from harness.store.identity import SCHEMA_VERSION, code_version
from harness.store.index import RecordIndex
from harness.store.store import CellStore
from harness.study.estimate import cost
from harness.study.states import counts, pair_states
from harness.study.summary import grouped, pair_ratios, summary_lines
from harness.study.table import check_table, read_table, study_table, write_table
from odin.errors import InputError
from tests.study import studies


def states(plan) -> list[list[str]]:
    return [[cell.known.state.value for cell in pair.cells] for pair in pair_states(plan)]


def test_every_state_is_told_apart(tmp_path: Path) -> None:
    skip = [{"seed": 5, "reason": "left out"}]
    plan = studies.plan(tmp_path, seeds=(0, 1, 2, 3, 4, 5), skip=skip)
    done, failed, stale, running, _pending, _skipped = plan.pairs
    studies.record_pair(plan, done)
    studies.record(plan, failed, 0)
    studies.record(plan, failed, 1, reason="Rank 1 went first.")
    for index in range(4):
        studies.record(plan, stale, index, version="feedc0de12345678")
    ids = running.ids(studies.MANIFEST, code_version())
    with CellStore(tmp_path).pair_lock(f"pair-{ids[0]}", ids):
        assert states(plan) == [
            ["done"] * 4,
            ["done", "failed", "pending", "pending"],
            ["done"] * 4,
            ["running"] * 4,
            ["pending"] * 4,
            ["skipped"] * 4,
        ]
        found = counts(pair_states(plan))
        assert (found["done"], found["stale"]) == (9, 4)
    assert states(plan)[3] == ["pending"] * 4


def test_the_index_says_what_the_store_says(tmp_path: Path) -> None:
    plan = studies.plan(tmp_path)
    first, second = plan.pairs
    studies.record(plan, first, 0)
    studies.record(plan, first, 1, reason="It broke.")
    studies.record(plan, second, 2, version="feedc0de12345678")
    store, version = CellStore(tmp_path), code_version()
    for _ in range(2):  # read anew, then from the index
        index = RecordIndex(tmp_path)
        for cell_id in [*first.ids(studies.MANIFEST, version), *second.ids(studies.MANIFEST, version)]:
            slow, fast = store.state(cell_id), index.state(cell_id)
            assert (fast.state, fast.stale, fast.reason) == (slow.state, slow.stale, slow.reason)
            assert fast.record == slow.record


def test_a_record_that_changed_is_read_again_and_a_broken_one_has_failed(tmp_path: Path) -> None:
    plan = studies.plan(tmp_path)
    made = studies.record(plan, plan.pairs[0], 0)
    assert states(plan)[0][0] == "done"
    path = CellStore(tmp_path).path(made.cell_id) / "result.json"
    path.write_text(path.read_text().replace('"done"', '"finished"'))
    assert states(plan)[0][0] == "failed"
    assert "is broken" in pair_states(plan)[0].cells[0].known.reason
    (tmp_path / "index.json").write_text("{cut o")
    assert states(plan)[0][0] == "failed"


def test_a_pair_that_could_not_start_has_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = studies.plan(tmp_path)
    note = plan.note(plan.pairs[0])
    note.parent.mkdir(parents=True)
    note.write_text("The scene is missing.\n")
    assert states(plan)[0] == ["failed", "pending", "pending", "pending"]
    assert main(["status", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "tiny: 8 cells in 2 pairs: 0 done, 1 failed, 0 skipped, 0 running, 7 pending" in out
    assert "The scene is missing." in out


def test_what_ended_a_pair_stands_beside_its_first_cell_that_is_not_done(tmp_path: Path) -> None:
    plan = studies.plan(tmp_path)
    first, second = plan.pairs
    studies.record(plan, first, 0)
    studies.record(plan, second, 0, reason="Rank 0 was ended by SIGTERM.")
    for pair in plan.pairs:
        plan.note(pair).parent.mkdir(parents=True, exist_ok=True)
        plan.note(pair).write_text("Job 7 ended as TIMEOUT.\n")
    assert states(plan) == [["done", "failed", "pending", "pending"], ["failed", "pending", "pending", "pending"]]
    told = [c.known.reason for s in pair_states(plan) for c in s.cells if c.known.reason]
    assert told == ["Job 7 ended as TIMEOUT."] * 2


def test_status_of_no_study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", str(tmp_path)]) == 2
    assert "holds no study" in capsys.readouterr().err


def test_two_thousand_cells_within_a_second(tmp_path: Path) -> None:
    """CPU time of the second call, of which most is Python's start; the first one reads every record."""
    plan = studies.plan(tmp_path, seeds=range(500))
    text = json.dumps(studies.record(plan, plan.pairs[0], 0).model_dump(mode="json"))
    stamp_of, version = {}, code_version()
    for pair in plan.pairs:
        for cell_id in pair.ids(studies.MANIFEST, version):
            folder = tmp_path / "cells" / cell_id
            folder.mkdir(exist_ok=True)
            (folder / "result.json").write_text(text)
            seen = (folder / "result.json").stat()
            stamp_of[cell_id] = {"stamp": [seen.st_mtime_ns, seen.st_size], "state": "done", "manifest": "m"}
    # 2,000 valid records would take longer to make than to read.
    (tmp_path / "index.json").write_text(json.dumps({"version": [1, SCHEMA_VERSION], "records": stamp_of}))
    code = (
        "import sys, time; from harness.cli import main\n"
        f"assert main(['status', {str(tmp_path)!r}]) == 0\n"
        "heavy = {'torch', 'numba', 'pandas'} & set(sys.modules); assert not heavy, heavy\n"
        "print(time.process_time())"
    )
    seconds = []
    for _ in range(2):  # what else the machine does makes CPU time longer, never shorter
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        line, spent = done.stdout.splitlines()
        assert line == "tiny: 2000 cells in 500 pairs: 2000 done, 0 failed, 0 skipped, 0 running, 0 pending"
        seconds.append(float(spent))
    assert min(seconds) < 1.0


def test_the_table_has_a_row_per_cell(tmp_path: Path) -> None:
    plan = studies.plan(tmp_path)
    studies.record_pair(plan, plan.pairs[0])
    studies.record(plan, plan.pairs[1], 0, reason="It broke.")
    frame = study_table(plan, pair_states(plan))
    assert frame["state"].tolist() == ["done"] * 4 + ["failed"] + ["pending"] * 3
    assert frame["label"].tolist()[:5] == ["measured"] * 5
    assert frame["step_s"].notna().tolist() == [True] * 4 + [False] * 4
    assert frame["reason"][4] == "It broke."
    parquet, csv = write_table(plan, frame)
    pd.testing.assert_frame_equal(read_table(parquet), frame)
    assert len(csv.read_text().splitlines()) == 9


def test_a_metric_that_is_not_there_is_said_and_not_left_blank(tmp_path: Path) -> None:
    plan = studies.plan(tmp_path, seeds=(0,))
    for index in range(4):
        studies.record(plan, plan.pairs[0], index, views=0)
    known = pair_states(plan)
    _, path = write_table(plan, study_table(plan, known))
    for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
        assert (row["psnr"], row["ssim"]) == ("n/a", "n/a")
        assert "psnr n/a: no test views; ssim n/a: no test views" in row["not_computed"]
        assert "nan" not in str(row).lower()
    lines = list(summary_lines(grouped(pair_ratios(known, CellStore(plan.out)))))
    assert any("quality on 0 of 1 pairs (n/a: no test views)" in line for line in lines)
    assert not any("nan" in line.lower().split() for line in lines)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda f: f.drop(columns="psnr"), "has the columns"),
        (lambda f: f.assign(steps=1.5), "wrong type in steps"),
        (lambda f: f.assign(state="finished"), "unknown state: finished"),
        (lambda f: f.assign(step_s=float("nan")), "has no time"),
        (lambda f: f.assign(state="pending"), "has a time and is not done"),
        (lambda f: pd.concat([f, f]), "holds a cell twice"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path: Path, change, says: str) -> None:
    plan = studies.plan(tmp_path, seeds=(0,))
    studies.record_pair(plan, plan.pairs[0])
    frame = study_table(plan, pair_states(plan))
    with pytest.raises(InputError, match=says):
        check_table(change(frame))


def test_the_cost_comes_from_earlier_cells(tmp_path: Path) -> None:
    plan = studies.plan(tmp_path)
    nothing = cost(plan, plan.pairs, RecordIndex(tmp_path).entries.values())
    assert (nothing.known, nothing.unknown) == (0, 8)
    studies.record_pair(plan, plan.pairs[0])  # 300 s for 16 images on 2 ranks, as the samples say
    found = cost(plan, plan.pairs[1:], RecordIndex(tmp_path).entries.values())
    assert (found.known, found.unknown, found.gpu_hours) == (4, 0, 0.0)
    assert found.cpu_hours == pytest.approx(4 * 300 * 2 / 3600)
    assert "4 cells" in next(found.lines())
