"""`odin-bench submit` and `odin-bench jobs`, attached to the command line by entry points."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness.exits import ends_in_exit
from harness.study.command import dry_run_lines, plan_study
from harness.study.states import pair_states
from odin.errors import InputError, RunError
from slurm.outcomes import states_of
from slurm.profile import ClusterProfile, load_profile
from slurm.states import GONE, JobState
from slurm.submission import Submission, submissions

POLL_SECONDS = 2.0
FRESH_SECONDS = 60.0
submit_app = typer.Typer(add_completion=False, rich_markup_mode=None)
jobs_app = typer.Typer(add_completion=False, rich_markup_mode=None)


@submit_app.command()
@ends_in_exit
def submit_study(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="A study's name, or the path of a study.yaml.")],
    words: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings, in any order.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print cells, hours and sbatch text.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Return when every job has ended.")] = False,
) -> int:
    """Submit what is missing of a study to Slurm: cluster=PROFILE (slurm/profiles, a file, or NAME_local).

    One array job of pairs and a job after them that writes the table and sends lost pairs again. Words as in run;
    cluster= names the Slurm profile here.
    """
    from slurm.submit import refuse_nested, sbatch_text, submit

    profile, rest = _profile(words or [])
    refuse_nested()
    plan = plan_study(study, rest)
    missing = [state.pair for state in pair_states(plan, looking=True) if not state.done and not state.running]
    if dry_run:
        print("\n".join(dry_run_lines(plan)))
        for text in [] if profile.local else sbatch_text(plan, profile, missing):
            print(f"\n--- sbatch ---\n{text}", end="")
        return 0
    if not missing:
        print("Nothing to submit: all cells of this study are done or running.")
        return 0
    _refuse_twice(plan.out, {pair.key for pair in missing})
    for pair in [] if profile.local else missing:
        profile.resources(pair)  # what cannot be asked for is refused before anything is written
    plan.save()
    for pair in missing:
        plan.note(pair).unlink(missing_ok=True)
    made = submit(plan, profile, missing)
    print(f"Submitted {len(missing)} pairs of {plan.name}. Their jobs: odin-bench jobs {plan.out}")
    print(f"Folder of this submission: {made.folder}")
    return _wait(plan.out) if wait else 0


@jobs_app.command()
@ends_in_exit
def show_jobs(
    path: Annotated[Path, typer.Argument(help="Folder of records, as given to out=.")],
    wait: Annotated[bool, typer.Option("--wait", help="Return when every job has ended.")] = False,
) -> int:
    """Print the state of every job submitted for a folder of records, from sacct or scontrol."""
    if wait:
        return _wait(path)
    for line in _lines(path):
        print(line)
    return 0


def _profile(words: Sequence[str]) -> tuple[ClusterProfile, list[str]]:
    chosen = [word.removeprefix("cluster=") for word in words if word.startswith("cluster=")]
    if not chosen:
        raise InputError("submit needs a cluster profile: cluster=NAME, for example cluster=cpu or cluster=cpu_local.")
    return load_profile(chosen[-1]), [word for word in words if not word.startswith("cluster=")]


def _refuse_twice(out: Path, keys: set[str]) -> None:
    """Raise InputError when one of the pairs is already waiting in the queue."""
    for made, key, job, state in _states(out):
        # A controller that is busy may not show a job that it has just taken.
        fresh = state.state == GONE and time.time() - made.folder.stat().st_mtime < FRESH_SECONDS
        if (state.active or fresh) and key in keys:
            raise InputError(
                f"Pairs of this study are in the queue already (job {job}, {state.state}). Wait for them, or scancel "
                f"them; odin-bench jobs {out} lists them."
            )


def _states(out: Path) -> list[tuple[Submission, str, str, JobState]]:
    return states_of([s for s in submissions(out) if not s.profile.local])


def _lines(out: Path) -> Iterator[str]:
    seen = ""
    for made, key, job, state in _states(out):
        if made.folder.name != seen:
            seen = made.folder.name
            yield f"{seen}: {len(made.jobs)} pairs, attempt {made.attempt} of {made.profile.attempts}"
        yield f"  {job:<12} {state.state:<12} {key:<14} {state.nodes}".rstrip()


def _wait(out: Path) -> int:
    """Until no job is active, the follow-ups of lost pairs included. Raises RunError for a job that cannot start."""
    while True:
        before = len(submissions(out))
        states = _states(out)
        for _, _, job, state in states:
            if state.stuck:
                raise RunError(
                    f"Job {job} could not be launched on its node and is held by Slurm, so it never ends. Its node's "
                    f"slurmd log says why; then scontrol release {job} or scancel {job}. Nothing of it has run."
                )
        # The job that ends last may have submitted others while states were asked for.
        if not any(state.active for _, _, _, state in states) and len(submissions(out)) == before:
            break
        time.sleep(POLL_SECONDS)
    for line in _lines(out):
        print(line)
    return 0
