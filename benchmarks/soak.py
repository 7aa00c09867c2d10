"""Kills random ranks and supervisors during a study; in the end its records must be complete and correct.

    python -m benchmarks.soak --kills 50 --out runs/soak

A small study (3 pairs, 12 cells, 2 ranks) runs undisturbed once. Then it runs into another folder while SIGKILL goes to
a random process at random moments: three times out of four to a rank, else to the supervisor. Whatever is killed, every
process of the run must be gone within the ranks' patience + 10 s; after each invocation every record is read. The same
command is given again until so many have been killed (with --refresh once everything is done), then undisturbed. Exits
1 unless no record is broken, no process is left, nothing hung, nothing called itself a defect, and every cell has the
numbers of the undisturbed study.

Processes are forked from this one; --fresh starts each anew, as a user does, which takes some 10 s of CPU time a run.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import psutil

from benchmarks.forking import Forked, start_rank, warm
from harness.cli import main as odin_bench
from harness.run import launch
from harness.store.schema import Result
from harness.store.store import CellStore
from harness.study.plan import StudyPlan
from harness.study.states import counts, pair_states
from odin.errors import InputError

STUDY = """
set: {scene: 'rooms?views=16&width=48&height=36&points=300', ranks: 2, views_per_unit: 1, steps: 100, densify_at: [50],
      link: none, padded: false, realtime: false, timeout_s: 20}
