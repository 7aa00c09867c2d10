"""What the slots of the gradient ring hold over time, from a recorded timeline alone (§4.3 Fig. 7, D§6 Ledger).

    accumulating  cleared for a step, whose backward adds to it; segments may leave already
    travelling    the step's backward is over, its last segment has not arrived
    pending       all has arrived, some rows are not updated yet
    free          published: nothing of a step is in it; also before its first step

Nothing is recorded for this. A collective is of the newest step whose backward every rank has begun when the last rank
joins it: the last one to join has begun no later step, and the others are not behind. A recomputed unit of an audit,
which uses the free slot for a moment, is not shown.

Legend: W ranks, S steps.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from odin.errors import InputError
from odin.ledger import RING
from odin.phases import Category, Phase

STATES = ("accumulating", "travelling", "pending", "free")
SPAN_COLUMNS = ["rank", "slot", "step", "state", "start", "end"]
# Collectives of arms on whole tables that carry no gradient.
METADATA = frozenset({"statistics", "costs", "activity", "norms", "audit"})
_UPDATES = frozenset({Phase.UPDATE.value, Phase.CORRECT.value, Phase.ADVANCE.value})
_TOLERANCE = 1e-9  # s; joins and phases of one moment are stored as equal numbers


def slot_spans(timeline: pd.DataFrame, *, ring: int = RING) -> pd.DataFrame:
    """Spans of every slot of every rank, [`SPAN_COLUMNS`], s; `step` is the one whose gradient a slot holds, or held
    last where it is free (-1: none yet). Spans of no length are left out; a slot's follow one another without gap.

    Raises InputError where the timeline breaks the ledger's rules (a slot cleared before it is published, a gradient
    that arrives for a step that has no backward), or is not one of an arm on whole tables.
    """
    own = timeline[timeline["category"] != Category.ODIN.value]  # without what audits recompute
    first = _per_step(own, Phase.COLOUR_BACKWARD, "start", "min")
    last = _per_step(own, Phase.PROJECTION_BACKWARD, "end", "max")
    cleared = _per_step(own, Phase.CLEAR, "start", "min")
    if first.empty or not first.index.equals(last.index) or len(cleared) < len(first):
        raise InputError("The timeline has no backward in two parts with a slot cleared for each; it shows no slots.")
    arrived, published = _arrivals(timeline, first)
    end = float(timeline["end"].max())
    found: list[tuple[object, ...]] = []
    for rank, steps in cleared.groupby(level="rank"):
        for slot in range(ring):
            owners = [step for _, step in steps.index if step % ring == slot]
            found += _slot(int(rank), slot, owners, (cleared, last, arrived, published), end)
    return pd.DataFrame(found, columns=SPAN_COLUMNS)


def state_shares(spans: pd.DataFrame) -> dict[str, float]:
    """Share of the time that slots are in each state, over all slots and ranks; they sum to 1."""
    seconds = (spans["end"] - spans["start"]).groupby(spans["state"]).sum()
    return {state: float(seconds.get(state, 0.0) / seconds.sum()) for state in STATES}


def in_use(spans: pd.DataFrame, slots: int = RING) -> float:
    """Share of the time that all slots of a rank hold a gradient at once, mean over ranks."""
    shares = []
    for _, own in spans.groupby("rank"):
        busy = own[own["state"] != "free"]
        edges = np.unique(own[["start", "end"]].to_numpy())
        middles = (edges[1:] + edges[:-1]) / 2
        inside = [((busy["start"] <= t) & (t < busy["end"])).sum() >= slots for t in middles]
        shares.append(float(np.diff(edges)[inside].sum() / (edges[-1] - edges[0])))
    return float(np.mean(shares))


def _per_step(frame: pd.DataFrame, phase: Phase, column: str, which: str) -> pd.Series:
    """An extreme of a phase per rank and step, indexed by both in order."""
    return frame[frame["name"] == phase.value].groupby(["rank", "step"])[column].agg(which).sort_index()


Moments = dict[tuple[int, int], float]


def _arrivals(timeline: pd.DataFrame, first: pd.Series) -> tuple[Moments, Moments]:
    """Rank and step → when its last segment has arrived, and when its last row is updated."""
    begun = [own.to_numpy() for _, own in first.groupby(level="rank")]
    steps = np.sort(first.index.get_level_values("step").unique())
    arrived, published = Moments(), Moments()
    for rank, rows in timeline.groupby("rank"):
        # Rows of one moment keep the order in which they were recorded: a wait of no length, then its update.
        for kind, row, step in _carried(rows.sort_values("start", kind="stable"), begun, steps):
            place = (int(str(rank)), step)
            if kind == "collective":
                arrived[place] = max(arrived.get(place, -np.inf), row["end"])
            else:
                published[place] = row["end"]
    return arrived, published


def _carried(
    rows: pd.DataFrame, begun: list[NDArray[np.float64]], steps: NDArray[np.int64]
) -> Iterator[tuple[str, dict, int]]:
    """Collectives, waits and updates of one rank that are of a gradient, with the step that it is of: an update is of
    the step that was waited for last."""
    current: int | None = None
    for row in rows.to_dict("records"):
        if row["kind"] == "phase":
            if row["name"] in _UPDATES and current is not None:
                yield "update", row, current
            continue
        if row["name"] in METADATA:
            continue
        at = min(int(np.searchsorted(own, row["last_join"] + _TOLERANCE, "right")) for own in begun) - 1
        if at < 0:
            raise InputError(f"The segment {row['name']!r} was joined before every rank had begun a backward.")
        step = int(steps[at])
        current = step if row["kind"] == "wait" else current
        yield row["kind"], row, step


def _slot(
    rank: int, slot: int, owners: list[int], moments: tuple[pd.Series, pd.Series, Moments, Moments], end: float
) -> Iterator[tuple[object, ...]]:
    """The spans of one slot, whose steps are `owners`."""
    cleared, last, arrived, published = moments
    now, held = 0.0, -1
    for step in owners:
        place = (rank, step)
        if now > cleared[place] + _TOLERANCE:
            raise InputError(f"Rank {rank} cleared slot {slot} for step {step} before step {held} was published.")
        # A step that densifies sends nothing: its gradient is dropped with the end of its backward.
        computed = float(last.get(place, cleared[place]))
        there = max(computed, arrived.get(place, computed))
        marks = (now, float(cleared[place]), computed, there, max(there, published.get(place, there)))
        spans = zip(("free", *STATES[:3]), marks, marks[1:], strict=False)
        yield from (
            (rank, slot, held if state == "free" else step, state, start, stop)
            for state, start, stop in spans
            if stop > start
        )
        now, held = marks[-1], step
    if end > now:
        yield rank, slot, held, "free", now, end
