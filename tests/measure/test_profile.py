"""Price profiles: fits find what they were given, and nothing is free by omission."""

from __future__ import annotations

import numpy as np
import pytest

from harness.measure.profile import (
    MAX_STRETCH,
    MIN_STRETCH,
    Profile,
    barrier_compute,
    fit_profile,
    stretch_factor,
)
from odin.errors import InputError
from odin.keeper import LATE_SECONDS, Entry, Work
from odin.phases import Phase


def entry(name: str, work: Work, seconds: float, step: int = 0, start: float = 0.0, wall: float | None = None) -> Entry:
    end = start + (seconds if wall is None else wall)
    category = Phase(name).category.value
    return Entry(step=step, kind="phase", name=name, category=category, start=start, end=end, work=work, cpu=seconds)


def samples(noise: float = 0.0) -> list[Entry]:
    rng = np.random.default_rng(0)
    out = []
    for _ in range(60):
        work = Work(rows=int(rng.integers(1000, 9000)), fragments=int(rng.integers(10**5, 10**6)))
        seconds = 2e-3 + 1e-6 * work.rows + 3e-9 * work.fragments
        out.append(entry("blend", work, seconds * (1 + noise * rng.normal())))
    return out


def test_a_fit_finds_the_coefficients() -> None:
    profile = fit_profile("p", "test", samples())
    rows, entries, fragments, pixels, constant = profile.coefficients["blend"]
    assert (rows, fragments, constant) == pytest.approx((1e-6, 3e-9, 2e-3), rel=1e-3)
    assert entries == pixels == 0
    assert profile.residual["blend"] < 1e-6
    assert profile.price("blend", Work(rows=2000)) == pytest.approx(4e-3, rel=1e-3)
    assert profile.stretched(2.0)("blend", Work(rows=2000)) == pytest.approx(8e-3, rel=1e-3)


def test_coefficients_are_not_negative_and_outliers_do_not_rule() -> None:
    noisy = samples(noise=0.2)
    noisy[3] = entry("blend", noisy[3].work, 5.0)
    profile = fit_profile("p", "test", noisy)
    assert min(profile.coefficients["blend"]) >= 0
    assert profile.price("blend", Work(rows=5000, fragments=500_000)) == pytest.approx(8.5e-3, rel=0.2)


def test_an_unpriced_phase_is_an_error() -> None:
    with pytest.raises(InputError, match="no price for phase 'cull'"):
        fit_profile("p", "test", samples()).price("cull", Work())


def test_every_phase_of_a_step_would_be_noticed() -> None:
    profile = fit_profile("p", "test", samples())
    for phase in set(Phase) - {Phase.BLEND}:
        with pytest.raises(InputError):
            profile.price(phase.value, Work())


def test_profiles_round_trip() -> None:
    profile = fit_profile("p", "test", samples())
    assert Profile.from_json(profile.to_json()) == profile


def test_the_stretch_meets_the_slowest_interval() -> None:
    profile = fit_profile("p", "test", samples())
    work = Work(rows=5000, fragments=500_000)
    nominal = profile.price("blend", work)
    walls = [1.1 * nominal, 1.6 * nominal + LATE_SECONDS, 1.0 * nominal]
    entries = [entry("blend", work, nominal, wall=w) for w in walls]
    assert stretch_factor(profile, [(entries, [1, 2, 3])]) == pytest.approx(1.6, rel=1e-2)
    assert stretch_factor(profile, [([], [])]) == pytest.approx(MIN_STRETCH)
    slow = [entry("blend", work, nominal, wall=50 * nominal)]
    assert stretch_factor(profile, [(slow, [1])]) == MAX_STRETCH


def test_barrier_compute_is_the_busiest_rank_of_each_step() -> None:
    profile = fit_profile("p", "test", samples())
    small, large = Work(rows=1000), Work(rows=5000)
    ranks = [
        [entry("blend", small, 0, step=0), entry("blend", large, 0, step=1)],
        [entry("blend", large, 0, step=0), entry("blend", small, 0, step=1)],
    ]
    assert barrier_compute(profile, ranks) == pytest.approx(profile.price("blend", large))
