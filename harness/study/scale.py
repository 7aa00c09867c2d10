"""A scale: all that the exhibits need, in parts, each a study or a benchmark; `odin-bench reproduce all scale=NAME`.

about: One sentence.
out: runs/smoke                                        # where records go unless out= says otherwise
parts:                                                 # in the order they run
  matrix: {study: smoke-matrix, minutes: 4}            # on two idle cores, all of it; left out if unknown
  planner: {benchmark: planner, minutes: 1, arguments: [--images, "1000", --csv, "{csv}"]}

A part's name is what `only=` takes. Studies whose names differ behind a dot have one role: laptop-matrix.3dgs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config.checks import nearest, shown
from odin.errors import InputError

SCALES = Path(__file__).with_name("scales")
_KEYS = frozenset({"study", "benchmark", "minutes", "arguments"})


@dataclass(frozen=True, kw_only=True)
class Part:
    """One piece of a scale.

    study:     name of a study, or the empty string
    benchmark: name of a module of `benchmarks`, or the empty string; it writes `benchmarks/<name>.csv` below `out`
    minutes:   on two idle cores; None where nobody has timed it
    arguments: of the benchmark; {csv} stands for its table, $ODIN_DATA for the folder of captures
    """

    name: str
    study: str
    benchmark: str
    minutes: float | None
    arguments: tuple[str, ...]

    def table(self, out: Path) -> Path:
        """The CSV of a benchmark."""
        return out / "benchmarks" / f"{self.name}.csv"


@dataclass(frozen=True, kw_only=True)
class ScaleFile:
    """A scale as written. out: where its records go unless the command line says otherwise."""

    name: str
    about: str
    out: Path
    parts: tuple[Part, ...]

    def chosen(self, names: Sequence[str]) -> tuple[Part, ...]:
        """The parts of these names or roles, or all. Raises InputError that names the nearest for an unknown one."""
        known = [part.name for part in self.parts]
        for name in names:
            if not any(_is(part, name) for part in self.parts):
                raise InputError(
                    f"Scale {self.name} has no part {name!r}; the nearest one is {nearest(name, known)}. "
                    f"Parts: {', '.join(known)}."
                )
        return tuple(part for part in self.parts if not names or any(_is(part, name) for name in names))


def scale_names() -> list[str]:
    """Of all scales that come with the project."""
    return sorted(path.stem for path in SCALES.glob("*.yaml"))


def load_scale(name: str) -> ScaleFile:
    """The scale of that name (harness/study/scales). Raises InputError."""
    import yaml

    if name not in scale_names():
        raise InputError(
            f"There is no scale {name!r} of all exhibits; the nearest one is {nearest(name, scale_names())}. "
            f"Scales: {', '.join(scale_names())}."
        )
    path = SCALES / f"{name}.yaml"
    return read_scale(name, yaml.safe_load(path.read_text(encoding="utf-8")))


def read_scale(name: str, data: Any) -> ScaleFile:
    """A scale from its plain data. Raises InputError."""
    if not isinstance(data, Mapping) or not isinstance(data.get("parts"), Mapping) or not data["parts"]:
        raise InputError(f"Scale {name}: parts is written as names with what each runs.")
    parts = tuple(_part(name, part, entry) for part, entry in data["parts"].items())
    return ScaleFile(name=name, about=str(data.get("about", "")), out=Path(str(data.get("out", "runs"))), parts=parts)


def _part(scale: str, name: str, entry: Any) -> Part:
    known = isinstance(entry, Mapping) and set(entry) <= _KEYS and ("study" in entry) != ("benchmark" in entry)
    minutes = entry.get("minutes") if known else 0
    if minutes is not None and not (isinstance(minutes, int | float) and minutes > 0):
        raise InputError(
            f"Scale {scale}, part {name}: it names a study or a benchmark, and minutes above 0 if any; not "
            f"{shown(entry)}."
        )
    return Part(
        name=str(name),
        study=str(entry.get("study", "")),
        benchmark=str(entry.get("benchmark", "")),
        minutes=None if minutes is None else float(minutes),
        arguments=tuple(map(str, entry.get("arguments", ()))),
    )


def _is(part: Part, name: str) -> bool:
    """Whether a word names the part, or the role that it is one of several parts of."""
    return part.name == name or part.name.partition(".")[0] == name
