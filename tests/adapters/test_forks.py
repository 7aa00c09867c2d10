"""Each fork that has a checkout, driven on the CPU: arms, exactness, and parity with its own training().

Each in a process of its own. Without a checkout a test is skipped, and says which.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pipelines.adapters.pins import folder_of, pins
from pipelines.adapters.registry import FORKS

ROOT = Path(__file__).resolve().parents[2]
TINY = "scene=rooms?views=16&width=64&height=48&points=600"
# Opacities are reset last: the loss is higher for some hundred steps after it.
EVENTS = ("steps=100", "densify_at=[25,50]", "reset_at=[80]", "sh_at=[20]", "ranks=2", "views_per_unit=1")
LONG = ("steps=160", "densify_at=[25,50,75]", "reset_at=[]", "sh_at=[20,40]", "ranks=2", "views_per_unit=2")
LEARNED_DB = 5.0  # over 640 images, as of the recipes
BEFORE, AFTER, COUNT = 1e-4, 1e-2, 0.005

each = pytest.mark.parametrize("pipeline", sorted(FORKS))


def require(pipeline: str) -> None:
    """Skip where the fork has no checkout."""
    pin = pins()[pipeline]
    if folder_of(pin) is None:
        pytest.skip(f"the fork {pin.name} is absent (set ODIN_FORKS, or {pin.command})")


@cache
def answer(task: str, pipeline: str, *words: str) -> dict[str, Any]:
    """What a process with one fork says."""
    command = [sys.executable, "-m", "tests.adapters.one_fork", task, pipeline, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=840)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def arms(pipeline: str) -> dict[str, Any]:
    require(pipeline)
    return answer("arms", pipeline, TINY, *EVENTS)


def learnt(name: str, losses: list[float]) -> None:
    """The loss falls, between its start and the reset of opacities."""
    first, last = sum(losses[:20]) / 20, sum(losses[60:80]) / 20
    assert last < first, f"{name} does not learn: {first:.4f} to {last:.4f}"


@each
def test_it_trains_under_every_arm(pipeline: str) -> None:
    for name, seen in arms(pipeline).items():
        assert len(seen["losses"]) == 100, name
        learnt(name, seen["losses"])
        assert len(seen["digests"]) == 1, f"replicas of {name} differ"
        assert not seen["splittable"]


@each
def test_quality_is_waiting_training_bit_for_bit(pipeline: str) -> None:
    seen = arms(pipeline)
    waited, overlapped = seen["barrier-planned"], seen["quality"]
    assert overlapped["digests"] == waited["digests"]
    if not FORKS[pipeline].sharded:  # owners that overlap also send rows of a scope that are not drawn
        assert overlapped["payload"] == waited["payload"]
    opened = {k: v for k, v in overlapped["windows"].items() if k != "rejected"}
    assert sum(opened.values()) > 50
    assert seen["predicted"]["digests"] != waited["digests"]


@each
def test_rows_change_at_events(pipeline: str) -> None:
    before, after = arms(pipeline)["barrier"]["rows"]
    assert before != after


@each
def test_it_is_as_the_recipes_are(pipeline: str) -> None:
    """Checkpoints, model files, scopes, numbers of ranks, and that it learns (`tests.adapters.conform`)."""
    require(pipeline)
    seen = answer("conform", pipeline, TINY, *LONG)
    print(seen)
    assert 0 < seen["resumed_from"] < 160
    assert seen["resumed"] and seen["ply"]
    assert seen["missed"] == 0
    assert (seen["drawn"] > 0) != FORKS[pipeline].sharded
    assert seen["gap"] <= 1e-3
    assert seen["rows"][0] == seen["rows"][1]
    before, after = seen["psnr"]
    assert after - before > LEARNED_DB
    assert seen["opacity"] < 0


def test_photos_of_dashgaussian_end_at_their_full_size() -> None:
    """Also where rows never change, which is when its scheduler is asked."""
    require("dashgs")
    (small, _), (height, width) = answer("sizes", "dashgs", TINY, *EVENTS)["sizes"]
    assert small < height
    assert (height, width) == (48, 64)
    assert answer("sizes", "dashgs", TINY, "steps=4", "densify_at=[]")["sizes"] == [[48, 64]] * 2


def check_parity(seen: dict[str, Any]) -> None:
    print(seen)
    assert seen["before"] <= BEFORE
    assert seen["after"] <= AFTER
    assert seen["count"] <= COUNT
    assert seen["rows"][0] != seen["rows"][1], "no row changed"


@each
def test_its_own_training_has_our_losses(pipeline: str) -> None:
    require(pipeline)
    check_parity(answer("parity", pipeline, TINY))


def test_the_3dgs_adapter_has_the_losses_of_the_baseline_that_dashgaussian_keeps() -> None:
    require("dashgs")
    check_parity(answer("parity:dashgs", "3dgs", TINY))


@pytest.mark.real
@each
def test_parity_on_a_real_capture(pipeline: str, bonsai: Path) -> None:
    require(pipeline)
    check_parity(answer("parity", pipeline, f"scene={bonsai}", "images=images_4"))


@pytest.mark.real
@each
def test_arms_on_a_real_capture(pipeline: str, bonsai: Path) -> None:
    require(pipeline)
    seen = answer("arms", pipeline, f"scene={bonsai}", "images=images_4", *EVENTS)
    assert seen["quality"]["digests"] == seen["barrier-planned"]["digests"]
    for name, one in seen.items():
        learnt(name, one["losses"])
