"""TamingGS in parts: pixel scores against a dense compositor, the budget curve, sampling, and its guards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from odin.errors import InputError
from odin.recipe import Event
from pipelines.columns import OPACITY, SCALE
from pipelines.reference.scores import FIXED, ViewTerms, add_view, edges, normalised, pixel_weights
from pipelines.reference.taming_densify import budget_at, densify_to_budget, final_budget, sample
from pipelines.reference.taminggs import TamingSettings, taming_schedule
from pipelines.render.cpu import CpuRenderer
from pipelines.render.gsplat import GsplatRenderer, scores
from tests.render.plain_gsplat import PlainGsplat
from tests.render.scenes import make_camera, make_rows


def plain_scores(projection, weights: np.ndarray) -> np.ndarray:
    """Every pixel against every visible row in (depth, row) order, in float64."""
    means, conics = projection.means2d.numpy().astype(np.float64), projection.conics.numpy().astype(np.float64)
    opacities, depths = projection.opacities.numpy().astype(np.float64), projection.depths.numpy()
    order = [i for i in np.argsort(depths, kind="stable") if projection.radii[i] > 0]
    sums = np.zeros((len(means), 4))
    for y, x in np.ndindex(*weights.shape):
        left = 1.0
        for i in order:
            dx, dy = x + 0.5 - means[i, 0], y + 0.5 - means[i, 1]
            a, b, c = conics[i]
            alpha = min(opacities[i] * np.exp(-0.5 * (a * dx * dx + c * dy * dy) - b * dx * dy), 0.99)
            if alpha < 1 / 255:
                continue
            if left * (1 - alpha) < 1e-4:
                break
            sums[i] += weights[y, x], 1.0, left * alpha, np.hypot(dx, dy)
            left *= 1 - alpha
    return sums


def test_pixel_scores_match_a_dense_compositor() -> None:
    renderer, camera = CpuRenderer(), make_camera(40, 24)
    geometry, sh = make_rows(30, camera, seed=3)
    projection = renderer.project(geometry, camera)
    bins = renderer.bin(projection, camera)
    blended = renderer.blend(projection, bins, renderer.colour(geometry, sh, camera, 0), camera, torch.zeros(3))
    weights = np.random.default_rng(0).random((24, 40)).astype(np.float32)
    got = renderer.pixel_scores(bins, blended, torch.from_numpy(weights)).numpy()
    expected = plain_scores(projection, weights)
    assert expected[:, 1].sum() > 500
    # A decision at alpha = 1/255 may flip between float32 and float64: one pixel of a row.
    assert np.abs(got[:, 1] - expected[:, 1]).max() <= 1
    same = got[:, 1] == expected[:, 1]
    assert same.mean() > 0.8
    assert np.allclose(got[same], expected[same], rtol=1e-4, atol=1e-4)
    assert got[:, 2].sum() == pytest.approx(float(blended.alpha.sum()), rel=1e-4)


@pytest.mark.parametrize("chunk", [1 << 14, 20])
def test_pixel_scores_on_gsplats_lists_match_the_kernels(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where tiles have to be looked at one by one, and where pixels end before their list does."""
    monkeypatch.setattr(scores, "CHUNK", chunk)
    camera = make_camera(40, 24)
    geometry, sh = make_rows(60, camera, seed=4)
    geometry[:, OPACITY] += 3.0
    weights = torch.from_numpy(np.random.default_rng(0).random((24, 40)).astype(np.float32))
    sums, transmittance = {}, {}
    for name, renderer in (("gsplat", GsplatRenderer(PlainGsplat())), ("cpu", CpuRenderer())):
        projection = renderer.project(geometry, camera)
        bins = renderer.bin(projection, camera)
        blended = renderer.blend(projection, bins, renderer.colour(geometry, sh, camera, 0), camera, torch.zeros(3))
        sums[name] = renderer.pixel_scores(bins, blended, weights).numpy()
        transmittance[name] = 1.0 - float(blended.alpha.max())
    assert transmittance["cpu"] < 1e-3 and sums["cpu"][:, 1].sum() > 500
    same = np.abs(sums["gsplat"][:, 1] - sums["cpu"][:, 1]) < 0.5
    assert np.abs(sums["gsplat"][:, 1] - sums["cpu"][:, 1]).max() <= 2 and same.mean() > 0.8
    assert np.allclose(sums["gsplat"][same], sums["cpu"][same], rtol=1e-3, atol=1e-3)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.integers(0, 10**6), st.integers(1, 10**6))
def test_the_budget_curve_rises_to_the_budget(events: int, start: int, grown: int) -> None:
    curve = [budget_at(k, events, start, start + grown) for k in range(1, events + 1)]
    assert curve == sorted(curve)
    assert curve[-1] == start + grown
    assert curve[0] >= start


def test_a_budget_that_leaves_nothing_is_refused() -> None:
    assert final_budget("multiplier", 2.5, 10) == 25
    assert final_budget("final_count", 7.0, 10) == 7
    with pytest.raises(InputError, match="leaves 0 of 10"):
        final_budget("multiplier", 0.05, 10)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 50), st.integers(-3, 60), st.integers(0, 99), st.floats(0, 1))
def test_samples_are_different_and_prefer_weights(rows: int, count: int, seed: int, empty: float) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.random(rows) * (rng.random(rows) >= empty)
    drawn = sample(weights, count, rng)
    assert len(drawn) == max(0, min(count, rows))
    assert len(set(drawn.tolist())) == len(drawn)
    weighted = int((weights > 0).sum())
    assert (weights[drawn] > 0).sum() == min(len(drawn), weighted), "one without weight before one with"


