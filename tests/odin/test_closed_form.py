"""The virtual clock against the closed form (c + T) / (c + u·T) (D§7).

c: compute of a step, T: transfer, u: share of it that the next step has to wait for. The real runtime and policies run
on a synthetic trajectory whose scopes have a known overlap; Odin's own operations cost nothing, ranks are alike, and
compute is not slowed by transfers.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from harness.run.together import run_threads
from odin.arms import arm
from odin.bitmap import pack
from odin.comm.link import Link
from odin.comm.virtual import VirtualTransport
from odin.keeper import NominalKeeper, Work
from odin.phases import Phase
from odin.plan import Plan
from odin.recipe import Event
from odin.replay import ReplayLedger, ReplayRecipe, Trajectory, ViewWork
from odin.runtime import Runtime
from tests.odin.toy import LAYOUT, ToyRecipe

ROWS, STEPS, RANKS = 400, 50, 2
COMPUTE = 1.0
WHOLE = "quality:groups=off:early=off:unit_order=off"  # waits by whole rows, once per step


def price(phase: str, work: Work) -> float:
    """All of a step's compute is in the blend, so that no part of it covers a transfer in the barrier arm."""
    return COMPUTE if phase == Phase.BLEND.value else 0.0


def wall(name: str, scopes: list[np.ndarray], transfer: float) -> float:
    """Seconds of the run. scopes: of each step, bool [N], for both of its views."""
    units = np.tile(np.array([[[0], [1]]], np.int32), (STEPS, 1, 1))
    plan = Plan(
        units=units,
        region=np.zeros(STEPS, np.int32),
        mixed=np.zeros(STEPS, np.bool_),
        blocking=np.zeros(STEPS - 1, np.int32),
        train_count=2,
    )
    trajectory = Trajectory(rows=ROWS)
    for step, rows in enumerate(scopes):
        trajectory.scopes[step] = pack(np.stack([rows, rows]))
        for view in range(2):
            trajectory.culls[step, view] = pack(rows[None])[0]
            trajectory.views[step, view] = ViewWork(entries=1, fragments=1, pixels=1)
            trajectory.losses[step, view] = 0.0
    link = Link(name="test", beta=ROWS * LAYOUT.columns * 4 / transfer)

    def rank(transport: VirtualTransport) -> float:
        keeper = NominalKeeper(price, transport.pace(1.0))
        inner = ToyRecipe(rows=ROWS, views=2, events=[Event.NONE] * STEPS)
        runtime = Runtime(ReplayRecipe(inner, plan, trajectory, keeper), plan, arm(name), transport, keeper)
        runtime.publication.ledger = ReplayLedger()
        runtime.run()
        return runtime.records[-1].end

    return max(run_threads(RANKS, link, rank))


def sharing(u: float) -> list[np.ndarray]:
    """Scopes of consecutive steps that share u·N rows: a block moves around a ring of N rows."""
    shift = round((1 - u) / 2 * ROWS)
    length = ROWS - shift
    return [np.isin((np.arange(ROWS) - step * shift) % ROWS, np.arange(length)) for step in range(STEPS)]


@pytest.mark.parametrize(
    ("u", "transfer"), [(0.0, 0.418), (0.25, 0.418), (0.5, 0.418), (0.5, 0.2), (0.75, 0.418), (1.0, 0.418)]
)
def test_a_known_share_of_rows_is_waited_for(u: float, transfer: float) -> None:
    scopes = sharing(u)
    shared = np.mean([(a & b).sum() / ROWS for a, b in pairwise(scopes)])
    assert shared == pytest.approx(u)
    speedup = wall("barrier-planned", scopes, transfer) / wall(WHOLE, scopes, transfer)
    assert speedup == pytest.approx((COMPUTE + transfer) / (COMPUTE + u * transfer), rel=0.02)


@pytest.mark.parametrize("period", [2, 4])
def test_a_known_share_of_windows_is_waited_for(period: int) -> None:
    """All or nothing: one window in `period` has a conflict, the others none."""
    lower = np.arange(ROWS) < ROWS // 2
    half, scopes = 0, []
    for step in range(STEPS):
        half = half if step % period == 0 else 1 - half
        scopes.append(lower if half else ~lower)
    speedup = wall("barrier-planned", scopes, 0.418) / wall("paper-quality", scopes, 0.418)
    assert speedup == pytest.approx((COMPUTE + 0.418) / (COMPUTE + 0.418 / period), rel=0.02)
