"""A made-up timeline of the gradient ring: what travels in one step is applied in the next, or at once."""

from __future__ import annotations

import pandas as pd

from harness.measure.timeline import steps_frame, timeline_frame

STEP = 10.0  # a step takes 10 s: cleared at 0, colours back 4…5, geometry back 5…6


def timeline(steps: int = 4, ranks: int = 2, *, late: float = 0.0, overlapped: bool = True) -> pd.DataFrame:
    """Steps whose gradient arrives 3 s after the last join and is applied in the next step, or at once.

    late: how much later the last rank is than the first
    """
    rows: list[tuple] = []
    for rank in range(ranks):
        behind = late * rank / max(ranks - 1, 1)
        for step in range(steps):
            at = STEP * step + behind
            rows.append((rank, step, "phase", "clear", "useful", at, at + 1, float("nan")))
            rows.append((rank, step, "phase", "colour_backward", "useful", at + 4, at + 5, float("nan")))
            rows.append((rank, step, "phase", "projection_backward", "useful", at + 5, at + 6, float("nan")))
            carried = step - 1 if overlapped else step
            if carried >= 0:
                joined = STEP * carried + late + 6
                rows.append((rank, step, "wait", "all", "wait", at + 6, max(at + 6, joined + 3), joined))
                rows.append((rank, step, "collective", "all", "link", joined, joined + 3, joined))
                done = max(at + 6, joined + 3)
                rows.append((rank, step, "wait", "costs", "wait", done, done, joined))
                rows.append((rank, step, "phase", "update", "useful", done, done + 1, float("nan")))
    names = ["rank", "step", "kind", "name", "category", "start", "end", "last_join"]
    return timeline_frame({name: [row[place] for row in rows] for place, name in enumerate(names)})


def steps_of(steps: int = 4, ranks: int = 2) -> pd.DataFrame:
    """Its steps, one after the other."""
    rows = [(rank, step, STEP * step, STEP * (step + 1), False, 0.3) for rank in range(ranks) for step in range(steps)]
    names = ["rank", "step", "start", "end", "structural", "loss"]
    return steps_frame({name: [row[place] for row in rows] for place, name in enumerate(names)})
