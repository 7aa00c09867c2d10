"""A short soak: kills during a study leave complete, correct records; and a broken one is seen."""

from __future__ import annotations

import multiprocessing
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.soak import STUDY, Soak, Tally
from tests.faults.forked import PRELOADED
from tests.store import samples

SHORT = STUDY.replace("steps: 100, densify_at: [50]", "steps: 8, densify_at: [4], mirrored: false").replace(
    "[0, 1, 2]", "[0, 1]"
)


def short(out: Path, kills: int) -> None:
    tally = Soak(out, random.Random(1), study=SHORT).run(kills)
    (out / "tally.txt").write_text("\n".join(tally.lines()))
    sys.exit(not tally.good)


def test_a_short_soak(tmp_path: Path) -> None:
    assert SHORT.count("mirrored: false") == SHORT.count("[0, 1]") == 1
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=short, args=(tmp_path, 4))
    process.start()
    process.join(800)
    if process.is_alive():
        process.kill()
    said = [path.read_text() for path in [*tmp_path.glob("*.txt"), *tmp_path.glob("*.log")]]
    assert process.exitcode == 0, "\n".join(said)
    assert (tmp_path / "tally.txt").read_text().startswith("4 kills (")


def test_an_invocation_that_does_not_end_is_a_hang_and_is_ended(tmp_path: Path) -> None:
    soak, endless = Soak(tmp_path, random.Random(0)), subprocess.Popen(["sleep", "600"])
    soak._longest = 0.1
    soak._to_the_end(endless)
    assert soak.tally.hangs == 1 and endless.poll() == -signal.SIGKILL


def test_what_is_broken_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    soak = Soak(tmp_path, random.Random(0))
    folder = tmp_path / "disturbed/cells" / samples.result().cell_id
    folder.mkdir(parents=True)
    (folder / "result.json").write_text("{")
    soak._inspect("disturbed")
    assert soak.tally.corrupt == 1 and "is broken" in capsys.readouterr().err
    assert not Tally().good  # nothing was compared
    assert Tally(complete=True).good
    for bad in ({"hangs": 1}, {"orphans": 1}, {"corrupt": 1}, {"defects": 1}, {"different": ["x"]}):
        assert not Tally(complete=True, **bad).good
