"""Identical invocations started at once on one folder of records: they share the work, and each pair runs once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from harness.cli import main
from harness.store.identity import code_version
from harness.store.store import CellStore
from harness.study.run import run_pairs
from harness.study.states import pair_states
from harness.study.table import read_table
from tests.study import studies

ROOT = Path(__file__).resolve().parents[2]
TINY = "rooms?views=16&width=64&height=48&points=600"
INVOCATIONS = 3


def test_each_pair_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real locks and records, made-up ranks. Locks of two threads exclude each other as those of two processes do."""
    plan = studies.plan(tmp_path, seeds=range(4))
    ran: Counter[int] = Counter()
    together = threading.Barrier(INVOCATIONS)

    def pair_of(config):
        return next(p for p in plan.pairs if p.settings["seed"] == config.seed)

    def identify(config, cells):
        if config.seed == 0:
            together.wait(20)  # all of them find the first pair pending
        return pair_of(config).ids(studies.MANIFEST, code_version()), studies.MANIFEST

    def launch(spec, on_message, starter):
        ran[spec.config.seed] += 1
        for index in range(len(spec.cells)):
            time.sleep(0.02)
            made = studies.record(plan, pair_of(spec.config), index)
            on_message({"stage": "done", "index": index, "cell_id": made.cell_id})

    monkeypatch.setattr("harness.study.run.identify", identify)
    monkeypatch.setattr("harness.run.headline.launch", launch)
    threads = [threading.Thread(target=run_pairs, args=(plan, plan.pairs), kwargs={"refresh": False})
               for _ in range(INVOCATIONS)]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert ran == dict.fromkeys(range(4), 1)
    assert all(state.done for state in pair_states(plan))
    assert len(list(CellStore(tmp_path).results())) == 16
    assert not list(tmp_path.glob("scratch/*")) and not list(tmp_path.glob("studies/tiny/failed/*"))
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_three_real_invocations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "import sys; from harness.cli import main; sys.exit(main(sys.argv[1:]))"
    words = ["run", "smoke", f"scene={TINY}", "steps=4", "ranks=1", f"out={tmp_path}"]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        for _ in range(INVOCATIONS)
    ]
    told = [process.communicate(timeout=900)[1] for process in started]
    assert [process.returncode for process in started] == [0] * INVOCATIONS, "\n".join(told)
    assert main(["run", "smoke", *words[2:]]) == 0
    assert "All cells of this study are done" in capsys.readouterr().err
    results = list(CellStore(tmp_path).results())
    assert len({(r.cell.pair, r.cell.arm, r.cell.repeat) for r in results}) == len(results) == 8
    assert read_table(tmp_path / "studies/smoke/table.parquet")["state"].tolist() == ["done"] * 8
    assert not list(tmp_path.glob("scratch/*"))
    assert sum(text.count("compile") for text in told) == 2  # of pairs that were run: none of them twice
