"""`throughput`: rows with small gradient evidence are read one update late, the others are waited for (D§6 gate).

D holds the rows of W⁺(A) ∩ R⁺(B) that pass ‖g(p)‖ ≤ τ · mean over the active set; if |D| / |R⁺(B)| exceeds τ, the
rows with the largest norms are taken out again until it does not. No evidence, no delay. Updates are applied in step
order from separate slots, so only the value that is read is late, and never by more than one update.

With evidence `history` all of this is known before A begins. With `local` and `reduced` every conflicting row may
be delayed: these rows travel in chunks, ordered by what is known before, and at p1 of B each rank waits for the chunks
up to the last one that holds a row failing its gate. What a rank waits for is then its own matter; what travels is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from odin.arms import Evidence, Reads
from odin.bitmap import pack, row_ids, union, words
from odin.comm.transport import Handle
from odin.evidence import Gate, active_mean, hold_ratio
from odin.ledger import Pending
from odin.memory import Holding, MemoryCategory
from odin.phases import Phase
from odin.points import CLOSE, Point, geometry
from odin.publication.delays import Delays, delays
from odin.publication.layout import CHUNK, DELAYED, REST, Classes, Cutting, lay_out
from odin.publication.scoped import ScopedPublication
from odin.publication.window import WindowState, state_of
from odin.recipe import Frame
from odin.segments import Part
from odin.slot import Segment

CHUNKS = 8

Ids = NDArray[np.int32]


class GatedPublication(ScopedPublication):
    """Delay by evidence that is known before the step: the norm at each row's last publication."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._written_rows: dict[int, Ids] = {}  # W⁺ of steps that are not published yet
        self._seen: dict[int, tuple[Ids, NDArray[np.float32]]] = {}  # delayed rows and this rank's norms of them
        self.delays: list[Delays] = []

    def restart(self, step: int) -> None:
        """Evidence is kept from the first step on; structural events carry it over to the rows that live on."""
        self.recipe.table.keep_evidence()
        self._written_rows = {}
        super().restart(step)

    def holdings(self) -> Iterator[Holding]:
        """Also W⁺ of steps that are not published, and the norms of delayed rows."""
        yield from super().holdings()
        for rows in self._written_rows.values():
            yield MemoryCategory.ROW_LISTS, rows
        for rows, norms in self._seen.values():
            yield MemoryCategory.ROW_LISTS, rows
            yield MemoryCategory.EVIDENCE, norms

    def _cut_by_reads(self, step: int) -> None:
        """As for all, but what the gate decides in between is a phase of its own: the price of hazards is fitted where
        nothing is decided."""
        self._take(step)
        self._take(step + 1)
        table = self.recipe.table
        with self.keeper.phase(Phase.HAZARDS, rows=len(table)):
            found, self._hazards = table.once(lambda: self._conflicts(step))
        with self.keeper.phase(Phase.GATE, rows=len(table)):
            classes = table.once(lambda: self.classes(step, found))
        with self.keeper.phase(Phase.HAZARDS):
            self._cut = table.once(lambda: lay_out(classes, self.cutting(step)))
            self.transport.agree(step, self._cut.digest)
        self._partition(step, self._cut.segments)

    @property
    def gate(self) -> Gate:
        """The gradient gate of the arm."""
        return Gate(tau=self.arm.tau)

    def classes(self, step: int, found: Classes) -> Classes:
        """Conflicting rows that may be delayed need not be waited for."""
        rows = np.flatnonzero(found.need != REST).astype(np.int32)
        need = found.need.copy()
        need[self.delayable(step, rows[found.last[rows] != REST])] = DELAYED
        return Classes(last=found.last, need=need)

    def delayable(self, step: int, conflicting: Ids) -> Ids:
        """D: those of the conflicting rows (ascending) that are read late."""
        norms = self.recipe.table.keep_evidence()
        mean = active_mean(norms[row_ids(self._written[step], len(norms))])
        passing = conflicting[self.gate.passes(norms[conflicting], mean)]
        if not self.arm.rho:
            return passing
        return hold_ratio(passing, norms[passing], int(self.arm.tau * self._sizes[step + 1][1]))

    def cutting(self, step: int) -> Cutting:
        """Delayed rows are corrected later if they are read at predicted values. For histograms nothing leaves before
        the own gradient is complete: a reduction overwrites it."""
        cutting = replace(super().cutting(step), corrects=self.arm.reads is Reads.PREDICTED)
        return replace(cutting, early=0, lead=0) if self.arm.histograms else cutting

    def close(self, step: int) -> None:
        """p0 as always; for histograms, look at the own gradient of delayed rows before it is reduced."""
        if self.arm.histograms and not self.blocked(step):
            slot, rows = self._pending(step).slot, self._cut.delayed
            with self.keeper.phase(Phase.GATE, rows=len(rows)):
                norms = slot.norms(rows, self.recipe.table.layout, 1.0 / self.plan.views_per_unit)
                self._seen[step] = (rows, norms)
        super().close(step)

    def _finish(self, step: int) -> None:
        pending, seen = self.ledger.pending(step), self._seen.pop(step, None)
        if pending is None or seen is None:
            super()._finish(step)
            return
        self._wait_through(pending, None)
        table, (rows, local) = self.recipe.table, seen
        with self.keeper.phase(Phase.GATE, rows=len(table)):
            norms = pending.slot.norms(table.every_row, table.layout, pending.update.scale)
            before = table.moments.p[rows]
        super()._finish(step)
        moved = table.moments.p[rows] - before
        account = delays(
            step, mean=active_mean(norms), local=local, reduced=norms[rows], moved=moved, lr=pending.update.lr
        )
        self.delays.append(account)

    def _open_window(self, step: int) -> None:
        """Predict delayed rows once scopes are taken: the bound is on the step from here, and what turns a predicted
        step into the real one may be longer."""
        super()._open_window(step)
        if self.arm.reads is Reads.PREDICTED:
            pending = self._pending(step)
            with self.keeper.phase(Phase.ZERO_STEP, rows=len(self._cut.delayed)):
                self.recipe.table.apply_zero(pending.update, self._cut.delayed)

    def _published(self, pending: Pending) -> None:
        """Remember the norms of the rows that had a gradient."""
        written = self._written_rows.pop(pending.step)
        with self.keeper.phase(Phase.GATE, rows=len(written)):
            self.recipe.table.remember(written, pending.slot, pending.update.scale)
        super()._published(pending)

    def open(self, step: int) -> None:
        """As for all policies with scopes; W⁺ is kept until the step is published."""
        super().open(step)
        self._written_rows[step] = row_ids(self._written[step], len(self.recipe.table))


