"""Static asynchronous scheduling: which windows stay blocking, and why (SAS, §4.2).

Legend: S steps, so S-1 windows; entry s is the window between steps s and s+1.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from odin.errors import InputError
from odin.plan import Blocking, Plan
from odin.planner.quality import step_coupling
from odin.planner.rlg import LocalityGraph
from odin.planner.schedule import blocking_flags


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What SAS weighs, per window; None means not evaluated, which blocks nothing.

    live_bytes:     int64 [S-1], state that overlap keeps alive beyond a synchronized trainer's
    memory_budget:  bytes allowed for it
    gain:           float64 [S-1], seconds that the phase profile predicts the window to save
    coupling:       float64 [S-1], largest coupling across the window; used where there is a limit
    coupling_limit: `sas=paper`: a window above it stays blocking, as in the paper

    Raises InputError for a limit without what it limits, or one that cannot mean anything.
    """

    live_bytes: NDArray[np.int64] | None = None
    memory_budget: int | None = None
    gain: NDArray[np.float64] | None = None
    coupling: NDArray[np.float64] | None = None
    coupling_limit: float | None = None

    def __post_init__(self) -> None:
        if self.memory_budget is not None and (self.live_bytes is None or self.memory_budget < 0):
            raise InputError("A memory budget is a number of bytes from 0, and needs live_bytes to compare with.")
        if self.coupling_limit is not None and (self.coupling is None or not 0 <= self.coupling_limit <= 1):
            raise InputError("A coupling limit lies between 0 and 1, and needs the couplings to compare with.")


def with_windows(plan: Plan, evidence: Evidence) -> Plan:
    """The plan with every window that SAS keeps blocking, beside those that are blocking already.

    Provenance key `sas` says what was evaluated. Raises InputError where evidence has not S-1 entries.
    """
    over, useless = _exceeds(evidence.live_bytes, evidence.memory_budget), None
    if evidence.gain is not None:
        useless = evidence.gain <= 0
    flags = plan.blocking | blocking_flags(plan.steps, memory=over, no_gain=useless)
    strong = _exceeds(evidence.coupling, evidence.coupling_limit)
    if strong is not None:
        if len(strong) != len(flags):
            raise InputError(f"{len(strong)} couplings given, a plan of {plan.steps} steps has {len(flags)} windows.")
        flags[strong] |= int(Blocking.COUPLING)
    provenance = {**plan.provenance, "sas": _evaluated(evidence)}
    return replace(plan, blocking=flags.astype(np.int32), provenance=provenance)


def _exceeds(values: NDArray | None, limit: float | None) -> NDArray[np.bool_] | None:
    return None if values is None or limit is None else values > limit


def _evaluated(evidence: Evidence) -> str:
    parts = ["structural events"]
    parts.append("memory not limited" if evidence.memory_budget is None else f"memory ≤ {evidence.memory_budget} B")
    parts.append("gain not evaluated" if evidence.gain is None else "gain by the phase profile")
    if evidence.coupling_limit is not None:
        parts.append(f"coupling ≤ {evidence.coupling_limit:g}")
    return "; ".join(parts)


def reasons(flag: int) -> tuple[str, ...]:
    """Why a window is blocking, in words, one per reason; () for a candidate."""
    return tuple(WORDS[reason] for reason in Blocking(int(flag)))


WORDS = {
    Blocking.STRUCTURAL: "structural event",
    Blocking.MEMORY: "memory budget",
    Blocking.NO_GAIN: "no gain",
    Blocking.COUPLING: "coupling limit",
    Blocking.CHECKPOINT: "checkpoint",
}


def reason_counts(plan: Plan) -> dict[str, int]:
    """Windows by reason, most frequent first; a window with two reasons counts under both."""
    return dict(Counter(word for flag in plan.blocking for word in reasons(flag)).most_common())


def window_couplings(graph: LocalityGraph, plan: Plan) -> NDArray[np.float64]:
    """Largest coupling across each window, float64 [S-1]; give the full graph, the retained one flatters (D§12)."""
    steps = [plan.views(step) for step in range(plan.steps)]
    return np.array([step_coupling(graph, a, b) for a, b in pairwise(steps)], np.float64)
