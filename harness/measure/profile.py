"""Price profiles: nominal seconds of a phase as a function of its work (D§7, `host-cpu`).

A phase's price is a non-negative least-squares fit of its CPU seconds in a warm-up on rows, bin entries,
fragments, pixels and a constant. One profile serves every arm of a pair; padding multiplies it by s.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from odin.errors import InputError
from odin.keeper import LATE_SECONDS, Entry, Work
from odin.phases import Category

FEATURES = ("rows", "entries", "fragments", "pixels", "constant")
MEET_SHARE = 0.999  # share of waits of the warm-up that padding must meet in time
MIN_STRETCH, MAX_STRETCH = 1.2, 5.0

Price = Callable[[str, Work], float]


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Seconds per feature for each phase, with where it comes from.

    coefficients: phase → five non-negative numbers in the order of FEATURES
    samples, residual: phase → number of warm-up samples and relative L1 residual of the fit
    """

    name: str
    source: str
    coefficients: dict[str, tuple[float, ...]]
    samples: dict[str, int]
    residual: dict[str, float]

    def price(self, phase: str, work: Work) -> float:
        """Nominal seconds. Raises InputError for a phase that was never priced: an unpriced phase would be free."""
        if phase not in self.coefficients:
            raise InputError(
                f"Profile {self.name!r} has no price for phase {phase!r}; its warm-up never ran that phase. Fit the "
                "profile again with --refresh."
            )
        return float(np.dot(self.coefficients[phase], _features(work)))

    def stretched(self, s: float) -> Price:
        """The price times a padding factor."""
        return lambda phase, work: s * self.price(phase, work)

    def to_json(self) -> str:
        """A readable record."""
        return json.dumps(self.__dict__, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Profile:
        """Read a record written by `to_json`."""
        data = json.loads(text)
        data["coefficients"] = {k: tuple(v) for k, v in data["coefficients"].items()}
        return cls(**data)


def _features(work: Work) -> NDArray[np.float64]:
    return np.array([work.rows, work.entries, work.fragments, work.pixels, 1.0])


def fit_profile(name: str, source: str, entries: Iterable[Entry]) -> Profile:
    """Fit every phase that occurs in `entries` (the warm-up's timelines of all ranks)."""
    by_phase: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.kind == "phase":
            by_phase.setdefault(entry.name, []).append(entry)
    fits = {phase: _fit(samples) for phase, samples in by_phase.items()}
    for phase, samples in by_phase.items():
        if samples[0].category == Category.STRUCTURAL.value:
            fits[phase] = _dearest(samples)
    return Profile(
        name=name,
        source=source,
        coefficients={phase: fit[0] for phase, fit in fits.items()},
        samples={phase: len(samples) for phase, samples in by_phase.items()},
        residual={phase: fit[1] for phase, fit in fits.items()},
    )


def _fit(samples: Sequence[Entry]) -> tuple[tuple[float, ...], float]:
    """Weighted by 1 / median so that the fit is relative; features scaled to their largest value."""
    from scipy.optimize import nnls  # slow to import, and only the rank that calibrates needs it

    x = np.stack([_features(s.work) for s in samples])
    y = np.array([s.cpu for s in samples])
    scale = np.maximum(x.max(axis=0), 1.0)
    typical = max(float(np.median(y)), 1e-9)
    solution, _ = nnls(x / scale, np.minimum(y, 3 * typical) / typical)
    coefficients = solution * typical / scale
    residual = float(np.abs(x @ coefficients - y).sum() / max(y.sum(), 1e-12))
    return tuple(float(c) for c in coefficients), residual


def _dearest(samples: Sequence[Entry]) -> tuple[tuple[float, ...], float]:
    """Structural phases occur once or twice in a warm-up, of a table that will grow: the dearest sample, per row.

    They are the same in all arms and no share of the link is solved from them, so being generous costs only time.
    """
    per_row = max(s.cpu / max(s.work.rows, 1) for s in samples)
    spent = sum(s.cpu for s in samples)
    excess = sum(per_row * s.work.rows - s.cpu for s in samples) / max(spent, 1e-12)
    return (per_row, 0.0, 0.0, 0.0, 0.0), float(excess)


def stretch_factor(profile: Profile, timelines: Sequence[tuple[Sequence[Entry], Sequence[int]]]) -> float:
    """The padding factor s that meets MEET_SHARE of the waits of the warm-up.

    timelines: per rank its entries and where in them it waited (Keeper.points)
    """
    ratios = [r for entries, points in timelines for r in _interval_ratios(profile, entries, points)]
    wanted = float(np.quantile(ratios, MEET_SHARE)) if ratios else MIN_STRETCH
    return float(np.clip(wanted, MIN_STRETCH, MAX_STRETCH))


def _interval_ratios(profile: Profile, entries: Sequence[Entry], points: Sequence[int]) -> list[float]:
    """Wall over nominal seconds between consecutive waits, less what does not count as late."""
    ratios = []
    for first, last in zip([0, *points], points, strict=False):
        phases = [e for e in entries[first:last] if e.kind == "phase"]
        nominal = sum(profile.price(e.name, e.work) for e in phases)
        if nominal > LATE_SECONDS:  # shorter ones are launch overhead, not compute
            ratios.append((phases[-1].end - phases[0].start - LATE_SECONDS) / nominal)
    return ratios


def barrier_compute(profile: Profile, timelines: Sequence[Sequence[Entry]]) -> float:
    """Nominal compute of a barrier step in seconds: mean over steps of the busiest rank's useful phases."""
    per_rank = []
    for entries in timelines:
        sums: dict[int, float] = {}
        for e in entries:
            if e.kind == "phase" and e.category == "useful":
                sums[e.step] = sums.get(e.step, 0.0) + profile.price(e.name, e.work)
        per_rank.append(sums)
    steps = sorted(per_rank[0])
    return float(np.mean([max(sums[s] for sums in per_rank) for s in steps]))
