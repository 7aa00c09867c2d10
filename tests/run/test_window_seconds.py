"""Seconds per window from a timeline are those that a keeper of a prediction counts while it waits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from harness.config import load
from harness.measure.breakdown import breakdown
from harness.measure.windows import waited_seconds, windows_frame
from harness.predict.run import WindowKeeper
from harness.run.collect import rank_steps, rank_timeline
from harness.run.together import train
from harness.run.workload import Workload, load_workload
from odin.arms import arm
from odin.comm.link import Link
from odin.comm.virtual import VirtualTransport
from odin.keeper import Work

TINY = "rooms?views=24&width=64&height=48&points=600"
WORDS = [f"scene={TINY}", "engine=virtual", "ranks=3", "views_per_unit=2", "steps=12", "densify_at=[6]", "sh_at=[3]"]
LINK = Link(name="test", beta=4e7, alpha=1e-5)
ARMS = (
    "barrier", "quality", "predicted:audit=4", "throughput:tau=0.8", "throughput:evidence=reduced:tau=0.8",
    "paper-literal", "hogwild",
)  # fmt: skip


@pytest.fixture(scope="module")
def workload() -> Workload:
    return load_workload(load([*WORDS, "test_every=0"]))


def price(phase: str, work: Work) -> float:
    return 1e-4 + 1e-7 * work.rows + 1e-8 * work.entries + 3e-8 * work.fragments + 1e-8 * work.pixels


@pytest.mark.parametrize("name", ARMS)
def test_a_timeline_knows_what_each_wait_was_for(workload: Workload, name: str) -> None:
    keepers: list[WindowKeeper] = []
    calibration: Any = SimpleNamespace(profile=SimpleNamespace(price=price), slowdown=1.05)

    def keeper(transport: VirtualTransport) -> WindowKeeper:
        keepers.append(WindowKeeper(calibration, transport))
        return keepers[-1]

    executed, _ = train(workload, arm(name), LINK, keeper)
    timeline = pd.concat([rank_timeline(e, rank) for rank, e in enumerate(executed)], ignore_index=True)
    steps = pd.concat([rank_steps(e, rank) for rank, e in enumerate(executed)], ignore_index=True)
    found = waited_seconds(timeline, steps)
    expected = [np.mean([k.waited.get(s, (0.0, 0.0)) for k in keepers], axis=0) for s in found.index]
    np.testing.assert_allclose(found[["transfer_s", "skew_s"]], expected, atol=1e-9)
    parts = breakdown(timeline, steps)
    assert found.sum().tolist() == pytest.approx([parts.transfer * parts.steps, parts.skew * parts.steps])
    assert found.sum().sum() > 0
    frame = windows_frame(executed[0].windows, found)
    assert len(frame) == len(executed[0].windows) > 0 and frame.notna().all(axis=None)
