"""Audits of the real recipe: what it keeps of a view is enough, and nothing of the second rendering stays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from odin.arms import arm
from odin.keeper import Keeper
from odin.runtime import Runtime
from pipelines.reference.settings import Settings
from pipelines.reference.threedgs import GaussianSplatting
from tests.odin.threads import run_ranks
from tests.pipelines.adversary import VIEWS, capture
from tests.pipelines.watched import RENDERER, UNIT, make_plan

STEPS = 12
SETTINGS = Settings(densify_at=(), reset_at=(8,), sh_at=(2, 4))


def train(name: str) -> list[Runtime]:
    """Two ranks on photos of noise."""
    rng = np.random.default_rng(5)
    photos = tuple(rng.integers(0, 256, (48, 64, 3)).astype(np.uint8) for _ in range(VIEWS))
    noise = replace(capture(5), images=photos)

    def main(transport: object) -> Runtime:
        recipe = GaussianSplatting(noise, SETTINGS, RENDERER, steps=STEPS, batch=2 * UNIT)
        runtime = Runtime(recipe, make_plan(STEPS, recipe, 5, ranks=2), arm(name), transport, Keeper())
        runtime.run()
        return runtime

    return run_ranks(2, main)[0]


def test_an_audit_of_real_views_measures_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odin.audit.AUDIT_LIMIT", float("inf"))
    audited, plain = train("predicted:audit=3"), train("predicted:audit=0")
    records = audited[0].publication.auditor.records
    assert [a.step for a in records] == [3, 6, 9]
    assert records == audited[1].publication.auditor.records
    for record in records:
        assert 0 < record.error < 1
        assert 0 < record.pixel < 1
        assert list(record.by_kind) == ["xyz", "scale", "rotation", "opacity", "f_dc", "f_rest"]
        assert all(0 < error < 2 for error in record.by_kind.values())
    for a, b in zip(audited, plain, strict=True):
        assert a.recipe.table.digest() == b.recipe.table.digest()
        assert a.recipe.statistics.local.tolist() == b.recipe.statistics.local.tolist()
        assert int(a.recipe.statistics.local[:, 1].sum()) > 0


def test_waiting_has_no_error_in_real_views() -> None:
    records = train("quality:audit=2")[0].publication.auditor.records
    # Steps 2, 4 and 8 follow an event, so they read nothing late: the ones behind them are audited.
    assert [a.step for a in records] == [3, 5, 6, 9, 10]
    assert all((a.error, a.pixel, set(a.by_kind.values())) == (0.0, 0.0, {0.0}) for a in records)
