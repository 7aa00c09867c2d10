"""Deltas of a table with known answers."""

from __future__ import annotations

import pandas as pd
import pytest

from benchmarks.quality_control import ARMS, REFERENCE, deltas, runs


def row(seed: int, arm: str, psnr: float, perturb: float = 0.0) -> dict[str, object]:
    return {
        "scene": "s",
        "densify": True,
        "seed": seed,
        "arm": arm,
        "perturb": perturb,
        "psnr": psnr,
        "ssim": psnr / 40,
    }


def test_each_seed_is_compared_with_its_own_reference() -> None:
    rows = [row(s, REFERENCE, 20 + s) for s in range(3)]
    rows += [row(s, "predicted", 20 + s + d) for s, d in enumerate((-0.1, 0.0, 0.4))]
    rows += [row(s, REFERENCE, 20 + s + 0.2, 1e-6) for s in range(3)]
    frame = deltas(pd.DataFrame(rows)).set_index("arm")
    predicted = frame.loc["predicted"]
    assert (predicted["delta_db"], predicted["worst"], predicted["seeds"]) == (
        pytest.approx(0.1),
        pytest.approx(-0.1),
        3,
    )
    # t(0.975, 2) = 4.303; standard deviation of (-0.1, 0, 0.4) is 0.2646.
    assert predicted["high"] - predicted["delta_db"] == pytest.approx(4.3027 * 0.26458 / 3**0.5, rel=1e-4)
    control = frame.loc[f"{REFERENCE} ×(1 + 1e-06)"]
    assert control["delta_db"] == pytest.approx(0.2) and control["delta_ssim"] == pytest.approx(0.2 / 40)
    assert set(frame.index) == {"predicted", f"{REFERENCE} ×(1 + 1e-06)"}


def test_an_arm_is_compared_with_waiting_in_its_own_order() -> None:
    rows = [
        row(0, "barrier", 25.0),
        row(0, REFERENCE, 23.0),
        row(0, "predicted", 23.5),
        row(0, "predicted-random", 24.9),
    ]
    rows += [row(0, "barrier", 25.3, 1e-6)]
    frame = deltas(pd.DataFrame(rows)).set_index("arm")
    assert dict(frame["reference"]) == {
        "barrier": REFERENCE, "predicted": REFERENCE, "predicted-random": "barrier", "barrier ×(1 + 1e-06)": "barrier",
    }  # fmt: skip
    assert frame["delta_db"].round(9).to_dict() == {
        "barrier": 2.0, "predicted": 0.5, "predicted-random": -0.1, "barrier ×(1 + 1e-06)": 0.3,
    }  # fmt: skip


def test_every_arm_runs_with_and_without_densification_and_the_reference_perturbed() -> None:
    words = runs(7)
    assert all("seed=7" in w for w in words)
    assert sum(f"arms={','.join(ARMS)}" in w for w in words) == 2 and sum("densify=false" in w for w in words) == 1
    assert sum(any(x.startswith("perturb=") for x in w) for w in words) == 2
