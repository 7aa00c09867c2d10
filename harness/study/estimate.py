"""What a study will cost, from cells that ran before; without one for a workload the estimate says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from harness.store.index import Entry
from harness.store.states import State
from harness.study.plan import PlannedPair, StudyPlan


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Hours of cores and GPUs (ranks × wall) over the cells that have an earlier one; `unknown` counts the others."""

    cpu_hours: float
    gpu_hours: float
    known: int
    unknown: int

    def lines(self) -> Iterator[str]:
        """For the dry run."""
        if self.known:
            yield (
                f"cost: about {self.cpu_hours:.2f} CPU-hours and {self.gpu_hours:.2f} GPU-hours for {self.known} "
                "cells, from the wall time per image of earlier cells (start-up and calibration not in it)"
            )
        if self.unknown:
            yield f"cost: unknown for {self.unknown} cells, whose scene and pipeline have not run here yet"


def cost(plan: StudyPlan, pairs: Sequence[PlannedPair], entries: Iterable[Entry]) -> Cost:
    """The cost of all cells of the pairs.

    An earlier cell of the same scene, pipeline, device and ranks tells the wall seconds per image (their median).
    """
    earlier = _rates(entries)
    cpu = gpu = 0.0
    known = unknown = 0
    for pair in pairs:
        settings, cells = pair.settings, len(pair.cells)
        engine = settings["engine"]
        rate = earlier.get(_kind(plan, pair))
        if rate is None:
            unknown += cells
            continue
        known += cells
        # All ranks of the virtual engine share one process.
        busy = 1 if engine["name"] == "virtual" else engine["ranks"]
        images = settings["scale"]["steps"] * engine["ranks"] * engine["views_per_unit"]
        hours = cells * rate * images * busy / 3600
        cpu += hours
        gpu += hours if engine["device"] == "cuda" else 0.0
    return Cost(cpu_hours=cpu, gpu_hours=gpu, known=known, unknown=unknown)


Kind = tuple[str, str, str, int]


def _rates(entries: Iterable[Entry]) -> Mapping[Kind, float]:
    found: dict[Kind, list[float]] = {}
    for entry in entries:
        if entry.state == State.DONE and entry.images and entry.wall:
            kind = (entry.manifest, entry.pipeline, entry.device, entry.ranks)
            found.setdefault(kind, []).append(entry.wall / entry.images)
    return {kind: median(rates) for kind, rates in found.items()}


def _kind(plan: StudyPlan, pair: PlannedPair) -> Kind:
    settings = pair.settings
    return (
        plan.manifest(pair) or "",
        settings["pipeline"]["name"],
        settings["engine"]["device"],
        settings["engine"]["ranks"],
    )
