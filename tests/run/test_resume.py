"""Stopped anywhere and resumed, every pipeline ends with the bits of the run that was not stopped, on both engines."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.run.together import run_threads
from odin.comm.link import UNSHAPED
from tests.run.resuming import PIPELINES, RANKS, STEPS, Stop, in_threads, stop_at, train


@cache
def uninterrupted(name: str) -> list[str]:
    return in_threads(name)


@pytest.mark.parametrize("name", PIPELINES)
@given(stop=st.integers(1, STEPS - 1))
@settings(max_examples=2)
def test_a_run_that_is_stopped_anywhere_resumes_to_the_same_bits(name: str, stop: int) -> None:
    whole = uninterrupted(name)
    assert len(set(whole)) == 1
    with TemporaryDirectory() as folder:
        path = Path(folder) / "c.npz"
        with pytest.raises(Stop):
            run_threads(RANKS, UNSHAPED, lambda t: train(name, t, path, stop_at(stop)))
        assert run_threads(RANKS, UNSHAPED, lambda t: train(name, t, path)) == whole


def ranks(folder: Path, phase: str) -> list[int]:
    """Exit codes of both rank processes of a phase."""
    (folder / phase).mkdir()
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.run.resuming", str(folder), phase]
    started = [subprocess.Popen([*command, str(rank)], env=environment) for rank in range(RANKS)]
    return [process.wait() for process in started]


def test_processes_that_are_killed_resume_to_the_same_bits(tmp_path: Path) -> None:
    """All pipelines on real ranks; the last one is ended by SIGKILL, the others by an error."""
    # The rank that is not killed first sees its peer gone, or is killed at the same step.
    assert -signal.SIGKILL in ranks(tmp_path, "whole")
    assert ranks(tmp_path, "resumed") == [0, 0]
    for name in PIPELINES:
        found = {(tmp_path / f"{phase}-{name}-{r}").read_text() for phase in ("whole", "resumed") for r in range(RANKS)}
        assert found == {uninterrupted(name)[0]}, name
