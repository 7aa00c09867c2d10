"""`harness.plan.document`: plan.json comes back as it was, and nothing else comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.plan.document import NamedPlan, from_json, read_plan, to_json, write_plan
from odin.errors import InputError
from odin.plan import Blocking, Plan

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUE = TEXT | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def named_plans(draw: st.DrawFn) -> NamedPlan:
    """Any plan there can be, in small."""
    steps, ranks, unit = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    count = draw(st.integers(ranks * unit, ranks * unit + 4))
    rows = [draw(st.permutations(range(count)))[: ranks * unit] for _ in range(steps)]
    flags = st.integers(0, sum(int(reason) for reason in Blocking))
    plan = Plan(
        units=np.array(rows, np.int32).reshape(steps, ranks, unit),
        region=np.array(draw(st.lists(st.integers(-1, 9), min_size=steps, max_size=steps)), np.int32),
        mixed=np.array(draw(st.lists(st.booleans(), min_size=steps, max_size=steps)), bool),
        blocking=np.array(draw(st.lists(flags, min_size=steps - 1, max_size=steps - 1)), np.int32),
        train_count=count,
        provenance=draw(st.dictionaries(TEXT, VALUE, max_size=4)),
    )
    views = tuple(draw(st.lists(TEXT, min_size=count, max_size=count)))
    return NamedPlan(plan=plan, scene=draw(TEXT), manifest=draw(TEXT), views=views)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # whole plans are drawn number by number
@given(named_plans())
def test_it_comes_back_as_it_was(named: NamedPlan) -> None:
    back = from_json(to_json(named))
    assert (back.scene, back.manifest, back.views) == (named.scene, named.manifest, named.views)
    assert back.plan.digest() == named.plan.digest()
    assert back.plan.provenance == named.plan.provenance
    for name in ("units", "region", "mixed", "blocking"):
        old, new = getattr(named.plan, name), getattr(back.plan, name)
        assert new.dtype == old.dtype
        assert np.array_equal(new, old)
    assert to_json(back) == to_json(named)


def sample() -> NamedPlan:
    """Three steps of two ranks over six views."""
    units = np.array([[[0], [1]], [[2], [3]], [[4], [5]]], np.int32)
    plan = Plan(
        units=units,
        region=np.array([0, 1, 0], np.int32),
        mixed=np.zeros(3, bool),
        blocking=np.array([int(Blocking.STRUCTURAL | Blocking.NO_GAIN), 0], np.int32),
        train_count=6,
        provenance={"order": "plan", "seed": 1, "planner_seconds": 0.5},
    )
    return NamedPlan(plan=plan, scene="s", manifest="m", views=tuple("abcdef"))


def test_a_file_says_what_a_reader_wants_to_know(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "plan.json"
    write_plan(path, sample())
    data = json.loads(path.read_text(encoding="utf-8"))
    assert (data["format"], data["format_version"], data["plan_version"]) == ("odin-plan", 1, 1)
    assert data["windows"] == [["STRUCTURAL", "NO_GAIN"], []]
    assert data["units"] == [[[0], [1]], [[2], [3]], [[4], [5]]]
    assert read_plan(path).plan.digest() == sample().plan.digest() == data["digest"]


DAMAGES: dict[str, tuple[dict[str, Any], str]] = {
    "another format": ({"format": "pickle"}, "format: Input should be 'odin-plan'"),
    "a later version": ({"format_version": 2}, "format_version: Input should be 1"),
    "a later plan": ({"plan_version": 2}, "plan_version"),
    "a key too many": ({"x": 1}, "x: Extra inputs"),
    "text for a number": ({"ranks": "2"}, "ranks: Input should be a valid integer"),
    "a number for a flag": ({"mixed": [0, 0, 0]}, "mixed.0: Input should be a valid boolean"),
    "a negative view": ({"units": [[[0], [-1]], [[2], [3]], [[4], [5]]]}, "units.0.1.0"),
    "a view beyond int32": ({"units": [[[0], [2**40]], [[2], [3]], [[4], [5]]]}, "units.0.1.0"),
    "a view that does not exist": ({"units": [[[0], [6]], [[2], [3]], [[4], [5]]]}, "outside 0…5"),
    "a view twice": ({"units": [[[0], [0]], [[2], [3]], [[4], [5]]]}, "twice in one step"),
    "a ragged step": ({"units": [[[0], [1]], [[2]], [[4], [5]]]}, "2 ranks with 1 views"),
    "a ragged unit": ({"units": [[[0], [1, 2]], [[2], [3]], [[4], [5]]]}, "2 ranks with 1 views"),
    "no steps": ({"units": []}, "at least one step"),
    "a window too few": ({"windows": [[]]}, "3 steps has 2 windows"),
    "an unknown reason": ({"windows": [["MOOD"], []]}, "windows.0.0"),
    "a region too many": ({"region": [0, 1, 0, 1]}, "one region"),
    "a changed reason": ({"windows": [[], []]}, "changed after it was written"),
    "a swapped step": ({"units": [[[2], [3]], [[0], [1]], [[4], [5]]]}, "changed after it was written"),
    "no views": ({"views": []}, "outside 0…-1"),
    "a list in the provenance": ({"provenance": {"a": [1]}}, "provenance.a"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_in_one_paragraph(damage: str) -> None:
    changes, message = DAMAGES[damage]
    text = json.dumps({**json.loads(to_json(sample())), **changes})
    with pytest.raises(InputError) as caught:
        from_json(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", json.loads(to_json(sample())))
def test_no_key_may_be_missing(key: str) -> None:
    data = json.loads(to_json(sample()))
    del data[key]
    with pytest.raises(InputError, match=f"{key}: Field required"):
        from_json(json.dumps(data))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\x80\x04N.", '{"format": NaN}'])
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a plan of format version 1"):
        from_json(text)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_provenance_that_json_cannot_hold_is_not_written(value: float) -> None:
    plan = sample().plan
    broken = Plan(
        units=plan.units, region=plan.region, mixed=plan.mixed, blocking=plan.blocking, train_count=6,
        provenance={"x": value},
    )  # fmt: skip
    with pytest.raises(InputError, match="cannot be written"):
        to_json(NamedPlan(plan=broken, scene="s", manifest="m", views=tuple("abcdef")))


def test_names_have_to_belong_to_the_views() -> None:
    with pytest.raises(InputError, match="6 views comes with 1 view names"):
        NamedPlan(plan=sample().plan, scene="s", manifest="m", views=("a",))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_plan(tmp_path / "none.json")
    (tmp_path / "binary.json").write_bytes(b"\x80\x04\xff")
    with pytest.raises(InputError, match="cannot be read"):
        read_plan(tmp_path / "binary.json")
