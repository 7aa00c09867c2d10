"""`odin-bench plan`: plan a capture, print what was decided and why, write plan.json and two pictures."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.config import Config
from harness.plan.capture import training_views
from harness.plan.document import NamedPlan, write_plan
from harness.plan.orders import capture_units, random_plan, with_units
from harness.plan.pictures import Pictured, write_pictures
from harness.plan.planned import Planned, make
from harness.plan.settings import PlanSettings, profile_path
from harness.plan.text import report
from harness.run.workload import load_workload
from odin.planner.sas import window_couplings


def run_plan(config: Config, settings: PlanSettings) -> int:
    """Plan, print, write; 0. Raises InputError for a scene, a profile or sizes that cannot be planned."""
    profile = profile_path(settings, Path(config.out))
    workload = load_workload(config, progress=_say)
    views = training_views(workload)
    planned = make(workload, views, profile, _say)
    folder = Path(config.out) / "plans" / f"{workload.capture.name}-{planned.plan.digest()}"
    path = folder / "plan.json"
    write_plan(
        path, NamedPlan(plan=planned.plan, scene=planned.name, manifest=workload.capture.manifest, views=views.names)
    )
    _say("drawing")
    pictures = write_pictures(_pictured(planned, config.seed), folder)
    for line in report(planned):
        print(line)
    print(f"Plan: {path}, pictures: {', '.join(str(p) for p in pictures if p.suffix == '.png')}")
    return 0


def _pictured(planned: Planned, seed: int) -> Pictured:
    plan = planned.plan
    capture, random = with_units(plan, capture_units(plan)), random_plan(plan, seed)
    across = {
        name: window_couplings(planned.graph, p) for name, p in (("capture order", capture), ("random order", random))
    }
    return Pictured(
        name=planned.name,
        plan=plan,
        random=random,
        label=planned.label,
        graph=planned.graph,
        across={**across, "plan": planned.couplings},
        durations=planned.durations,
        conflicts={conflict.step: conflict for conflict in planned.conflicts},
        view_rows=planned.view_rows,
    )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
