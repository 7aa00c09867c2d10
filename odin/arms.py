"""The arms: one table of what each waits for (D§6). Every ratio is against `barrier`, every bit-identity test
against `barrier-planned`.

An arm is a choice of mechanisms; each can be switched alone, by name: `quality:groups=off`,
`throughput:evidence=local:tau=0.1`. A switched arm keeps its whole text as its name, so no result loses it.
"""

from __future__ import annotations

import difflib
import textwrap
from dataclasses import dataclass, fields, replace
from enum import Enum

from odin.errors import InputError

AUDIT_LIMIT = 0.05  # relative L2 error of a step's gradient above which reads are waited for again


class Order(Enum):
    """Which views a step trains."""

    RANDOM = "random"
    PLAN = "plan"
    REGIONS = "regions"  # one region's views per step as in the plan, regions in random order (without SDS)


# The arm of each order whose bits an exact arm must end in.
_WAITING = {Order.RANDOM: "barrier", Order.PLAN: "barrier-planned"}


class Waits(Enum):
    """What a step waits for before it reads the table. B follows A; X is the set of conflicting rows."""

    ALL = "all"  # the whole gradient of the step before
    DDP = "ddp"  # the same, inside torch's DistributedDataParallel
    ALL_OR_NONE = "all-or-none"  # all of it unless X = ∅ (§4.3 quality-first, read strictly)
    URGENT = "urgent"  # the rows of W(A) that any view of B may read
    LITERAL = "literal"  # §4.3 throughput-first to the letter: RAW only, every delayed row must pass
    GATED = "gated"  # urgent rows that fail the gradient gate; passing ones are read late
    NOTHING = "nothing"  # pending rows are read late or at predicted values


MIXED = frozenset({Waits.ALL, Waits.URGENT, Waits.GATED, Waits.NOTHING})  # also kinds of mixed parallelism


class Dispatch(Enum):
    """Which rank computes which unit of a step. DDS moves units only where nothing is waited for inside a step: where
    equal ranks meet in every step, every assignment takes equally long, and rank r keeps unit r."""

    STATIC = "static"  # rank r computes unit r
    STATE = "state"  # DDS: the longest unit to the rank with the earliest ready time, costs from replicated state
    TIME = "time"  # DDS from measured times; forfeits the bit-identity claim


class Evidence(Enum):
    """Whose gradient norm the gate looks at (D§6 Throughput gate)."""

    HISTORY = "history"  # the row's last published norm: free and replicated
    REDUCED = "reduced"  # this step's norms, summed over ranks: 1.7 % of the bytes and a rank barrier
    LOCAL = "local"  # this rank's own gradient before the reduction, as the paper has it


