"""States of Slurm jobs: from `sacct`, and from `scontrol` where there is no accounting or it lags behind."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

ACTIVE = frozenset({"PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "REQUEUED", "RESIZING", "SUSPENDED", "UNKNOWN"})
# Not the pair's fault: it is submitted again as a whole.
RESUBMITTED = frozenset({"PREEMPTED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL"})
GONE = "GONE"  # slurmctld has forgotten the job, and there is no accounting
LAUNCH_FAILED = "launch_failed_requeued_held"
_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class JobState:
    """The state of a job in Slurm's words (first word), where it runs or ran, and why it waits (scontrol only)."""

    state: str
    nodes: str = ""
    reason: str = ""

    @property
    def active(self) -> bool:
        """The job has not ended, as far as is known."""
        return self.state in ACTIVE

    @property
    def stuck(self) -> bool:
        """Slurm will not start this job by itself: its launch failed and it is held."""
        return self.state == "PENDING" and self.reason == LAUNCH_FAILED


def job_states(jobs: Iterable[str]) -> dict[str, JobState]:
    """The states of jobs, "7" or "7_3" for an element of an array. A job that nobody knows any more is GONE."""
    wanted = list(dict.fromkeys(jobs))
    main = sorted({job.partition("_")[0] for job in wanted})
    if not main:
        return {}
    found = _sacct(main)
    # Accounting is written seconds late, so a job that is said to be active may have ended.
    for job in sorted({j.partition("_")[0] for j in wanted if j not in found or found[j].active}):
        found |= _scontrol(job)
    return {job: found.get(job, JobState(state=GONE)) for job in wanted}


def controller_answers() -> bool:
    """Whether slurmctld can be asked at all: a job that it does not know has then been forgotten."""
    return _output("scontrol", "ping") is not None


def parse_sacct(text: str) -> dict[str, JobState]:
    """From `sacct -XnP -o JobID,State,NodeList`."""
    found = {}
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) == 3 and fields[1].split():
            for job in _expanded(fields[0]):
                found[job] = JobState(state=fields[1].split()[0], nodes=fields[2])
    return found


def parse_scontrol(text: str) -> dict[str, JobState]:
    """From `scontrol --oneliner show job`."""
    found = {}
    for line in text.splitlines():
        fields = dict(re.findall(r"(\w+)=(\S*)", line))
        if "JobId" in fields:
            tasks = fields.get("ArrayTaskId", "")
            name = f"{fields.get('ArrayJobId', fields['JobId'])}" + (f"_[{tasks}]" if tasks else "")
            nodes = fields.get("NodeList", "").replace("(null)", "")
            for job in _expanded(name):
                reason = fields.get("Reason", "").replace("None", "")
                found[job] = JobState(state=fields["JobState"], nodes=nodes, reason=reason)
    return found


def _expanded(name: str) -> Iterator[str]:
    """7_[0-2,5%2] → 7_0, 7_1, 7_2, 7_5; other names stay."""
    job, bracket, tasks = name.partition("_[")
    if not bracket:
        yield name
        return
    for part in tasks.rstrip("]").split("%")[0].split(","):
        low, _, high = part.partition("-")
        yield from (f"{job}_{task}" for task in range(int(low), int(high or low) + 1))


def _sacct(jobs: list[str]) -> dict[str, JobState]:
    text = _output("sacct", "-XnP", "-o", "JobID,State,NodeList", "-j", ",".join(jobs))
    return parse_sacct(text) if text is not None else {}


def _scontrol(job: str) -> dict[str, JobState]:
    text = _output("scontrol", "--oneliner", "show", "job", job)
    return parse_scontrol(text) if text is not None else {}


def _output(*command: str) -> str | None:
    """None where the command is absent or fails; sacct does without accounting."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
