"""What a failed audit does: reads are waited for until the next structural event."""

from __future__ import annotations

import pytest

from odin.arms import arm
from odin.keeper import Keeper
from odin.plan import Blocking
from odin.publication import Publication, Window, WindowState
from odin.recipe import Event
from odin.runtime import Runtime
from tests.odin.test_audit import MEETING, audits, quiet
from tests.odin.test_exactness import VIEWS, digest, long_run, train
from tests.odin.threads import run_ranks
from tests.odin.toy import ToyRecipe


@pytest.fixture(autouse=True)
def every_audit_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odin.audit.AUDIT_LIMIT", -1.0)


def states(windows: list[Window]) -> str:
    """One letter per window: rejected for an Audit or a Structural event, else Predicted or Quality."""
    letters = {"audit": "A", "structural": "S"}
    text = ""
    for w in windows:
        if w.reason in letters:
            assert w.state is WindowState.REJECTED
            text += letters[w.reason]
        elif w.hazards is None:
            assert w.state is WindowState.CLEAR
            assert w.delayed_rows == w.write_rows == w.rows
            text += "P"
        else:
            assert w.delayed_rows == 0
            assert w.write_rows < w.rows
            text += "Q"
    return text


def test_a_failed_audit_means_quality_until_the_next_structural_event() -> None:
    plan, events = long_run()
    runs, recipes, exchange = train("predicted:audit=4", plan, events)
    digest(recipes)
    windows = runs[0].publication.windows
    assert [w.step for w in windows] == list(range(39))
    #                                 0....v....1....v....2....v....3....v...
    assert states(windows) == "PPPPAQQQQSPPAQQSPAQQQQQQSPAQQQQQQQQQQQQ"
    # Step 16 is due, but follows a structural event and has read nothing late: 17 stands in for it. Step 24 drops its
    # gradient and 25 follows an event: 26 does. What is due while reads are waited for is left out (8, 20).
    assert [a.step for a in audits(runs)] == [4, 12, 17, 26]
    assert all(a.failed for a in audits(runs))
    assert all(mine.publication.windows == windows for mine in runs)
    assert len(set(map(tuple, exchange.log))) == 1
    assert recipes[0].missed == 0
    assert max(recipe.lag for recipe in recipes) <= 1


def test_after_a_failed_audit_steps_are_those_of_quality() -> None:
    """Once all reads are waited for, the run goes on as one that had always waited, from the same state."""
    plan, events = quiet(12, MEETING)
    beginning, _ = quiet(3, MEETING)

    def from_step_three(transport: object) -> ToyRecipe:
        recipe = ToyRecipe(60, VIEWS, events)
        Runtime(recipe, beginning, arm("predicted:audit=2"), transport, Keeper()).run()
        Runtime(recipe, plan, arm("barrier-planned"), transport, Keeper()).run(start=3)
        return recipe

    expected, _ = run_ranks(2, from_step_three)
    runs, recipes, _ = train("predicted:audit=2", plan, events)
    assert states(runs[0].publication.windows) == "PPAQQQQQQQQ"
    assert digest(recipes) == digest(expected)


@pytest.mark.parametrize(
    ("flag", "after"),
    [
        (Blocking.CHECKPOINT, "Q"),
        (Blocking.STRUCTURAL | Blocking.CHECKPOINT, "P"),
        (Blocking.STRUCTURAL | Blocking.NO_GAIN, "P"),
        (Blocking.NO_GAIN, "Q"),
        (Blocking.MEMORY, "Q"),
    ],
)
def test_what_ends_quality_after_a_failed_audit(flag: Blocking, after: str) -> None:
    """A structural event does; a checkpoint does not, and keeps that the audit has failed."""
    plan, events = quiet(12, MEETING)
    plan.blocking[5] = flag
    events[5] = Event.SH_UP if Blocking.STRUCTURAL in flag else Event.NONE
    runs, recipes, _ = train("predicted:audit=2:dispatch=static", plan, events)
    digest(recipes)
    windows = runs[0].publication.windows
    assert states(windows[:5]) == "PPAQQ"
    assert windows[5].state is WindowState.REJECTED
    assert states(windows[6:8])[0] == after


def test_a_run_that_ends_in_quality_keeps_its_audits() -> None:
    plan, events = quiet(6, MEETING)
    runs, _, _ = train("predicted:audit=2", plan, events)
    policy: Publication = runs[0].publication
    assert policy.auditor is None
    assert policy.home is not None
    assert [a.step for a in policy.home.auditor.records] == [2]
