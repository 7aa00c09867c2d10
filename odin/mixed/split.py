"""`quality` and `throughput`: rows clear of the step before are observed while it is rendered (D§6 Mixed parallel).

For steps A → B an owner knows which of its rows A draws: they alone get a gradient (W(A)). All others take A's
zero-gradient step at once, so their values for B are final: they are projected while A's rows travel, and sent while
A is rendered. Rows of W(A) that B may read follow when A is published.

`throughput` sends rows of W(A) whose last published gradient is small with the clear ones, at their old values. What
an audit of B finds holds back all of W(C) from the window after: the one behind B is open by then.

Legend: n rows of this owner's shard, B views of a step.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from odin.inflation import Inflation
from odin.mixed.flight import Flight
from odin.mixed.runtime import MixedRuntime
from odin.phases import Phase
from odin.publication.window import Window, WindowState, rejection, state_of

Mask = NDArray[np.bool_]


class UrgentRuntime(MixedRuntime):
    """`quality`: exact, bit for bit what `barrier` trains in the same order."""

    def _opened(self, step: int) -> Flight:
        flight, self._following = self._following, None
        if flight is None:
            flight = self._observed_at_once(step)
        else:
            assert self._pending is not None and flight.held_back is not None
            self._publish(self._pending)
            self._pending = None
            flight.observed.append(self._observe(step, flight.held_back, drawn_only=False))
            self._send(flight, "observe conflict")
            if self._audits(step):
                self._recompute(flight)
        if self.blocked(step):
            self._rejected(step)
            return flight
        following = self._prepared(flight)
        self._await_observed(flight)
        self._learn_sizes(following)
        self._send(following, "observe clear")
        self._following = following
        return flight

    def _close(self, flight: Flight) -> None:
        self._return(flight)
        self.fallen = self._failed(flight) or self.fallen
        if self.blocked(flight.step):
            self._publish(flight)
        else:
            self._pending = flight

    def _prepared(self, flight: Flight) -> Flight:
        """The next step as far as it is clear of this one."""
        step, following, written = flight.step, self._begun(flight.step + 1), self._written(flight)
        with self.keeper.phase(Phase.ZERO_STEP, rows=int((~written).sum())):
            still = np.flatnonzero(~written).astype(np.int32)
            self.recipe.table.apply_zero(self._bound(flight), still)
        flight.moved = np.flatnonzero(written).astype(np.int32)
        shift, growth = self._one_update(step)
        level = written.astype(np.uint8)
        classes = Inflation(level=level, shift=np.array([0.0, shift]), growth=np.array([0.0, growth]))
        reads = self._culled(step + 1, classes)
        with self.keeper.phase(Phase.HAZARDS, rows=len(written)):
            held = written & self._held_back(written, reads, flight)
            clear = [ids[~held[ids]] for ids in reads]
            following.held_back = [ids[held[ids]] for ids in reads]
        following.observed.append(self._observe(step + 1, clear))
        self._announce(following, [len(ids) for ids in following.held_back])
        self._window(step, written, reads, held)
        return following

    def _written(self, flight: Flight) -> Mask:
        """W(A): rows of the shard that this step may give a gradient, bool [n]."""
        written = np.zeros(len(self.recipe.table), bool)
        with self.keeper.phase(Phase.HAZARDS, rows=len(written)):
            for part in flight.observed:
                for one in part:
                    written[one.rows] = True
        return written

    def _held_back(self, written: Mask, reads: list[NDArray[np.int32]], flight: Flight) -> Mask:
        """Rows of W(A) that the next step waits for, bool [n]."""
        return written

    def _window(self, step: int, written: Mask, reads: list[NDArray[np.int32]], held: Mask) -> None:
        """Account of this owner's rows."""
        read = np.zeros(len(written), bool)
        for ids in reads:
            read[ids] = True
        waited, delayed = int((read & held).sum()), int((read & written & ~held).sum())
        held_share = waited / max(int(read.sum()), 1)
        state = state_of(waited, held_share)
        reason = rejection(self.plan, step) if state is WindowState.REJECTED else ""
        self._account(
            Window(
                step=step,
                state=state,
                reason=reason,
                waited_rows=waited,
                delayed_rows=delayed,
                held=held_share,
                write_rows=int(written.sum()),
                rows=len(written),
            )
        )


class GatedRuntime(UrgentRuntime):
    """`throughput`: rows whose last published gradient norm is at most τ times the mean are read one update late.

    Norms, mean and ρ are the owner's own: a shard decides for itself, no message is needed. ρ bounds the late rows of
    every shard by τ of what the step reads there, so of all shards together too. No row is ever more than one update
    late, because a step is published before the next but one is observed.
    """

    def _held_back(self, written: Mask, reads: list[NDArray[np.int32]], flight: Flight) -> Mask:
        if self.fallen:
            return written
        evidence = self.recipe.table.keep_evidence()
        read = np.zeros(len(written), bool)
        for ids in reads:
            read[ids] = True
        with self.keeper.phase(Phase.GATE, rows=int(written.sum())):
            known = evidence[written & (evidence > 0)]
            mean = float(known.mean()) if len(known) else 0.0
            late = np.flatnonzero(written & read & (evidence <= self.arm.tau * mean))  # no evidence: NaN, not late
            if self.arm.rho:
                allowed = int(self.arm.tau * read.sum())
                order = np.argsort(evidence[late], kind="stable")
                late = late[order[:allowed]]
            held = written.copy()
            held[late] = False
        return held

    def _publish(self, flight: Flight) -> None:
        super()._publish(flight)
        if flight.update is not None and flight.moved is not None and self._slot is not None:
            with self.keeper.phase(Phase.GATE, rows=len(flight.moved)):
                self.recipe.table.remember(flight.moved, self._slot, flight.update.scale)
