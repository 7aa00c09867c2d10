"""Fixtures of the acceptance tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.bench import Bench
from tests.faults.conftest import forked

__all__ = ["bench", "forked"]


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The command line, in an empty folder; plans are not drawn, which takes longer than all else."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("harness.plan.command.write_pictures", lambda *_: [])
    return Bench(tmp_path / "runs", capsys)
