"""A prediction as text and CSV: throughput of each arm at each rank count, and the windows that cost most."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from harness.measure.breakdown import compare, limit
from harness.predict.run import Predicted
from harness.report.summary import BASELINE
from harness.store.record import Reading
from harness.store.schema import Label

LABEL = Label.VIRTUAL.value
WORST = 5  # windows that are shown of an arm
COLUMNS = (
    "ranks", "arm", "label", "images_per_second", "speedup", "exposed", "hidden", "hidden_transfer", "limit",
    "step_seconds", "way",
)  # fmt: skip
_RATIOS = ("speedup", "exposed", "hidden", "hidden_transfer", "limit")
WINDOW_COLUMNS = (
    "ranks", "arm", "label", "step", "state", "reason", "waited_share", "transfer_seconds", "skew_seconds", "views",
    "next_views",
)  # fmt: skip

Results = Mapping[int, Sequence[Predicted]]


def rows(results: Results) -> list[dict[str, object]]:
    """One row per rank count and arm; ratios are against the baseline of that rank count where it was asked for."""
    found: list[dict[str, object]] = []
    for ranks, arms in results.items():
        baseline = next((p for p in arms if p.arm.name == BASELINE), None)
        for p in arms:
            row: dict[str, object] = {"ranks": ranks, "arm": p.arm.name, "label": LABEL}
            row |= {"images_per_second": p.images_per_second, "step_seconds": p.parts.step}
            row |= dict.fromkeys(_RATIOS, Reading.absent(f"n/a: no {BASELINE}"))
            if baseline is not None:
                row |= _against(p, baseline)
            found.append(row | {"way": "trained" if p.trained else "timed from equal bits"})
    return found


def _against(p: Predicted, baseline: Predicted) -> dict[str, object]:
    """Ratios to the baseline. On one rank nothing is exchanged, so there is nothing to hide."""
    against = compare(p.parts, baseline.parts)
    alone = Reading.absent("n/a: one rank")
    return {
        "speedup": Reading.of(baseline.parts.step / p.parts.step),
        "limit": limit(baseline.parts),
        "exposed": against.exposed,
        "hidden": alone if p.ranks == 1 else against.hidden,
        "hidden_transfer": alone if p.ranks == 1 else against.hidden_transfer,
    }


def text_table(results: Results) -> str:
    """The table for people."""
    head = f"{'ranks':>5}  {'arm':<24} {'images/s':>9} {'speedup':>8} {'exposed':>8} {'hidden':>8} {'hidden-tr.':>10} "
    head += f"{'limit':>6}"
    lines = [f"Predicted throughput ({LABEL})", head, "-" * len(head)]
    for row in rows(results):
        speedup, bound = _text(row["speedup"], ".2f", 1, "×"), _text(row["limit"], ".2f", 1, "×")
        exposed, hidden, transfer = (
            _text(row[key], ".1f", 100, " %") for key in ("exposed", "hidden", "hidden_transfer")
        )
        lines.append(
            f"{row['ranks']:>5}  {row['arm']:<24} {row['images_per_second']:>9.1f} {speedup:>8} {exposed:>8} "
            f"{hidden:>8} {transfer:>10} {bound:>6}"
        )
    return "\n".join(lines)


def worst_windows(predicted: Predicted, count: int = WORST) -> list[dict[str, object]]:
    """Windows whose gradient was waited for longest, longest first; windows of no wait are left out."""
    known = {w.step: w for w in predicted.windows}
    order = sorted(known, key=lambda s: (-sum(predicted.waited[s]), s))
    found: list[dict[str, object]] = []
    for step in order[:count]:
        transfer, skew = predicted.waited[step]
        if transfer + skew <= 0:
            break
        window = known[step]
        row: dict[str, object] = {"ranks": predicted.ranks, "arm": predicted.arm.name, "label": LABEL, "step": step}
        row |= {"state": window.state.value, "reason": window.reason}
        row |= {"waited_share": window.waited_rows / max(window.rows, 1)}
        row |= {"transfer_seconds": transfer, "skew_seconds": skew}
        found.append(row | {"views": predicted.views[step], "next_views": predicted.views[step + 1]})
    return found


def text_windows(predicted: Predicted) -> str:
    """The windows that cost an arm most, for people."""
    worst = worst_windows(predicted)
    title = f"Windows of {predicted.arm.name} at {predicted.ranks} ranks that cost most ({LABEL}, ms per rank)"
    if not worst:
        return f"{title}: none, nothing was waited for."
    lines = [title]
    for row in worst:
        cause = row["reason"] or f"waits for {100 * float(str(row['waited_share'])):.0f} % of rows"
        transfer, skew = (1e3 * float(str(row[key])) for key in ("transfer_seconds", "skew_seconds"))
        step = int(str(row["step"]))
        lines.append(
            f"  steps {step:>3} → {step + 1:<3} {row['state']:<9} transfer {transfer:.3g}, slower rank {skew:.3g}: "
            f"{cause}"
        )
    return "\n".join(lines)


def csv_text(records: Sequence[Mapping[str, object]], columns: Sequence[str]) -> str:
    """CSV with bare numbers; what there is none of is empty."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    for record in records:
        writer.writerow([_bare(record[column]) for column in columns])
    return stream.getvalue()


def _bare(value: object) -> object:
    if isinstance(value, Reading):
        value = "" if value.value is None else value.value
    if isinstance(value, list):
        return " ".join(str(item) for item in value)
    return f"{value:.12g}" if isinstance(value, float) else value


def _text(value: object, form: str, scale: float, unit: str) -> str:
    if isinstance(value, Reading) and value.value is not None:
        return value.text(f"z{form}", scale, unit)
    return "n/a"
