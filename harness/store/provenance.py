"""Where a record comes from: tree, machine and allocation, collected once per cell; imports no torch."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import socket
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Self

import psutil
from pydantic import AwareDatetime, Field, model_validator

from harness.store.identity import NONE, ROOT, UNKNOWN_SHA, code_version, git_state
from harness.store.record import Positive, Record, Text


class Versions(Record):
    """Of what the numbers were computed with."""

    python: Text
    torch: Text
    numba: Text
    numpy: Text


class Slurm(Record):
    """The allocation a cell ran in.

    clock_error: s that moments of different nodes may be wrong by against each other; None where all ranks shared a
                 clock
    """

    job: Text
    nodes: Text
    tasks: Text
    clock_error: Annotated[float, Field(ge=0)] | None = None


class Provenance(Record):
    """Where a record comes from.

    git_sha:      40 hex digits, or "unknown" outside a clone (and then `dirty`)
    code_version: hash over the sources a number depends on (`harness.store.identity`)
    fork_pin:     commit of the fork, or "none"
    cores:        usable by this process; memory: bytes of the node
    gpu, slurm:   "none" / None where there is none
    priority:     what the scheduler was told about the ranks: "ordinary", nice values or a real-time policy
    """

    git_sha: Text
    dirty: bool
    code_version: Text
    fork_pin: Text
    versions: Versions
    hostname: Text
    cpu: Text
    cores: Positive
    memory: Positive
    gpu: Text
    slurm: Slurm | None
    started: AwareDatetime
    ended: AwareDatetime
    priority: Text

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.ended < self.started:
            raise ValueError(f"ended {self.ended} before it started {self.started}")
        if self.git_sha == UNKNOWN_SHA and not self.dirty:
            raise ValueError("a tree without a known commit counts as dirty")
        if self.git_sha != UNKNOWN_SHA and not re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?", self.git_sha):
            raise ValueError(f"git_sha is a full commit hash or {UNKNOWN_SHA!r}, not {self.git_sha!r}")
        return self

    def spanning(
        self, started: datetime, ended: datetime, priority: str | None = None, clock_error: float | None = None
    ) -> Provenance:
        """The same tree and machine for another cell: a run collects once, so that an edit under way changes no id."""
        slurm = self.slurm
        if slurm is not None:
            slurm = slurm.model_copy(update={"clock_error": clock_error})
        changed = {"started": started, "ended": ended, "priority": priority or self.priority, "slurm": slurm}
        return Provenance(**(dict(self) | changed))


def now() -> datetime:
    """The time, with its zone, for `started` and `ended`."""
    return datetime.now(UTC)


def collect_provenance(
    *, started: datetime, ended: datetime | None = None, fork_pin: str = NONE, root: Path = ROOT
) -> Provenance:
    """Provenance of a cell that ran here. `ended` defaults to now."""
    sha, dirty = git_state(root)
    return Provenance(
        git_sha=sha,
        dirty=dirty,
        code_version=code_version(root),
        fork_pin=fork_pin,
        versions=_versions(),
        hostname=socket.gethostname(),
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        memory=psutil.virtual_memory().total,
        gpu=_gpu(),
        slurm=_slurm(),
        started=started,
        ended=ended or now(),
        priority="ordinary",
    )


def _versions() -> Versions:
    of = importlib.metadata.version
    return Versions(python=platform.python_version(), torch=of("torch"), numba=of("numba"), numpy=of("numpy"))


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), "") or platform.processor() or platform.machine()


def _gpu() -> str:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return NONE
    command = [tool, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return NONE
    return "; ".join(done.stdout.split("\n")).strip("; ") or NONE if done.returncode == 0 else NONE


def _slurm() -> Slurm | None:
    job = os.environ.get("SLURM_JOB_ID")
    if not job:
        return None
    nodes = os.environ.get("SLURM_JOB_NODELIST", "unknown")
    return Slurm(job=job, nodes=nodes, tasks=os.environ.get("SLURM_NTASKS", "unknown"))