axes: {seed: [0, 1, 2]}
pairs: [[barrier, quality]]
"""
LIMIT = 30.0  # timeout_s + 10 s: so long may processes of a run outlive the first of them
SUPERVISOR_SHARE = 0.25
CLI = "import sys; from harness.cli import main; sys.exit(main(sys.argv[1:]))"
LONGEST = 1800.0  # s that the undisturbed study may take; the others may take four times what it took
_POLL = 0.02


class Process(Protocol):
    """A supervisor."""

    pid: int

    def poll(self) -> int | None:
        """Exit code, or None."""
        ...


Start = Callable[[list[str], Path], Process]


@dataclass(kw_only=True)
class Tally:
    """What was seen.

    hangs:   kills after which a process was still there LIMIT later; slowest: s until all were gone
    defects: paragraphs by which the program calls something its own fault; also what a kill leads to must not be one
    """

    kills: Counter[str] = field(default_factory=Counter)
    invocations: int = 0
    hangs: int = 0
    orphans: int = 0
    corrupt: int = 0
    slowest: float = 0.0
    defects: int = 0
    different: list[str] = field(default_factory=list)
    states: str = ""
    complete: bool = False

    @property
    def good(self) -> bool:
        """Nothing went wrong."""
        return self.complete and not (self.hangs or self.orphans or self.corrupt or self.defects or self.different)

    def lines(self) -> list[str]:
        """For a reader."""
        killed = ", ".join(f"{count} {who}" for who, count in sorted(self.kills.items()))
        return [
            f"{sum(self.kills.values())} kills ({killed}) in {self.invocations} invocations",
            f"{self.corrupt} corrupt records, {self.orphans} orphan processes, {self.hangs} hangs over {LIMIT:.0f} s; "
            f"the slowest end took {self.slowest:.1f} s; {self.defects} defects",
            f"at the end: {self.states}; "
            + (f"different numbers: {', '.join(self.different)}" if self.different else "all numbers as undisturbed"),
        ]


def forked(words: list[str], log: Path) -> Process:
    """A supervisor forked from this process, whose ranks are forked from it."""

    def run() -> int:
        launch._start = start_rank  # type: ignore[assignment]
        return odin_bench(words)

    return Forked(run, log)


def fresh(words: list[str], log: Path) -> Process:
    """A supervisor as a user starts it."""
    with log.open("ab") as out:
        return subprocess.Popen([sys.executable, "-c", CLI, *words], stdout=out, stderr=out, stdin=subprocess.DEVNULL)


class Soak:
    """One soak below a folder. chance: says whom to kill, and when; study: the text of its file."""

    def __init__(self, out: Path, chance: random.Random, start: Start = forked, study: str = STUDY) -> None:
        self.out, self.chance, self.start, self.tally = out, chance, start, Tally()
        self._study = out / "soak.yaml"
        self._seen: set[int] = set()  # ranks of all invocations
        self._longest = LONGEST
        out.mkdir(parents=True, exist_ok=True)
        self._study.write_text(study, encoding="utf-8")

    def run(self, kills: int) -> Tally:
        """The study undisturbed, then disturbed by so many kills, then to its end."""
        began = time.monotonic()
        self._whole("undisturbed")
        usual = time.monotonic() - began
        self._longest = 4 * usual + LIMIT
        while sum(self.tally.kills.values()) < kills:
            self._disturbed(kills, usual)
            print("; ".join(self.tally.lines()[:2]), file=sys.stderr, flush=True)
        self._whole("disturbed")
        logs = "".join(log.read_text(errors="replace") for log in self.out.glob("*.log"))
        self.tally.defects = logs.count("This is a defect of odin-bench")
        self._compare()
        return self.tally

    def _whole(self, name: str) -> None:
        self._to_the_end(self._invoke(name))
        self._inspect(name)

    def _invoke(self, name: str, *, again_if_done: bool = False) -> Process:
        folder = self.out / name
        done = (folder / "studies").exists() and all(state.done for state in self._states(name))
        again = ["--refresh"] if done and again_if_done else []
        words = ["run", str(self._study), f"out={folder}", *again]
        return self.start(words, self.out / f"{name}.log")

    def _disturbed(self, kills: int, usual: float) -> None:
        """One invocation, until it ends or its supervisor is killed."""
        supervisor = self._invoke("disturbed", again_if_done=True)
        self.tally.invocations += 1
        while supervisor.poll() is None and sum(self.tally.kills.values()) < kills:
            moment = time.monotonic() + self.chance.uniform(0, usual / 2)
            while supervisor.poll() is None and time.monotonic() < moment:
                self._seen |= set(_children(supervisor.pid))
                time.sleep(_POLL)
            ranks = _children(supervisor.pid)
            self._seen |= set(ranks)
            if supervisor.poll() is not None:
                break
            at_supervisor = not ranks or self.chance.random() < SUPERVISOR_SHARE
            victim = supervisor.pid if at_supervisor else self.chance.choice(ranks)
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                self.tally.kills["supervisors" if at_supervisor else "ranks"] += 1
                self._await([*ranks, *([supervisor.pid] if at_supervisor else [])], supervisor)
        self._to_the_end(supervisor)
        self._inspect("disturbed")

    def _to_the_end(self, supervisor: Process) -> None:
        """Until it has ended by itself, in whatever way; one that does not is a hang, and is killed."""
        deadline = time.monotonic() + self._longest
        while supervisor.poll() is None:
            self._seen |= set(_children(supervisor.pid))
            if time.monotonic() > deadline:
                self.tally.hangs += 1
                with suppress(ProcessLookupError):
                    os.kill(supervisor.pid, signal.SIGKILL)
                self._await([supervisor.pid, *self._seen], supervisor)
                return
            time.sleep(_POLL)

    def _await(self, processes: Sequence[int], supervisor: Process) -> None:
        """All of a run must be gone soon."""
        began = time.monotonic()
        while any(_alive(pid) for pid in processes) and time.monotonic() - began < LIMIT:
            supervisor.poll()  # or it stays a zombie
            time.sleep(_POLL)
        took = time.monotonic() - began
        self.tally.slowest = max(self.tally.slowest, took)
        self.tally.hangs += took >= LIMIT

    def _inspect(self, name: str) -> None:
        """After an invocation: no process of it is left, and every record can be read."""
        left = [pid for pid in self._seen if _alive(pid)]
        for pid in left:
            self.tally.orphans += 1
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._seen.clear()
        for path in (self.out / name / "cells").glob("*/result.json"):
            try:
                CellStore(self.out / name).read_result(path.parent.name)
            except InputError as error:
                print(error, file=sys.stderr)
                self.tally.corrupt += 1

    def _states(self, name: str) -> list:
        return pair_states(StudyPlan.load(self.out / name / "studies/soak/plan.json"))

    def _compare(self) -> None:
        found = counts(self._states("disturbed"))
        self.tally.states = ", ".join(f"{count} {state}" for state, count in sorted(found.items()) if count)
        usual, own = (numbers(self.out / name) for name in ("undisturbed", "disturbed"))
        self.tally.different = sorted(i for i in usual.keys() | own.keys() if usual.get(i) != own.get(i))
        leftovers = list((self.out / "disturbed/cells").glob("*/.*.tmp"))
        self.tally.complete = found["done"] == len(usual) == len(own) > 0 and not leftovers


def numbers(out: Path) -> dict[str, tuple]:
    """What a cell's record says that does not depend on time, by the cell's id."""
    return {r.cell_id: _numbers(r) for r in CellStore(out).results()}


def _numbers(result: Result) -> tuple:
    m = result.measurement
    if m is None:
        return (result.status.value,)
    return (m.final_digest, m.losses, m.quality_final, m.payload_bytes_per_step, m.primitives, m.plan_digest)


def _children(pid: int) -> list[int]:
    with suppress(psutil.Error):
        return [child.pid for child in psutil.Process(pid).children() if child.status() != psutil.STATUS_ZOMBIE]
    return []


def _alive(pid: int) -> bool:
    with suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a soak and print what was seen; 1 unless all went well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--out", type=Path, default=Path("runs/soak"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", action="store_true", help="start every process anew")
    asked = parser.parse_args(arguments)
    if not asked.fresh:
        warm()
    tally = Soak(asked.out, random.Random(asked.seed), fresh if asked.fresh else forked).run(asked.kills)
    print("\n".join(tally.lines()))
    return int(not tally.good)


if __name__ == "__main__":
    sys.exit(main())
