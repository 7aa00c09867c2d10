"""The plan as plain lines: regions, orders, windows, predicted conflicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from harness.plan.conflicts import MOST_WINDOWS
from harness.plan.planned import Planned
from odin.planner.sas import reason_counts, reasons


def report(planned: Planned) -> Iterator[str]:
    """What `odin-bench plan` prints, line by line."""
    yield from _head(planned)
    yield ""
    yield from _regions(planned)
    yield ""
    yield from _orders(planned)
    yield ""
    yield from _windows(planned)
    yield ""
    yield from _conflicts(planned)
    yield ""
    yield from _prediction(planned)


def _head(planned: Planned) -> Iterator[str]:
    plan, made = planned.plan, planned.plan.provenance
    yield (
        f"{planned.name}: {plan.steps} steps × {plan.global_batch} views ({plan.ranks} ranks × {plan.views_per_unit}) "
        f"over {plan.train_count} training views, seed {made['seed']}, plan {plan.digest()}"
    )
    yield f"coupling: {made['graph']}; full graph {len(planned.graph.neighbours) // 2} pairs"
    if made["views_without_tracks"]:
        yield f"{made['views_without_tracks']} views see no track: they have no edges and are scheduled all the same"


def _regions(planned: Planned) -> Iterator[str]:
    plan, made = planned.plan, planned.plan.provenance
    if made["order_note"]:
        yield f"note: {made['order_note']}"
    if not len(planned.label):
        yield "regions: none; the order is random"
        return
    sizes = np.bincount(planned.label, minlength=int(made["regions_used"]))
    steps = np.bincount(plan.region[plan.region >= 0], minlength=len(sizes))
    yield f"regions: {len(sizes)}; {int(plan.mixed.sum())} of {plan.steps} steps hold views of two regions or epochs"
    rows = [(str(k), str(sizes[k]), str(steps[k])) for k in range(len(sizes))]
    yield from table(("region", "views", "steps"), rows)


def _orders(planned: Planned) -> Iterator[str]:
    if not planned.qualities:
        yield "order quality: one step has no windows to judge"
        return
    yield "order quality on the full graph (largest coupling between consecutive steps; lower is better)"
    rows = [
        (q.name, "–" if q.note else f"{q.mean:.4f}", "–" if q.note else f"{100 * q.clear:.1f} %", q.note)
        for q in planned.qualities
    ]
    yield from table(("order", "mean", "uncoupled windows", ""), rows)


def _windows(planned: Planned) -> Iterator[str]:
    plan = planned.plan
    count, candidates = plan.steps - 1, int((plan.blocking == 0).sum())
    yield f"windows: {candidates} of {count} are candidates, {count - candidates} stay blocking"
    for word, times in reason_counts(plan).items():
        where = np.flatnonzero([word in reasons(flag) for flag in plan.blocking])
        yield f"  blocking, {word}: {times} (after step {_some(where)})"
    yield f"  evaluated: {plan.provenance['sas']}"
    live = planned.live_bytes / 1e6
    limit = "" if planned.memory_budget is None else f" of {planned.memory_budget / 1e6:.4g} MB allowed"
    yield f"  live state of an open window: at most {live:.4g} MB beyond a synchronized trainer's{limit}, initial model"


def _some(steps: Sequence[int] | np.ndarray, most: int = 8) -> str:
    shown = ", ".join(str(step) for step in steps[:most])
    return f"{shown}, …" if len(steps) > most else shown


def _conflicts(planned: Planned) -> Iterator[str]:
    found = planned.conflicts
    if not found:
        yield "predicted conflicts: no window to look at"
        return
    rows = planned.durations.table_rows
    sampled = f", {len(found)} evenly spaced ones" if len(found) == MOST_WINDOWS else ""
    yield (
        f"predicted conflicts of {len(found)} windows{sampled}, from scopes of the initial model ({rows} rows), "
        "mean (least – most):"
    )
    written = np.array([c.write for c in found])
    read = np.array([c.raw for c in found]) / np.maximum(written, 1)
    yield f"  a step may write {_share(written / rows)} of all rows; of those, the next may read {_share(read)}"
    body = []
    for place, (name, width) in enumerate(planned.columns):
        waited = np.array([c.update["update geometry" if place == 0 else "update colours"] for c in found])
        columns = sum(w for _, w in planned.columns)
        share = np.array([sum(c.nbytes[part] for part in _WAITED[place]) for c in found]) / planned.durations.payload
        body.append(
            (name, f"{width} of {columns}", _share(waited * columns / width / rows), _share(share), _POINT[place])
        )
    yield from table(("group", "columns", "rows waited for", "of the transfer, after backward", "waited for"), body)


_WAITED = (("urgent geometry",), ("urgent colours",))
_POINT = ("before projection", "before the blend")


def _prediction(planned: Planned) -> Iterator[str]:
    prices = planned.durations
    yield f"durations: {prices.source}"
    if prices.priced and planned.conflicts:
        a, b = planned.blocking_s * prices.scale, planned.candidate_s * prices.scale
        yield (
            f"predicted by the phase task graph (no skew, Odin's own work included, link {prices.link.name}): "
            f"{a:.1f} ms per step where windows block, {b:.1f} ms where they are candidates ({a / b:.2f}×)"
        )


def _share(values: np.ndarray) -> str:
    return f"{100 * values.mean():.1f} % ({100 * values.min():.1f} – {100 * values.max():.1f})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Aligned columns, indented by two; numbers to the right of their column."""
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = [
            c.ljust(w) if k == 0 or not _numeric(rows, k) else c.rjust(w)
            for k, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        yield ("  " + "  ".join(cells)).rstrip()


def _numeric(rows: Sequence[Sequence[str]], column: int) -> bool:
    return all(row[column][:1].isdigit() or row[column] in ("", "–") for row in rows) and any(r[column] for r in rows)
