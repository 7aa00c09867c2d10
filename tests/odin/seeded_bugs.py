"""One bug for each decision of the protocol, seeded into the runtime by replacing the function that decides.

Where a guard of the runtime would stop the run first, the bug switches it off: the model has to see the harm itself.
The bugs of PUBLIC are also seeded into real training, by `python -m tests.mutants`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from odin import audit
from odin.bitmap import row_ids, union
from odin.dispatch import Dispatcher
from odin.evidence import Gate
from odin.hazards import NONE, classify
from odin.ledger import Ledger
from odin.model import Invariant, Scenario
from odin.model.worlds import of_size, only_read
from odin.plan import Plan
from odin.points import CLOSE, COLOURS
from odin.publication import (
    AllOrNonePublication,
    ChunkedPublication,
    GatedPublication,
    LiteralPublication,
    PredictedPublication,
    Publication,
    ScopedPublication,
    UrgentPublication,
    base,
    gated,
    scoped,
)
from odin.publication.layout import REST, Classes, lay_out
from odin.segments import Block, SegmentSpec, two_buckets

Patch = pytest.MonkeyPatch
Size = tuple[int, int, int, int]


@dataclass(frozen=True, kw_only=True)
class SeededBug:
    """What is decided wrongly, and which invariant that breaks, in which arm, in worlds of which size (ranks, views per
    unit, steps, rows), or in which world where random ones hardly come to it."""

    name: str
    arm: str
    breaks: Invariant
    seed: Callable[[Patch], None]
    size: Size
    world: Scenario | None

    def worlds(self, count: int) -> Iterable[Scenario]:
        """Where to look for it."""
        if self.world is not None:
            return [replace(self.world, arm=self.arm)]
        ranks, unit, steps, rows = self.size
        return of_size(self.arm, count, seed=0, ranks=ranks, unit=unit, steps=steps, rows=rows)


BUGS: list[SeededBug] = []


PUBLIC = ("no hazard check", "colours not awaited", "inflation off", "three slots")


def seed(name: str, patch: Patch) -> None:
    """Seed the bug of that name."""
    next(bug for bug in BUGS if bug.name == name).seed(patch)


def bug(name: str, arm: str, breaks: Invariant, size: Size = (1, 1, 1, 1), world: Scenario | None = None) -> Callable:
    def enter(seeding: Callable[[Patch], None]) -> Callable[[Patch], None]:
        BUGS.append(SeededBug(name=name, arm=arm, breaks=breaks, seed=seeding, size=size, world=world))
        return seeding

    return enter


# Hazards and what rows are needed for ---------------------------------------------------------------------


@bug("no hazard check", "quality", Invariant.PENDING_READ, size=(1, 1, 2, 1))
def _(patch: Patch) -> None:
    nothing = lambda self, step, found: Classes(last=found.last, need=np.full_like(found.need, REST))  # noqa: E731
    patch.setattr(UrgentPublication, "classes", nothing)


@bug("the second reader waits instead of the first", "quality", Invariant.PENDING_READ, size=(1, 2, 2, 1))
def _(patch: Patch) -> None:
    def late(*scopes: object, unit: int, **sizes: int) -> tuple:
        last, first, hazards = classify(*scopes, unit=unit, **sizes)
        return last, np.where(first < unit - 1, first + 1, first).astype(np.uint8), hazards

    patch.setattr(scoped, "classify", late)


@bug("a row counts as complete before its last view", "quality", Invariant.SLOT, size=(1, 2, 2, 1))
def _(patch: Patch) -> None:
    def early(*scopes: object, **sizes: int) -> tuple:
        last, first, hazards = classify(*scopes, **sizes)
        return np.where((last > 0) & (last != NONE), last - 1, last).astype(np.uint8), first, hazards

    patch.setattr(scoped, "classify", early)


@bug("all or nothing looks at RAW only", "paper-quality", Invariant.PENDING_READ, size=(1, 1, 2, 1))
def _(patch: Patch) -> None:
    classes = AllOrNonePublication.classes

    def raw_only(self: AllOrNonePublication, step: int, found: Classes) -> Classes:
        self._hazards = replace(self._hazards, waw=0, war=0)
        return classes(self, step, found)

    patch.setattr(AllOrNonePublication, "classes", raw_only)


# Scopes ---------------------------------------------------------------------------------------------------


@bug("inflation off", "quality", Invariant.SCOPE, size=(1, 1, 2, 1))
def _(patch: Patch) -> None:
    patch.setattr(ScopedPublication, "_moves", lambda self, step, t: (0.0, 0.0))


@bug("scopes two steps ahead allow for one update", "quality", Invariant.SCOPE, size=(1, 1, 3, 3))
def _(patch: Patch) -> None:
    moves = ScopedPublication._moves

    def one(self: ScopedPublication, step: int, t: int) -> tuple[float, float]:
        return moves(self, step, t) if self.ledger.pending(step) is None else (0.0, 0.0)

    patch.setattr(ScopedPublication, "_moves", one)


@bug(
    "rows outside W⁺ count as stepped although all are waited for", "paper-quality", Invariant.SCOPE, size=(1, 1, 3, 3)
)
def _(patch: Patch) -> None:
    ahead = ScopedPublication._scope_two_ahead

    def short(self: ScopedPublication, step: int, update: object) -> None:
        cut, rows = self._cut, len(self.recipe.table)
        outside = np.setdiff1d(np.arange(rows, dtype=np.int32), row_ids(self._written[step], rows))
        self._cut = replace(cut, outside=outside)
        ahead(self, step, update)
        self._cut = cut

    patch.setattr(ScopedPublication, "_scope_two_ahead", short)


# The cut of a step ----------------------------------------------------------------------------------------


@bug("colours not awaited", "quality", Invariant.PENDING_READ, size=(1, 1, 2, 1))
def _(patch: Patch) -> None:
    patch.setattr(UrgentPublication, "before_blend", lambda self, step, position: None)


@bug("the cut forgets when colours are due", "quality", Invariant.PENDING_READ, size=(1, 1, 2, 1))
def _(patch: Patch) -> None:
    def without_colours(classes: Classes, cutting: object) -> object:
        cut = lay_out(classes, cutting)
        return replace(
            cut, segments=tuple(s._replace(parts=tuple(p for p in s.parts if p.lo == 0)) for s in cut.segments)
        )

    patch.setattr(scoped, "lay_out", without_colours)


@bug(
    "rows that nobody reads take their zero step although they were written",
    "quality",
    Invariant.ORDER,
    size=(1, 1, 2, 1),
)
def _(patch: Patch) -> None:
    def too_many_outside(classes: Classes, cutting: object) -> object:
        outside = np.flatnonzero((classes.last == NONE) | (classes.need == REST)).astype(np.int32)
        return replace(lay_out(classes, cutting), outside=outside)

    patch.setattr(scoped, "lay_out", too_many_outside)


@bug("each rank has a budget of its own", "quality", Invariant.COLLECTIVES, size=(2, 2, 2, 2))
def _(patch: Patch) -> None:
    cutting = ScopedPublication.cutting
    mine = lambda self, step: replace(cutting(self, step), early=self.transport.rank)  # noqa: E731
    patch.setattr(ScopedPublication, "cutting", mine)


@bug("geometry leaves with the colours", "barrier-planned", Invariant.SLOT, size=(1, 1, 1, 1))
def _(patch: Patch) -> None:
    together = lambda *rows: [spec._replace(launch=COLOURS) for spec in two_buckets(*rows)]  # noqa: E731
    patch.setattr(base, "two_buckets", together)


@bug("visible marks leave last", "quality", Invariant.ARRIVED, size=(1, 1, 2, 1))
def _(patch: Patch) -> None:
    def apart(classes: Classes, cutting: object) -> object:
        cut, marks = lay_out(classes, cutting), cutting.visible
        without = lambda b: b._replace(groups=tuple(g for g in b.groups if g not in marks))  # noqa: E731
        segments = [s._replace(blocks=tuple(map(without, s.blocks))) for s in cut.segments]
        every_row = Block(rows=np.arange(len(classes.last), dtype=np.int32), groups=marks)
        return replace(cut, segments=(*segments, SegmentSpec(name="marks", blocks=(every_row,))))

    patch.setattr(scoped, "lay_out", apart)


# The gate -------------------------------------------------------------------------------------------------


@bug("rows without evidence pass the gate", "throughput:tau=1", Invariant.GATE, size=(1, 1, 2, 1))
def _(patch: Patch) -> None:
    passes = Gate.passes
    patch.setattr(Gate, "passes", lambda self, norms, mean: passes(self, norms, mean) | np.isnan(norms))


@bug("large rows pass the gate", "throughput:rho=off", Invariant.GATE, size=(1, 1, 3, 1))
def _(patch: Patch) -> None:
    patch.setattr(Gate, "passes", lambda self, norms, mean: norms > 0)


@bug("ρ is not held", "throughput", Invariant.GATE, size=(1, 1, 4, 3))
def _(patch: Patch) -> None:
    patch.setattr(gated, "hold_ratio", lambda candidates, norms, most: candidates)


@bug("a rank stops waiting one chunk early", "throughput:evidence=local:rho=off", Invariant.GATE, size=(1, 1, 2, 2))
def _(patch: Patch) -> None:
    last = ChunkedPublication._last_failing

    def earlier(self: ChunkedPublication, *args: object) -> int | None:
        return (last(self, *args) or 0) - 1 if last(self, *args) else None

    patch.setattr(ChunkedPublication, "_last_failing", earlier)


@bug(
    "norms are summed while a part of them has left",
    "throughput:evidence=reduced:rho=off",
    Invariant.ARRIVED,
    size=(1, 2, 2, 2),
)
def _(patch: Patch) -> None:
    cutting = ChunkedPublication.cutting

    def leaving_early(self: ChunkedPublication, step: int) -> object:
        plain = ScopedPublication.cutting(self, step)
        return replace(cutting(self, step), early=plain.early, lead=plain.lead)

    patch.setattr(ChunkedPublication, "cutting", leaving_early)


@bug("paper-literal delays rows that the next step writes", "paper-literal:tau=1", Invariant.GATE, size=(1, 1, 4, 2))
def _(patch: Patch) -> None:
    patch.setattr(LiteralPublication, "write_scopes", lambda self, step: np.zeros_like(self._scopes[step]))


@bug(
    "paper-literal delays the rows that pass although one fails",
    "paper-literal:tau=1",
    Invariant.GATE,
    world=only_read(1, 9, 1),
)
def _(patch: Patch) -> None:
    passing = lambda self, step, _: GatedPublication.delayable(self, step, _only_read(self, step))  # noqa: E731
    patch.setattr(LiteralPublication, "delayable", passing)


@bug(
    "paper-literal takes out the largest norms until ρ holds",
    "paper-literal:tau=0.8",
    Invariant.GATE,
    world=only_read(1, 1, 9),
)
def _(patch: Patch) -> None:
    def held(self: LiteralPublication, step: int, _: object) -> object:
        arm, rows = self.arm, _only_read(self, step)
        self.arm = replace(arm, rho=False)
        passing = GatedPublication.delayable(self, step, rows)
        self.arm = arm
        return GatedPublication.delayable(self, step, rows) if len(passing) == len(rows) else rows[:0]

    patch.setattr(LiteralPublication, "delayable", held)


def _only_read(publication: LiteralPublication, step: int) -> np.ndarray:
    """C_RAW⁺ of the window after a step."""
    written, read = publication._written[step], publication._written[step + 1]
    return row_ids(written & read & ~union(publication.write_scopes(step + 1)), len(publication.recipe.table))


# Publication and the ledger -------------------------------------------------------------------------------


@bug("an update does not wait for its sum", "quality", Invariant.ARRIVED, size=(1, 1, 2, 1))
def _(patch: Patch) -> None:
    patch.setattr(Publication, "_wait_through", lambda self, pending, last: pending.under_way.clear())


@bug("three slots", "hogwild", Invariant.LATE_READ, size=(1, 1, 3, 1))
def _(patch: Patch) -> None:
    ring_of_three(patch)
    _late_publication(patch)


@bug("a slot is used again before publication", "hogwild", Invariant.SLOT, size=(1, 1, 3, 1))
def _(patch: Patch) -> None:
    patch.setattr(Ledger, "slot", lambda self, step: self._slots[step % self.ring])
    patch.setattr(Ledger, "push", lambda self, pending: self._pending.append(pending))
    _late_publication(patch)


def ring_of_three(patch: Patch) -> None:
    init = Ledger.__init__
    patch.setattr(Ledger, "__init__", lambda self, *_, **more: init(self, 3, **more))


def _late_publication(patch: Patch) -> None:
    finish = PredictedPublication._finish

    def late(self: PredictedPublication, step: int) -> None:
        finish(self, step - 1)
        if self.blocked(step + 1):
            finish(self, step)

    patch.setattr(PredictedPublication, "_finish", late)
    patch.setattr(PredictedPublication, "close", Publication.close)  # one pass with the next step would not be late


@bug("a step is predicted before its predecessor is corrected", "predicted:audit=0", Invariant.ORDER, size=(1, 1, 3, 1))
def _(patch: Patch) -> None:
    def close(self: PredictedPublication, step: int) -> None:
        self._launch(step, CLOSE)
        if not self.blocked(step):
            self._open_window(step)
        self._finish(step - 1)
        if self.blocked(step):
            self._finish_whole(step)

    patch.setattr(PredictedPublication, "close", close)


# Structural events ----------------------------------------------------------------------------------------


@bug("a densifying step leaves its predecessor pending", "quality", Invariant.FLUSHED, size=(1, 1, 3, 1))
def _(patch: Patch) -> None:
    patch.setattr(Ledger, "require_flushed", lambda self: None)
    patch.setattr(Publication, "abandon", lambda self, step: self._closed(step))


@bug("the window before a structural event opens", "quality", Invariant.FLUSHED, size=(1, 1, 2, 1))
def _(patch: Patch) -> None:
    patch.setattr(Ledger, "require_flushed", lambda self: None)
    patch.setattr(Publication, "blocked", lambda self, step: step == self.plan.steps - 1)


# Audits, what follows from them, and dispatch -------------------------------------------------------------


@bug("an audited step is sent before it is audited", "predicted:audit=1", Invariant.ARRIVED, size=(1, 1, 2, 1))
def _(patch: Patch) -> None:
    def launch(self: Publication, step: int, point: object) -> None:
        if not self.drops_gradient(step):
            self._send(step, {point})

    patch.setattr(Publication, "_launch", launch)
    patch.setattr(Ledger, "slot", lambda self, step: self._slots[step % self.ring])


@bug("each rank decides on its own error", "quality:audit=1", Invariant.COLLECTIVES, size=(2, 1, 3, 1))
def _(patch: Patch) -> None:
    agree = audit.agree

    def alone(*given: object) -> object:
        *_, sums, _ = given
        wrong, truth = sums.sum(axis=1)
        return replace(agree(*given), error=float(np.sqrt(wrong / truth)) if truth else 0.0)

    patch.setattr(audit, "agree", alone)


@bug(
    "a step behind a blocking window is taken for one to audit", "predicted:audit=2", Invariant.AUDIT, size=(1, 1, 4, 1)
)
def _(patch: Patch) -> None:
    def taken(every: int, plan: Plan, drops: Callable[[int], bool]) -> frozenset[int]:
        return audit.audited_steps(every, replace(plan, blocking=np.zeros_like(plan.blocking)), drops)

    patch.setattr(base, "audited_steps", taken)


@bug("a densifying step is taken for one to audit", "predicted:audit=3", Invariant.AUDIT, size=(1, 1, 6, 1))
def _(patch: Patch) -> None:
    patch.setattr(
        base, "audited_steps", lambda every, plan, drops: audit.audited_steps(every, plan, lambda step: False)
    )


@bug("a failed audit changes nothing", "predicted:audit=3", Invariant.FALLBACK, size=(1, 1, 6, 1))
def _(patch: Patch) -> None:
    patch.setattr(Publication, "following", lambda self, step: self)


@bug("no structural event ends what a failed audit began", "predicted:audit=2", Invariant.FALLBACK, size=(1, 1, 6, 1))
def _(patch: Patch) -> None:
    following = Publication.following
    stay = lambda self, step: self if self.home is not None else following(self, step)  # noqa: E731
    patch.setattr(Publication, "following", stay)


@bug("a checkpoint ends what a failed audit began", "predicted:audit=1", Invariant.FALLBACK, size=(1, 2, 5, 2))
def _(patch: Patch) -> None:
    following = Publication.following

    def too_soon(self: Publication, step: int) -> Publication:
        return self.home if self.home is not None and self.blocked(step) else following(self, step)

    patch.setattr(Publication, "following", too_soon)


@bug("each rank dispatches by what it has measured itself", "predicted:audit=0", Invariant.UNITS, size=(2, 1, 5, 2))
def _(patch: Patch) -> None:
    def learn(self: Dispatcher, step: int) -> None:
        handle, flat = self._sent.pop(step)
        mine = flat.clone()
        self._keeper.wait(handle, "costs")
        self._costs.learn(self._plan.views(step), mine.numpy())

    patch.setattr(Dispatcher, "learn", learn)


# The link -------------------------------------------------------------------------------------------------


@bug("a rank without a gradient leaves its segment out", "barrier-planned", Invariant.ARRIVED, size=(2, 1, 1, 1))
def _(patch: Patch) -> None:
    send = Publication._send

    def only_something(self: Publication, step: int, points: object) -> None:
        if self._pending(step).slot.tensor.any() or COLOURS in points:
            send(self, step, points)

    patch.setattr(Publication, "_send", only_something)


@bug("a segment is awaited before it is launched", "quality", Invariant.DEADLOCK, size=(2, 1, 1, 1))
def _(patch: Patch) -> None:
    send = Publication._send

    def await_first(self: Publication, step: int, points: object) -> None:
        if CLOSE in points and self.blocked(step):
            upcoming = len(self.transport._meeting._joined[self.transport.rank])
            self.transport.finish(upcoming, torch.zeros(0))
        send(self, step, points)

    patch.setattr(Publication, "_send", await_first)
