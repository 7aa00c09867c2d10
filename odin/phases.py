"""Phases of a step and what each counts as when lost time is added up (D§7)."""

from __future__ import annotations

from enum import Enum


class Category(Enum):
    """useful = render, loss, backward, update; the rest is lost."""

    USEFUL = "useful"
    ODIN = "odin"
    STRUCTURAL = "structural"
    WAIT = "wait"
    LINK = "link"


class Phase(Enum):
    """A named piece of a rank's step. The value is its name on the timeline and in price profiles."""

    CULL = "cull"  # preselect the rows of an own view (arms without scopes)
    PROJECT = "project"
    BIN = "bin"
    COLOUR = "colour"
    BLEND = "blend"
    LOSS = "loss"
    BLEND_BACKWARD = "blend_backward"
    COLOUR_BACKWARD = "colour_backward"
    PROJECTION_BACKWARD = "projection_backward"
    UPDATE = "update"  # Adam on rows whose reduced gradient has arrived
    CLEAR = "clear"  # zero a slot and lay out its segments
    DDP = "ddp"  # ddp: bookkeeping and copies of DDP and autograd; entries are elements

    SCOPES = "scopes"  # conservative scopes of all views of a step
    HAZARDS = "hazards"  # intersect scopes, fix the partition
    ZERO_STEP = "zero_step"  # momentum-only step of rows without gradient
    CORRECT = "correct"  # predicted reads: zero-gradient step → real step
    ADVANCE = "advance"  # predicted reads: correct a step and take the zero-gradient step of the next, in one pass
    GATE = "gate"  # gradient norms of rows, and which of them may be read late
    AUDIT = "audit"  # compare a recomputed unit's gradient with the one that was exchanged
    DISPATCH = "dispatch"  # learn the costs of views, assign units to ranks

    SCORE = "score"  # TamingGS: what views say of their rows, before densification
    DENSIFY = "densify"  # clone, split, prune, reorder
    EVENT = "event"  # opacity reset, one more SH degree
    SLOTS = "slots"  # new gradient slots for a new number of rows
    REPLICAS = "replicas"  # compare replicas after an event
    DDP_WRAP = "ddp_wrap"  # ddp: DistributedDataParallel around the new table
    OVERRUN = "overrun"  # padded runs: real work later than its deadline

    @property
    def category(self) -> Category:
        """What this phase counts as."""
        return self._category

    _category: Category  # of each member; filled in below, because looking a member up in a set calls Python code


_STRUCTURAL = frozenset({Phase.SCORE, Phase.DENSIFY, Phase.EVENT, Phase.SLOTS, Phase.REPLICAS, Phase.DDP_WRAP})
_ODIN = frozenset(
    {
        Phase.SCOPES,
        Phase.HAZARDS,
        Phase.ZERO_STEP,
        Phase.CORRECT,
        Phase.ADVANCE,
        Phase.GATE,
        Phase.AUDIT,
        Phase.DISPATCH,
    }
)
for _phase in Phase:
    _structural = Category.STRUCTURAL if _phase in _STRUCTURAL else Category.USEFUL
    _phase._category = Category.ODIN if _phase in _ODIN else _structural