class Reads(Enum):
    """What a read that is not waited for sees of a pending row."""

    STALE = "stale"  # the last published value
    PREDICTED = "predicted"  # its zero-gradient step


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One arm of a comparison.

    exact:      bit-identical to waiting training of the same views in the same order, which is `reference`
    says:       one sentence that a reviewer can check
    groups:     geometry and colours are waited for apart; a renderer that cannot be split gets whole rows
    unit_order: rows that only later views of a unit read are waited for before those
    early:      rows that no later view of the step touches leave before its last view is computed
    sas:        edges may be overlap windows; without, every step waits for the whole gradient
    tau, rho:   τ of the gate, and whether |D| / |R(B)| is held at τ too
    audit:      recompute every so many windows at published values; 0: never
    histograms: keep norms and updates of delayed rows per window (costs a pass over them)
    """

    name: str
    order: Order
    waits: Waits
    exact: bool
    says: str
    groups: bool = True
    unit_order: bool = True
    early: bool = True
    sas: bool = True
    dispatch: Dispatch = Dispatch.STATIC
    evidence: Evidence = Evidence.HISTORY
    reads: Reads = Reads.STALE
    tau: float = 0.2
    rho: bool = True
    audit: int = 0
    histograms: bool = False

    def __post_init__(self) -> None:
        if not 0.0 <= self.tau <= 1.0:
            raise InputError(f"Arm {self.name!r} has tau={self.tau}; τ of the gate lies between 0 and 1 (§4.3).")
        if self.audit < 0:
            raise InputError(f"Arm {self.name!r} has audit={self.audit}; give windows between audits, or 0 for none.")

    @property
    def reference(self) -> str:
        """The arm that waits for everything and trains the same views in the same order; "" where there is none."""
        return _WAITING.get(self.order, "")

    @property
    def base(self) -> str:
        """Name in the table, without switches."""
        return self.name.partition(":")[0]


_QUALITY = Arm(
    name="quality",
    order=Order.PLAN,
    waits=Waits.URGENT,
    dispatch=Dispatch.STATE,
    exact=True,
    says="The plan's order; a step waits only for rows that its views may read and the step before may "
    "have written, for their geometry before it projects and for their colours before it blends.",
)

_THROUGHPUT = Arm(
    name="throughput",
    order=Order.PLAN,
    waits=Waits.GATED,
    dispatch=Dispatch.STATE,
    exact=False,
    says="The plan's order; of the rows that a step may read and its predecessor may have written, those whose "
    "gradient norm is at most τ times the mean are read one update late, the others are waited for.",
)

_PREDICTED = Arm(
    name="predicted",
    order=Order.PLAN,
    waits=Waits.NOTHING,
    dispatch=Dispatch.STATE,
    reads=Reads.PREDICTED,
    audit=50,
    exact=False,
    says="The plan's order; pending rows are read at their zero-gradient-step value and corrected one "
    "step later, so nothing is waited for inside a step; every 50th window is audited.",
)

ARMS: dict[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm(
            name="barrier",
            order=Order.RANDOM,
            waits=Waits.ALL,
            exact=False,
            says="Random order; every step waits for the whole gradient of the step before, sent in two buckets "
            "(colours during the projection backward, then geometry).",
        ),
        Arm(
            name="ddp",
            order=Order.RANDOM,
            waits=Waits.DDP,
            exact=False,
            says="As barrier, but inside torch's DistributedDataParallel: a bucket for colours and one for geometry on "
            "the same link, sent by its reducer during backward; on up to two ranks bit-identical to barrier.",
        ),
        Arm(
            name="barrier-planned",
            order=Order.PLAN,
            waits=Waits.ALL,
            exact=True,
            says="The plan's order, otherwise as barrier: the effect of locality order alone.",
        ),
        Arm(
            name="paper-quality",
            order=Order.PLAN,
            waits=Waits.ALL_OR_NONE,
            groups=False,
            unit_order=False,
            early=False,
            dispatch=Dispatch.STATE,
            exact=True,
            says="The plan's order; a step waits for the whole gradient of the step before unless no row that it "
            "may read or write was possibly written there (§4.3, quality-first).",
        ),
        _QUALITY,
        replace(
            _QUALITY,
            name="quality-random",
            order=Order.RANDOM,
            says="As quality, but in the random order of barrier, whose bits it ends in: what overlap alone brings.",
        ),
        Arm(
            name="paper-literal",
            order=Order.PLAN,
            waits=Waits.LITERAL,
            groups=False,
            unit_order=False,
            early=False,
            dispatch=Dispatch.STATE,
            exact=False,
            says="The plan's order; rows that a step only reads are read late if they are at most τ of what it "
            "reads and all of them pass the gradient test, else it waits as quality (§4.3, throughput-first).",
        ),
        _THROUGHPUT,
        _PREDICTED,
        replace(
            _PREDICTED,
            name="predicted-random",
            order=Order.RANDOM,
            says="As predicted, but in the random order of barrier: where nothing is waited for, no plan is needed.",
        ),
        replace(
            _THROUGHPUT,
            name="without-SAS",
            sas=False,
            says="As throughput, but no edge is an overlap window: every step waits for the whole gradient.",
        ),
        replace(
            _THROUGHPUT,
            name="without-SDS",
            order=Order.REGIONS,
            says="As throughput, but regions follow each other in random order.",
        ),
        replace(
            _THROUGHPUT,
            name="without-DDS",
            dispatch=Dispatch.STATIC,
            says="As throughput, but rank r always computes unit r; where ranks meet in every step, as they do in "
            "throughput, that is what DDS assigns too, so this arm equals it by construction.",
        ),
        replace(
            _THROUGHPUT,
            name="without-DAS",
            waits=Waits.NOTHING,
            says="As throughput, but planned windows open without validation: pending rows are read late.",
        ),
        Arm(
            name="hogwild",
            order=Order.RANDOM,
            waits=Waits.NOTHING,
            exact=False,
            says="Random order; a step waits only until its gradient slot is free and reads whatever was last "
            "published, without any validation (also: without LP).",
        ),
        replace(
            _THROUGHPUT,
            name="overlap-without-locality",
            order=Order.RANDOM,
            says="As throughput in random order: every edge is a window and is validated.",
        ),
    )
}

# What a switch may change; the rest of an arm is its definition.
_SWITCHES: dict[str, type] = {
    "groups": bool,
    "unit_order": bool,
    "early": bool,
    "sas": bool,
    "rho": bool,
    "histograms": bool,
    "order": Order,
    "dispatch": Dispatch,
    "evidence": Evidence,
    "reads": Reads,
    "tau": float,
    "audit": int,
}
assert set(_SWITCHES) <= {f.name for f in fields(Arm)}
# Where a switch acts, if not everywhere: elsewhere a record would claim a mechanism that did not run.
_CUTTING = frozenset({Waits.ALL_OR_NONE, Waits.URGENT, Waits.LITERAL, Waits.GATED})
_DELAYING = frozenset({Waits.LITERAL, Waits.GATED})
_ACTS: dict[str, frozenset[Waits]] = {
    "groups": _CUTTING,
    "unit_order": _CUTTING,
    "early": _CUTTING,
    "sas": _CUTTING | {Waits.NOTHING},
    "tau": _DELAYING,
    "histograms": _DELAYING,
    "reads": _DELAYING | {Waits.NOTHING},
    "rho": frozenset({Waits.GATED}),
    "evidence": frozenset({Waits.GATED}),
}
_ON_OFF = {"on": True, "true": True, "off": False, "false": False}


def arm(text: str) -> Arm:
    """The arm of that name with its switches set, e.g. `quality:groups=off`. Raises InputError naming the nearest."""
    name, *switches = text.split(":")
    if name not in ARMS:
        near = difflib.get_close_matches(name, ARMS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InputError(f"There is no arm {name!r}.{hint} Arms of this version: {', '.join(ARMS)}.")
    if not switches:
        return ARMS[name]
    changes = dict(_switch(text, switch) for switch in switches)
    base = ARMS[name]
    exact = base.exact and changes.get("order", base.order) in _WAITING
    exact = exact and changes.get("dispatch") is not Dispatch.TIME
    return replace(base, name=text, exact=exact, **changes)  # type: ignore[arg-type]


def _switch(text: str, switch: str) -> tuple[str, object]:
    key, _, value = switch.partition("=")
    if key not in _SWITCHES:
        near = difflib.get_close_matches(key, _SWITCHES, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InputError(
            f"Arm {text!r} sets {key!r}.{hint} Switches are {', '.join(_SWITCHES)}, as in quality:early=off."
        )
    kind = _SWITCHES[key]
    try:
        return key, _ON_OFF[value.lower()] if kind is bool else kind(value)
    except (KeyError, ValueError):
        allowed = "on or off" if kind is bool else f"{kind.__name__.lower()}"
        if issubclass(kind, Enum):
            allowed = ", ".join(str(member.value) for member in kind)
        raise InputError(f"Arm {text!r}: {key}={value!r} is not possible; use {allowed}.") from None


def require_effect(text: str) -> None:
    """Raises InputError for a switch of a mechanism that the arm does not have. For what is asked for: records of runs
    with such a switch stay readable, so `arm` takes it."""
    name, *switches = text.split(":")
    for key in (switch.partition("=")[0] for switch in switches):
        acts = _ACTS.get(key)
        if acts is not None and ARMS[name].waits not in acts:
            where = ", ".join(other for other, one in ARMS.items() if one.waits in acts)
            raise InputError(
                f"Arm {text!r} sets {key!r}, which changes nothing in {name!r}: it has no such mechanism. "
                f"It acts in {where}."
            )


def table() -> str:
    """Every arm with what it is, and the switches, as text of at most 118 columns."""
    lines = []
    for name, one in ARMS.items():
        mark = "exact" if one.exact else "     "
        lines += textwrap.wrap(f"{name:<25}{mark}  {one.says}", 118, subsequent_indent=" " * 32)
    lines += [
        "",
        "Switches of one mechanism, appended to a name: quality:groups=off, throughput:evidence=local:tau=0.1",
    ]
    for key, kind in _SWITCHES.items():
        if kind is bool:
            values = "on, off"
        else:
            values = ", ".join(str(m.value) for m in kind) if issubclass(kind, Enum) else "a number"
        lines.append(f"  {key:<11} {values}")
    return "\n".join(lines)