def test_samples_follow_their_weights() -> None:
    """Drawing one of three, 20,000 times; torch.multinomial draws by the same law."""
    rng, weights = np.random.default_rng(0), np.array([1.0, 2.0, 5.0])
    counts = np.bincount([int(sample(weights, 1, rng)[0]) for _ in range(20_000)], minlength=3)
    assert np.allclose(counts / 20_000, weights / 8, atol=0.01)


def test_more_weights_than_torch_can_draw_from() -> None:
    rng = np.random.default_rng(0)
    weights = np.zeros(2**24 + 3)
    weights[-2:] = 1.0
    assert sample(weights, 2, rng).tolist() == [2**24 + 1, 2**24 + 2]
    with pytest.raises(RuntimeError):
        torch.multinomial(torch.ones(2**24 + 1), 1)


def table(rows: int) -> np.ndarray:
    out = np.random.default_rng(0).normal(size=(rows, 59)).astype(np.float32)
    out[:, SCALE], out[:, OPACITY] = np.log(0.001), 2.0
    return out


def densified(parameters: np.ndarray, norm: np.ndarray, scores: np.ndarray, **more):
    given = {"budget": len(parameters) + 3, "prune": False, "prune_large": False} | more
    return densify_to_budget(parameters, norm, scores, TamingSettings(), 1.0, np.random.default_rng(1), **given)


def test_no_candidates_no_room_and_no_scores_are_no_crash() -> None:
    """Upstream divides by the number of candidates and draws a sample of none; both raise."""
    parameters, hot = table(8), np.ones(8)
    assert len(densified(parameters, np.zeros(8), hot).parameters) == 8
    assert len(densified(parameters, hot, hot, budget=8).parameters) == 8
    assert len(densified(parameters, hot, hot, budget=5).parameters) == 8
    assert len(densified(parameters, hot, np.zeros(8)).parameters) == 11
    assert len(densified(parameters, hot, np.zeros(8), budget=100).parameters) == 16


def test_the_budget_is_met_by_clones_and_splits_and_the_highest_scores_go_first() -> None:
    parameters, scores = table(100), np.r_[np.zeros(60), np.full(40, 1.0)]
    parameters[::2, SCALE] = np.log(0.5)
    result = densified(parameters, np.ones(100), scores, budget=130)
    assert len(result.parameters) == 130
    assert result.cloned + result.split == 30
    gone = np.setdiff1d(np.arange(100), result.source)
    assert (scores[gone] > 0).all()


def test_half_of_what_3dgs_would_prune_is_drawn_and_only_faint_rows_go() -> None:
    parameters = table(40)
    parameters[:20, OPACITY] = -10.0
    result = densified(parameters, np.zeros(40), np.full(40, 1.0), prune=True)
    assert 0 < result.pruned <= 10
    assert set(range(20, 40)) <= set(result.source.tolist())


def test_scores_add_up_in_any_order() -> None:
    rng, rows = np.random.default_rng(0), 30
    views = [
        ViewTerms(
            rows=np.sort(rng.permutation(rows)[:12]).astype(np.int32),
            photometric=0.1,
            **{k: rng.random(12) for k in ("depth", "radius", "loss", "count", "blend", "distance")},
        )
        for _ in range(5)
    ]
    shared, sums = rng.random(rows), np.zeros((2, rows), np.int64)
    for view in views:
        add_view(sums[0], shared, view)
    for view in reversed(views):
        add_view(sums[1], shared, view)
    assert (sums[0] == sums[1]).all()
    assert sums.max() > FIXED
    hidden = replace(views[0], radius=np.zeros(12))
    add_view(sums[1], shared, hidden)
    assert (sums[0] == sums[1]).all(), "rows that a view does not draw have no score"


def test_terms_without_contrast_or_values_are_zero() -> None:
    assert normalised(np.array([np.nan, -1.0, 0.0])).tolist() == [0.0, 0.0, 0.0]
    assert normalised(np.array([0.0, 1.0, 2.0, 4.0, 8.0])).tolist() == [0.0, 0.5, 1.0, 2.0, 4.0]
    flat = np.full((6, 8, 3), 90, np.uint8)
    assert (edges(flat) == 0).all()
    image = np.zeros((6, 8, 3), np.float32)
    assert (pixel_weights(image, image, edges(flat)) == 0).all()


def test_opacities_freeze_after_the_last_densification_and_reset() -> None:
    schedule = taming_schedule(TamingSettings(), 300, 4)
    at = {kind: [s for s, e in enumerate(schedule.events) if kind in e] for kind in Event}
    assert at[Event.FREEZE] == [149]
    assert max(at[Event.DENSIFY]) < 149
    late = taming_schedule(TamingSettings(densify_at=(200,)), 300, 4)
    assert Event.FREEZE in late.events[200]


def test_settings_that_upstream_would_crash_on_are_refused() -> None:
    with pytest.raises(InputError, match="Densification must have ended"):
        TamingSettings(freeze_from=10_000)
    with pytest.raises(InputError, match="budget_mode"):
        TamingSettings(budget_mode="half")
    with pytest.raises(InputError, match="primitive_budget"):
        TamingSettings(primitive_budget=0.0)
    with pytest.raises(InputError, match="f_rest_every"):
        TamingSettings(f_rest_every=0)
