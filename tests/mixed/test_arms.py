"""What the arms of mixed parallelism train, and what of `publish` they hide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.run.workload import Workload
from odin.arms import arm as arm_named
from odin.errors import InputError
from odin.mixed import mixed_runtime
from odin.mixed.split import UrgentRuntime
from odin.publication import WindowState
from tests.mixed.rooms import Trained, losses, recipe_of, settings_of, trained, workload


@pytest.fixture(scope="module")
def scene() -> Workload:
    return workload()


def links(run: Trained, rank: int = 0) -> list[str]:
    """Names of the collectives in the order in which the link delivered them, without those of structural events."""
    found = [e for e in run.entries[rank] if e.kind == "collective" and e.name != "owners"]
    return [e.name for e in sorted(found, key=lambda e: e.end)]


def exposed(run: Trained, name: str) -> float:
    """Seconds that ranks wait for transfers of that name beyond the slowest rank."""
    waits = [e for entries in run.entries for e in entries if e.kind == "wait" and e.name == name]
    return sum(e.end - max(e.start, min(e.last_join, e.end)) for e in waits)


def carried(run: Trained, name: str) -> float:
    """Seconds that the link spends on transfers of that name, over all ranks."""
    return sum(e.end - e.start for entries in run.entries for e in entries if e.kind == "collective" and e.name == name)


@pytest.mark.parametrize("ranks", [2, 4])
def test_quality_trains_the_bits_of_barrier_in_its_order(scene: Workload, ranks: int) -> None:
    waited, quality = trained(scene, "barrier-planned", ranks), trained(scene, "quality", ranks)
    assert quality.digest == waited.digest
    assert np.array_equal(losses(quality), losses(waited))
    opened = [w for windows in quality.windows for w in windows if w.state is not WindowState.REJECTED]
    assert opened and any(w.waited_rows > 0 for w in opened), "no window had a conflict"


class WithoutHazardCheck(UrgentRuntime):
    """The mutant: rows that the step before may still change are sent with the clear ones."""

    def _held_back(self, written: np.ndarray, reads: object, flight: object) -> np.ndarray:
        return np.zeros_like(written)


def test_a_mutant_without_the_hazard_check_differs(scene: Workload) -> None:
    waited = trained(scene, "barrier-planned", 2, steps=6)
    assert trained(scene, "quality", 2, steps=6).digest == waited.digest
    assert trained(scene, "quality", 2, steps=6, runtime=WithoutHazardCheck).digest != waited.digest


CALM = settings_of(densify_at=(), reset_at=(), sh_at=())


def test_the_link_carries_the_order_that_the_design_fixes(scene: Workload) -> None:
    step = {
        "barrier": ["sizes", "observe", "publish"] * 3,
        "quality": [
            *["sizes", "observe", "sizes", "observe clear", "publish"],
            *["observe conflict", "sizes", "observe clear", "publish"],
            *["observe conflict", "publish"],
        ],
        "predicted": [*["sizes", "observe"], *["sizes", "observe", "publish"] * 2, "publish"],
    }
    for arm, expected in step.items():
        assert links(trained(scene, arm, 2, steps=3, settings=CALM, order="barrier")) == expected, arm


def test_predicted_hides_publish_and_barrier_does_not(scene: Workload) -> None:
    runs = {a: trained(scene, a, 4, steps=20, settings=CALM, order="quality") for a in ("barrier", "predicted")}
    hidden = {a: 1 - exposed(run, "publish") / carried(run, "publish") for a, run in runs.items()}
    assert hidden["barrier"] < 0.01
    assert hidden["predicted"] > 0.85  # all but the last step's
    ends = {a: max(records[-1].end for records in run.records) for a, run in runs.items()}
    assert ends["predicted"] < ends["barrier"]


@pytest.mark.parametrize("arm", ["predicted", "throughput", "predicted:reads=stale"])
def test_late_reads_train_about_the_same_for_any_number_of_owners(scene: Workload, arm: str) -> None:
    two, four = trained(scene, arm, 2), trained(scene, arm, 4)
    exact = trained(scene, "barrier-planned", 2)
    assert two.digest != exact.digest
    assert np.allclose(losses(two), losses(exact), rtol=0.05)
    if arm != "throughput":  # a shard's gate has its own mean
        assert two.digest == four.digest


def test_predicted_reads_are_nearer_than_stale_ones(scene: Workload) -> None:
    def table(arm: str) -> np.ndarray:
        return trained(scene, arm, 2, steps=14, settings=CALM, order="quality").model.table.values()

    exact, predicted, stale = table("barrier"), table("predicted"), table("predicted:reads=stale")
    assert np.linalg.norm(predicted - exact) < np.linalg.norm(stale - exact)


def test_a_gate_that_lets_nothing_pass_is_quality(scene: Workload) -> None:
    assert trained(scene, "throughput:tau=0", 2).digest == trained(scene, "quality", 2).digest
    late = [w.delayed_rows for windows in trained(scene, "throughput", 2).windows for w in windows]
    assert max(late) > 0


def test_arms_without_a_meaning_here_are_refused() -> None:
    for name in ("paper-quality", "paper-literal", "ddp"):
        with pytest.raises(InputError, match="mixed parallelism"):
            mixed_runtime(arm_named(name))


def test_a_wrong_number_of_owners_is_a_clear_error(scene: Workload) -> None:
    with pytest.raises(InputError, match="cannot be sharded"):
        recipe_of(scene, replace(CALM), 2).shard(0, 10_000)
