"""What scopes and the hazard pass cost beside a step of the committed GPU profile."""

from __future__ import annotations

import pytest

from benchmarks.scopes import on_card


def test_the_share_is_of_the_step_with_them_and_grows_with_the_table() -> None:
    small, large = on_card(1_000_000, 16, 8, 0.3), on_card(20_000_000, 16, 8, 0.3)
    for found in (small, large):
        extra = found["card_scopes_ms"] + found["card_hazards_ms"]
        assert found["card_share"] == pytest.approx(extra / (found["card_step_ms"] + extra))
    assert 15 < large["card_scopes_ms"] / small["card_scopes_ms"] <= 20
    assert 0 < small["card_share"] <= large["card_share"] < 0.25


def test_half_the_views_on_a_rank_make_the_share_larger() -> None:
    """Every rank takes the scopes of all views of the step."""
    assert on_card(1_000_000, 16, 2, 0.3)["card_share"] > on_card(1_000_000, 16, 8, 0.3)["card_share"]
