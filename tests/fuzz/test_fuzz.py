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
from tests.fuzz.readers import READERS, Reader

INPUTS = 10_000
MANY = 200_000


def fuzz(name: str, folder: Path, count: int) -> dict[str, int]:
    """Try inputs 0…count−1 in one child; how many were read and refused. Fails with the inputs that broke it."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz.child", name, str(folder), "0", str(count)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        at = int.from_bytes((folder / "at").read_bytes(), "little") if (folder / "at").exists() else -1
        how = signal.Signals(-done.returncode).name if done.returncode < 0 else f"code {done.returncode}"
        pytest.fail(f"input {at} of {name} ended the process with {how}: {done.stderr[-2000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    assert not found["failures"], "\n".join(found["failures"])
    return found


@pytest.mark.parametrize("name", READERS)
def test_broken_files_are_refused_or_read(name: str, tmp_path: Path) -> None:
    found = fuzz(name, tmp_path, INPUTS)
    assert found["read"] + found["refused"] == INPUTS
    assert found["refused"] > INPUTS // 5, "mutations change nothing"
    assert found["read"] > 20, "no input gets through to the end"


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_very_many_broken_files(name: str, tmp_path: Path) -> None:
    fuzz(name, tmp_path, MANY)


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
    assert "no paragraph" in child.attempt(reading(lambda: refuse("No.\nNo.")), tmp_path, {})
    assert "ZeroDivisionError" in child.attempt(reading(lambda: 1 // 0), tmp_path, {})
    assert "MemoryError" in child.attempt(reading(lambda: bytearray(1 << 60)), tmp_path, {})


def test_an_input_that_kills_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "at").write_bytes((41).to_bytes(8, "little"))
    dead = subprocess.CompletedProcess([], -signal.SIGSEGV, "", "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: dead)
    with pytest.raises(pytest.fail.Exception, match="input 41 of plan ended the process with SIGSEGV"):
        fuzz("plan", tmp_path, 100)
