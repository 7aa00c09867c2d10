"""The worlds of the model: a few rows, views and ranks, and which view touches which row after how many updates.

Legend: N rows, V views, S steps, W ranks, U views per unit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from odin.arms import Arm, arm
from odin.budget import Budget
from odin.plan import Blocking, Plan
from odin.recipe import Event

NEVER = 99
"""In `Scenario.appears`: the view never touches the row."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One world and the arm that trains in it.

    units:     [S][W][U], view of each rank's unit
    appears:   [V][N], number of updates of a row after which the view touches it: 0 always, NEVER never
    gradients: [V][N], size of the gradient where the view touches the row; 0 is no evidence
    events:    [S], structural events after each step
    blocking:  steps after which a window is blocking without an event
    early, lead: rows that may leave before the last view, and whose colours may leave first; None for all
    splittable: colours are first read by the blend
    selective: selective Adam
    fails:     audits find too large an error
    """

    arm: str
    units: tuple[tuple[tuple[int, ...], ...], ...]
    appears: tuple[tuple[int, ...], ...]
    gradients: tuple[tuple[int, ...], ...] = ()
    events: tuple[Event, ...] = ()
    blocking: frozenset[int] = field(default_factory=frozenset)
    early: int | None = None
    lead: int | None = None
    splittable: bool = True
    selective: bool = False
    fails: bool = False

    @property
    def policy(self) -> Arm:
        """The arm with its switches."""
        return arm(self.arm)

    @property
    def rows(self) -> int:
        """N."""
        return len(self.appears[0])

    @property
    def steps(self) -> int:
        """S."""
        return len(self.units)

    @property
    def ranks(self) -> int:
        """W."""
        return len(self.units[0])

    @property
    def views_per_unit(self) -> int:
        """U."""
        return len(self.units[0][0])

    def event(self, step: int) -> Event:
        """Structural events after a step."""
        return self.events[step] if self.events else Event.NONE

    def blocks(self, step: int) -> bool:
        """Whether the window after a step is blocking, or there is no next step."""
        return step in self.blocking or bool(self.event(step)) or step == self.steps - 1

    def updates(self, step: int) -> int:
        """Updates of the steps before `step`; densifying steps have none."""
        return sum(Event.DENSIFY not in self.event(s) for s in range(step))

    def gradient(self, view: int, row: int) -> int:
        """Size of a view's gradient at a row that it touches."""
        return self.gradients[view][row] if self.gradients else 1

    def touches(self, view: int, updates: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which rows the view touches when each (int64 [N]) has moved so many times, bool [N]."""
        return np.asarray(self.appears[view]) <= updates

    def plan(self) -> Plan:
        """The plan of all ranks."""
        steps = self.steps
        blocking = [
            (Blocking.STRUCTURAL if self.event(s) else 0) | (Blocking.CHECKPOINT if s in self.blocking else 0)
            for s in range(steps - 1)
        ]
        return Plan(
            units=np.array(self.units, np.int32),
            region=np.full(steps, -1, np.int32),
            mixed=np.zeros(steps, np.bool_),
            blocking=np.array(blocking, np.int32),
            train_count=len(self.appears),
        )

    def budget(self) -> Budget:
        """A budget of rows."""
        return RowBudget(early=self.early, lead=self.lead)

    def text(self) -> str:
        """The world in a few lines."""
        used = sorted({view for units in self.units for unit in units for view in unit})
        return "\n".join(
            [
                f"arm {self.arm}" + "".join(f", {word}" for word in self._circumstances()),
                *(f"step {step}: {self._step(step)}" for step in range(self.steps)),
                *(f"view {view} touches {self._seen(view)}" for view in used),
            ]
        )

    def _circumstances(self) -> list[str]:
        words = {
            f"{self.early} rows may leave early": self.early is not None,
            f"colours of {self.lead} rows may lead": self.lead is not None,
            "views cannot be split": not self.splittable,
            "selective Adam": self.selective,
            "audits fail": self.fails and self.policy.audit > 0,
        }
        return [word for word, holds in words.items() if holds]

    def _step(self, step: int) -> str:
        parts = [f"rank {r} views {' '.join(map(str, unit))}" for r, unit in enumerate(self.units[step])]
        parts += [f"then {event.name}" for event in [self.event(step)] if event]
        parts += ["then a checkpoint"] if step in self.blocking else []
        return "; ".join(parts)

    def _seen(self, view: int) -> str:
        rows = [
            f"row {row}" + (f" after {k} of its updates" if k else "")
            for row, k in enumerate(self.appears[view])
            if k != NEVER
        ]
        return ", ".join(rows) or "nothing"


@dataclass(frozen=True, kw_only=True)
class RowBudget(Budget):
    """A budget that lets so many rows leave, whatever their size; None lets all."""

    early: int | None = None
    lead: int | None = None

    def early_rows(self, rows_in_unit: float, views: int, payload_bytes: int, row_bytes: int) -> int | None:
        """See Budget."""
        return self.early

    def colour_rows(self, rows_in_view: int, colour_bytes: int) -> int | None:
        """See Budget."""
        return self.lead
