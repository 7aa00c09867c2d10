"""Cluster profiles: what a job of a pair asks Slurm for. One file each in `slurm/profiles`, or a file of the user's.

Every profile NAME has a twin NAME_local: the same job functions through submitit's local executor, on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import ceil
from pathlib import Path
from typing import Any

from harness.config.checks import expect, expect_one_of, nearest
from harness.config.convert import build
from harness.run.emulation import refuse_emulation
from harness.study.plan import PlannedPair
from odin.errors import InputError
from slurm.layout import FILE, TCP, Layout

PROFILES = Path(__file__).with_name("profiles")
LOCAL = "_local"


@dataclass(frozen=True, kw_only=True)
class ClusterProfile:
    """What jobs ask for.

    partition, account, qos, constraint: as sbatch knows them; None leaves the cluster's default
    cpus_per_rank: cores for each rank (a virtual pair has one process)
    mem_gb:    of the node; None leaves the cluster's default
    hours:     limit of one pair
    exclusive: no other job on the node of a pair
    parallel:  pairs that run at once
    ranks_per_node: ranks of a pair that lie on one node, which then measure the real network between nodes; None puts
               all ranks of a pair on one
    rendezvous: how ranks on several nodes find each other: tcp, at a store that the job serves, or file, in the folder
               of records (gloo and NCCL need TCP between nodes in both cases)
    ports:     that the store may be served on, where a firewall leaves only some open; none lets the system choose
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
    ranks_per_node: int | None = None
    rendezvous: str = TCP
    ports: tuple[int, ...] = ()
    parallel: int = 64
    attempts: int = 3
    setup: tuple[str, ...] = ()
    local: bool = field(default=False)

    def __post_init__(self) -> None:
        for key in ("cpus_per_rank", "parallel", "attempts", "ranks_per_node"):
            value = getattr(self, key)
            expect(
                value is None or value >= 1,
                key=key,
                value=value,
                expected="at least 1",
                advice=f"Correct profile {self.name}.",
            )
        for key in ("hours", "mem_gb"):
            value = getattr(self, key)
            accepted = value is None or 0 < value < 1e6
            expect(accepted, key=key, value=value, expected="a number above 0", advice=f"Correct profile {self.name}.")
        expect_one_of(self.rendezvous, (TCP, FILE), key="rendezvous")
        for port in self.ports:
            expect(1024 <= port < 65536, key="ports", value=port, expected="numbers from 1024 to 65535",
                   advice=f"Correct profile {self.name}.")  # fmt: skip

    def layout(self, pair: PlannedPair) -> Layout | None:
        """Where the pair's ranks lie; None is all of them on one node.

        Raises InputError where they do not fill nodes evenly, or the pair needs a single host.
        """
        engine, per_node = pair.settings["engine"], self.ranks_per_node
        if engine["name"] == "virtual" or per_node is None or engine["ranks"] <= per_node:
            return None
        expect(
            engine["ranks"] % per_node == 0,
            key="engine.ranks",
            value=engine["ranks"],
            expected=f"a multiple of ranks_per_node, which profile {self.name} sets to {per_node}",
            advice="Choose either so that every node has as many ranks as the others.",
        )
        made = Layout(nodes=engine["ranks"] // per_node, per_node=per_node, cpus=self.cpus_per_rank,
                      rendezvous=self.rendezvous, ports=self.ports)  # fmt: skip
        refuse_emulation(padded=engine["padded"], link=pair.settings["link"]["name"], nodes=made.nodes)
        return made

    def resources(self, pair: PlannedPair) -> dict[str, Any]:
        """Parameters of submitit's Slurm executor for this pair's job. Raises InputError as `layout` does."""
        engine, layout = pair.settings["engine"], self.layout(pair)
        processes = 1 if engine["name"] == "virtual" else engine["ranks"]
        asked: dict[str, Any] = {
            **self._where(),
            # Across nodes srun starts a task per rank from the batch script; on one node that starts the ranks itself.
            "nodes": layout.nodes if layout else 1,
            "ntasks_per_node": layout.per_node if layout else 1,
            "cpus_per_task": self.cpus_per_rank * (1 if layout else processes),
            "time": ceil(60 * self.hours),
            "array_parallelism": self.parallel,
            # A step of srun would get one core of the task; the batch script has them all.
            "use_srun": False,
            # A half pair is worth nothing, so Slurm must not start it again by itself: we submit it whole (D§9).
            # And a pair has no checkpoint to write: submitit's signal before the end would make TIMEOUT a failure.
            "additional_parameters": {"no-requeue": True, "signal": "CONT@1"},
        }
        if engine["device"] == "cuda":
            asked["gpus_per_node"] = layout.per_node if layout else engine["ranks"]
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
