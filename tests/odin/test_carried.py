"""What of a step still travels when the next one begins: everything behind what its first projection waits for, also
rows that no view of the step wrote. Their gradient is zero and published nowhere, but it is sent."""

from __future__ import annotations

from typing import Any

import pytest

from odin.points import geometry
from odin.publication import UrgentPublication
from odin.recipe import Event
from odin.segments import SegmentSpec
from tests.odin.test_exactness import make_plan, row_budget, train
from tests.odin.toy import LAYOUT

ROWS, STEPS = 60, 12


def elements(spec: SegmentSpec) -> int:
    return sum(len(block.rows) * sum(LAYOUT.groups[g].width for g in block.groups) for block in spec.blocks)


def behind(specs: tuple[SegmentSpec, ...]) -> int:
    """Elements of the segments after the last one that the first projection of the next step waits for."""
    held = [k for k, spec in enumerate(specs) if any(part.due == geometry(0) for part in spec.parts)]
    return sum(elements(spec) for spec in specs[held[-1] + 1 if held else 0 :])


class Noting(UrgentPublication):
    """Compares with the cut of the step before, and notes both."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.noted: list[tuple[int, int, int, int]] = []

    def _carried(self, step: int) -> int:
        found = super()._carried(step)
        expected = 0 if step == 0 or self.blocked(step - 1) else 4 * behind(self._cut.segments)
        self.noted.append((step, found, expected, len(self._cut.outside)))
        return found


@pytest.mark.parametrize("name", ["quality", "quality:groups=off", "quality:early=off"])
def test_everything_behind_the_first_read_is_carried(name: str) -> None:
    events = [Event.NONE] * 5 + [Event.DENSIFY] + [Event.NONE] * (STEPS - 6)
    plan = make_plan(STEPS, 1, 2, events, seed=3)
    runs, *_ = train(name, plan, events, policy=Noting, rows=ROWS, budget=row_budget(5, 5))
    noted = runs[0].publication.noted
    assert [found for _, found, _, _ in noted] == [expected for _, _, expected, _ in noted]
    after = [(found, outside) for step, found, _, outside in noted if step not in (0, 6)]
    assert all(found for found, _ in after) and all(outside for _, outside in after)
    assert {found for step, found, _, _ in noted if step in (0, 6)} == {0}
