"""Does the gradient gate of §4.3 bound what a delayed read does? Review 1's falsifier, beside captures it holds on.

    python -m benchmarks.falsifier steps=300
    python -m benchmarks.falsifier --scene ../shared/data/bonsai images=images_4 steps=300

For every scene: train with a barrier in the planner's order and without densification; after each of some steps look
at the next windows A → B (on *falsifier*: those from a far step to a near one) and print, for each kind of evidence,
how many of the conflicting rows pass the gate, their share of B's scope (ρ) and of B's squared gradient (energy), and
the relative L2 error of B's gradient when exactly they are read one update late (stale), or at their
zero-gradient-step value (predicted), or when all rows are read late (stale_all). Errors are medians with the
smallest and largest of the windows. Nothing is timed. `densify=true` trains with densification: rows it has made have
no history, and in the window after it no momentum to predict from.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from benchmarks.gate_window import Training, look_at_window
from harness.config import load
from harness.run.workload import Workload, load_workload
from odin.arms import arm
from odin.errors import InputError
from odin.plan import Plan

SCENES = ("falsifier", "rooms")
AFTER = (20, 60, 120)
WINDOWS = 4


def candidate_windows(workload: Workload, plan: Plan) -> Callable[[int], bool]:
    """Which windows are looked at: candidates of the plan, on *falsifier* only those from far to near views."""
    names = [workload.capture.cameras[view].name for view in workload.capture.train]

    def all_are(step: int, kind: str) -> bool:
        return all(names[view].startswith(kind) for view in plan.views(step))

    def wanted(step: int) -> bool:
        if plan.blocking[step]:
            return False
        return workload.capture.name.partition("-")[0] != "falsifier" or (
            all_are(step, "far") and all_are(step + 1, "near")
        )

    return wanted


def measure(workload: Workload, *, after: Sequence[int] = AFTER, windows: int = WINDOWS) -> pd.DataFrame:
    """The first `windows` windows from each of some step counts on; columns of `look_at_window`, and scene, after
    (the step count) and loss (of A's last unit)."""
    plan = workload.plan(arm("barrier-planned"))
    training, wanted = Training(workload.recipe(), plan), candidate_windows(workload, plan)
    found: list[dict[str, object]] = []
    left = dict.fromkeys(after, windows)
    for step in range(plan.steps - 1):
        if not any(left.values()):
            break
        gradients = training.gradients(step)
        loss = training.loss
        count = max((count for count in after if count <= step), default=None)
        if count is not None and left[count] and wanted(step):
            rows = look_at_window(training, step, gradients)
            found += [{"scene": workload.capture.name, "after": count, "loss": loss} | row for row in rows]
            left[count] -= 1
        elif not training.drops_gradient(step):
            training.publish(step, gradients)
        training.restructure(step)
    return pd.DataFrame(found)


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per scene, evidence and step count: means of shares, median [smallest…largest] of errors in %."""
    rows = []
    for (scene, evidence, after), group in frame.groupby(["scene", "evidence", "after"], sort=False):
        row: dict[str, object] = {"scene": scene, "evidence": evidence, "after": after, "windows": len(group)}
        row |= {share: round(float(group[share].mean()), 2) for share in ("passing", "rho", "energy")}
        for error in ("stale", "capped", "predicted", "stale_all", "predicted_all"):
            low, middle, high = (100 * group[error].quantile(q) for q in (0, 0.5, 1))
            row[error] = f"{middle:.2f} [{low:.2f}…{high:.2f}]"
        rows.append(row)
    return pd.DataFrame(rows).sort_values(["scene", "evidence", "after"], ignore_index=True)


def main(arguments: Sequence[str]) -> int:
    """Measure, print the table, and write the raw windows as CSV where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--scene", action="append", metavar="NAME", help="default: falsifier, then rooms")
    parser.add_argument("--after", action="append", type=int, metavar="STEPS", help="default: 20, 60 and 120")
    parser.add_argument("--windows", type=int, default=WINDOWS)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    frames = []
    try:
        for scene in given.scene or SCENES:
            work = load_workload(load([f"scene={scene}", "densify=false", *given.words]), print)
            frames.append(measure(work, after=sorted(given.after or AFTER), windows=given.windows))
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    frame = pd.concat(frames, ignore_index=True)
    print(summary(frame).to_string(index=False))
    if given.out is not None:
        frame.to_csv(given.out, index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
