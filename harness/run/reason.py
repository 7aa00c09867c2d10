"""Why a run ended, in one paragraph: from how its processes ended, from the ranks' accounts, and from where each was.

A rank that was killed or hangs leaves no account; the others only noticed its absence.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from harness.run import failure
from harness.run.failure import Whereabouts
from harness.run.spec import RunSpec
from odin.errors import InputError, RunError

_CRASHES = ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE", "Segmentation", "Aborted", "Bus error")
_KILLS = ("SIGKILL", "Killed", "Out Of Memory")


class Killed(NamedTuple):
    """A rank that could leave no account: who, e.g. "Rank 3 on n2", how, e.g. "it was ended by SIGKILL", and its number
    where there is one."""

    who: str
    how: str
    rank: int | None = None


def reason(
    spec: RunSpec, killed: Killed | None, stuck: Sequence[int], reached: str, oom_kills: int = 0
) -> InputError | RunError:
    """Why the first rank went.

    stuck:     ranks that were still there when the others had given them up
    reached:   how far rank 0 had come, in words, for a rank that has not said where it was
    oom_kills: processes that the system has killed for want of memory during the run
    """
    account, places = failure.first(spec), Whereabouts(spec)
    if account is not None and not account.echo:
        return account.error(spec)
    if killed is not None:
        where = (places.of(killed.rank) if killed.rank is not None else "") or reached
        return RunError(
            f"{killed.who} was the first to go, {where}: {killed.how} ({_cause(killed.how, oom_kills)}). All ranks "
            f"were stopped; records of finished cells are intact. Logs: {spec.folder}."
        )
    if stuck:
        who = " and ".join(f"Rank {rank}, {places.of(rank) or reached}," for rank in stuck)
        logs = ", ".join(str(spec.log(rank)) for rank in stuck)
        return RunError(
            f"{who} did not go on: the other ranks waited for it for {spec.config.engine.timeout_s:g} s "
            f"(engine.timeout_s) in vain. All ranks were stopped. Where it stood is at the end of {logs}."
        )
    if account is not None:
        return RunError(f"{account.error(spec)}{places.all()}")
    # E.g. a node that does not see the folder: its ranks cannot even leave an account.
    return RunError(f"A rank ended without giving a reason, {reached}; see the logs in {spec.folder}.{places.all()}")


def oom_kills() -> int:
    """How many processes this system has killed for want of memory since it started; 0 where it does not tell."""
    with suppress(OSError, ValueError):
        counters = Path("/proc/vmstat").read_text(encoding="ascii").split()
        return int(counters[counters.index("oom_kill") + 1])
    return 0


def _cause(how: str, oom_kills: int) -> str:
    """What probably lies behind a signal, in the words of the system or of Slurm."""
    if any(name in how for name in _CRASHES):
        return "a crash in native code; its stack is in the rank's log"
    if not any(name in how for name in _KILLS):
        return "a kill from outside"
    if oom_kills > 0:
        return "out of memory: the system has killed a process for it; fewer ranks or smaller images take less"
    return "probably out of memory, or a kill from outside"
