"""Every kind of fault: the first cause is named, nothing of the run stays behind, what was recorded before is intact.

All runs of this file share a folder of records in which one sequence was finished without faults.
"""

from __future__ import annotations

import hashlib
import re
import time
from pathlib import Path

import psutil
import pytest

from harness.cli import main
from harness.store.schema import Label, Result, Status
from harness.store.store import CellStore
from tests.faults.forked import Forked

TINY = "rooms?views=16&width=48&height=36&points=300"
WORDS = [f"scene={TINY}", "steps=6", "ranks=2", "views_per_unit=1", "arms=[barrier,quality]", "mirrored=false",
         "link=none", "padded=false", "densify=false", "timeout_s=600", "realtime=false"]  # fmt: skip
TIMEOUT = 20.0  # of the rank that hangs; the others wait so long
AT_3 = "after 3 steps of quality #1"
GONE = f"was the first to go, {AT_3}: it was ended by SIGKILL ("
FAILED = f"was the first to fail, {AT_3}: "

CASES = {
    "kill:rank=1:step=3:cell=2": ["Rank 1 " + GONE],
    "raise:rank=1:step=3:cell=2": ["Rank 1 " + FAILED + "RuntimeError: fault injected on purpose", "rank-1.log"],
    "hang:rank=1:step=3:cell=2": [f"Rank 1, {AT_3}, did not go on", "rank-1.log"],
    "oom:rank=0:step=3:cell=2": ["Rank 0 " + FAILED + "It ran out of memory."],
    "nan:rank=1:step=3:cell=2": ["Rank 1 " + FAILED + "Training has diverged: the gradient of step 3, training view "],
    "replica:rank=1:step=3:cell=2": ["the parameters of rank(s) [1] differ"],
    "partition:rank=1:cell=2": ["Rank(s) [1] have planned other steps than rank 0"],
    "disk:file=model.ply:cell=2": ["Rank 0 was the first to fail", "model.ply: No space left on device"],
    "disk:file=result.json:cell=2": ["Rank 0 was the first to fail", "result.json: No space left on device"],
    "disk:file=*-rank-1.parquet:rank=1:cell=2": ["Rank 1 was the first to fail", "cell-1-timeline-rank-1.parquet: No"],
    "torn:file=result.json:cell=2": ["Rank 0 was the first to go, after 6 steps of quality #1: it was ended"],
}  # fmt: skip


def reproduce(out: Path, *words: str) -> int:
    return main(["reproduce", "headline", f"out={out}", *WORDS, *words])


