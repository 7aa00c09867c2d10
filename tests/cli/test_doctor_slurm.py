"""The doctor on machines with and without Slurm; the commands are small scripts in a folder of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.doctor import State, batch

UP = "Slurmctld(primary) at head is UP"


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Makes commands that print a text and end with a code; nothing else is in the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())

    def make(**scripts: tuple[str, int]) -> None:
        for name, (text, code) in scripts.items():
            file = tmp_path / name
            file.write_text(f"#!/bin/sh\necho '{text}'\nexit {code}\n")
            file.chmod(0o755)

    return make


def test_without_slurm_studies_run_here(commands) -> None:
    assert batch.slurm().state is State.OK
    assert "not installed" in batch.slurm().found


def test_half_a_slurm(commands) -> None:
    commands(squeue=("", 0), scontrol=("", 0))
    assert batch.slurm().state is State.WARN
    assert "sbatch, srun absent (there is scontrol, squeue)" in batch.slurm().found


@pytest.mark.parametrize("ping", [("", 1), ("Slurmctld(primary) at head is DOWN", 0)])
def test_a_controller_that_does_not_answer(ping: tuple[str, int], commands) -> None:
    commands(sbatch=("", 0), srun=("", 0), scontrol=ping)
    found = batch.slurm()
    assert found.state is State.WARN and "SLURM_CONF" in found.fix
    assert ("is DOWN" if ping[0] else "no controller answers") in found.found


def test_accounting_is_named(commands, monkeypatch: pytest.MonkeyPatch) -> None:
    commands(sbatch=("", 0), srun=("", 0), scontrol=(UP, 0), sacct=("Slurm accounting storage is disabled", 1))
    assert batch.slurm().state is State.OK
    assert f"sbatch, srun, scontrol, sacct; {UP}; no accounting" in batch.slurm().found
    commands(sacct=("", 0))
    assert "states from sacct" in batch.slurm().found
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert batch.slurm().fix == batch.INSTALL
