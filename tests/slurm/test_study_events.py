"""The study of 6 pairs and 2 seeds over 2 nodes of 2 ranks: struck in the middle, each pair ends done, once, whole."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
import yaml

from harness.store.schema import Status
from harness.store.store import CellStore
from harness.study.plan import StudyPlan
from harness.study.states import pair_states
from harness.study.table import read_table
from slurm.commands import submit_app
from slurm.testcluster import TestCluster
from tests.slurm.clusters import TINY, command, connected, finished, logs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
PATIENCE = 3000.0
STUDY = {
    "set": {"scene": TINY, "link": "none", "padded": False, "ranks": 2, "views_per_unit": 1, "steps": 6},
    "axes": {"pipeline": ["3dgs", "2dgs", "dashgs"], "seed": [0, 1]},
    "pairs": [["barrier", "quality"], ["barrier-planned", "predicted"]],
}
PAIRS, CELLS = 12, 4  # of a pair: two arms, mirrored
BEFORE = 3  # pairs that are done when the event strikes


def done(out: Path) -> int:
    """Pairs of the study that are done."""
    with contextlib.suppress(Exception):  # the plan is not there yet
        plan = StudyPlan.load(out / "studies/six/plan.json")
        return sum(state.done for state in pair_states(plan))
    return 0


def running_rank(out: Path, node: str) -> psutil.Process | None:
    """A rank of a pair that runs on a node."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline())
            if "harness.run.worker" in line and str(out) in line and process.environ()["SLURMD_NODENAME"] == node:
                return process
    return None


def in_the_middle(out: Path) -> psutil.Process:
    """Wait until some pairs are done and n2 works on another one."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        rank = running_rank(out, "n2") if done(out) >= BEFORE else None
        if rank is not None:
            return rank
        time.sleep(1.0)
    pytest.fail(f"nothing runs on n2\n{logs(out)}")


def lose_the_node(cluster: TestCluster, _: psutil.Process) -> None:
    cluster.kill_node("n2")


def preempt(cluster: TestCluster, rank: psutil.Process) -> None:
    """The rank hangs, or its pair might end in the time of grace; Slurm then calls the job TIMEOUT, and all is done."""
    rank.suspend()
    cluster.run("sbatch", "-p", "urgent", "-N2", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 2")


def run_out_of_time(cluster: TestCluster, rank: psutil.Process) -> None:
    """The rank hangs, and its job may run for a minute."""
    inside = rank.environ()
    rank.suspend()
    job = f"{inside['SLURM_ARRAY_JOB_ID']}_{inside['SLURM_ARRAY_TASK_ID']}"
    cluster.run("scontrol", "update", f"JobId={job}", "TimeLimit=1")


EVENTS = {"NODE_FAIL": lose_the_node, "PREEMPTED": preempt, "TIMEOUT": run_out_of_time}


@pytest.mark.parametrize("accounting", [False, True], ids=["scontrol", "sacct"])
@pytest.mark.parametrize("state", list(EVENTS))
def test_each_pair_is_done_once_whatever_strikes(
    state: str, accounting: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    out, path = tmp_path / "runs", tmp_path / "six.yaml"
    path.write_text(yaml.safe_dump(STUDY))
    with connected(tmp_path / "cluster", monkeypatch, accounting=accounting) as cluster:
        assert command(submit_app, str(path), "cluster=testcluster", f"out={out}") == 0
        EVENTS[state](cluster, in_the_middle(out))
        printed = finished(out, capsys, PATIENCE)
    print(printed)
    assert printed.count(state) >= 1, printed
    assert_whole(out)


def assert_whole(out: Path) -> None:
    """All pairs done, one record per cell; the cells of a pair are of one job and in the order of their sequence."""
    plan = StudyPlan.load(out / "studies/six/plan.json")
    assert [[c.known.state.value for c in s.cells] for s in pair_states(plan)] == [["done"] * CELLS] * PAIRS, logs(out)
    results = list(CellStore(out).results())
    assert all(result.status is Status.DONE for result in results)
    once = Counter((r.cell.pair, r.cell.arm, r.cell.repeat) for r in results)
    assert len(once) == len(results) == PAIRS * CELLS
    for pair in {result.cell.pair for result in results}:
        cells = sorted((r for r in results if r.cell.pair == pair), key=lambda r: r.provenance.started)
        assert len({r.provenance.slurm.job for r in cells if r.provenance.slurm is not None}) == 1
        baseline, other = cells[0].cell.arm, cells[1].cell.arm
        assert [(r.cell.arm, r.cell.repeat) for r in cells] == [(baseline, 0), (other, 0), (other, 1), (baseline, 1)]
    frame = read_table(plan.folder / "table.parquet")
    assert frame["state"].tolist() == ["done"] * (PAIRS * CELLS)
