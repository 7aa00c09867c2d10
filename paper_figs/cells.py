"""What exhibits are made from: the recorded pairs of studies by role, and the CSV tables of benchmarks.

A study's role is its name without the scale in front: `smoke-matrix`, `laptop-matrix` and a study file of one's own
called `matrix` all have the role "matrix". Below a folder of records:

    studies/<study>/pairs.json    which cells belong to which pair; written here, so that records can move
    benchmarks/<table>.csv        tables, and <table>.json with the commit that made each
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from harness.config.schema import PROCEDURAL_SCENES
from harness.measure.timeline import read_steps, read_timeline
from harness.report.headline import sequences
from harness.report.summary import BASELINE, Headline, Numbers, headline
from harness.store.files import read_json, write_text
from harness.store.index import RecordIndex
from harness.store.schema import Label, Measurement, Result
from harness.store.store import STEPS, TIMELINE, CellStore
from harness.study.noted import PAIRS, plain_place
from harness.study.plan import PLAN, StudyPlan
from harness.study.states import pair_states
from odin.errors import InputError

ON_DEVICE = ":audit=0:dispatch=static"
NAMES = {"3dgs": "3DGS", "2dgs": "2DGS", "taminggs": "TamingGS", "dashgs": "DashGS", "grendel": "Grendel"}
SCALES = ("smoke", "laptop", "paper")


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The recorded cells of one sequence of arms.

    where:    axis → label
    sequence: arms in the order they were to run
    results:  done and failed ones, by arm and repeat
    root:     folder of the records
    """

    study: str
    key: str
    where: Mapping[str, str]
    sequence: tuple[str, ...]
    results: tuple[Result, ...]
    root: Path

    @cached_property
    def headline(self) -> Headline:
        """Every arm against `barrier` and, in the same order of views, against `barrier-planned`, with the gates."""
        return headline(self.results, self.sequence)

    def numbers(self, arm: str) -> Numbers | None:
        """What an arm shows against `barrier`; None where it did not run or failed a gate."""
        return next((row.numbers for row in self._rows if row.arm == self.called(arm)), None)

    @property
    def limit(self) -> float | None:
        """Ratio at which nothing would be lost; None without a sound baseline."""
        return self.headline.limit.value if BASELINE in self.sequence else None

    @property
    def noise(self) -> float | None:
        """Largest spread of an arm over its own repeats; None where each ran once or is not sound."""
        return self.headline.noise.overall.value if BASELINE in self.sequence else None

    @property
    def _rows(self) -> Sequence[Any]:
        return self.headline.rows if BASELINE in self.sequence else ()

    @property
    def failures(self) -> list[str]:
        """One sentence per arm that failed a gate or has no record."""
        where = self.text if "pipeline=" in self.text else f"{self.text} ({self.pipeline})"
        return [f"{where} {row.arm}: {row.failure}" for row in self._rows if row.numbers is None]

    def run(self, arm: str) -> Measurement | None:
        """The first finished run of an arm."""
        found = self.result(arm)
        return found.measurement if found else None

    def result(self, arm: str) -> Result | None:
        """The record of the first finished run of an arm."""
        own = self.called(arm)
        return next((r for r in self.results if r.cell.arm == own and r.measurement is not None), None)

    def called(self, arm: str) -> str:
        """The arm's name in this sequence: on a device it may stand there with what a device needs switched off."""
        return arm + ON_DEVICE if arm not in self.sequence and arm + ON_DEVICE in self.sequence else arm

    def frames(self, arm: str) -> tuple[pd.DataFrame, pd.DataFrame] | None:
        """Timeline and steps of the first finished run of an arm, if its files are there."""
        found = self.result(arm)
        if found is None:
            return None
        folder = self.root / "cells" / found.cell_id
        if not (folder / TIMELINE).exists() or not (folder / STEPS).exists():
            return None
        return read_timeline(folder / TIMELINE), read_steps(folder / STEPS)

    def setting(self, *path: str) -> Any:
        """A value of the resolved configuration."""
        found: Any = self.results[0].cell.config
        for part in path:
            found = found[part]
        return found

    @property
    def scene(self) -> str:
        """Name of the capture."""
        return self.results[0].cell.scene

    @property
    def real(self) -> bool:
        """The scene is a capture of photos."""
        return str(self.setting("scene", "path")).partition("?")[0] not in PROCEDURAL_SCENES

    @property
    def pipeline(self) -> str:
        """As the paper writes it."""
        name = str(self.setting("pipeline", "name"))
        return NAMES.get(name, name)

    @property
    def seed(self) -> int:
        """Of the run."""
        return self.results[0].cell.seeds.run

    @property
    def ranks(self) -> int:
        """W."""
        return int(self.setting("engine", "ranks"))

    @property
    def batch(self) -> int:
        """B, views per step."""
        return self.ranks * int(self.setting("engine", "views_per_unit"))

    @property
    def label(self) -> str:
        """Evidence of its numbers."""
        return " / ".join(sorted({r.cell.label.value for r in self.results}))

    @property
    def commit(self) -> str:
        """12 digits; "+" where the tree differed from the commit."""
        return ", ".join(
            sorted({r.provenance.git_sha[:12] + ("+" if r.provenance.dirty else "") for r in self.results})
        )

    @property
    def text(self) -> str:
        """For a sentence: the pair's place in its study."""
        return " ".join(f"{axis}={label}" for axis, label in self.where.items()) or self.study

    @property
    def place(self) -> tuple[tuple[str, str], ...]:
        """Its place without the seed: pairs of one place differ by the seed alone."""
        return tuple((axis, label) for axis, label in self.where.items() if axis != "seed")


