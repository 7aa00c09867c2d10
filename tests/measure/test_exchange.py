"""Observe and publish apart, on a timeline that is added up by hand."""

from __future__ import annotations

import pytest

from harness.measure.exchange import exchange_of
from harness.measure.timeline import steps_frame, timeline_frame
from odin.memory import Memory


def test_transfers_are_added_up_by_kind() -> None:
    nan = float("nan")
    rows = [  # kind, name, category, start, end, last_join, bytes
        ("phase", "project", "useful", 0.0, 1.0, nan, 0),
        ("wait", "sizes", "wait", 1.0, 1.5, 1.2, 0),
        ("collective", "sizes", "link", 1.2, 1.5, 1.2, 8),
        ("wait", "observe clear", "wait", 1.5, 2.0, 1.0, 0),
        ("collective", "observe clear", "link", 1.5, 2.0, 1.0, 100),
        ("phase", "blend", "useful", 2.0, 4.0, nan, 0),
        ("collective", "publish", "link", 2.0, 4.5, 2.0, 60),
        ("wait", "publish", "wait", 4.0, 4.5, 2.0, 0),
        ("wait", "owners", "wait", 4.5, 5.0, 4.5, 0),
    ]
    names = ("kind", "name", "category", "start", "end", "last_join", "bytes")
    columns = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    timeline = timeline_frame({**columns, "rank": [0] * len(rows), "step": [0] * len(rows)})
    steps = steps_frame({"rank": [0], "step": [0], "start": [0.0], "end": [5.0], "structural": [False], "loss": [1.0]})
    found = exchange_of(timeline, steps, [Memory(parameters=5, moments=10, gradient=5, other=3), Memory(other=7)])
    assert (found.publish.carried, found.publish.exposed, found.publish.nbytes) == (2.5, 0.5, 60)
    assert found.publish.hidden.value == pytest.approx(0.8)
    assert found.observe.carried == pytest.approx(0.8)
    assert found.observe.exposed == pytest.approx(0.3 + 0.5)
    assert (found.owner_bytes, found.extra_bytes, found.shards) == (20, 7, 1)
