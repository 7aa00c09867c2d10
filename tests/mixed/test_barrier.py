"""Sharded training is training: any number of owners, and data parallel with one, give the same bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.run.workload import Workload
from odin.arms import arm as arm_named
from odin.comm.transport import SingleRank
from odin.keeper import Keeper
from odin.runtime import Runtime
from tests.mixed.rooms import BATCH, losses, plan_of, recipe_of, settings_of, trained, workload


@pytest.fixture(scope="module")
def scene() -> Workload:
    return workload()


def test_the_number_of_owners_changes_no_bit(scene: Workload) -> None:
    one, two, four = (trained(scene, "barrier", ranks) for ranks in (1, 2, 4))
    assert one.digest == two.digest == four.digest
    assert np.allclose(losses(one), losses(four), rtol=1e-12)
    total = len(one.model.table)
    assert total != len(recipe_of(scene, settings_of(), 18).table), "nothing was densified"
    assert sum(four.rows) == sum(two.rows) == total


def test_one_owner_trains_what_a_data_parallel_rank_trains(scene: Workload) -> None:
    # The data-parallel recipe draws split noise from the same stream, so all events agree too.
    settings, steps = settings_of(lr_scale="none"), 18
    mixed = trained(scene, "barrier", 1, settings=settings)
    plan = plan_of(scene, "barrier", steps, settings)
    plan = replace(plan, units=plan.units.reshape(steps, 1, BATCH))
    recipe = recipe_of(scene, settings, steps)
    Runtime(recipe, plan, arm_named("barrier"), SingleRank(), Keeper()).run()
    assert mixed.model.table.digest() == recipe.table.digest()


def test_the_square_root_rule_scales_the_optimizer(scene: Workload) -> None:
    plain, scaled = recipe_of(scene, settings_of(lr_scale="none"), 10), recipe_of(scene, settings_of(), 10)
    assert np.allclose(scaled.learning_rates(3), plain.learning_rates(3) * 2.0)
    assert scaled.table.adam.beta1 == pytest.approx(0.9**4)
    assert scaled.table.adam.beta2 == pytest.approx(0.999**4)
    assert scaled.table.adam.eps == pytest.approx(0.5e-15)


def test_it_learns(scene: Workload) -> None:
    run = trained(scene, "barrier", 2, steps=40, settings=settings_of(densify_at=(20,), reset_at=(), sh_at=(5,)))
    curve = losses(run)
    assert curve[-8:].mean() < 0.8 * curve[:8].mean()
