"""Submission through submitit: an array of pairs, and a job after them that writes the table and sends again what a
cluster's event has ended.

submitit's own status and result handling is not used: a job that ends without a result is waited for without end, and
records say better than pickles what a cell has done.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.study.plan import PlannedPair, StudyPlan
from odin.errors import InputError, RunError
from slurm import jobs
from slurm.profile import ClusterProfile
from slurm.submission import Submission, fresh_folder

# What tells a job of Slurm or of submitit that it is one; a job that is submitted from it must not inherit that.
_INHERITED = ("SLURM_", "SLURMD_", "SUBMITIT_", "SBATCH_")
_KEPT = frozenset({"SLURM_CONF"})


def refuse_nested() -> None:
    """Raise InputError inside an allocation: its cores are taken, and jobs of jobs outlive what their owner sees."""
    job = os.environ.get("SLURM_JOB_ID")
    if job:
        raise InputError(
            f"This shell is itself in Slurm job {job}. Submit from a login node, or run the pairs in this allocation "
            "with `odin-bench run`."
        )


def submit(plan: StudyPlan, profile: ClusterProfile, pairs: Sequence[PlannedPair], *, attempt: int = 1) -> Submission:
    """Submit these pairs of a plan. Raises InputError without submitit or Slurm, RunError when sbatch refuses.

    With a local profile this returns when the pairs have run.
    """
    folder = fresh_folder(plan)
    path = plan.save(folder)  # a copy: the study may be planned anew while these jobs wait
    made = Submission(folder=folder, plan=path, profile=profile, attempt=attempt, jobs={})
    if profile.local:
        return _run_here(made, pairs)
    ids: dict[str, str] = {}
    with _outside(), _refusals():
        for group in _alike(profile, pairs):
            executor = _executor(folder, f"odin-{plan.name}", profile.resources(group[0]))
            layouts = [profile.layout(pair) for pair in group]
            keys = [pair.key for pair in group]
            submitted = executor.map_array(jobs.run_one, [str(path)] * len(group), keys, layouts)
            ids |= {pair.key: job.job_id for pair, job in zip(group, submitted, strict=True)}
        made = replace(made, jobs=ids)
        file = made.save()
        after = ":".join(sorted({job.partition("_")[0] for job in ids.values()}))
        executor = _executor(folder, f"odin-{plan.name}-reduce", {**profile.light(), "dependency": f"afterany:{after}"})
        made = replace(made, reduce=executor.submit(jobs.reduce, str(file)).job_id)
    made.save()
    return made


def sbatch_text(plan: StudyPlan, profile: ClusterProfile, pairs: Sequence[PlannedPair]) -> Iterator[str]:
    """What sbatch would get for the pairs, one text for each kind of job; the folder is made at submission."""
    _needs_submitit()
    from submitit.slurm.slurm import _make_sbatch_string

    folder = plan.out.resolve() / "submissions" / "FRESH" / "jobs"
    command = f"{sys.executable} -u -m submitit.core._submit {folder}"
    for group in _alike(profile, pairs):
        asked = profile.resources(group[0])
        count = {"map_count": len(group)} if len(group) > 1 else {}
        yield _make_sbatch_string(command=command, folder=folder, job_name=f"odin-{plan.name}", **asked, **count)
    asked = {**profile.light(), "dependency": "afterany:PAIRS"}
    yield _make_sbatch_string(command=command, folder=folder, job_name=f"odin-{plan.name}-reduce", **asked)


def _alike(profile: ClusterProfile, pairs: Sequence[PlannedPair]) -> list[list[PlannedPair]]:
    """Pairs that ask for the same resources, which all elements of an array do."""
    groups: dict[str, list[PlannedPair]] = {}
    for pair in pairs:
        groups.setdefault(repr(sorted(profile.resources(pair).items())), []).append(pair)
    return list(groups.values())


def _executor(folder: Path, name: str, parameters: dict[str, Any]) -> Any:
    _needs_submitit()
    import submitit

    try:
        # 0: a pair has no checkpoint, so submitit must not put its job into the queue again either.
        executor = submitit.SlurmExecutor(folder=folder / "jobs", max_num_timeout=0)
    except RuntimeError as error:
        raise InputError(
            "Slurm's srun is not in the PATH. Submit where sbatch works, or use the profile's twin NAME_local."
        ) from error
    executor.update_parameters(job_name=name, **parameters)
    return executor


def _run_here(made: Submission, pairs: Sequence[PlannedPair]) -> Submission:
    _needs_submitit()
    import submitit

    made = replace(made, jobs={pair.key: "" for pair in pairs})
    file = made.save()
    executor = submitit.LocalExecutor(folder=made.folder / "jobs")
    executor.update_parameters(timeout_min=max(1, int(60 * made.profile.hours * len(pairs))))
    job = executor.submit(jobs.run_all, str(file))
    made = replace(made, jobs=dict.fromkeys(made.jobs, str(job.job_id)))
    made.save()
    job.result()
    return made


def _needs_submitit() -> None:
    try:
        import submitit  # noqa: F401  # whether it is there is the question
    except ImportError as error:
        raise InputError("Submission needs the package submitit: pip install -e '.[slurm]'.") from error


@contextmanager
def _outside() -> Iterator[None]:
    """The environment of a login shell, also inside a job."""
    hidden = {k: v for k, v in os.environ.items() if k.startswith(_INHERITED) and k not in _KEPT}
    for name in hidden:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(hidden)


@contextmanager
def _refusals() -> Iterator[None]:
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    try:
        yield
    except (FailedJobError, FailedSubmissionError, OSError, ValueError) as error:
        raise RunError(f"Slurm took no job: {' '.join(str(error).split())[-600:]}") from error
