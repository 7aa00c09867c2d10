"""The summary of a study: speedups over seeds from records, gates first, labels never lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.store.store import CellStore
from harness.study.repeats import STATE, repeat_lines
from harness.study.states import pair_states
from harness.study.summary import grouped, pair_ratios, summary_lines
from tests.study import studies


def lines(plan) -> list[str]:
    return list(summary_lines(grouped(pair_ratios(pair_states(plan), CellStore(plan.out)))))


def test_speedups_over_seeds(tmp_path: Path) -> None:
    plan = studies.plan(tmp_path, seeds=(0, 1, 2))
    for pair in plan.pairs:
        studies.record_pair(plan, pair)
    (group,) = grouped(pair_ratios(pair_states(plan), CellStore(tmp_path)))
    # 0.3 s of a barrier step over 0.216 s of a predicted one, in every seed.
    assert group.speedups == [pytest.approx(0.3 / 0.216)] * 3
    assert (group.place, group.arm, group.label) == ("scene=rooms", "predicted", "measured")
    text = "\n".join(lines(plan))
    assert "predicted against barrier (measured)" in text
    assert "speedup 1.389 (deterministic)×, noise up to 0.0 %" in text
    assert "n too small" in text
    assert "What this cannot claim: n = 3: a sign test" in text
    assert (
        "over repeats of a seed: final state, payload bytes, primitives, opened windows, PSNR (deterministic)" in text
    )


def test_what_varies_gets_an_interval_and_the_bootstrap_its_coverage(tmp_path: Path) -> None:
    plan = studies.plan(tmp_path, seeds=range(6))
    for k, pair in enumerate(plan.pairs):
        for index, (arm, _) in enumerate(pair.cells):
            studies.record(plan, pair, index, factor=1 + 0.01 * k if arm == "predicted" else 1.0)
    text = "\n".join(lines(plan))
    assert "(n = 6)×" in text
    assert "BCa [" in text and "simulated coverage at this n is 8" in text


def test_a_broken_gate_is_failed_and_no_number(tmp_path: Path) -> None:
    plan = studies.plan(tmp_path, seeds=(0, 1))
    for pair in plan.pairs:
        for index in range(4):
            studies.record(plan, pair, index, overrun_share=0.5 if pair is plan.pairs[0] else 0.0)
    text = "\n".join(lines(plan))
    assert "FAILED seed 0: overrun" in text
    assert "1.389 (n = 1, no interval)" in text


@pytest.mark.parametrize(("ends", "fails"), [("aa", False), ("bb", True)])
def test_bits_are_compared_with_those_of_the_arms_own_order(tmp_path: Path, ends: str, fails: bool) -> None:
    """quality-random has barrier's views, not those of the plan."""
    order = ["barrier", "barrier-planned", "quality", "quality-random"]
    plan = studies.plan(tmp_path, seeds=(0,), pairs=[order], set={"link": "none", "padded": False, "steps": 4,
                                                                 "mirrored": False})  # fmt: skip
    digests = {"barrier": "aa", "barrier-planned": "bb", "quality": "bb", "quality-random": ends}
    for index, (arm, _) in enumerate(plan.pairs[0].cells):
        studies.record(plan, plan.pairs[0], index, final_digest=32 * digests[arm])
    found = pair_ratios(pair_states(plan), CellStore(tmp_path))
    failed = {ratio.arm for ratio in found if "bit-identity" in ratio.failure}
    assert failed == ({"quality-random"} if fails else set())


def test_pairs_that_are_not_done_are_left_out(tmp_path: Path) -> None:
    plan = studies.plan(tmp_path)
    studies.record(plan, plan.pairs[0], 0)
    assert lines(plan) == []


def test_what_a_repeat_changes_is_told_with_its_spread() -> None:
    same, other = {STATE: (0.0, 0.0), "PSNR": (20.0, 20.0)}, {STATE: (0.0, 1.0), "PSNR": (20.0, 22.0)}
    assert list(repeat_lines([("0", same), ("1", same)])) == [
        "over repeats of a seed: final state, PSNR (deterministic)"
    ]
    (line,) = repeat_lines([("0", same), ("1", other), ("2", other)])
    assert line.endswith("final state 2 different ones (seed 1 and 1 more); PSNR 21 ± 1.414 (seed 1 and 1 more)")
    assert list(repeat_lines([("0", {STATE: (0.0,)})])) == []
