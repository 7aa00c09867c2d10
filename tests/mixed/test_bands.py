"""Bands of tile rows: every pixel once, pieces of equal cost, and the gradient of whole views."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.run.workload import Workload
from odin.keeper import Keeper
from odin.mixed.balance import Balance, Balancer
from odin.mixed.bands import Task, cut, whole_views
from odin.mixed.traffic import Outbox, Traffic
from tests.mixed.rooms import losses, plan_of, recipe_of, settings_of, trained, workload


@settings(deadline=None)
@given(
    costs=st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=7), min_size=1, max_size=6),
    ranks=st.integers(1, 6),
)
def test_bands_cover_every_row_once_and_are_balanced(costs: list[list[int]], ranks: int) -> None:
    line = [cost for view in costs for cost in view]
    if len(line) < ranks:
        with pytest.raises(ValueError, match="cannot be cut"):
            cut([np.array(view, float) for view in costs], ranks)
        return
    division = cut([np.array(view, float) for view in costs], ranks)
    bands = [(task.view, *(task.band or (0, len(costs[task.view])))) for task in division.tasks]
    covered = [(view, row) for view, first, last in bands for row in range(first, last)]
    assert covered == [(view, row) for view, rows in enumerate(costs) for row in range(len(rows))]
    for rank in range(ranks):
        own = division.own(rank)
        assert own and {task.rank for task in own} == {rank}
        cost = sum(sum(costs[t.view][slice(*t.band)] if t.band else costs[t.view]) for t in own)
        assert cost <= sum(line) / ranks + max(line)
    for view in range(len(costs)):
        assert [division.tasks[k].view for k in division.of_view(view)] == [view] * len(division.of_view(view))


def test_equal_views_stay_whole() -> None:
    assert cut([np.full(5, 3.0)] * 4, 2) == whole_views(2, 2)


@settings(deadline=None)
@given(seed=st.integers(0, 100), parts=st.integers(1, 2))
def test_gradients_of_pieces_are_found_again(seed: int, parts: int) -> None:
    rng = np.random.default_rng(seed)
    division = cut([rng.integers(1, 9, 4).astype(float) for _ in range(3)], 3)
    counts = rng.integers(0, 5, (parts, 3, len(division.tasks)))
    traffic, owner = Traffic(counts=counts, starts=division.starts), int(rng.integers(3))
    # By rank, then part, then that rank's tasks: as the ranks send them back.
    sent = [
        (part, task)
        for rank in range(3)
        for part in range(parts)
        for task in range(division.starts[rank], division.starts[rank + 1])
        for _ in range(counts[part, owner, task])
    ]
    outbox = Outbox(traffic, owner)
    for part in range(parts):
        assert traffic.sizes(part).tolist() == [
            [int(counts[part, o, division.starts[r] : division.starts[r + 1]].sum()) for r in range(3)]
            for o in range(3)
        ]
        for task in range(len(division.tasks)):
            assert sent[outbox.slice(part, task)] == [(part, task)] * int(counts[part, owner, task])


@pytest.fixture(scope="module")
def scene() -> Workload:
    return workload()


def test_a_view_in_bands_has_the_loss_and_gradient_of_the_whole(scene: Workload) -> None:
    """Relative L2 below 1e-5: sums over tiles in another order. A band needs no other rows than `needed` says."""
    recipe = recipe_of(scene, settings_of(balance="state"), 4)
    every = np.arange(len(recipe.table), dtype=np.int32)
    (observed,) = recipe.observe([0], [every], None, Keeper(), drawn_only=True)
    whole = recipe.draw(0, observed.projected, Keeper())
    total, shares, costs = torch.zeros_like(whole.gradient), [], []
    for band in ((0, 1), (1, 2), (2, 3)):
        pick = recipe.needed(observed, band)
        assert 0 < len(pick) <= len(observed.rows)
        drawn = recipe.draw(0, observed.projected[pick], Keeper(), band)
        with_all = recipe.draw(0, observed.projected, Keeper(), band)
        assert torch.equal(drawn.gradient, with_all.gradient[pick]) and drawn.loss == with_all.loss
        total[pick] += drawn.gradient
        shares.append(drawn.loss)
        costs += drawn.costs.tolist()
    assert sum(shares) == pytest.approx(whole.loss, rel=1e-12)
    assert float((total - whole.gradient).norm() / whole.gradient.norm()) < 1e-5
    assert costs == whole.costs.tolist(), "a row's cost depends on its band"


@pytest.mark.parametrize("ranks", [2, 4])
def test_quality_trains_the_bits_of_barrier_with_bands(scene: Workload, ranks: int) -> None:
    uneven = settings_of(balance="state", densify_grad_threshold=1e-3)
    waited, quality = (trained(scene, arm, ranks, settings=uneven) for arm in ("barrier-planned", "quality"))
    assert waited.digest == quality.digest
    assert np.array_equal(losses(waited), losses(quality))
    assert any(task.band for tasks in waited.divisions for task in tasks), "no view was cut"
    whole = trained(scene, "barrier-planned", ranks, settings=settings_of(densify_grad_threshold=1e-3))
    assert np.allclose(losses(waited)[:6], losses(whole)[:6], rtol=1e-4), "before the first densification"


def test_measured_time_divides_too(scene: Workload) -> None:
    calm = settings_of(balance="time", densify_at=(), reset_at=(), sh_at=())
    run = trained(scene, "predicted", 4, steps=8, settings=calm)
    assert any(task.band for tasks in run.divisions for task in tasks)
    assert np.isfinite(losses(run)).all()


def test_costs_are_known_three_steps_later_and_survive_a_checkpoint(scene: Workload) -> None:
    plan = plan_of(scene, "barrier", 8, settings_of())
    rows = np.full(plan.train_count, 3, np.int64)
    ranks = [Balancer(Balance.STATE, rows, plan, rank) for rank in range(2)]

    def tell(step: int) -> list[list[int]]:
        told = np.stack([one.message(step) for one in ranks])
        for one in ranks:
            one.learn(step, told)
        return told.tolist()

    ranks[0].note(0, Task(rank=0, view=0, band=(0, 2)), np.array([50, 7]))
    ranks[1].note(0, Task(rank=1, view=0, band=(2, 3)), np.array([9]))
    ranks[1].note(1, Task(rank=1, view=3), 36)
    assert tell(0) == tell(1) == [[], []]
    again = [Balancer(Balance.STATE, rows, plan, rank) for rank in range(2)]
    for old, new in zip(ranks, again, strict=True):
        new.restore(2, old.state(2))
    for group in (ranks, again):
        ranks = group
        told = tell(2)
        assert told[0][:3] == [50, 7, 0] and told[1][:3] == [0, 0, 9]
        assert tell(3)[1][-3:] == [12, 12, 12], "time is spread evenly"
        known = group[0]._known
        assert known[plan.views(0)[0]].tolist() == [50, 7, 9]
        assert np.array_equal(known, group[1]._known)
    assert Balancer(Balance.VIEWS, rows, plan, 0).state(2) is None
