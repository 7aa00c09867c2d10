"""`paper-literal` by hand: which rows are read late, and what a step is taken to write (§4.3 throughput-first, D§6).

Steps A → B of one view each, on ten rows: A touches 0…5, B touches 2…9 and had gradients at 4…9 when it was last seen.
So C_RAW⁺ = {2, 3}, a quarter of the rows that B reads, and the rows that both write are {4, 5}.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from odin.arms import arm
from odin.bitmap import pack, row_ids
from odin.keeper import Keeper
from odin.model import NEVER, Scenario
from odin.model.world import ModelRecipe, Notes
from odin.publication import LiteralPublication
from odin.publication.layout import DELAYED, REST, Classes
from odin.runtime import Runtime
from tests.odin.threads import Exchange, ThreadTransport

ROWS = 10
NAN = float("nan")  # nothing is known of the row
A, B = (0, 1, 2, 3, 4, 5), (2, 3, 4, 5, 6, 7, 8, 9)


def world(*scopes: tuple[int, ...], units: tuple = (((0,),), ((1,),))) -> Scenario:
    """View v touches the rows of scopes[v]."""
    appears = tuple(tuple(0 if row in rows else NEVER for row in range(ROWS)) for rows in scopes)
    return Scenario(arm="paper-literal", units=units, appears=appears)


def literal(scenario: Scenario, tau: float, norms: list[float], **active: tuple[int, ...]) -> LiteralPublication:
    """The policy before the first step. norms: of each row's last publication, 1 where not given; active: by view, v0…,
    its rows with a gradient at its last visit."""
    keeper = Keeper()
    recipe = ModelRecipe(scenario, Notes(keeper))
    transport = ThreadTransport(Exchange(1), 0)
    chosen = arm(f"paper-literal:tau={tau}")
    publication = LiteralPublication(recipe, scenario.plan(), transport, keeper, chosen)
    publication.restart(0)
    publication._active = {int(view[1:]): packed(*rows) for view, rows in active.items()}
    recipe.table.keep_evidence()[:] = [*norms, *[1.0] * (ROWS - len(norms))]
    return publication


def packed(*rows: int) -> np.ndarray:
    mask = np.zeros(ROWS, np.bool_)
    mask[list(rows)] = True
    return pack(mask)


def delayed(publication: LiteralPublication) -> list[int]:
    """By the policy's own classes, as the step is cut by them; every other row that both touch is waited for."""
    found = Classes(last=np.full(ROWS, 255, np.uint8), need=np.full(ROWS, REST, np.uint8))
    found.last[list(A)], found.need[list(B)] = 0, 0
    need = publication.classes(0, found).need
    late = np.flatnonzero(need == DELAYED).tolist()
    assert np.flatnonzero(need == 0).tolist() == [row for row in B if row not in late]
    assert (need[[0, 1]] == REST).all()
    return late


SEEN = (4, 5, 6, 7, 8, 9)


@pytest.mark.parametrize(
    ("tau", "norms", "late"),
    [
        # The mean over 0…5 is (6 + 4 + 1 + 1 + 3 + 3) / 6 = 3. Both rows pass at τ ≥ 1/3, and 2 of 8 rows are ≤ τ.
        (0.5, [6, 4, 1, 1, 3, 3], [2, 3]),
        (0.32, [6, 4, 1, 1, 3, 3], []),
        # The gate is inclusive: 1.5 = 0.5 · 3.
        (0.5, [6, 4, 1.5, 0.5, 3, 3], [2, 3]),
        # ρ is inclusive, 2 of 8 = 0.25; just below it the same rows pass the gate (0.5 ≤ 0.24 · 3) and are waited for.
        (0.25, [6, 4, 0.5, 0.5, 4, 3], [2, 3]),
        (0.24, [6, 4, 0.5, 0.5, 4, 3], []),
        # One of two fails: 2 > 0.5 · 3, no evidence, and no gradient. The other, though small, waits with it.
        (0.5, [6, 3, 0.5, 2, 3.5, 3], []),
        (0.5, [6, 3, 2, 0.5, 3.5, 3], []),
        (0.5, [6, 4, 0.5, NAN, 3, 3], []),
        (0.5, [6, 4, 0, 0.5, 3, 3], []),
        # A large τ admits any share, and rows up to the mean; none above it.
        (1.0, [6, 4, 3, 1, 3, 1], [2, 3]),
        (1.0, [6, 4, 3.1, 1, 3, 0.9], []),
        # τ = 0 admits nothing.
        (0.0, [6, 4, 1, 1, 3, 3], []),
        # Rows that B writes too are waited for however small they are, and whether they pass is not asked.
        (0.5, [6, 4, 1, 1, 0.01, 0.01], [2, 3]),
        (0.5, [1, 1, 1, 1, 90, NAN], [2, 3]),
        # Rows outside W⁺(A) do not enter the mean: here it stays 3.
        (0.5, [6, 4, 2, 1, 3, 2, 900, 900, 900, 900], []),
        (0.5, [6, 4, 1, 1, 3, 3, 0.01, 0.01, 0.01, 0.01], [2, 3]),
    ],
)
def test_rows_that_are_only_read_are_delayed_together_or_not_at_all(tau: float, norms: list, late: list) -> None:
    assert delayed(literal(world(A, B), tau, norms, v1=SEEN)) == late


