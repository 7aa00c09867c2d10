"""Runs that are disturbed, and what must be true after each."""

from __future__ import annotations

import pytest

from tests.faults.forked import Forked


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> list[Forked]:
    """Ranks are forked; the processes of all runs of a test."""
    started: list[Forked] = []

    def start(spec, rank):
        started.append(Forked(spec, rank))
        return started[-1]

    monkeypatch.setattr("harness.run.launch._start", start)
    return started
