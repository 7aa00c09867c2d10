"""The public exactness test on real renders: 2 ranks, densification every 50 steps, an opacity reset at 120."""

from __future__ import annotations

import numpy as np
import pytest

from harness.config import load
from harness.run.workload import Workload, load_workload
from odin.arms import ARMS
from odin.keeper import Keeper
from odin.publication import Publication, UrgentPublication, WindowState
from odin.publication.layout import REST, Classes
from odin.runtime import Runtime
from tests.odin.threads import run_ranks

TINY = "rooms?views=16&width=64&height=48&points=900"
EVENTS = ["densify_every=50", "reset_at=[120]", "sh_at=[20,40,60]"]


@pytest.fixture(scope="module")
def workload() -> Workload:
    return load_workload(load([f"scene={TINY}", "steps=200", "test_every=0", *EVENTS]))


def train(workload: Workload, arm: str, policy: type[Publication] | None = None) -> list[Runtime]:
    plan = workload.plan(ARMS[arm])

    def main(transport: object) -> Runtime:
        runtime = Runtime(workload.recipe(), plan, ARMS[arm], transport, Keeper(), policy=policy)
        runtime.run()
        return runtime

    return run_ranks(2, main)[0]


class WithoutHazardCheck(UrgentPublication):
    """The mutant: nothing is taken for a conflict, so pending rows are read stale."""

    def classes(self, step: int, found: Classes) -> Classes:
        return Classes(last=found.last, need=np.full_like(found.need, REST))


def test_quality_equals_waiting_and_a_mutant_does_not(workload: Workload) -> None:
    waited, quality = train(workload, "barrier-planned"), train(workload, "quality")
    digests = {r.recipe.table.digest() for r in (*waited, *quality)}
    assert len(digests) == 1
    assert len(workload.recipe().table) <= 2000
    assert waited[0].version == len({50, 100, 150, 120, 20, 40, 60})
    losses = [r.loss for r in waited[0].records]
    assert np.mean(losses[80:110]) < 0.75 * np.mean(losses[:10]), "it does not learn"
    states = [w.state for w in quality[0].publication.windows]
    assert states.count(WindowState.PARTIAL) > 100
    mutant = train(workload, "quality", WithoutHazardCheck)
    assert mutant[0].recipe.table.digest() not in digests
