"""A virtual cell of a committed profile depends on nothing but its inputs: two commands write the same bytes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from harness.cli import main
from harness.config import load
from harness.profiles.calibration import committed_calibration
from harness.run.spec import RunSpec
from harness.run.together import run_threads
from harness.run.virtual import VirtualWorker
from harness.run.warmup import Calibration
from harness.run.workload import load_workload
from harness.store.store import STEPS, TIMELINE, WINDOWS, CellStore

TINY = "rooms?views=24&width=64&height=48&points=600"
WORDS = [f"scene={TINY}", "engine=virtual", "compute=rtx4090", "ranks=4", "steps=6", "densify_at=[3]"]
ARMS = ["arms=barrier,quality", "mirrored=false"]


def run(folder: Path) -> dict[str, str]:
    """Digest of every file of a study that is free of start times and of the host, by arm and name."""
    config = load([*WORDS, *ARMS, "link=fig1-3dgs", f"out={folder}"])
    spec = RunSpec(config=config, cells=(("barrier", 0), ("quality", 0)), folder=folder)
    VirtualWorker(spec).run()
    store, found = CellStore(folder), {}
    for result in store.results():
        said = result.model_dump(mode="json", include={"cell_id", "cell", "measurement"})
        del said["measurement"]["memory"]  # of the host
        text = json.dumps(said, sort_keys=True)
        text = text.replace(str(folder), "")
        found[f"{result.cell.arm} record"] = hashlib.sha256(text.encode()).hexdigest()
        for name in (TIMELINE, STEPS, WINDOWS):
            data = (store.path(result.cell_id) / name).read_bytes()
            found[f"{result.cell.arm} {name}"] = hashlib.sha256(data).hexdigest()
        assert result.measurement is not None
        assert "rtx4090×128rows×14pixels@" in result.measurement.profile
        assert result.measurement.link is not None
        assert result.measurement.link.name == "fig1-3dgs"
    return found


def test_two_runs_write_the_same_bytes(tmp_path: Path) -> None:
    first, second = run(tmp_path / "a"), run(tmp_path / "b")
    assert len(first) == 8
    assert first == second


@pytest.mark.parametrize("words", [["link=exposed-295"], ["cluster=rtx4090-pcie4", "link=cluster"], ["link=none"]])
def test_calibrations_of_committed_prices(words: list[str]) -> None:
    workload = load_workload(load([*WORDS, *words]))
    calibration = committed_calibration(workload, run_threads)
    assert calibration.slowdown == 1.05
    assert calibration == Calibration.from_json(calibration.to_json())
    assert (calibration.budget(4).bytes_per_second < 1e15) == calibration.link.shaped
    if words == ["link=exposed-295"]:
        nbytes = workload.recipe().table.parameters.numel() * 4
        transfer = calibration.link.all_reduce_seconds(nbytes, 4)
        assert transfer / (transfer + calibration.compute) == pytest.approx(0.295)
    if words == ["cluster=rtx4090-pcie4", "link=cluster"]:
        assert calibration.link.beta == 1e10 / 128


def test_predict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"scene={TINY}", "cluster=rtx4090-pcie4", "ranks=1,2,4", "steps=6", f"out={tmp_path}"]
    arms = "arms=barrier,barrier-planned,quality,predicted"
    assert main(["predict", *words, arms]) == 0
    printed = capsys.readouterr().out
    assert "Predicted throughput (virtual)" in printed
    assert "quality at 4 ranks that cost most" in printed
    assert "A row of this scene stands for 128, a pixel for 14" in printed
    (table,) = tmp_path.glob("predict/*/predict.csv")
    lines = [line.split(",") for line in table.read_text().splitlines()]
    assert len(lines) == 1 + 3 * 4
    head, rows = lines[0], [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]
    assert head[:4] == ["ranks", "arm", "label", "images_per_second"]
    assert {row["label"] for row in rows} == {"virtual"}
    speed = {(int(row["ranks"]), row["arm"]): float(row["images_per_second"]) for row in rows}
    assert speed[2, "predicted"] > speed[2, "barrier"]
    assert {row["hidden"] for row in rows if row["ranks"] == "1"} == {""}
    assert {row["way"] for row in rows if row["arm"] == "barrier-planned"} == {"timed from equal bits"}
    for name in ("predict.png", "predict.pdf", "windows.csv", "basis.txt"):
        assert (table.parent / name).stat().st_size > 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["ranks=1,x"], "whole numbers like"),
        (["ranks=0,2"], "at least 1"),
        (["cluster=rtx4090-pcie4", "ranks=2,9"], "1 node\\(s\\) of 8"),
        (["compute=host-cpu", "link=none"], "committed prices"),
        (["arms=barrier,ddp"], "no arm ddp"),
    ],
)  # fmt: skip
def test_what_cannot_be_predicted_is_said(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    import re

    assert main(["predict", f"scene={TINY}", "steps=4", *words]) != 0
    assert re.search(says, capsys.readouterr().err)
