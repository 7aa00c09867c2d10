"""`odin-bench train`, stopped or killed, goes on to the same bits; `odin-bench evaluate` reads what it saved."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from harness.cli import main
from harness.train.log import COLUMNS, TrainingLog, read_log

SCENE = "scene=rooms?views=16&width=48&height=36&points=400"
WORDS = [SCENE, "ranks=2", "views_per_unit=1", "steps=60", "densify_at=[30]", "sh_at=[20,50]", "reset_at=[]"]
QUALITY = ["train", *WORDS, "arms=quality", "--every", "20"]
GRENDEL = ["train", *WORDS, "arms=throughput", "pipeline=grendel", "--every", "25"]


def folder(out: Path) -> Path:
    """The one training below `out`."""
    (found,) = (path for path in (out / "train").iterdir() if path.is_dir())
    return found


def log(out: Path) -> list[list[str]]:
    """Without the seconds, which differ."""
    return [[row[0], *row[2:]] for row in read_log(folder(out) / "log.csv")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training that nothing interrupts."""
    out = tmp_path_factory.mktemp("whole")
    assert main([*QUALITY, f"out={out}"]) == 0
    return out


def assert_equal(one: Path, other: Path) -> None:
    assert (folder(one) / "result.json").read_text() == (folder(other) / "result.json").read_text()
    assert (folder(one) / "model.ply").read_bytes() == (folder(other) / "model.ply").read_bytes()
    assert log(one) == log(other)


def test_a_training_that_was_stopped_goes_on_to_the_same_bits(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Past a densification and a step of the SH schedule; the log's steps and learning rates go on (A6)."""
    assert main([*QUALITY, f"out={tmp_path}", "--stop", "40"]) == 0
    assert "Stopped at a checkpoint of 60 steps" in capsys.readouterr().out
    assert not (folder(tmp_path) / "result.json").exists() and len(log(tmp_path)) == 40
    assert main([*QUALITY, f"out={tmp_path}"]) == 0
    assert_equal(whole, tmp_path)
    assert [int(row[0]) for row in log(whole)] == list(range(60))
    assert len({row[2] for row in log(whole)}) > 50, "the learning rate does not change, so nothing is tested"
    assert json.loads((folder(whole) / "result.json").read_text())["primitives"] != int(log(whole)[0][3])


def test_a_training_whose_rank_was_killed_names_its_checkpoint_and_goes_on(whole: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; from harness.cli import main; sys.exit(main(sys.argv[1:]))"]
    started = subprocess.Popen([*command, *QUALITY, f"out={tmp_path}"], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("train/*/checkpoint.npz")) and time.monotonic() < deadline:
        time.sleep(0.01)  # 40 steps and an evaluation are still to come
    os.kill(psutil.Process(started.pid).children()[-1].pid, signal.SIGKILL)
    _, said = started.communicate(timeout=60)
    assert started.returncode == 1
    assert "SIGKILL" in said.splitlines()[-1] and "goes on from checkpoint.npz" in said.splitlines()[-1]
    assert main([*QUALITY, f"out={tmp_path}"]) == 0
    assert_equal(whole, tmp_path)


def test_a_stop_that_has_been_reached_trains_nothing_more(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for stop in ("40", "40", "20"):
        assert main([*QUALITY, f"out={tmp_path}", "--stop", stop]) == 0
        assert "Stopped at a checkpoint of 60 steps" in capsys.readouterr().out
        assert len(log(tmp_path)) == 40
    (folder(tmp_path) / "checkpoint.npz").write_bytes((folder(whole) / "checkpoint.npz").read_bytes())
    assert main([*QUALITY, f"out={tmp_path}"]) == 0, "killed between the last checkpoint and the result"
    assert (folder(tmp_path) / "result.json").read_text() == (folder(whole) / "result.json").read_text()


def test_what_has_ended_is_not_trained_again(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = (folder(whole) / "model.ply").stat().st_mtime_ns
    assert main([*QUALITY, f"out={whole}"]) == 0
    ended = capsys.readouterr()
    assert "has ended" in ended.err and "step 60 of 60" in ended.out
    assert (folder(whole) / "model.ply").stat().st_mtime_ns == made


def test_a_checkpoint_is_judged_like_the_model_that_was_trained(
    whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(folder(whole))]) == 0
    assert "3dgs quality, step 60 of 60" in capsys.readouterr().out
    trained, judged = (json.loads((folder(whole) / f"{name}.json").read_text()) for name in ("result", "evaluation"))
    assert {**judged, "shards": 0} == trained


@pytest.mark.parametrize("engine", [["ranks=2"], ["engine=virtual", "ranks=4"]], ids=["process", "virtual"])
def test_shards_are_judged_on_one_rank_and_a_missing_one_is_refused(
    engine: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A8: the numbers of the ranks that trained; the primitives are those of all shards."""
    words = [*GRENDEL, *engine, f"out={tmp_path}"]
    assert main([*words, "--stop", "50"]) == 0 and main(words) == 0
    assert main(["evaluate", str(folder(tmp_path))]) == 0
    ranks = int(engine[-1].removeprefix("ranks="))
    assert f"primitives in {ranks} shards" in capsys.readouterr().out
    trained, judged = (json.loads((folder(tmp_path) / f"{n}.json").read_text()) for n in ("result", "evaluation"))
    assert {**judged, "shards": 0} == trained
    (shard,) = folder(tmp_path).glob("step-*/owner-1-of-*.npz")
    shard.unlink()
    assert main(["evaluate", str(folder(tmp_path))]) == 2
    assert f"has {ranks - 1} of {ranks} owners" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["arms=[barrier,quality]"], "one arm; 2 are named"),
        (["arms=quality", "--every", "0"], "--every 0: checkpoints come every 1 to 60 steps"),
        (["arms=quality", "--every", "61"], "--every 61"),
        (["arms=quality", "--every", "20", "--stop", "30"], "--stop 30: training stops at a checkpoint"),
        (["arms=quality", "padded=true"], "is not timed"),
        (["arms=quality", "link=exposed-295"], "is not timed"),
    ],
)
def test_what_cannot_be_trained_is_refused(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *WORDS, *words, f"out={tmp_path}"]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "train").exists()


@pytest.mark.parametrize("text", [None, "{", "[]", '{"config": {}}', "[" * 50_000])
def test_a_folder_that_is_no_training_is_refused(
    text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "settings.json").write_text(text)
    assert main(["evaluate", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert str(tmp_path / "settings.json") in said and len(said.splitlines()) == 1


def test_a_damaged_checkpoint_is_refused_and_kept(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = folder(whole) / "checkpoint.npz"
    sound = checkpoint.read_bytes()
    try:
        checkpoint.write_bytes(sound[: len(sound) // 2])
        assert main(["evaluate", str(folder(whole))]) == 2
        assert "not a readable checkpoint" in capsys.readouterr().err
        assert checkpoint.stat().st_size == len(sound) // 2
    finally:
        checkpoint.write_bytes(sound)


def test_a_log_drops_steps_that_are_trained_again_and_lines_that_were_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    with TrainingLog(path, 0) as log:
        for step in range(4):
            log.write(step, 0.5, 0.25, 0.001, 100, 0)
    path.write_text(path.read_text() + "4,0.5,0.2")
    with TrainingLog(path, 3) as log:
        log.write(3, 0.1, 0.125, 0.001, 100, 1)
    assert [row[0] for row in read_log(path)] == ["0", "1", "2", "3"]
    assert read_log(path)[3] == ["3", "0.1", "0.125", "0.001", "100", "1"]
    assert path.read_text().splitlines()[0] == ",".join(COLUMNS)
