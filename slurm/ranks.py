"""The ranks of one pair on several nodes of its allocation: a task per rank, started by srun from the pair's job.

The job's own process stays the supervisor it is on one node. It serves the store at which ranks meet, so that no rank
has to be the first, and the store outlives whichever rank fails.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from harness.run.emulation import refuse_emulation
from harness.run.launch import environment
from harness.run.ports import refuse_without_ports, taken
from harness.run.reason import Killed
from harness.run.spec import RunSpec
from harness.run.spread import serve_store, source_address
from odin.errors import RunError
from slurm.layout import FILE, Layout

# "srun: error: n2: tasks 2-3: Killed"; what comes after srun itself ends the step says nothing of the cause.
_TASK = re.compile(r"^srun: error: (\S+): tasks? ([\d,-]+): (.+)$")
_ENDING = re.compile(r"Terminating StepId|Job step aborted|CANCELLED|Force Terminated")


class Srun:
    """Starts rank processes on the nodes of the allocation that this process is in."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.nodes = layout, layout.nodes

    @contextmanager
    def meeting(self, spec: RunSpec) -> Iterator[RunSpec]:
        """With a store that this process serves. Raises InputError where the config needs a single host, RunError where
        no port is free."""
        config = spec.config
        refuse_emulation(padded=config.engine.padded, link=config.link.name, nodes=self.nodes)
        address = _own_address()
        if self.layout.rendezvous == FILE:
            refuse_without_ports(config.faults)
            yield replace(spec, nodes=self.nodes, meeting=f"{address}:")
            return
        with taken(config.faults, self.layout.ports):
            store = serve_store(self.layout.ports or (0,))
        yield replace(spec, nodes=self.nodes, meeting=f"{address}:{store.port}")
        del store  # served until here

    def start(self, spec: RunSpec) -> list[subprocess.Popen]:
        """One srun; a task that fails ends the others."""
        with (spec.folder / "srun.log").open("wb") as log:
            step = subprocess.Popen(
                self.command(spec),
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=environment(),
                start_new_session=True,
            )
        return [step]

    def command(self, spec: RunSpec) -> list[str]:
        """Ranks in the order of nodes; each writes its own log, rank 0's stdout comes to us."""
        layout = self.layout
        return [
            "srun",
            f"--nodes={layout.nodes}",
            f"--ntasks={layout.nodes * layout.per_node}",
            f"--ntasks-per-node={layout.per_node}",
            f"--cpus-per-task={layout.cpus}",
            "--distribution=block",
            "--kill-on-bad-exit=1",
            "--mpi=none",
            "--input=none",
            f"--error={spec.folder / 'rank-%t.log'}",
            sys.executable,
            *("-u", "-m", "slurm.rank", str(spec.path)),
        ]

    def killed(self, spec: RunSpec, codes: Sequence[int | None]) -> Killed | None:
        """From what srun said before it ended the step."""
        log = spec.folder / "srun.log"
        return read_killed(log.read_text(encoding="utf-8", errors="replace")) if log.exists() else None

    def stuck(self, codes: Sequence[int | None]) -> list[int]:
        """Not known here: srun ends the step as soon as one task has failed."""
        return []


def read_killed(text: str) -> Killed | None:
    """The first task of a srun log that a signal, the memory limit or a lost node ended."""
    for line in text.splitlines():
        if _ENDING.search(line):
            break
        task = _TASK.match(line)
        if task and not task[3].startswith("Exited with"):
            rank = int(task[2]) if task[2].isdigit() else None
            return Killed(f"Rank {task[2]} on {task[1]}", f"it was ended by the system ({task[3]})", rank)
    lost = re.search(r"^srun: error: (?:Node failure on|.*node failure.* )\s*(\S+)", text, re.IGNORECASE | re.MULTILINE)
    return Killed(f"Node {lost[1]}", "Slurm lost it") if lost else None


def missing_folder(path: Path) -> str:
    """What a rank says whose node does not see the run's folder."""
    return (
        f"{socket.gethostname()} does not see {path}, which the job's first node has written. The folder of records "
        "(out=) must lie on a file system that all nodes share."
    )


def _own_address() -> str:
    """This node's address as the allocation's other nodes see it: a host's own name often leads to its loopback."""
    others = [name for name in _nodes() if name != os.environ.get("SLURMD_NODENAME", socket.gethostname())]
    for name in [*others, socket.gethostname()]:
        try:
            return source_address(name)
        except OSError:
            continue
    raise RunError(f"{socket.gethostname()} knows no address of the other nodes of its job ({', '.join(others)}).")


def _nodes() -> list[str]:
    try:
        found = subprocess.run(
            ["scontrol", "show", "hostnames"], capture_output=True, text=True, timeout=60, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    return found.split()