class Cells:
    """The records and tables below one folder. Raises InputError where there is neither."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        if not any((self.root / name).is_dir() for name in ("cells", "benchmarks")):
            raise InputError(
                f"{root} holds neither records nor tables. Make them with: odin-bench reproduce all scale=smoke "
                f"out={root}"
            )
        self._roles = self._read()

    @property
    def scale(self) -> str:
        """The scale whose studies lie here; smoke where none does."""
        found = [path.parent.name.partition("-")[0] for path in (self.root / "studies").glob(f"*/{PAIRS}")]
        return next((scale for scale in reversed(SCALES) if scale in found), SCALES[0])

    def pairs(self, *roles: str) -> list[Pair]:
        """The pairs of studies of these roles that have a record, in the order of the study."""
        return [pair for role in roles for pair in self._roles.get(role, [])]

    def every_pair(self) -> list[Pair]:
        """Those of all studies."""
        return self.pairs(*self._roles)

    def table(self, name: str) -> pd.DataFrame | None:
        """A benchmark's table, if it is there. Raises InputError where it cannot be read."""
        path = self.root / "benchmarks" / f"{name}.csv"
        try:
            return pd.read_csv(path) if path.exists() else None
        except (OSError, ValueError) as error:
            raise InputError(f"The table {path} cannot be read: {error}.") from error

    def table_source(self, name: str, label: str, **more: Any) -> dict[str, Any]:
        """As `source`, for a benchmark's table."""
        return {"label": label, "commit": self.table_commit(name), **more}

    def table_commit(self, name: str) -> str:
        """The commit that a table was made at, as `Pair.commit`; "unknown" where nobody noted it."""
        try:
            noted = read_json(self.root / "benchmarks" / f"{name}.json")
            return str(noted["git_sha"])[:12] + ("+" if noted["dirty"] else "")
        except (OSError, ValueError, KeyError):
            return "unknown"

    def _read(self) -> dict[str, list[Pair]]:
        store, found = CellStore(self.root) if (self.root / "cells").is_dir() else None, dict[str, list[Pair]]()
        if store is None:
            return found
        for folder in sorted((self.root / "studies").glob("*")):
            if (folder / PLAN).exists():
                _note_pairs(folder)
            if (folder / PAIRS).exists():
                found.setdefault(role_of(folder.name), []).extend(_pairs(folder, store))
        return found or {"headline": _alone(store)}


def role_of(study: str) -> str:
    """A study's name without its scale, and without what parts of one role differ in, behind a dot."""
    head, dash, rest = study.partition("-")
    return (rest if dash and head in SCALES else study).partition(".")[0]


