"""Timelines written by hand, short enough to add up on paper."""

from __future__ import annotations

from typing import Any

import pandas as pd

from harness.measure.timeline import steps_frame, timeline_frame

NAN = float("nan")
Line = tuple[int, int, str, str, str, float, float, float]

# rank, step, kind, name, category, start, end, last_join
LINES: list[Line] = [
    (0, 0, "phase", "blend", "useful", 0, 4, NAN),
    (0, 0, "wait", "geometry", "wait", 4, 6, 5),
    (0, 0, "phase", "update", "useful", 6, 7, NAN),
    (0, 1, "phase", "scopes", "odin", 7, 8, NAN),
    (0, 1, "phase", "blend", "useful", 8, 10, NAN),
    (0, 1, "wait", "geometry", "wait", 10, 12, 10),
    (0, 1, "phase", "structure", "structural", 12, 13, NAN),
    (0, 1, "phase", "update", "useful", 13, 14, NAN),
    (1, 0, "phase", "blend", "useful", 0, 5, NAN),
    (1, 0, "wait", "geometry", "wait", 5, 6, 5),
    (1, 0, "phase", "update", "useful", 6, 7, NAN),
    (1, 1, "phase", "blend", "useful", 7, 9, NAN),
    (1, 1, "wait", "geometry", "wait", 9, 12, 10),
    (1, 1, "phase", "structure", "structural", 12, 13, NAN),
    (0, 0, "collective", "geometry", "link", 5, 6, 5),
    (1, 0, "collective", "geometry", "link", 5, 6, 5),
]
NAMES = ("rank", "step", "kind", "name", "category", "start", "end", "last_join")


def timeline(lines: list[Line] | None = None, **columns: Any) -> pd.DataFrame:
    """A checked timeline of these lines."""
    by_name = dict(zip(NAMES, zip(*(lines or LINES), strict=True), strict=True))
    return timeline_frame({**by_name, **columns})


def steps(structural: tuple[bool, ...] = (False, True), bounds: tuple[float, ...] = (0, 7, 14)) -> pd.DataFrame:
    """Two ranks; step s runs from bounds[s] to bounds[s + 1]."""
    count = len(structural)
    return steps_frame(
        {
            "rank": [0] * count + [1] * count,
            "step": list(range(count)) * 2,
            "start": list(bounds[:-1]) * 2,
            "end": list(bounds[1:]) * 2,
            "structural": list(structural) * 2,
            "loss": [0.5 - 0.1 * k for k in range(count)] + [0.3 - 0.1 * k for k in range(count)],
        }
    )
