"""`odin-bench reproduce all scale=NAME`: every part of a scale that is missing, then the exhibits and the report."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.plugins import run_command
from harness.store.files import write_text
from harness.store.identity import ROOT, canonical_json, git_state
from harness.store.index import RecordIndex
from harness.study.command import plan_study
from harness.study.estimate import cost
from harness.study.file import with_data
from harness.study.plan import StudyPlan
from harness.study.scale import Part, ScaleFile, load_scale
from harness.study.states import PairState, pair_states
from odin.errors import InputError, OdinError

PLACES = ("scale", "out", "only", "cluster")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The words of the command line.

    only:    names of parts, all where there is none
    cluster: a Slurm profile to submit studies to, or the empty string: run here
    words:   for every study
    """

    scale: ScaleFile
    out: Path
    only: tuple[str, ...]
    cluster: str
    words: tuple[str, ...]

    @classmethod
    def of(cls, words: Sequence[str], *, only: str = "") -> Asked:
        """Read `key=value` words; only: parts that are meant where no word says so. Raises InputError."""
        said = {"scale": "smoke", "out": "", "only": only, "cluster": ""}
        rest = []
        for word in words:
            key, equals, value = word.partition("=")
            if key in PLACES and equals:
                said[key] = value
            else:
                rest.append(word)
        scale = load_scale(said["scale"])
        names = tuple(name for name in said["only"].split(",") if name)
        scale.chosen(names)
        return cls(scale=scale, out=Path(said["out"]) if said["out"] else scale.out, only=names,
                   cluster=said["cluster"], words=tuple(rest))  # fmt: skip

    @property
    def parts(self) -> tuple[Part, ...]:
        """Those that were asked for."""
        return self.scale.chosen(self.only)


def reproduce_all(asked: Asked, *, dry_run: bool, refresh: bool) -> int:
    """Run what is missing, part by part, then make the exhibits; 1 if a part could not be finished."""
    print("\n".join(announcement(asked)), flush=True)
    if dry_run:
        return 0
    code = 0
    for part in asked.parts:
        try:
            code = max(code, _benchmark(part, asked, refresh) if part.benchmark else _study(part, asked, refresh))
        except OdinError as error:
            # Parts are apart: what one lacks must not keep the others from running.
            print(f"{part.name}: {error}", file=sys.stderr, flush=True)
            code = max(code, error.exit_code)
    if asked.cluster:
        print(f"Submitted. When the jobs have ended: odin-bench figures out={asked.out}")
        return code
    return max(code, run_command("figures", [f"out={asked.out}"]), run_command("report", [str(asked.out)]))


def announcement(asked: Asked) -> list[str]:
    """The minutes of every part before anything runs, and how much of it is done."""
    lines, total, unknown = list[str](), 0.0, 0
    index = RecordIndex(asked.out)
    for part in asked.parts:
        share, text = _missing(part, asked, index)
        total += share * (part.minutes or 0.0)
        unknown += part.minutes is None and share > 0
        lines.append(f"{part.name:<20} {_minutes(part, share)}: {text}")
    more = f" and {unknown} parts that nobody has timed" if unknown else ""
    head = f"{asked.scale.name}: {asked.scale.about} About {total:.0f} minutes on two idle cores{more}"
    return [f"{head}; records: {asked.out}", *lines]


def _minutes(part: Part, share: float = 1.0) -> str:
    return "unknown time" if part.minutes is None else f"about {share * part.minutes:.1f} of {part.minutes:g} minutes"


def _missing(part: Part, asked: Asked, index: RecordIndex) -> tuple[float, str]:
    """Share of a part that is left to do, and how to say it."""
    if part.benchmark:
        made = part.table(asked.out).exists()
        return (0.0, "table is there") if made else (1.0, f"benchmark {part.benchmark}")
    try:
        plan = _plan(part, asked)
    except InputError as error:
        return 1.0, f"cannot be planned: {error}"
    states = pair_states(plan, index, looking=True)
    left = [state for state in states if not state.done]
    known = cost(plan, [state.pair for state in left], index.entries.values())
    timed = f"; {known.cpu_hours * 60:.1f} CPU-minutes by earlier cells" if known.known else ""
    return len(left) / max(len(states), 1), f"{len(left)} of {len(states)} pairs of {part.study}{timed}"


def _plan(part: Part, asked: Asked) -> StudyPlan:
    return plan_study(part.study, [f"out={asked.out}", *asked.words])


def _study(part: Part, asked: Asked, refresh: bool) -> int:
    from harness.study.command import run_states

    if asked.cluster:
        words = [part.study, f"out={asked.out}", f"cluster={asked.cluster}", *asked.words]
        return run_command("submit", words)
    plan = _plan(part, asked)
    plan.save()
    looked = pair_states(plan, looking=True)
    states: list[PairState] = [s for s in looked if not s.pair.skipped and (refresh or not s.done)]
    if not states:
        return 0
    share = len(states) / len(plan.pairs)
    print(f"\n{part.name}: {len(states)} pairs, {_minutes(part, share)}", file=sys.stderr, flush=True)
    return run_states(plan, states, refresh=refresh)


def _benchmark(part: Part, asked: Asked, refresh: bool) -> int:
    """Run a module of benchmarks in a process of its own, and note the commit beside its table."""
    table = part.table(asked.out)
    note = table.with_suffix(".json")  # written last: with it the table is whole
    if table.exists() and note.exists() and not refresh:
        return 0
    note.unlink(missing_ok=True)
    table.parent.mkdir(parents=True, exist_ok=True)
    given = [with_data(f"Benchmark {part.name}", argument) for argument in part.arguments]
    words = [argument.replace("{csv}", str(table.resolve())) for argument in given]
    print(f"\n{part.name}: {_minutes(part)}", file=sys.stderr, flush=True)
    done = subprocess.run([sys.executable, "-m", f"benchmarks.{part.benchmark}", *words], cwd=ROOT, check=False)
    if done.returncode or not table.exists():
        print(
            f"{part.name}: benchmarks.{part.benchmark} ended with code {done.returncode}.", file=sys.stderr, flush=True
        )
        return 1
    state = git_state()
    write_text(table.with_suffix(".json"), canonical_json({"git_sha": state.sha, "dirty": state.dirty}) + "\n")
    return 0
