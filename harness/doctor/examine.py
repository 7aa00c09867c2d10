"""All checks in the order of the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.doctor import batch, data, forks, machine, ranks
from harness.doctor.finding import Finding, warn

REPOSITORY = Path(__file__).resolve().parents[2]


def examine(*, rendezvous: bool = True, out: Path = Path("runs")) -> list[Finding]:
    """Look at everything. A check that itself fails is a warning, so that the others are still seen.

    rendezvous: also let two processes meet, which takes some seconds
    out:        where records would lie
    """
    torch = ranks.torch_findings()
    meets = rendezvous and all(finding.name != "gloo" or finding.state.value == "ok" for finding in torch)
    return [
        _safely("python", machine.python),
        _safely("cores", machine.cores),
        _safely("memory", machine.memory),
        _safely("disk", lambda: machine.disk(out)),
        _safely("shared memory", machine.shared_memory),
        *torch,
        *([_safely("rendezvous", ranks.rendezvous if meets else ranks.skipped_rendezvous)]),
        _safely("numba cache", lambda: machine.numba_cache(REPOSITORY / "pipelines")),
        _safely("scene cache", machine.scene_cache),
        _safely("real captures", data.captures),
        _safely("lpips", data.lpips),
        _safely("slurm", batch.slurm),
        _safely("git", lambda: machine.git(REPOSITORY)),
        *_forks(),
    ]


def _forks() -> list[Finding]:
    try:
        return forks.forks()
    except Exception as error:
        return [warn("forks", f"could not be examined ({type(error).__name__}: {error})")]


def _safely(name: str, check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except Exception as error:
        return warn(name, f"could not be examined ({type(error).__name__}: {error})")
