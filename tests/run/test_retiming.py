"""Which cells are trained, re-timed and copied."""

from __future__ import annotations

import pytest

from harness.run.retiming import Way, jobs, retimable
from odin.arms import Arm, arm


def digest(one: Arm) -> str:
    return one.order.value


def plan(*names: str) -> list[tuple[int, Way, int | None, bool]]:
    return [(j.index, j.way, j.source, j.record) for j in jobs([arm(n) for n in names], digest)]


def test_the_first_exact_arm_with_scopes_is_trained_for_all() -> None:
    assert plan("barrier", "barrier-planned", "quality", "predicted", "quality:groups=off") == [
        (0, Way.TRAIN, None, False),
        (2, Way.TRAIN, None, True),
        (1, Way.RETIME, 2, False),
        (3, Way.TRAIN, None, False),
        (4, Way.RETIME, 2, False),
    ]


def test_repeats_and_equal_waiting_arms_are_copies() -> None:
    assert plan("barrier-planned", "without-SAS", "predicted", "predicted", "barrier-planned") == [
        (0, Way.TRAIN, None, False),
        (1, Way.COPY, 0, False),
        (2, Way.TRAIN, None, False),
        (3, Way.COPY, 2, False),
        (4, Way.COPY, 0, False),
    ]


def test_arms_of_another_order_share_nothing() -> None:
    assert [way for _, way, _, _ in plan("barrier", "quality")] == [Way.TRAIN, Way.TRAIN]
    assert plan("barrier", "quality:order=random")[1] == (0, Way.RETIME, 1, False)


@pytest.mark.parametrize("name", ["paper-quality", "predicted", "throughput", "quality:audit=5", "ddp", "hogwild"])
def test_what_is_not_shown_to_be_exact_is_trained(name: str) -> None:
    assert not retimable(arm(name))
    assert all(way is Way.TRAIN for _, way, _, _ in plan("quality", name))
