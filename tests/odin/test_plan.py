"""Plans and track tables refuse what they cannot mean."""

from __future__ import annotations

import numpy as np
import pytest

from odin.arms import ARMS, arm
from odin.errors import InputError
from odin.plan import Plan
from odin.tracks import Tracks


def plan(**changes: object) -> Plan:
    fields: dict = {
        "units": np.array([[[0, 1]], [[2, 3]]], np.int32),
        "region": np.zeros(2, np.int32),
        "mixed": np.zeros(2, bool),
        "blocking": np.zeros(1, np.int32),
        "train_count": 4,
    }
    return Plan(**{**fields, **changes})


def test_a_plan_says_its_shape() -> None:
    assert (plan().steps, plan().ranks, plan().views_per_unit, plan().global_batch) == (2, 1, 2, 2)
    assert plan().views(1).tolist() == [2, 3]
    assert plan().digest() == plan(provenance={"seed": 1}).digest()
    assert plan().digest() != plan(blocking=np.ones(1, np.int32)).digest()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"units": np.zeros((0, 1, 2), np.int32)}, "at least one step"),
        ({"units": np.zeros((2, 2), np.int32)}, "needs units"),
        ({"region": np.zeros(3, np.int32)}, "needs units"),
        ({"blocking": np.zeros(2, np.int32)}, "1 windows, not 2"),
        ({"train_count": 3}, "outside 0…2"),
        ({"units": np.array([[[0, 1]], [[2, 2]]], np.int32)}, "twice in one step"),
    ],
)
def test_broken_plans_are_refused(changes: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        plan(**changes)


def tracks(offsets: list[int], views: list[int], count: int = 3) -> Tracks:
    return Tracks(offsets=np.array(offsets, np.int64), views=np.array(views, np.int32), view_count=count)


def test_restricting_tracks_renumbers_views() -> None:
    kept = tracks([0, 2, 3, 5], [0, 2, 1, 2, 2]).restrict(np.array([2, 0]))
    assert kept.views.tolist() == [1, 0, 0, 0]
    assert kept.offsets.tolist() == [0, 2, 2, 4]
    assert Tracks.empty(5).track_count == 0


@pytest.mark.parametrize(
    ("offsets", "views"), [([1, 2], [0, 0]), ([0, 3], [0]), ([0, 2, 1, 3], [0, 1, 2]), ([0, 1], [3]), ([0, 1], [-1])]
)
def test_broken_tracks_are_refused(offsets: list[int], views: list[int]) -> None:
    with pytest.raises(InputError):
        tracks(offsets, views)


def test_arms_are_looked_up_by_name() -> None:
    assert arm("quality") is ARMS["quality"]
    with pytest.raises(InputError, match="Did you mean 'predicted'"):
        arm("predict")
    assert all(a.says.endswith(".") for a in ARMS.values())