def over_seeds(pairs: Sequence[Pair]) -> list[tuple[Pair, ...]]:
    """Pairs of one place together, in order; each group has one scene, pipeline and setting."""
    groups: dict[object, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair.study, pair.place), []).append(pair)
    return [tuple(group) for group in groups.values()]


def speedups(group: Sequence[Pair], arm: str) -> list[float]:
    """Of the pairs that passed their gates."""
    return [numbers.speedup for pair in group if (numbers := pair.numbers(arm)) is not None]


def source(pairs: Sequence[Pair], **more: Any) -> dict[str, Any]:
    """Label and commit of tidy rows, and what else they have in common."""
    return {"label": labels(pairs), "commit": commits(pairs), **more}


def place(pairs: Sequence[Pair], **more: Any) -> dict[str, Any]:
    """`source`, with the scene and pipeline that these pairs share."""
    return source(pairs, scene=pairs[0].scene, pipeline=pairs[0].pipeline) | more


def labels(pairs: Sequence[Pair]) -> str:
    """Of all pairs."""
    return " / ".join(sorted({label for pair in pairs for label in pair.label.split(" / ")}))


def commits(pairs: Sequence[Pair]) -> str:
    """Of all pairs."""
    return ", ".join(sorted({commit for pair in pairs for commit in pair.commit.split(", ")}))


def _note_pairs(folder: Path) -> None:
    """pairs.json of a study from its plan: what a plan says of this machine's paths is left out."""
    plan = StudyPlan.load(folder / PLAN)
    states = pair_states(plan, RecordIndex(plan.out))
    noted = [
        {
            "key": state.pair.key,
            "where": plain_place(state.pair.where),
            "sequence": [arm for arm, _ in state.pair.cells],
            "cells": [cell.known.record for cell in state.cells],
        }
        for state in states
        if not state.pair.skipped
    ]
    path = folder / PAIRS
    if not _same_pairs(path, noted):
        write_text(path, json.dumps(noted, ensure_ascii=False, indent=1) + "\n")


def _same_pairs(path: Path, noted: list[dict[str, Any]]) -> bool:
    """Whether a file says the same already; keys of pairs depend on where captures lie."""
    try:
        before = read_json(path)
        return [{**one, "key": ""} for one in before] == [{**one, "key": ""} for one in noted]
    except (OSError, ValueError, TypeError):
        return False


def _pairs(folder: Path, store: CellStore) -> list[Pair]:
    try:
        noted = read_json(folder / PAIRS)
        pairs = [Pair(study=folder.name, key=one["key"], where=one["where"], sequence=tuple(one["sequence"]),
                      results=_records(store, one["cells"]), root=store.root) for one in noted]  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder / PAIRS} cannot be read ({error}). Delete it and run the study again.") from error
    return [pair for pair in pairs if pair.results and not disturbed(pair.results)]


def disturbed(results: Sequence[Result]) -> bool:
    """Whether faults were injected into these cells: no exhibit shows their numbers."""
    return any(result.cell.label is Label.DISTURBED for result in results)


def _records(store: CellStore, ids: Sequence[str | None]) -> tuple[Result, ...]:
    return tuple(store.read_result(i) for i in ids if i is not None and (store.path(i) / "result.json").exists())


def _alone(store: CellStore) -> list[Pair]:
    """Sequences that no study asked for, as `reproduce headline` leaves them."""
    found = []
    for name, results in sequences(store.results()).items():
        if disturbed(results):
            continue
        first = results[0]
        order = {arm: place for place, arm in enumerate(dict.fromkeys(first.cell.sequence))}
        ordered = tuple(sorted(results, key=lambda r: (r.cell.repeat, order[r.cell.arm])))
        where = {"scene": first.cell.scene, "seed": str(first.cell.seeds.run)}
        found.append(Pair(study="headline", key=name, where=where, sequence=first.cell.sequence, results=ordered,
                          root=store.root))  # fmt: skip
    return found


def only(pairs: Sequence[Pair], arms: Sequence[str]) -> list[Pair]:
    """The pairs cut down to some arms, those without any left out."""
    cut = [
        replace(p, sequence=tuple(a for a in p.sequence if a in arms),
                results=tuple(r for r in p.results if r.cell.arm in arms))
        for p in pairs
    ]  # fmt: skip
    return [pair for pair in cut if pair.results]
