"""Structural schedule: upstream's counts in images, floors in steps."""

from __future__ import annotations

import pytest

from odin.recipe import Event
from pipelines.reference.schedule import position_lr, structural_schedule
from pipelines.reference.settings import Settings


def counts(schedule, event: Event) -> list[int]:
    return [k + 1 for k, e in enumerate(schedule.events) if event in e]


def test_a_full_run_follows_upstream() -> None:
    schedule = structural_schedule(Settings(), steps=30_000, batch=1)
    assert counts(schedule, Event.DENSIFY) == list(range(600, 15_000, 100))
    assert counts(schedule, Event.RESET) == list(range(3000, 15_000, 3000))
    assert counts(schedule, Event.SH_UP) == [1000, 2000, 3000]
    assert set(schedule.skipped.values()) == {0}


def test_short_runs_have_floors_and_count_what_they_leave_out() -> None:
    schedule = structural_schedule(Settings(), steps=150, batch=4)
    assert counts(schedule, Event.DENSIFY) == [25, 50]
    assert counts(schedule, Event.SH_UP) == [10, 20, 30]
    assert counts(schedule, Event.RESET) == []
    assert schedule.skipped == {"densify": 144 - 2, "reset": 4, "sh_up": 0}


def test_no_reset_below_600_steps() -> None:
    assert not counts(structural_schedule(Settings(), steps=599, batch=16), Event.RESET)
    assert counts(structural_schedule(Settings(), steps=700, batch=16), Event.RESET) == [300]


def test_events_set_outright_win() -> None:
    settings = Settings(densify=False, densify_at=(2, 4), reset_at=(4,), sh_at=())
    schedule = structural_schedule(settings, steps=5, batch=1)
    assert schedule.events[3] == Event.DENSIFY | Event.RESET
    assert schedule.boundaries().tolist() == [False, True, False, True, False]


def test_without_densification_nothing_structural_but_sh() -> None:
    schedule = structural_schedule(Settings(densify=False), steps=30_000, batch=1)
    assert {e for e in schedule.events if e} == {Event.SH_UP}


def test_positions_decay_log_linearly() -> None:
    settings = Settings()
    assert position_lr(settings, 0, 2.0) == pytest.approx(3.2e-4)
    assert position_lr(settings, 30_000, 2.0) == pytest.approx(3.2e-6)
    assert position_lr(settings, 15_000, 1.0) == pytest.approx(1.6e-5)
