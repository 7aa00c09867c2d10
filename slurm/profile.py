"""Cluster profiles: what a job of a pair asks Slurm for. One file each in `slurm/profiles`, or a file of the user's.

Every profile NAME has a twin NAME_local: the same job functions through submitit's local executor, on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import ceil
from pathlib import Path
from typing import Any

from harness.config.checks import expect, nearest
from harness.config.convert import build
from harness.study.plan import PlannedPair
from odin.errors import InputError

PROFILES = Path(__file__).with_name("profiles")
LOCAL = "_local"


@dataclass(frozen=True, kw_only=True)
class ClusterProfile:
    """What jobs ask for. All ranks of a pair are on one node.

    partition, account, qos, constraint: as sbatch knows them; None leaves the cluster's default
    cpus_per_rank: cores for each rank (a virtual pair has one process)
    mem_gb:    of the node; None leaves the cluster's default
    hours:     limit of one pair
    exclusive: no other job on the node of a pair
    parallel:  pairs that run at once
    attempts:  how often a pair is submitted whose job was preempted, ran out of time or lost its node
    setup:     shell lines before the pair, e.g. [module load cuda]
    local:     the `_local` twin
    """

    name: str
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    cpus_per_rank: int = 1
    mem_gb: float | None = None
    hours: float = 4.0
    exclusive: bool = False
    parallel: int = 64
    attempts: int = 3
    setup: tuple[str, ...] = ()
    local: bool = field(default=False)

    def __post_init__(self) -> None:
        for key in ("cpus_per_rank", "parallel", "attempts"):
            value = getattr(self, key)
            expect(value >= 1, key=key, value=value, expected="at least 1", advice=f"Correct profile {self.name}.")
        for key in ("hours", "mem_gb"):
            value = getattr(self, key)
            accepted = value is None or 0 < value < 1e6
            expect(accepted, key=key, value=value, expected="a number above 0", advice=f"Correct profile {self.name}.")

    def resources(self, pair: PlannedPair) -> dict[str, Any]:
        """Parameters of submitit's Slurm executor for this pair's job."""
        engine = pair.settings["engine"]
        processes = 1 if engine["name"] == "virtual" else engine["ranks"]
        asked: dict[str, Any] = {
            **self._where(),
            "nodes": 1,
            "ntasks_per_node": 1,
            "cpus_per_task": processes * self.cpus_per_rank,
            "time": ceil(60 * self.hours),
            "array_parallelism": self.parallel,
            # A step of srun would get one core of the task; the batch script has them all.
            "use_srun": False,
            # A half pair is worth nothing, so Slurm must not start it again by itself: we submit it whole (D§9).
            # And a pair has no checkpoint to write: submitit's signal before the end would make TIMEOUT a failure.
            "additional_parameters": {"no-requeue": True, "signal": "CONT@1"},
        }
        if engine["device"] == "cuda":
            asked["gpus_per_node"] = engine["ranks"]
        if self.mem_gb is not None:
            asked["mem"] = f"{self.mem_gb:g}GB"
        if self.exclusive:
            asked["exclusive"] = True
        return asked

    def light(self) -> dict[str, Any]:
        """Parameters of the job that reads records and writes the table."""
        return {**self._where(), "nodes": 1, "ntasks_per_node": 1, "cpus_per_task": 1, "time": 30, "use_srun": False}

    def _where(self) -> dict[str, Any]:
        chosen = {key: getattr(self, key) for key in ("partition", "account", "qos", "constraint")}
        return {key: value for key, value in chosen.items() if value is not None} | (
            {"setup": list(self.setup)} if self.setup else {}
        )


def load_profile(name: str) -> ClusterProfile:
    """The profile of that name or path, with `_local` at its end the local twin. Raises InputError."""
    local = name.endswith(LOCAL)
    base = name.removesuffix(LOCAL)
    path = Path(base) if base.endswith((".yaml", ".yml")) else PROFILES / f"{base}.yaml"
    if path.parent == PROFILES and not path.exists():
        known = sorted(p.stem for p in PROFILES.glob("*.yaml"))
        raise InputError(
            f"There is no cluster profile {base!r}. Profiles: {', '.join(known)}; the nearest one is "
            f"{nearest(base, known)}. Each has a twin NAME{LOCAL} for this machine, and cluster=FILE.yaml takes a "
            "profile of your own."
        )
    import yaml

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"The cluster profile {path} cannot be read: {' '.join(str(error).split())}.") from error
    return read_profile(path.stem, data or {}, local=local)


def read_profile(name: str, data: Mapping[str, Any], *, local: bool = False) -> ClusterProfile:
    """A profile from plain data. Raises InputError for an unknown key or a wrong value."""
    if not isinstance(data, Mapping):
        raise InputError(f"The cluster profile {name} is written as `key: value` lines.")
    reserved = {"name", "local"} & set(data)
    if reserved:
        raise InputError(f"A cluster profile does not say its own {', '.join(sorted(reserved))}: leave it out.")
    defaults = {f.name: f.default for f in fields(ClusterProfile) if f.name not in ("name", "local")}
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in defaults.items()}
    return build(ClusterProfile, {**plain, **data, "name": name, "local": local})
