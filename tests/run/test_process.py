"""The process engine end to end through the command line: real rank processes on gloo."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from harness.store.schema import Status
from harness.store.store import CellStore
from pipelines.export import read_ply
from tests.run.conftest import PLAIN, TINY, Reproduced, reproduce, results


def test_the_headline_in_small(padded: Reproduced, capsys: pytest.CaptureFixture[str]) -> None:
    """The README's command in its fast form: every arm twice, padded, on an emulated link."""
    assert padded.code in (0, 1)  # 1 where this machine was too busy for its own padding: said in the table
    assert "barrier-planned" in padded.printed
    (said,) = (line for line in padded.printed.splitlines() if ", figure: " in line)
    figure = Path(said.split("figure: ")[1])
    assert figure.read_bytes()[:4] == b"\x89PNG"
    store = list(CellStore(padded.out).results())
    assert len(store) == 2 * 5
    assert {r.status for r in store} == {Status.DONE}
    assert {r.cell.label.value for r in store} == {"padded"}
    digests = {r.measurement.final_digest for r in store if r.cell.arm in ("barrier-planned", "quality")}
    assert len(digests) == 1
    trace = json.loads((CellStore(padded.out).path(store[0].cell_id) / "trace.json").read_text())
    assert {e["pid"] for e in trace["traceEvents"]} == {0, 1}
    (profile,) = (padded.out / "profiles").glob("host-cpu@*.json")
    assert {r.measurement.profile for r in store} == {profile.stem}
    for first in (r for r in store if r.cell.repeat == 0):
        model = read_ply(CellStore(padded.out).path(first.cell_id) / "model.ply")
        assert len(model) == first.measurement.primitives.final
    # Other runs may go on beside this one, so only its own names count.
    assert padded.scratch
    assert not [path for name in padded.scratch for path in Path("/dev/shm").glob(f"odin-{name}*")]
    # Running again does nothing but print the same table.
    assert padded.again() == padded.code
    assert capsys.readouterr().out.splitlines()[:12] == padded.printed.splitlines()[:12]


def test_unshaped_unpadded_runs_give_the_same_numbers(plain: Reproduced, padded: Reproduced) -> None:
    """Quality runs need no clock: same digests with and without padding and link."""
    unshaped, shaped = results(plain.out), results(padded.out)
    for arm in ("barrier", "predicted", "ddp"):
        assert unshaped[arm].measurement.final_digest == shaped[arm].measurement.final_digest
        assert unshaped[arm].cell.label.value == "measured"


def test_three_ranks_are_exact_with_ordered_sums(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`quality` and `barrier-planned` cut a gradient into different segments; in rank order they add up alike."""
    words = [f"scene={TINY}", "ranks=3", "views_per_unit=1", "steps=20", "densify_at=[8]"]
    assert reproduce(tmp_path, *words, "reduce=ordered", "arms=[barrier-planned,quality]", *PLAIN) == 0
    got = {arm: r.measurement for arm, r in results(tmp_path).items()}
    assert got["quality"].ranks == 3 and got["quality"].windows.partial > 10
    assert got["quality"].final_digest == got["barrier-planned"].final_digest
    assert "taken in rank order (reduce=ordered)" in capsys.readouterr().out


@pytest.mark.real
def test_quality_equals_waiting_on_bonsai(tmp_path: Path, bonsai: Path) -> None:
    words = ["images=images_4", "steps=40", "densify_at=[10,20]", "reset_at=[30]", "arms=[barrier-planned,quality]"]
    assert reproduce(tmp_path, f"scene={bonsai}", *words, *PLAIN) in (0, 1)
    got = results(tmp_path)
    assert got["quality"].measurement.final_digest == got["barrier-planned"].measurement.final_digest
    assert got["quality"].measurement.windows.partial > 20


@pytest.mark.slow
@pytest.mark.real
def test_quality_equals_waiting_on_bonsai_over_200_steps(tmp_path: Path, bonsai: Path) -> None:
    """2 ranks, densification every 50 steps, an opacity reset at 120: parameters, moments, counters and PSNR."""
    words = ["images=images_4", "steps=200", "densify_every=50", "reset_at=[120]", "arms=[barrier-planned,quality]"]
    assert reproduce(tmp_path, f"scene={bonsai}", *words, *PLAIN) in (0, 1)
    got = {arm: r.measurement for arm, r in results(tmp_path).items()}
    print({arm: (m.final_digest, m.quality_final.psnr.value, m.windows, m.primitives) for arm, m in got.items()})
    assert got["quality"].final_digest == got["barrier-planned"].final_digest
    assert got["quality"].quality_final == got["barrier-planned"].quality_final


def test_bad_input_that_only_a_rank_can_see_is_one_paragraph(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    code = reproduce(tmp_path, f"scene={TINY}", "steps=5", "views_per_unit=20", *PLAIN)
    told = capsys.readouterr().err
    assert code == 2
    assert "Traceback" not in told
    assert "40" in told and "14" in told  # images per step, training views
    failed = list(CellStore(tmp_path).results())
    assert [r.status for r in failed] == [Status.FAILED]


def start(out: Path, *words: str) -> subprocess.Popen:
    code = "import sys; from harness.cli import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.Popen(
        [sys.executable, "-c", code, "reproduce", "headline", f"out={out}", *words],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )


def rank_process(parent: psutil.Process, rank: int) -> psutil.Process | None:
    for child in parent.children(recursive=True):
        if "harness.run.worker" in child.cmdline() and child.cmdline()[-1] == str(rank):
            return child
    return None


def trains(rank: psutil.Process | None) -> bool:
    """Whether a rank has opened the stamps of its first cell."""
    with contextlib.suppress(psutil.Error):
        return rank is not None and any("-cell-0" in area.path for area in rank.memory_maps())
    return False


def test_a_killed_rank_ends_the_run_and_is_named(tmp_path: Path) -> None:
    run = start(tmp_path, f"scene={TINY}", "steps=2000", "arms=[barrier,quality]", *PLAIN)
    parent, victim = psutil.Process(run.pid), None
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and run.poll() is None:
        victim = rank_process(parent, 1)
        if trains(victim):
            time.sleep(1)
            break
        time.sleep(0.2)
    assert victim is not None
    ranks = [rank_process(parent, r) for r in (0, 1)]
    os.kill(victim.pid, signal.SIGKILL)
    _, told = run.communicate(timeout=60)
    assert run.returncode == 1
    assert "Rank 1 was the first to go" in told
    assert not [p for p in ranks if p is not None and p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    failed = [r for r in CellStore(tmp_path).results() if r.status is Status.FAILED]
    assert len(failed) == 1
    assert "Rank 1" in str(failed[0].reason)
