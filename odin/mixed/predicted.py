"""`predicted`: a step is observed at its rows' zero-gradient-step values while the one before returns (D§6).

For steps A → B: A is rendered, its gradients are not back. The owner computes A's zero-gradient step of the rows that
B may read into a copy, projects B from it and sends it; then A's gradients return while B is rendered. A is published
before C is observed, so no row is ever more than one update away. The copy lives on inside the observed views until B
itself is published, because the projection's backward must see the values that were projected; the shard moves only
with the gradient.

With `stale` reads B is observed at the last published values.

Legend: n rows of this owner's shard, B views of a step.
"""

from __future__ import annotations

import numpy as np
import torch

from odin.arms import Reads
from odin.device.upload import as_index
from odin.inflation import Inflation
from odin.mixed.flight import Flight
from odin.mixed.recipe import Observed
from odin.mixed.runtime import Ids
from odin.mixed.split import UrgentRuntime
from odin.phases import Phase
from odin.publication.window import Window, WindowState


class PredictedRuntime(UrgentRuntime):
    """Nothing of A is waited for before B is rendered; `quality` from a failed audit to the next structural event."""

    def _opened(self, step: int) -> Flight:
        if self.fallen:
            return super()._opened(step)
        if self._pending is None:
            return self._observed_at_once(step)
        flight = self._begun(step)
        flight.observed.append(self._ahead(step, self._pending))
        self._announce(flight)
        self._learn_sizes(flight)
        self._send(flight, "observe")
        self._return(self._pending)
        return flight

    def _close(self, flight: Flight) -> None:
        if self.fallen:
            super()._close(flight)
            return
        if self._pending is not None:
            self._publish(self._pending)
            self._pending = None
        if self._audits(flight.step):
            self._recompute(flight)
            self._return(flight)
        self.fallen = self._failed(flight)
        if self.fallen or self.blocked(flight.step):
            self._rejected(flight.step, "audit" if self.fallen else "")
            self._return(flight)
            self._publish(flight)
            return
        rows = len(self.recipe.table)
        clear = WindowState.CLEAR
        self._account(Window(step=flight.step, state=clear, delayed_rows=rows, write_rows=rows, rows=rows))
        self._pending = flight

    def _ahead(self, step: int, pending: Flight) -> list[Observed]:
        """Views of a step whose predecessor is pending."""
        if self.arm.reads is Reads.STALE:
            return self._observe(step, self._culled(step))
        self._bound(pending)
        shift, growth = self._one_update(pending.step)
        level = np.zeros(len(self.recipe.table), np.uint8)
        reads = self._culled(step, Inflation(level=level, shift=np.array([shift]), growth=np.array([growth])))
        union, values = self._predicted(reads, pending)
        places = np.zeros(len(level), np.int64)
        places[union] = np.arange(len(union))
        return self._observe(step, reads, [values[as_index(places[ids], self.device)] for ids in reads])

    def _predicted(self, reads: list[Ids], pending: Flight) -> tuple[Ids, torch.Tensor]:
        """Rows that any of the views may read, int32 [R], and their values after the pending step's zero-gradient step,
        float32 [R, D]."""
        union = np.unique(np.concatenate(reads)) if reads else np.zeros(0, np.int32)
        with self.keeper.phase(Phase.ZERO_STEP, rows=len(union)):
            return union, self.recipe.table.zero_stepped(self._bound(pending), union)
