"""What runs inside jobs. submitit pickles these functions by name, so they must be importable on the nodes."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.store.files import write_text
from harness.study.command import finish
from harness.study.plan import PlannedPair, StudyPlan
from harness.study.states import pair_states
from slurm.layout import Layout
from slurm.states import RESUBMITTED, job_states
from slurm.submission import Submission


def run_one(plan: str, key: str, layout: Layout | None = None) -> str:
    """Run a pair of a plan; the reason if it could not be finished, else the empty string.

    layout: of its ranks on the nodes of this job; None is all of them on this one
    """
    from harness.study.run import run_pair

    starter = None
    if layout is not None:
        from slurm.ranks import Srun

        starter = Srun(layout)
    study = StudyPlan.load(Path(plan))
    return run_pair(study, study.pair(key), starter=starter)


def run_all(submission: str) -> None:
    """Run all pairs of a submission in this process, then write the table: the `_local` twin's only job."""
    made = Submission.load(Path(submission))
    for key in made.jobs:
        reason = run_one(str(made.plan), key)
        if reason:
            print(reason, file=sys.stderr)
    finish(made.study())


def reduce(submission: str) -> None:
    """After the pairs: write the table, and submit again those that were preempted, timed out or lost their node.

    A pair is submitted again as a whole, at most `attempts` times in all; then its plan says what ended it.
    """
    made = Submission.load(Path(submission))
    plan = made.study()
    again = lost_pairs(made, plan)
    finish(plan)
    if not again:
        return
    if made.attempt < made.profile.attempts:
        from slurm.submit import submit

        sent = submit(plan, made.profile, again, attempt=made.attempt + 1)
        print(f"Submitted {len(again)} pairs again: {sent.folder}")


def lost_pairs(made: Submission, plan: StudyPlan) -> list[PlannedPair]:
    """Pairs of a submission that are not done because of an event of the cluster.

    For others that their job left without a record (out of memory, cancelled), and for those whose attempts are used
    up, the reason is written where `status` finds it.
    """
    done = {state.pair.key for state in pair_states(plan) if state.done}
    states = job_states(made.jobs.values())
    again = []
    for key, job in made.jobs.items():
        state = states[job].state
        if key in done or states[job].active:
            continue
        pair = plan.pair(key)
        if state in RESUBMITTED and made.attempt < made.profile.attempts:
            again.append(pair)
        elif state in RESUBMITTED or (state != "COMPLETED" and not plan.note(pair).exists()):
            tried = f" (attempt {made.attempt} of {made.profile.attempts})" if state in RESUBMITTED else ""
            write_text(plan.note(pair), f"Job {job} ended as {state}{tried}. Log: {made.log(job)}\n")
    return again
