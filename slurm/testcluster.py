"""The one-host test cluster of `testcluster.sh` as a context manager.

with TestCluster(folder, nodes=2) as cluster:
    subprocess.run(["sbatch", ...], env=os.environ | cluster.environment)
    cluster.kill_node("n2")
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from odin.errors import InputError, RunError

SCRIPT = Path(__file__).with_name("testcluster.sh")
COMMANDS = ("munged", "munge", "slurmctld", "slurmd", "sbatch", "sinfo", "scontrol", "scancel")
ACCOUNTING_COMMANDS = ("slurmdbd", "sacctmgr", "sacct", "mariadbd", "mariadb-install-db", "mariadb-admin")
START_SECONDS = 120.0
STOP_SECONDS = 60.0
# Debian keeps daemons outside the PATH of a login without root's profile.
_SEARCH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def obstacle(*, accounting: bool = False, submitit: bool = False) -> str:
    """Why no cluster can be started here (for a test that is skipped), or the empty string.

    accounting: slurmdbd and MariaDB are needed too; submitit: the package of that name as well
    """
    if sys.platform != "linux":
        return "the test cluster needs Linux namespaces"
    if os.geteuid() != 0:
        return "the test cluster needs root"
    commands = [*COMMANDS, *(ACCOUNTING_COMMANDS if accounting else ())]
    absent = [name for name in commands if shutil.which(name, path=_SEARCH) is None]
    if absent:
        packages = "munge slurmctld slurmd slurm-client" + (" slurmdbd mariadb-server" if accounting else "")
        return f"Slurm is not installed ({', '.join(absent)} absent; Debian packages: {packages})"
    if submitit and importlib.util.find_spec("submitit") is None:
        return "the package submitit is not installed (pip install -e '.[slurm]')"
    return ""


@dataclass(frozen=True, kw_only=True)
class ClusterShape:
    """What the cluster looks like.

    nodes, cpus: nodes n1, n2, … and CPUs that each claims; together they may claim more than the host has
    accounting:  with slurmdbd on MariaDB, so that sacct answers
    rate:        e.g. "1gbit": every node has its own network namespace behind a link of that rate; None shares the
                 host's network
    """

    nodes: int = 2
    cpus: int = 2
    accounting: bool = False
    rate: str | None = None

    def options(self) -> list[str]:
        """For `testcluster.sh start`."""
        link = ["--net", "veth", "--rate", self.rate] if self.rate else []
        accounting = "dbd" if self.accounting else "none"
        return ["--nodes", str(self.nodes), "--cpus", str(self.cpus), "--acct", accounting, *link]


class TestCluster:
    """A running cluster; all state lies in `folder`. Raises InputError where it cannot be started here."""

    __test__ = False  # the name is no test

    def __init__(self, folder: Path, shape: ClusterShape | None = None) -> None:
        self.folder = Path(folder)
        self.shape = shape or ClusterShape()

    @property
    def environment(self) -> dict[str, str]:
        """Variables under which sbatch, srun, squeue, … talk to this cluster."""
        return {"SLURM_CONF": str(self.folder.resolve() / "slurm.conf"), "PATH": _SEARCH}

    def __enter__(self) -> Self:
        reason = obstacle(accounting=self.shape.accounting)
        if reason:
            raise InputError(f"No test cluster can be started: {reason}.")
        self._script("start", *self.shape.options(), seconds=START_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._script("stop", seconds=STOP_SECONDS)

    def kill_node(self, name: str) -> None:
        """End a node and everything on it at once, as a loss of power does."""
        self._script("kill-node", name, seconds=STOP_SECONDS)

    def run(self, *command: str, seconds: float = 60.0) -> str:
        """Output of a Slurm command on this cluster. Raises RunError when it fails."""
        done = subprocess.run(
            command, env=os.environ | self.environment, capture_output=True, text=True, timeout=seconds, check=False
        )
        if done.returncode:
            raise RunError(f"{' '.join(command)} failed ({done.returncode}): {done.stderr.strip()}")
        return done.stdout

    def _script(self, action: str, *arguments: str, seconds: float) -> None:
        log = self.folder / "testcluster.log"
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [str(SCRIPT), action, str(self.folder), *arguments]
        environment = os.environ | {"PATH": _SEARCH}
        # Into a file: a pipe would stay open as long as a daemon that inherited it.
        with log.open("ab") as out:
            done = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                timeout=seconds,
                check=False,
            )
        if done.returncode:
            last = " ".join(log.read_text(errors="replace").splitlines()[-3:])
            raise RunError(f"testcluster.sh {action} failed: {last} (log: {log})")
