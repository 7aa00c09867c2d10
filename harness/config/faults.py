"""Faults that a run is asked to suffer, to see that the harness holds: `faults=[kill:rank=1:step=10]`.

A fault is KIND[:KEY=VALUE]…; `KINDS` says what each kind does and which keys it has. Cells with faults are cells of
their own (the faults are part of the identity), and their numbers carry the label `disturbed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isfinite
from types import MappingProxyType

from harness.config.checks import expect, expect_at_least, expect_one_of
from odin.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of fault. says: what the rank does; keys: of its own, beside `rank`, `cell` and `times`; virtual: whether
    the virtual engine knows it too."""

    says: str
    keys: tuple[str, ...] = ()
    virtual: bool = False


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "kill": Kind(says="ends itself by SIGKILL", keys=("step",), virtual=True),
        "hang": Kind(says="never goes on", keys=("step",)),
        "slow": Kind(says="sleeps after every step from then on", keys=("step", "seconds")),
        "raise": Kind(says="raises an error that nobody expects", keys=("step",), virtual=True),
        "oom": Kind(says="takes memory until it gets no more", keys=("step",), virtual=True),
        "nan": Kind(says="computes a gradient that is not a number", keys=("step",), virtual=True),
        "replica": Kind(says="changes one number of its table", keys=("step",)),
        "partition": Kind(says="plans other views than the others"),
        "disk": Kind(says="finds the disk full in the middle of a file", keys=("file",), virtual=True),
        "torn": Kind(says="is killed in the middle of a file", keys=("file",), virtual=True),
        "port": Kind(says="other programs have the ports at which ranks of several nodes meet"),
    }
)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault.

    rank:    that suffers it (of the virtual engine's one process, rank 0 writes all files)
    step:    it happens when so many steps are done; 0 is before the first
    cell:    which cell of the sequence, from 1 in the order of --dry-run; 0 is every cell
    seconds: that a slow rank sleeps
    file:    pattern of the file's name
    times:   it happens so often and then no more, also over several runs into one folder of records; 0 is always
    """

    kind: str
    rank: int = 0
    step: int = 0
    cell: int = 0
    seconds: float = 0.1
    file: str = "result.json"
    times: int = 0

    def __post_init__(self) -> None:
        expect_one_of(self.kind, KINDS, key="faults")
        for name in ("rank", "step", "cell", "times"):
            value = getattr(self, name)
            expect_at_least(0, key=f"faults, {name}", value=value, advice="For example kill:rank=1:step=10.")
        expect(
            isfinite(self.seconds) and 0 < self.seconds <= 3600,
            key="faults, seconds",
            value=self.seconds,
            expected="a number above 0, at most 3600",
            advice="The default is seconds=0.1.",
        )
        expect(self.file != "", key="faults, file", value="", expected="a file's name", advice="E.g. file=*.parquet.")


_TYPES = {field.name: {"int": int, "float": float, "str": str}[str(field.type)] for field in fields(Fault)}


def read_fault(word: str) -> Fault:
    """The fault that a word describes. Raises InputError that names the nearest kind or key."""
    kind, *settings = word.strip().split(":")
    expect_one_of(kind, KINDS, key="faults")
    known = ("rank", *KINDS[kind].keys, "cell", "times")
    values: dict[str, int | float | str] = {}
    for part in settings:
        name, equals, text = part.partition("=")
        expect_one_of(name, known, key=f"faults, {kind}")
        try:
            if not equals or name in values:
                raise ValueError
            values[name] = _TYPES[name](text)
        except ValueError as error:
            raise InputError(
                f"faults={word} is refused: {part!r} is not of the form {name}=VALUE, or is there twice. "
                f"Keys of {kind} are {', '.join(known)}."
            ) from error
    return Fault(kind=kind, **values)  # type: ignore[arg-type]


def check_faults(words: tuple[str, ...], *, ranks: int, steps: int, cells: int, virtual: bool) -> None:
    """Raise InputError for a fault that could never happen: a run that is not disturbed must not say it was."""
    for word in words:
        fault = read_fault(word)
        kind = KINDS[fault.kind]
        advice = f"Change {word}."
        expect(
            not virtual or kind.virtual,
            key="faults",
            value=word,
            expected=f"one of {', '.join(name for name in KINDS if KINDS[name].virtual)} on the virtual engine",
            advice="Its ranks are threads of one process on a computed clock.",
        )
        expect_at_least(0, key="faults, rank", value=fault.rank, most=ranks - 1, advice=advice)
        last = steps - 1 if fault.kind in ("nan", "slow") else steps
        expect_at_least(0, key="faults, step", value=fault.step, most=last, advice=advice)
        expect_at_least(0, key="faults, cell", value=fault.cell, most=cells, advice=advice)
