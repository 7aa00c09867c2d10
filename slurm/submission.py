"""What was submitted: one folder per submission, below the folder of records, with the ids of its jobs.

submissions/<time>-<hex>/submission.json
submissions/<time>-<hex>/jobs/      submitit's own files and the logs; never used twice, because a job id that
                                    repeats would find the result of the older job there
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from harness.store.files import write_text
from harness.study.plan import PlannedPair, StudyPlan
from odin.errors import InputError
from slurm.profile import ClusterProfile

FILE = "submission.json"


@dataclass(frozen=True, kw_only=True)
class Submission:
    """Jobs of one call of sbatch for pairs, and the job that runs after them.

    plan:    path of its copy of the study's plan
    profile: what was asked for
    attempt: 1 for what the user submitted, more for pairs that a cluster's event ended
    jobs:    pair's key → job id
    reduce:  job id of the one that follows; empty until it is submitted
    """

    folder: Path
    plan: Path
    profile: ClusterProfile
    attempt: int
    jobs: Mapping[str, str]
    reduce: str = ""

    def study(self) -> StudyPlan:
        """The plan that the pairs belong to. Raises InputError."""
        return StudyPlan.load(self.plan)

    def pairs(self) -> list[PlannedPair]:
        """The pairs that were submitted, in order."""
        plan = self.study()
        return [plan.pair(key) for key in self.jobs]

    def log(self, job: str) -> Path:
        """What a job wrote to stderr."""
        return self.folder / "jobs" / f"{job}_0_log.err"

    def save(self) -> Path:
        """Write submission.json and return its path. Raises RunError when the disk refuses."""
        data: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "folder"}
        data |= {"plan": str(self.plan), "profile": asdict(self.profile), "jobs": dict(self.jobs)}
        path = self.folder / FILE
        write_text(path, json.dumps(data, indent=1))
        return path

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote. Raises InputError."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            profile = dict(data.pop("profile"))
            profile |= {key: tuple(profile.get(key, ())) for key in ("setup", "ports")}
            plan = Path(data.pop("plan"))
            return cls(folder=path.parent, plan=plan, profile=ClusterProfile(**profile), **data)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InputError(f"The submission {path} cannot be read ({error}).") from error


def fresh_folder(plan: StudyPlan) -> Path:
    """A new folder of a submission; the newest sorts last."""
    stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() // 1000 % 10**6:06d}-{uuid.uuid4().hex[:4]}"
    folder = plan.out.resolve() / "submissions" / stamp
    (folder / "jobs").mkdir(parents=True)
    return folder


def submissions(out: Path) -> list[Submission]:
    """All submissions below a folder of records, the oldest first."""
    return [Submission.load(path) for path in sorted((Path(out) / "submissions").glob(f"*/{FILE}"))]