class LiteralPublication(GatedPublication):
    """`paper-literal`: §4.3 throughput-first to the letter.

    D⁺ = C_RAW⁺ = (R⁺(B) ∖ W⁺(B)) ∩ W⁺(A), admitted only if |D⁺| / |R⁺(B)| ≤ τ and every row of it passes the gate;
    otherwise, and for all WAW rows, B waits as `quality`. With W⁺ = R⁺ the set is empty, so W⁺(B) is taken as the rows
    that were active at each view's last visit; for a view without one it is R⁺.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._active: dict[int, NDArray[np.uint64]] = {}  # view → rows with a gradient at its last visit
        self._mine: dict[int, NDArray[np.uint64]] = {}  # step → [B, K], this rank's views filled in
        self._sent: dict[int, Handle] = {}

    def restart(self, step: int) -> None:
        """Rows are renumbered by structural events: activity starts anew."""
        super().restart(step)
        self._active, self._mine, self._sent = {}, {}, {}

    def observe(self, step: int, position: int, frame: Frame) -> None:
        """Note the rows of the view that have a gradient."""
        super().observe(step, position, frame)
        rows = len(self.recipe.table)
        with self.keeper.phase(Phase.GATE, rows=rows):
            mine = self._mine.setdefault(step, np.zeros((self.plan.global_batch, words(rows)), np.uint64))
            mask = np.zeros(rows, np.bool_)
            mask[frame.rows[frame.active]] = True
            mine[self.unit_of(step) * self.plan.views_per_unit + position] = pack(mask)

    def _send(self, step: int, points: Collection[Point]) -> None:
        """Activity travels behind the step's last segment; each rank fills in its own views, so a sum is a union."""
        super()._send(step, points)
        if CLOSE in points:
            bits = torch.from_numpy(self._mine[step].view(np.int64))
            self._sent[step] = self.transport.all_reduce(bits, self.keeper.join())

    def _published(self, pending: Pending) -> None:
        """From now on the step's activity is known to all ranks."""
        self.keeper.wait(self._sent.pop(pending.step), "activity")
        for view, bits in zip(self.plan.views(pending.step), self._mine.pop(pending.step), strict=True):
            self._active[int(view)] = bits
        super()._published(pending)

    def write_scopes(self, step: int) -> NDArray[np.uint64]:
        """Rows active at the last visit of each view, within its R⁺."""
        views = self.plan.views(step)
        scopes = self._scopes[step]
        known = [self._active.get(int(view), scope) & scope for view, scope in zip(views, scopes, strict=True)]
        return np.stack(known)

    def delayable(self, step: int, conflicting: Ids) -> Ids:
        """All of C_RAW⁺ or nothing."""
        rows = len(self.recipe.table)
        only_read = self._written[step + 1] & ~union(self.write_scopes(step + 1)) & self._written[step]
        raw = row_ids(only_read, rows)
        norms = self.recipe.table.keep_evidence()
        mean = active_mean(norms[row_ids(self._written[step], rows)])
        small = len(raw) <= self.arm.tau * self._sizes[step + 1][1]
        return raw if small and self.gate.passes(norms[raw], mean).all() else raw[:0]


