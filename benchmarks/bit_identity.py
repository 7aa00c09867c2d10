"""Exact arms against waiting training in the same order, bit for bit, over ranks and optimizers (D§5).

    python -m benchmarks.bit_identity scene=../shared/data/bonsai images=images_4 steps=300 --ranks 2 3 4 8

One sequence `barrier-planned, paper-quality, quality` per number of ranks and optimizer, and one of `barrier, ddp` at 2
ranks, on the process engine, unshaped and unpadded, with densification every 50 steps and an opacity reset after 120.
More than two ranks sum in rank order (`reduce=ordered`) and train one view each, so that the global batch stays small.

Prints final states, of records of this very code, scene and settings alone; what else lies in --out is counted and left
out. Ends with 0 only where every cell that was asked for is done, all states are those that they should be, and the
comparison could have failed: every cell was trained itself, structural events changed the number of primitives, and
some window opened. Otherwise 1, or the code of the run that failed, and what is missing or differs is named.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from harness.cli import main as odin_bench
from harness.config import Cell, Config, expand, load
from harness.config.schema import Scene
from harness.exits import INTERRUPTED, code_of
from harness.run.collect import described
from harness.run.fork_pin import fork_pin
from harness.run.workload import load_workload
from harness.store.identity import cell_id, code_version
from harness.store.schema import Result
from harness.store.states import State
from harness.store.store import CellState, CellStore
from pipelines.capture import Capture

UNTIMED = ("link=none", "padded=false", "mirrored=false")
EVENTS = ("densify_every=50", "reset_at=[120]")
REFERENCE = "barrier-planned"
EXACT = (REFERENCE, "paper-quality", "quality")
PAIRED = ("barrier", "ddp")  # bit-identical to each other
GROUP = ["scene", "seed", "ranks", "optimizer", "steps"]


@dataclass(frozen=True, kw_only=True)
class Records:
    """What a folder of records holds of the cells that were asked for.

    done:       their records, in the order they were asked for
    missing:    one line for each cell that is not done by this code, and why
    other_code: number of records by other code; other_cells: by this code, of settings, seeds or scenes not asked for
    """

    done: tuple[Result, ...]
    missing: tuple[str, ...]
    other_code: int
    other_cells: int

    def lines(self) -> Iterator[str]:
        """What was left out and what is missing, for printing."""
        if self.other_code or self.other_cells:
            yield (
                f"Left out: {self.other_code} records of other code versions, {self.other_cells} of settings, seeds "
                "or scenes that were not asked for."
            )
        yield from (f"Missing: {line}" for line in self.missing)


def recorded(sequences: Sequence[Sequence[str]], out: Path) -> tuple[int, Records]:
    """Run what is missing of some headlines, each given by its words, then read their records.

    The number is the largest exit code of a run; a user's interrupt ends it all. Raises InputError before anything runs
    where a word is wrong, and after it on a scene or record that cannot be read.
    """
    configs, worst = [load(words) for words in sequences], 0
    for words in sequences:
        code = odin_bench(["reproduce", "headline", *words, f"out={out}"])
        worst = max(worst, code)
        if code == INTERRUPTED:
            break
    version = code_version()  # now: where files were edited meanwhile, records of the code before are not of this one
    return worst, records(out, asked_cells(configs, version), version)


def asked_cells(configs: Sequence[Config], version: str) -> dict[str, Cell]:
    """Every cell of some headlines, by the id that its record has under a code version.

    Raises InputError where a scene cannot be read.
    """
    captures, found = dict[Scene, Capture](), dict[str, Cell]()
    for config in configs:
        if config.scene not in captures:  # an id holds its manifest, and reading a scene takes seconds
            captures[config.scene] = load_workload(config).capture
        capture, pin = captures[config.scene], fork_pin(config)
        for cell in expand(config):
            kept = described(cell, scene=capture.name, manifest=capture.manifest)
            found[cell_id(kept.identity, kept.manifest, version, pin)] = cell
    return found


def records(out: Path, asked: Mapping[str, Cell], version: str) -> Records:
    """Records of `asked` (id → cell) in a folder. version: the code version of these ids.

    Raises InputError on a record that does not validate.
    """
    store, done, missing = CellStore(out), list[Result](), list[str]()
    for key, cell in asked.items():
        known = store.state(key)
        if known.state is State.DONE and not known.stale:
            done.append(store.read_result(key))
        else:
            missing.append(f"{called(cell)}: {_why(known)}")
    others = [result.provenance.code_version for result in store.results() if result.cell_id not in asked]
    other_code = sum(other != version for other in others)
    return Records(
        done=tuple(done), missing=tuple(missing), other_code=other_code, other_cells=len(others) - other_code
    )


def called(cell: Cell) -> str:
    """A cell by its arm and what tells it from others of a benchmark, as words of the command line."""
    engine, pipeline = cell.config.engine, cell.config.pipeline
    where = {
        "seed": cell.config.seed,
        "ranks": engine.ranks,
        "views_per_unit": engine.views_per_unit,
        "optimizer": pipeline.optimizer,
        "densify": str(pipeline.densify).lower(),
        "perturb": f"{pipeline.perturb:g}",
    }
    return f"{cell.arm} #{cell.repeat + 1} ({' '.join(f'{key}={value}' for key, value in where.items())})"


def _why(known: CellState) -> str:
    if known.stale:
        return f"done by other code only (commit {str(known.commit)[:12]})"
    return f"{known.state.value}: {known.reason}" if known.reason else f"no record ({known.state.value})"


def words(ranks: int, optimizer: str, exact: Sequence[str] = EXACT) -> list[list[str]]:
    """Settings of the sequences of one number of ranks: `exact` arms, and `barrier, ddp` where they are compared.

    Apart, because beside `barrier` a headline judges speedups too, and its exit code would mean more than "all done".
    """
    # One rank's share of a step is dropped to one view where there are many, so that B stays small.
    unit, reduce = (2, "native") if ranks <= 2 else (1, "ordered")
    shape = [f"ranks={ranks}", f"views_per_unit={unit}", f"reduce={reduce}", f"optimizer={optimizer}"]
    groups = [tuple(exact), *([PAIRED] if ranks == 2 and optimizer == "dense" else [])]
    return [[*shape, f"arms={','.join(arms)}"] for arms in groups]


def table(results: Sequence[Result]) -> pd.DataFrame:
    """One row per done cell: GROUP, arm, repeat, final state, whether it was trained itself, PSNR [dB], primitives
    before and after, share of structural steps, windows opened and judged."""
    rows = []
    for result in results:
        m, pipeline = result.measurement, result.cell.config["pipeline"]
        assert m is not None and isinstance(pipeline, dict)
        rows.append(
            {
                "scene": result.cell.scene,
                "seed": result.cell.seeds.run,
                "ranks": m.ranks,
                "optimizer": pipeline["optimizer"],
                "steps": m.steps,
                "arm": result.cell.arm,
                "repeat": result.cell.repeat,
                "state": m.final_digest,
                "trained": m.retimed_from is None,
                "psnr": m.quality_final.psnr.value,
                "before": m.primitives.initial,
                "primitives": m.primitives.final,
                "structural": m.structural_share,
                "opened": m.windows.clear + m.windows.partial,
                "windows": m.windows.total,
            }
        )
    return pd.DataFrame(rows).sort_values([*GROUP, "arm", "repeat"], ignore_index=True)


def objections(frame: pd.DataFrame) -> list[str]:
    """One line per group of arms that should end in one state and does not, or whose equality would prove nothing."""
    found = []
    for key, group in frame.groupby(GROUP):
        place = ", ".join(f"{name} {value}" for name, value in zip(GROUP, key, strict=True))
        for arms in (EXACT, PAIRED):
            rows = group[group["arm"].isin(arms)]
            found += [f"{place}: {line}" for line in (*_differing(rows), *_untested(rows))]
    return found


def _differing(rows: pd.DataFrame) -> Iterator[str]:
    if rows["state"].nunique() > 1:
        yield f"states differ: {', '.join(f'{a} {s[:12]}' for a, s in zip(rows['arm'], rows['state'], strict=True))}"


def _untested(rows: pd.DataFrame) -> Iterator[str]:
    """Why equal states of these rows would prove nothing."""
    copied = rows[~rows["trained"]]["arm"].unique()
    if len(copied):
        yield f"nothing was tested, because {', '.join(copied)} took over the state of another cell"
    fixed = rows[(rows["primitives"] == rows["before"]) | (rows["structural"] == 0)]["arm"].unique()
    if len(fixed):
        yield f"nothing was tested, because no structural event changed the primitives of {', '.join(fixed)}"
    overlapping = rows[rows["arm"].isin(EXACT) & (rows["arm"] != REFERENCE)]
    if len(overlapping) and not overlapping["opened"].any():
        yield f"nothing was tested, because {', '.join(overlapping['arm'].unique())} opened no window"


def compare(sequences: Sequence[Sequence[str]], out: Path, csv: Path | None = None) -> int:
    """Run what is missing, print the table, write it as CSV (by default into `out`); 0 if the arms end in the states
    that they should."""
    code, found = recorded(sequences, out)
    for line in found.lines():
        print(line)
    if not found.done:
        print("No cell is done: nothing was tested.")
        return code or 1
    frame = table(found.done)
    print(frame.assign(state=frame["state"].str[:12]).to_string(index=False))
    frame.to_csv(csv or out / "bit_identity.csv", index=False)
    wrong = objections(frame)
    if code:
        wrong.append(f"A run ended with exit code {code}; see above.")
    if found.missing:
        wrong.append(f"{len(found.missing)} cells are missing; see above.")
    print("\n".join(wrong) if wrong else f"All {len(frame)} cells end in the state that they should.")
    return code or int(bool(wrong))


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3, 4, 8])
    parser.add_argument("--optimizers", nargs="+", default=["dense", "selective"])
    parser.add_argument("--arms", nargs="+", choices=EXACT, default=EXACT, help="at least two, to be compared")
    parser.add_argument("--out", type=Path, default=Path("runs/bit-identity"), help="where records go")
    parser.add_argument("--csv", type=Path, help="the table, by default bit_identity.csv in --out")
    given = parser.parse_args(arguments)
    if len(set(given.arms)) < 2:
        parser.error("--arms needs two arms: one has nothing to be compared with")
    sequences = [
        [*UNTIMED, *EVENTS, *given.settings, *own]
        for ranks in given.ranks
        for optimizer in given.optimizers
        for own in words(ranks, optimizer, given.arms)
    ]
    return code_of(lambda: compare(sequences, given.out, given.csv), folder=given.out)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
