"""The headline on this machine, and the same study sent to Slurm: equal tables, equal numbers but for times (D§9).

    python -m benchmarks.slurm_headline --out runs/slurm-headline steps=60

Runs `reproduce headline` here, then submits its pair to a test cluster on this host, and compares the records of both:
what does not depend on time must be equal bit for bit, columns of the tables must be the same, and the speedups are
printed side by side with the larger noise of the two. Exits 1 where anything but a time differs. Padded arms want the
machine for themselves.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import typer
import yaml

from harness.cli import main as odin_bench
from harness.config import load
from harness.exits import code_of, exit_code
from harness.report.headline import sequences, write_headline
from harness.report.summary import Headline, headline
from harness.store.schema import Measurement, Result
from harness.store.store import CellStore
from odin.errors import InputError
from slurm.commands import submit_app
from slurm.testcluster import ClusterShape, TestCluster, obstacle

ROOT = Path(__file__).resolve().parents[1]
# What does not depend on time.
FIXED = ("final_digest", "plan_digest", "payload_bytes_per_step", "primitives", "windows", "losses", "quality_final")


def study_of(words: Sequence[str], path: Path) -> Path:
    """The headline's pair as the file of a study; the words go to the command."""
    config = load(words)
    pairs = [list(config.study.arms)]
    path.write_text(yaml.safe_dump({"about": "The headline.", "set": {}, "pairs": pairs}), encoding="utf-8")
    return path


def submitted(words: Sequence[str], out: Path, environment: Mapping[str, str]) -> None:
    """The study on a cluster, until all of its jobs have ended. Raises InputError where its command fails."""
    own = [word for word in words if not word.startswith("arms=")]
    os.environ.update(environment)
    # Jobs start in other folders.
    os.environ["PYTHONPATH"] = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH", "")) if p)
    study = study_of(words, out.with_name("headline.yaml"))
    try:
        submit = typer.main.get_command(submit_app)
        submit.main(
            args=[str(study), "cluster=testcluster", *own, f"out={out}", "--wait"], prog_name="odin-bench submit"
        )
    except SystemExit as stop:
        # 1 where an arm fails a gate, as here.
        if exit_code(stop) > 1:
            raise InputError(f"The submission ended with code {stop.code}. See odin-bench jobs {out}.") from stop


@contextmanager
def own_environment() -> Iterator[None]:
    """What is set inside is not set afterwards; jobs of an allocation around this one are no concern."""
    before = dict(os.environ)
    for name in [name for name in before if name.startswith("SLURM_")]:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def cells(out: Path) -> dict[tuple[str, int], Result]:
    """Records by arm and repeat."""
    return {(r.cell.arm, r.cell.repeat): r for r in CellStore(out, create=False).results()}


def differing(here: Mapping[tuple[str, int], Result], there: Mapping[tuple[str, int], Result]) -> list[str]:
    """What differs and should not, one line each."""
    found = [f"{arm} #{repeat + 1} is recorded once only" for arm, repeat in here.keys() ^ there.keys()]
    for key in sorted(here.keys() & there.keys()):
        one, other = here[key], there[key]
        if one.cell_id != other.cell_id:
            found.append(f"{key[0]}: the cells are not the same: {one.cell_id} and {other.cell_id}")
        found += [f"{key[0]} #{key[1] + 1}: {name}" for name in _unequal(one.measurement, other.measurement)]
    return found


def _unequal(one: Measurement | None, other: Measurement | None) -> list[str]:
    if one is None or other is None:
        return [] if one is other else ["it failed in one place"]
    return [name for name in FIXED if getattr(one, name) != getattr(other, name)]


def summary_of(out: Path) -> tuple[Headline, list[str]]:
    """The headline of a folder of records, and the columns of its table."""
    ((_, group),) = sequences(CellStore(out, create=False).results()).items()
    summary = headline(group, group[0].cell.sequence)
    (table,) = (path for path in write_headline(summary, out / "compared") if path.suffix == ".csv")
    return summary, list(pd.read_csv(table).columns)


def side_by_side(here: Headline, there: Headline) -> pd.DataFrame:
    """Speedups of both, their difference, and the larger noise."""
    rows = []
    for one, other in zip(here.rows, there.rows, strict=True):
        a, b = one.numbers, other.numbers
        row: dict[str, object] = {"arm": one.arm, "label": one.label}
        if a is not None and b is not None:
            noise = max(a.noise.value or 0.0, b.noise.value or 0.0)
            apart = abs(a.speedup - b.speedup) / a.speedup
            row |= {"here": a.speedup, "slurm": b.speedup, "apart": apart, "noise": noise, "agree": apart <= noise}
        else:
            row |= {"here": one.failure, "slurm": other.failure}
        rows.append(row)
    return pd.DataFrame(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both, print the comparison; 1 where more than times differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, default=Path("runs/slurm-headline"))
    asked = parser.parse_args(arguments)
    if reason := obstacle(submitit=True):
        print(f"No test cluster can be started: {reason}.", file=sys.stderr)
        return 2
    out = asked.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if any((out / name).exists() for name in ("here", "slurm")):
        print(f"{out} holds a comparison already. Remove it, or choose another --out.", file=sys.stderr)
        return 2
    code = odin_bench(["reproduce", "headline", *asked.words, f"out={out / 'here'}"])
    if code > 1:  # 1 where an arm fails a gate
        return code
    return code_of(lambda: compared(asked.words, out), folder=out)


def compared(words: Sequence[str], out: Path) -> int:
    """Submit, and hold the records of both against each other; 1 where more than times differ."""
    with TestCluster(out / "cluster", ClusterShape(nodes=2, cpus=2)) as cluster, own_environment():
        submitted(words, out / "slurm", cluster.environment)
    (here, columns), (there, others) = summary_of(out / "here"), summary_of(out / "slurm")
    found = differing(cells(out / "here"), cells(out / "slurm"))
    if columns != others:
        found.append(f"the tables have other columns: {sorted(set(columns) ^ set(others))}")
    print(side_by_side(here, there).to_string(index=False, float_format="%.4f"))
    print("\n".join(found) if found else f"Equal: {', '.join(FIXED)}, of {len(cells(out / 'here'))} cells; columns.")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