def contents(out: Path, ids: list[str]) -> dict[str, str]:
    files = [path for i in ids for path in sorted((out / "cells" / i).iterdir())]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of records with a finished sequence."""
    out = tmp_path_factory.mktemp("records")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.run.launch._start", Forked)
        assert reproduce(out) == 0
    return out


def of(out: Path, words: str) -> dict[str, Result]:
    """Records of a run with these faults, by arm."""
    return {
        r.cell.arm: r
        for r in CellStore(out).results()
        if r.cell.identity.get("faults", []) == ([words] if words else [])
    }


HAND = [f for f in CASES if "model.ply" in f or "parquet" in f]  # as result.json, in other places: by hand


@pytest.mark.parametrize("fault", [pytest.param(f, marks=[pytest.mark.slow] if f in HAND else []) for f in CASES])
def test_the_cause_is_named_and_nothing_is_left(
    fault: str, records: Path, forked: list[Forked], capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(records, [r.cell_id for r in of(records, "").values()])
    began = time.monotonic()
    patience = [f"timeout_s={TIMEOUT:g}"] if fault.startswith("hang") else []
    assert reproduce(records, f"faults=[{fault}]", *patience) == 1
    took = time.monotonic() - began
    told = capsys.readouterr().err
    assert "Traceback" not in told
    paragraph = told.strip().splitlines()[-1]
    for says in CASES[fault]:
        assert says in paragraph, told
    assert len(forked) == 2
    assert not [f for f in forked if psutil.pid_exists(f.pid)]
    assert not fault.startswith("hang") or took > TIMEOUT
    recorded = of(records, fault)
    assert {arm: r.status for arm, r in recorded.items()} == {"barrier": Status.DONE, "quality": Status.FAILED}
    assert recorded["quality"].reason == paragraph
    assert {r.cell.label for r in recorded.values()} == {Label.DISTURBED}
    assert contents(records, [r.cell_id for r in of(records, "").values()]) == before


def test_the_log_of_a_rank_that_hangs_shows_its_stack(records: Path, forked: list[Forked]) -> None:
    fault = "hang:rank=1:step=3:cell=2"
    if not of(records, fault):  # the test above leaves it, where it runs in the same process
        assert reproduce(records, f"faults=[{fault}]", f"timeout_s={TIMEOUT:g}") == 1
    reason = of(records, fault)["quality"].reason
    log = Path(reason.rpartition(" at the end of ")[2].rstrip("."))
    assert "_hang" in log.read_text() and "harness/run/faults.py" in log.read_text()


def test_the_next_start_is_clean(records: Path, forked: list[Forked], capsys: pytest.CaptureFixture[str]) -> None:
    """A torn record leaves half a file beside its place; the next run of the cell removes it and is as any other."""
    fault = "torn:file=result.json:cell=2:times=1"
    assert reproduce(records, f"faults=[{fault}]") == 1
    assert len(list(records.glob("cells/*/.result.json.*.tmp"))) >= 1
    capsys.readouterr()
    assert reproduce(records, f"faults=[{fault}]") == 0
    assert "disturbed" in capsys.readouterr().out
    again, clean = of(records, fault), of(records, "")
    for arm in ("barrier", "quality"):
        folder = CellStore(records).path(again[arm].cell_id)
        assert not list(folder.glob(".*"))
        assert again[arm].measurement.final_digest == clean[arm].measurement.final_digest
        assert again[arm].cell_id != clean[arm].cell_id
    assert reproduce(records) == 0
    assert "All cells of this sequence are done" in capsys.readouterr().err


def test_a_slow_rank_is_no_error_but_shows(records: Path, forked: list[Forked]) -> None:
    """The other rank waits for it: that is skew, and the record says on whom the time went."""
    fault = "slow:rank=1:seconds=0.3"
    assert reproduce(records, f"faults=[{fault}]") == 0
    for slow in (result.measurement.breakdown for result in of(records, fault).values()):
        assert slow.wait_by_rank[0] > slow.wait_by_rank[1] + 0.1
        assert slow.skew > 0.05


def test_a_rank_of_the_virtual_engine(tmp_path: Path, forked: list[Forked], capsys: pytest.CaptureFixture[str]) -> None:
    """Its ranks are threads: the one that failed is named, and a kill takes all of them."""
    virtual = ["engine=virtual", "compute=rtx4090", "link=none", "reduce=ordered", "arms=[barrier]"]
    assert reproduce(tmp_path, *virtual, "faults=[raise:rank=1:step=3]") == 1
    told = capsys.readouterr().err
    assert re.search(r"Rank 1 was the first to fail, after [2-4] steps of barrier #1: RuntimeError: fault inj", told), (
        told
    )
    assert reproduce(tmp_path, *virtual, "faults=[kill:rank=1:step=3]") == 1
    told = capsys.readouterr().err
    assert re.search(r"The process of all ranks was the first to go, after [2-4] steps of barrier #1: it was", told), (
        told
    )
    assert reproduce(tmp_path, *virtual, "faults=[slow:rank=1]") == 2
    assert "expected one of kill, raise, oom, nan, disk, torn on the virtual engine" in capsys.readouterr().err


def test_a_port_has_to_be_one_that_ranks_meet_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce(tmp_path, "faults=[port]") == 2
    assert "ranks of one machine meet in a file" in capsys.readouterr().err
