"""What SCOPES.md §3 says of each waiting rule: the share of a transfer that it hides, and the speedup of that (D§6).

With T = f / (1 − f) in units of a rank's work in a step, f the exposed share of waiting for everything, and h the share
of the transfer that a rule hides:

    speedup = (1 + T) / (1 + (1 − h)·T)
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.store.record import Reading
from harness.store.schema import Result
from odin.arms import Order, Reads, Waits
from odin.arms import arm as arm_named
from odin.errors import InputError

MODEL_PIPELINE = "3dgs"
MOST_UNITS = 0.5  # T up to which the model holds (SCOPES.md, caveats)

# Rule → what it is → capture → B → hidden share (0…1): the table of SCOPES.md §3, f = 29.5 %, B = 8, those in brackets
# B = 4. Nothing waits in `predicted` at any B, and no window is empty at B = 4 either (§1), so these hold for both.
Hidden = dict[str, dict[int, float]]
_CAPTURES = ("bonsai", "caliterra", "fox", "south_building")
RULES: dict[str, tuple[str, Hidden]] = {
    "all-or-nothing": (
        "the whole gradient unless no row is in conflict",
        {name: {8: 0.0, 4: 0.0} for name in _CAPTURES},
    ),
    "(1)": (
        "rows that the views may read",
        {
            "bonsai": {8: 0.80, 4: 0.81},
            "caliterra": {8: 0.87, 4: 0.96},
            "fox": {8: 0.21, 4: 0.25},
            "south_building": {8: 0.08, 4: 0.09},
        },
    ),
    "(1')": (
        "rows that a unit's first views may read and that have not left early",
        {
            "bonsai": {8: 0.82},
            "caliterra": {8: 0.94},
            "fox": {8: 0.30, 4: 0.37},
            "south_building": {8: 0.13, 4: 0.19},
        },
    ),
    "(1'')": (
        "the same rows by column groups, with phase shares of this renderer on a CPU",
        {
            "bonsai": {8: 0.96},
            "caliterra": {8: 0.98},
            "fox": {8: 0.85},
            "south_building": {8: 0.63, 4: 0.69},
        },
    ),
    "(4) gate": (
        "rows that fail the gate on a rank's own evidence, without ρ and column groups (no other evidence is modelled)",
        {"bonsai": {8: 0.86}, "caliterra": {8: 0.95}, "fox": {8: 0.50}, "south_building": {8: 0.62}},
    ),
    "(4) predicted": ("nothing", {name: {8: 1.0, 4: 1.0} for name in _CAPTURES}),
}


@dataclass(frozen=True, kw_only=True)
class Modelled:
    """What SCOPES.md §3 says of an arm. rule: a key of RULES; batch: the B that it is for; hidden: share, 0…1."""

    rule: str
    batch: int
    hidden: float

    @property
    def name(self) -> str:
        """Rule and B, for a table."""
        return f"{self.rule} B {self.batch}"

    def speedup(self, exposed: Reading) -> Reading:
        """Of a step of which the share `exposed` is; absent for the same reason."""
        return exposed if exposed.value is None else Reading.of(model_speedup(self.hidden, exposed.value))


def model_speedup(hidden: float, exposed: float) -> float:
    """(1 + T) / (1 + (1 − h)·T), T = f / (1 − f): 1 where nothing is hidden, 1 / (1 − f) where all is.

    hidden: h, share of the transfer that is hidden, up to 1; exposed: f, transfer ÷ step. Raises InputError where f is
    not from 0 to below 1.
    """
    if not 0.0 <= exposed < 1.0:
        raise InputError(f"An exposed share of {exposed} is none: it lies from 0 to below 1.")
    units = exposed / (1.0 - exposed)
    return (1.0 + units) / (1.0 + (1.0 - hidden) * units)


def rule_of(name: str) -> str | None:
    """The rule of SCOPES.md §3 by which an arm waits, None where there is none. Raises InputError on no arm's name.

    Its sets were read off the plan's order. `quality` has (1') and (1'') only with unit_order and early.
    """
    arm = arm_named(name)
    if arm.order is not Order.PLAN or not arm.sas:
        return None
    if arm.waits is Waits.URGENT:
        whole = arm.unit_order and arm.early
        if arm.groups:
            return "(1'')" if whole else None
        return "(1')" if whole else None if arm.unit_order or arm.early else "(1)"
    if arm.waits is Waits.GATED:
        return "(4) gate" if arm.tau == arm_named("throughput").tau else None
    if arm.waits is Waits.NOTHING:
        return "(4) predicted" if arm.reads is Reads.PREDICTED else None
    return "all-or-nothing" if arm.waits is Waits.ALL_OR_NONE else None


def model_of(scene: str, name: str, batch: int) -> Modelled | None:
    """What the model says of an arm on a capture, for this B where SCOPES.md has it, else for B = 8."""
    rule = rule_of(name)
    by_batch = RULES[rule][1].get(scene) if rule is not None else None
    if rule is None or by_batch is None:
        return None
    known = batch if batch in by_batch else 8
    return Modelled(rule=rule, batch=known, hidden=by_batch[known])


def model_beside(result: Result, name: str) -> Modelled | None:
    """The model of an arm. result: any finished cell of its sequence, for capture, pipeline and B."""
    pipeline, m = result.cell.config.get("pipeline"), result.measurement
    other = isinstance(pipeline, dict) and pipeline.get("name") != MODEL_PIPELINE
    return None if other or m is None else model_of(result.cell.scene, name, m.global_batch)
