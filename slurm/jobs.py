"""What runs inside jobs. submitit pickles these functions by name, so they must be importable on the nodes."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.store.files import write_text
from harness.study.command import finish
from harness.study.plan import PlannedPair, StudyPlan
from harness.study.states import pair_states
from odin.errors import RunError
from slurm.layout import Layout
from slurm.outcomes import TABLE, outcome, states_of
from slurm.states import RESUBMITTED
from slurm.submission import Submission


def run_one(plan: str, key: str, layout: Layout | None = None) -> None:
    """Run a pair of a plan. Raises RunError with the reason if it could not be finished, so that its job fails.

    layout: of its ranks on the nodes of this job; None is all of them on this one
    """
    from harness.study.run import run_pair

    starter = None
    if layout is not None:
        from slurm.ranks import Srun

        starter = Srun(layout)
    study = StudyPlan.load(Path(plan))
    with outcome(Path(plan).parent, key):
        reason = run_pair(study, study.pair(key), starter=starter)
        if reason:
            raise RunError(reason)


def run_all(submission: str) -> None:
    """Run all pairs of a submission in this process, then write the table: the `_local` twin's only job."""
    made = Submission.load(Path(submission))
    for key in made.jobs:
        try:
            run_one(str(made.plan), key)
        except RunError as error:
            print(error, file=sys.stderr)
    finish(made.study())


def reduce(submission: str) -> None:
    """After the pairs: write the table, and submit again those that were preempted, timed out or lost their node.

    A pair is submitted again as a whole, at most `attempts` times in all; then its plan says what ended it.
    """
    made = Submission.load(Path(submission))
    with outcome(made.folder, TABLE):
        _reduce(made)


def _reduce(made: Submission) -> None:
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
    states = {job: state for _, _, job, state in states_of([made])}
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
