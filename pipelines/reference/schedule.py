"""When structural events happen, and how the position learning rate decays.

Legend: S steps of B images; "scaled" counts are images · 30,000 / budget.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odin.recipe import Event
from pipelines.reference.settings import REFERENCE_BUDGET, Settings


@dataclass(frozen=True, kw_only=True)
class StructuralSchedule:
    """Events on the boundary after each step, and how many the floors left out.

    events:  one Event per step, S
    skipped: events of upstream's schedule that a floor in steps suppressed, by name
    """

    events: tuple[Event, ...]
    skipped: dict[str, int]

    def boundaries(self) -> NDArray[np.bool_]:
        """Whether a structural event follows each step, bool [S]."""
        return np.array([bool(e) for e in self.events], bool)


def structural_schedule(settings: Settings, steps: int, batch: int) -> StructuralSchedule:
    """Upstream's schedule for a budget of steps · batch images, with the floors of D§5."""
    per_step = REFERENCE_BUDGET / steps
    end = settings.densify_until
    densify = _Rule(settings.densification_interval, settings.densify_from, end, settings.densification_floor_steps)
    reset = _Rule(settings.opacity_reset_interval, 0, end, settings.reset_floor_steps)
    sh = _Rule(settings.sh_interval, 0, settings.sh_interval * settings.sh_degree + 1, settings.sh_floor_steps)
    if not settings.densify:
        densify = reset = _Rule(1, 0, 0, 1)
    fired = {
        Event.DENSIFY: _explicit(settings.densify_at) or densify.steps(per_step, steps),
        Event.RESET: _explicit(settings.reset_at) or reset.steps(per_step, steps),
        Event.SH_UP: _explicit(settings.sh_at) or sh.steps(per_step, steps, limit=settings.sh_degree),
    }
    events = [Event.NONE] * steps
    for event, (at, _) in fired.items():
        for count in at:
            if 1 <= count <= steps:
                events[count - 1] |= event
    skipped = {str(event.name).lower(): left for event, (_, left) in fired.items()}
    return StructuralSchedule(events=tuple(events), skipped=skipped)


def _explicit(at: Iterable[int] | None) -> tuple[list[int], int] | None:
    return None if at is None else (sorted(at), 0)


@dataclass(frozen=True)
class _Rule:
    """Due at scaled counts that are multiples of `interval` in (after, before); at most one per `floor` steps."""

    interval: int
    after: int
    before: int
    floor: int

    def steps(self, per_step: float, steps: int, limit: int | None = None) -> tuple[list[int], int]:
        """Step counts at which the event fires, and due events left out. An event fires at the first step
        boundary after its count, but never at or after `before`: what the floor delays beyond that is left out. A
        capped event (SH degree) is only delayed."""
        due = [c for c in range(self.interval, self.before, self.interval) if c > self.after]
        fired: list[int] = []
        last, k = 0, 0
        for count in range(1, steps + 1):
            reached = k
            while reached < len(due) and due[reached] <= count * per_step:
                reached += 1
            over = limit is None and count * per_step >= self.before
            if reached > k and count - last >= self.floor and not over:
                fired.append(count)
                last, k = count, k + 1 if limit is not None else reached
        left = len(due) - len(fired)
        return fired, max(left, 0)


def position_lr(settings: Settings, scaled: float, extent: float) -> float:
    """Upstream's log-linear decay from position_lr_init to position_lr_final, times the scene extent."""
    share = min(max(scaled / REFERENCE_BUDGET, 0.0), 1.0)
    log = (1 - share) * np.log(settings.position_lr_init) + share * np.log(settings.position_lr_final)
    return float(np.exp(log)) * extent
