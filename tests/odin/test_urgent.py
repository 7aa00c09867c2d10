"""`paper-quality` waits for the whole step before where there is any conflict, of whichever kind (§4.3 quality-first).

With W⁺ = R⁺, as for splatting, every conflict is a WAW, so no run of the arm would notice if one of the others did not
count.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from odin.arms import arm
from odin.hazards import NONE, Hazards
from odin.keeper import Keeper
from odin.model import Scenario
from odin.model.world import ModelRecipe, Notes
from odin.publication import AllOrNonePublication
from odin.publication.layout import Classes
from tests.odin.threads import Exchange, ThreadTransport

NO_CONFLICT = Hazards(raw=0, waw=0, war=0)
KINDS = ("raw", "waw", "war")
WORLD = Scenario(arm="paper-quality", units=(((0, 1),), ((2, 3),)), appears=((0,),) * 4)
# Four rows: outside W⁺(A) but read by B, first written, last written, written and not read.
FOUND = Classes(last=np.array([NONE, 0, 1, 1], np.uint8), need=np.array([0, 1, 0, NONE], np.uint8))


def classes(hazards: Hazards, policy: type[AllOrNonePublication] = AllOrNonePublication) -> Classes:
    """Of a window with these conflicts."""
    keeper, transport = Keeper(), ThreadTransport(Exchange(1), 0)
    recipe = ModelRecipe(WORLD, Notes(keeper))
    publication = policy(recipe, WORLD.plan(), transport, keeper, arm("paper-quality"))
    publication._hazards = hazards
    return publication.classes(0, FOUND)


def counting(policy: type[AllOrNonePublication]) -> set[str]:
    """Kinds of conflict of which a single row is enough to wait for everything."""
    waiting = (classes(replace(NO_CONFLICT, **{kind: 1}), policy).need == 0 for kind in KINDS)
    return {kind for kind, waits in zip(KINDS, waiting, strict=True) if waits.all()}


def test_one_row_of_any_kind_is_enough() -> None:
    assert counting(AllOrNonePublication) == set(KINDS)


@pytest.mark.parametrize("ignored", KINDS)
def test_a_kind_that_does_not_count_is_found(ignored: str) -> None:
    class Ignoring(AllOrNonePublication):
        def classes(self, step: int, found: Classes) -> Classes:
            self._hazards = replace(self._hazards, **{ignored: 0})
            return super().classes(step, found)

    assert counting(Ignoring) == set(KINDS) - {ignored}


def test_without_a_conflict_nothing_is_waited_for() -> None:
    found = classes(NO_CONFLICT)
    assert (found.need == NONE).all()
    assert found.last.tolist() == FOUND.last.tolist()


def test_a_conflict_makes_the_step_one_piece() -> None:
    """Every row, written or not, is ready with the last view of A and needed by the first of B."""
    found = classes(Hazards(raw=1, waw=2, war=3))
    assert found.last.tolist() == [1, 1, 1, 1]
    assert found.need.tolist() == [0, 0, 0, 0]