class ChunkedPublication(GatedPublication):
    """Evidence of the step itself, `local` or `reduced`: known only when A has gone backward."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._delayable: dict[int, Ids] = {}  # rows that a pending step may delay
        self._norms = np.empty(0, np.float32)  # this rank's norms of them, or of all rows where they are reduced
        self._exchange: tuple[Handle, torch.Tensor] | None = None

    def delayable(self, step: int, conflicting: Ids) -> Ids:
        """Every conflicting row may be; the gate decides at p1. With ρ held, those of the largest last norm may not."""
        if not self.arm.rho:
            return conflicting
        norms = np.nan_to_num(self.recipe.table.keep_evidence()[conflicting], nan=np.inf)
        return hold_ratio(conflicting, norms, int(self.arm.tau * self._sizes[step + 1][1]))

    def cutting(self, step: int) -> Cutting:
        """Delayed rows travel in chunks, those with the largest last norm (or none) first. Where the norms of all rows
        are summed over ranks, nothing leaves before the own gradient is complete: a reduction overwrites it."""
        norms = np.nan_to_num(self.recipe.table.keep_evidence(), nan=np.inf)
        order = lambda ids: ids[np.argsort(-norms[ids], kind="stable")]  # noqa: E731
        cutting = replace(super().cutting(step), chunks=CHUNKS, rank_of=order)
        return replace(cutting, early=0, lead=0) if self.arm.evidence is Evidence.REDUCED else cutting

    def close(self, step: int) -> None:
        """Look at the own gradient before the reduction overwrites it. Where no row may be delayed there is nothing to
        decide, and no norms are exchanged; the cut says so, to all ranks alike."""
        if not self.blocked(step) and len(self._cut.delayed):
            self._look(step)
        super().close(step)

    def _look(self, step: int) -> None:
        table, pending = self.recipe.table, self._pending(step)
        reduced = self.arm.evidence is Evidence.REDUCED
        rows = table.every_row if reduced else self._cut.delayed
        scale = 1.0 / (self.plan.global_batch if reduced else self.plan.views_per_unit)
        with self.keeper.phase(Phase.GATE, rows=len(rows)):
            self._norms = pending.slot.norms(rows, table.layout, scale)
        self._exchange = None
        if reduced:
            tensor = torch.from_numpy(self._norms)
            self._exchange = (self.transport.all_reduce(tensor, self.keeper.join()), tensor)

    def _publish(self, step: int, point: Point) -> None:
        """At p1(1): also the chunks up to the last one that holds a row failing the gate."""
        pending = self.ledger.pending(step)
        if pending is not None and point == geometry(0) and pending.due.get(CLOSE):
            self._publish_chunks(pending)
        super()._publish(step, point)

    def _publish_chunks(self, pending: Pending) -> None:
        chunks = [(s, p) for s, p in pending.due[CLOSE] if s.name.startswith(CHUNK)]
        last = self._last_failing(pending, chunks) if chunks else None
        if last is None:
            return
        taken = chunks[: last + 1]
        pending.due[CLOSE] = [entry for entry in pending.due[CLOSE] if all(entry[1] is not p for _, p in taken)]
        if not pending.due[CLOSE]:
            del pending.due[CLOSE]
        self._wait_through(pending, taken[-1][0])
        self._apply(pending, [part for _, part in taken])
        self._waited_after_all(pending.step, sum(len(part.rows) for _, part in taken), self._share(taken))

    def _waited_after_all(self, step: int, rows: int, share: float) -> None:
        """The account at p0 took them for delayed. With the rank's own evidence each rank has its own account."""
        if not self.windows or self.windows[-1].step != step:
            return
        window = self.windows[-1]
        waited, held = window.waited_rows + rows, window.held + share
        state = state_of(waited, held)
        self.windows[-1] = replace(
            window,
            state=state,
            reason=self._reason(step) if state is WindowState.REJECTED else "",
            waited_rows=waited,
            delayed_rows=window.delayed_rows - rows,
            held=held,
        )

    def _last_failing(self, pending: Pending, chunks: list[tuple[Segment, Part]]) -> int | None:
        """Index of the last chunk with a row that fails, None if all rows pass."""
        norms = np.zeros(len(self.recipe.table), np.float32)
        if self._exchange is not None:
            handle, summed = self._exchange
            self.keeper.wait(handle, "norms")
            norms = summed.numpy()
            mean = active_mean(norms)
        else:
            norms[self._delayable[pending.step]] = self._norms
            known = self.recipe.table.keep_evidence()
            mean = active_mean(known[self._written_rows[pending.step]])
        with self.keeper.phase(Phase.GATE, rows=sum(len(part.rows) for _, part in chunks)):
            failing = [not self.gate.passes(norms[part.rows], mean).all() for _, part in chunks]
        return max((k for k, fails in enumerate(failing) if fails), default=None)

    def open(self, step: int) -> None:
        """Remember which rows the step may delay: its successor is cut before they are looked at."""
        super().open(step)
        self._delayable = {s: ids for s, ids in self._delayable.items() if s >= step - 1}
        if not self.blocked(step):
            self._delayable[step] = self._cut.delayed
