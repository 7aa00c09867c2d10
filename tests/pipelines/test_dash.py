"""DashGS in parts: the resolution schedule, reduced views, the primitive budget, prune-then-densify."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.errors import InputError
from pipelines.camera import Camera
from pipelines.columns import OPACITY
from pipelines.reference.dashgs import DashSettings, PrimitiveBudget, prune_then_densify
from pipelines.reference.pyramid import reduced, resized
from pipelines.reference.settings import Settings
from pipelines.reference.spectrum import levels, resolution_schedule
from tests.pipelines.test_taming import table


def photos(blur: int, seed: int = 0) -> list[np.ndarray]:
    """Noise that is constant over `blur`×`blur` pixels: the more so, the less there is at high frequencies."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 255, (3, 96 // blur, 128 // blur, 3)).astype(np.uint8)
    return [np.kron(image, np.ones((blur, blur, 1), np.uint8)) for image in coarse]


def test_resolution_rises_from_the_spectrum_to_full_size() -> None:
    schedule = resolution_schedule(photos(8), 27_000)
    assert 1.0 < schedule.scales[0] <= 8.0
    assert list(schedule.begins) == sorted(schedule.begins)
    assert (schedule.begins[0], schedule.begins[-1]) == (0, 27_000)
    seen = [schedule.scale(count) for count in range(1, 30_000, 37)]
    assert all(a >= b for a, b in pairwise(seen)), "resolution never falls"
    assert schedule.scales[0] - 1 <= seen[0] <= schedule.scales[0]
    assert all(scale == int(scale) for scale in seen)
    assert schedule.scale(27_000) == 1.0
    assert 0 < schedule.full_from < 27_000


def test_photos_with_more_detail_start_larger_and_are_full_sooner() -> None:
    smooth, sharp = resolution_schedule(photos(8), 27_000), resolution_schedule(photos(1), 27_000)
    assert sharp.scales[0] < smooth.scales[0]


@settings(max_examples=20, deadline=None)
@given(st.integers(8, 40), st.integers(8, 40), st.integers(0, 99), st.floats(1.0, 8.0))
def test_any_spectrum_has_a_schedule(height: int, width: int, seed: int, largest: float) -> None:
    spectrum = np.random.default_rng(seed).random((height, width)) + 1e-3
    spectrum[height // 2, width // 2] = 50.0
    schedule = levels(spectrum, largest, 1000)
    assert all(1.0 <= schedule.scale(count) <= max(largest, 1.0) for count in range(0, 1001, 50))


def test_an_image_without_content_beside_its_mean_is_full_size() -> None:
    flat = [np.full((24, 32, 3), 80, np.uint8)]
    assert resolution_schedule(flat, 1000).scale(999) >= 1.0


def test_reduced_views_keep_their_mean_and_their_field_of_view() -> None:
    photo = (photos(8)[0] / np.float32(255.0)).astype(np.float32)
    small = reduced(photo, 3.7)
    assert small.shape == (int(96 / 3.7), int(128 / 3.7), 3)
    assert small.mean() == pytest.approx(photo.mean(), rel=0.02)
    assert reduced(photo, 3.7).tobytes() == small.tobytes()
    camera = Camera(
        name="a", width=128, height=96, fx=100.0, fy=90.0, cx=64.0, cy=48.0, rotation=np.eye(3), translation=np.zeros(3)
    )
    other = resized(camera, small.shape[1], small.shape[0])
    assert (other.width, other.height) == (34, 25)
    assert other.tan_x == pytest.approx(camera.tan_x)
    assert other.tan_y == pytest.approx(camera.tan_y)
    assert other.cx == pytest.approx(17.0)


def test_the_budget_follows_the_resolution_and_its_momentum() -> None:
    budget = PrimitiveBudget.of(1000, None)
    assert budget.most == 6000
    assert budget.rate(1000, 8.0, 0.0, last=False) == pytest.approx(int(5000 / 64) / 1000)
    assert budget.rate(1000, 1.0, 0.5, last=False) == 0.2
    assert budget.rate(7000, 1.0, 0.5, last=True) == 0.0
    budget.grew(10)
    assert budget.momentum == 5000
    budget.grew(2_000_000)
    assert budget.momentum == int(0.98 * 5000 + 1_000_000)
    assert PrimitiveBudget.of(1000, 1500).most == 1500
    with pytest.raises(InputError, match="max_primitives"):
        DashSettings(max_primitives=0)


def test_faint_rows_go_first_and_the_largest_statistics_grow() -> None:
    parameters, norm = table(10), np.linspace(1.0, 2.0, 10)
    parameters[:2, OPACITY] = -10.0
    rng = np.random.default_rng(0)
    grown, natural = prune_then_densify(parameters, norm, Settings(), 1.0, rng, rate=0.1)
    assert natural == 8
    assert grown.pruned == 2
    assert len(grown.parameters) == 11
    assert grown.source.tolist() == [*range(2, 10), -1, -1, -1]
    assert np.array_equal(grown.parameters[8:], parameters[7:10])
    none, _ = prune_then_densify(parameters, np.zeros(10), Settings(), 1.0, rng, rate=0.2)
    assert len(none.parameters) == 8