@pytest.mark.parametrize("tau", [0.5, 1.0])
@pytest.mark.parametrize(
    ("seen", "late"),
    [
        ((2, 3, 4, 5), []),  # everything that A writes is written again
        ((), [2, 3, 4, 5]),  # nothing is
        ((3, 4, 5), [2]),
        ((0, 1, 9), [2, 3, 4, 5]),  # what B wrote elsewhere does not matter
    ],
)
def test_rows_of_both_are_never_delayed(tau: float, seen: tuple[int, ...], late: list[int]) -> None:
    """All norms are the mean, or half of it."""
    norms = [2.0, 2.0, 1.0, 1.0, 1.0, 1.0] if tau == 1.0 else [3.0, 3.0, 0.75, 0.75, 0.75, 0.75]
    assert delayed(literal(world(A, B), tau, norms, v1=seen)) == late


def test_a_view_that_was_never_seen_may_write_all_that_it_reads() -> None:
    small = [6, 4, 1, 1, 3, 3]
    assert delayed(literal(world(A, B), 0.5, small)) == []
    assert delayed(literal(world(A, B), 0.5, small, v0=A)) == []


def test_what_any_view_of_the_step_writes_is_waited_for() -> None:
    """B has two views: one only reads row 2, which the other writes. Row 3 is written by neither."""
    scenario = world(A, (2, 3, 4, 5), (2, 6, 7, 8, 9), (), units=(((0, 3),), ((1, 2),)))
    publication = literal(scenario, 0.5, [6, 4, 1, 1, 3, 3], v1=(4, 5), v2=(2, 6))
    assert delayed(publication) == [3]


def test_a_step_writes_what_was_active_at_each_view_s_last_visit_within_its_scope() -> None:
    scenario = world((), (), (2, 3, 4), (5, 6), (7, 8), (), units=(((0, 1, 5),), ((2, 3, 4),)))
    publication = literal(scenario, 0.5, [], v2=(0, 3, 4, 9), v3=())
    scopes = [row_ids(bits, ROWS).tolist() for bits in publication.write_scopes(1)]
    assert scopes == [[3, 4], [], [7, 8]]  # view 4 was never seen: R⁺


class Noting(LiteralPublication):
    """Notes the write scopes of every step that is cut for."""

    def __init__(self, *args: object, **more: object) -> None:
        super().__init__(*args, **more)
        self.noted: dict[int, list[list[int]]] = {}

    def write_scopes(self, step: int) -> np.ndarray:
        scopes = super().write_scopes(step)
        self.noted[step] = [row_ids(bits, ROWS).tolist() for bits in scopes]
        return scopes


def noted(scenario: Scenario) -> dict[int, list[list[int]]]:
    keeper = Keeper()
    recipe = ModelRecipe(scenario, Notes(keeper))
    transport = ThreadTransport(Exchange(1), 0)
    runtime = Runtime(recipe, scenario.plan(), scenario.policy, transport, keeper, policy=Noting)
    runtime.run()
    assert isinstance(runtime.publication, Noting)
    return runtime.publication.noted


def visits(*blocking: int) -> Scenario:
    """View 0 is visited in steps 0, 3 and 6. It has a gradient at rows 1 and 2, later at row 0, and never at row 3.
    View 1, visited in between, has one at rows 3 and 4 and none at row 9."""
    return replace(
        world((0, 1, 2, 3), (3, 4, 9), units=tuple(((view,),) for view in (0, 1, 1, 0, 1, 1, 0))),
        appears=((2, 0, 0, 0, *[NEVER] * 6), (*[NEVER] * 3, 0, 0, *[NEVER] * 4, 0)),
        gradients=((5, 7, 7, 0, *[1] * 6), (*[1] * 9, 0)),
        blocking=frozenset(blocking),
    )


def test_of_the_visits_that_are_published_the_last_one_counts() -> None:
    """A step is cut by what its successor writes while its predecessor is pending: visits in the two steps before that
    successor are not known yet."""
    seen = {1: [[3, 4, 9]], 2: [[3, 4, 9]], 3: [[1, 2]], 4: [[3, 4]], 5: [[3, 4]], 6: [[0, 1, 2]]}
    assert noted(visits()) == seen


def test_activity_starts_anew_after_a_blocking_window() -> None:
    """Rows are renumbered by structural events. Nothing is cut for step 3, in front of which the window is blocking."""
    assert noted(visits(2)) == {1: [[3, 4, 9]], 2: [[3, 4, 9]], 4: [[3, 4, 9]], 5: [[3, 4, 9]], 6: [[0, 1, 2]]}
