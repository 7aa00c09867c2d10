"""Ten thousand broken inputs for each reader: clear errors or valid objects, no dead process, no huge allocation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from odin.errors import InputError
from tests.fuzz import child
from tests.fuzz.readers import GROUPS, READERS, Reader


def fuzz(group: str, folder: Path, factor: int = 1) -> dict[str, dict[str, int]]:
    """Try the inputs of all readers of a group in one child; how many each read and refused. Fails with the inputs that
    broke one."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz.child", str(folder), str(factor), *GROUPS[group]]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        how = signal.Signals(-done.returncode).name if done.returncode < 0 else f"code {done.returncode}"
        pytest.fail(f"{reached(group, folder)} ended the process with {how}: {done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    failures = [line for one in found.values() for line in one["failures"]]
    assert not failures, "\n".join(failures)
    return found


def reached(group: str, folder: Path) -> str:
    """The input that the child was at."""
    started = [name for name in GROUPS[group] if (folder / name / "at").exists()]
    if not started:
        return "the start"
    number = int.from_bytes((folder / started[-1] / "at").read_bytes(), "little")
    return f"input {number} of {started[-1]}"


@pytest.mark.parametrize("group", GROUPS)
def test_broken_files_are_refused_or_read(group: str, tmp_path: Path) -> None:
    for name, found in fuzz(group, tmp_path).items():
        assert found["read"] + found["refused"] == READERS[name].inputs
        assert found["refused"] > READERS[name].inputs // 5, f"{name}: mutations change nothing"
        assert found["read"] > READERS[name].inputs // 100, f"{name}: no input gets through to the end"


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_very_many_broken_files(group: str, tmp_path: Path) -> None:
    fuzz(group, tmp_path, factor=20)


def test_every_reader_is_tried() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(READERS)


def test_the_same_number_gives_the_same_input() -> None:
    for name in READERS:
        assert child.files_of(name, 7) == child.files_of(name, 7) != child.files_of(name, 8)


def reading(act: Callable[[], object]) -> Reader:
    return Reader(prepare=lambda folder: None, make=lambda rng: {}, read=lambda folder: act())


def refuse(text: str) -> None:
    raise InputError(text)


def test_a_reader_that_is_wrong_is_noticed(tmp_path: Path) -> None:
    """The runner sees each kind of failure."""
    assert child.attempt(reading(lambda: 1), tmp_path, {}) == "read"
    assert child.attempt(reading(lambda: refuse("No.")), tmp_path, {}) == "refused"
    assert "no paragraph" in child.attempt(reading(lambda: refuse("No. " * 9000)), tmp_path, {})
    assert "ZeroDivisionError" in child.attempt(reading(lambda: 1 // 0), tmp_path, {})
    assert "MemoryError" in child.attempt(reading(lambda: bytearray(1 << 60)), tmp_path, {})


def test_an_input_that_kills_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plan").mkdir()
    (tmp_path / "plan/at").write_bytes((41).to_bytes(8, "little"))
    dead = subprocess.CompletedProcess([], -signal.SIGSEGV, "", "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: dead)
    with pytest.raises(pytest.fail.Exception, match="input 41 of plan ended the process with SIGSEGV"):
        fuzz("records", tmp_path)
