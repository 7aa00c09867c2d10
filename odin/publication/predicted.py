"""`predicted`: a step reads pending rows at their zero-gradient-step value; nothing is waited for inside it (D§6).

At p0 of A every row takes A's zero-gradient step in place. At p0 of B, A's reduced gradient has usually long
arrived; it is applied as a correction before B's own zero step. The state is one table, identical on all ranks.
The idea of predicting weights by the optimizer's own rule is known from asynchronous pipeline training
(SpecTrain, XPipe, PipeOptim); new here is the in-place correction.
"""

from __future__ import annotations

from odin.ledger import Pending
from odin.phases import Phase
from odin.publication.base import Publication, WindowState
from odin.rows import apply_correction, apply_zero


class PredictedPublication(Publication):
    """Predicted reads, rows of both column groups."""

    def colours_done(self, step: int) -> None:
        """Send the colour bucket, unless the step's gradient is dropped."""
        if not self.drops_gradient(step):
            pending = self._begin_pending(step)
            self._launch(pending, pending.slot.segments[0], self.recipe.table.every_row)

    def close(self, step: int) -> None:
        """Send geometry; correct the predecessor; then predict this step, or wait for it at a blocking window."""
        pending = self._current(step)
        self._launch_buckets(pending)
        self._correct_predecessor(step)
        rows = len(self.recipe.table)
        if self.blocked(step):
            self._publish_all_rows(pending)
            self._account(step, WindowState.REJECTED, rows, rows)
            return
        with self.keeper.phase(Phase.ZERO_STEP, rows=rows):
            apply_zero(self.recipe.table.moments, pending.update, self._rows(self.recipe.table.every_row))
        self._account(step, WindowState.CLEAR, 0, rows)

    def abandon(self, step: int) -> None:
        """Publish the predecessor; this step's gradient is dropped."""
        self._correct_predecessor(step)
        self.ledger.require_flushed()
        self._account(step, WindowState.REJECTED, 0, 0)

    def _current(self, step: int) -> Pending:
        pending = self.ledger.newest()
        assert pending is not None and pending.step == step
        return pending

    def _correct_predecessor(self, step: int) -> None:
        pending = self.ledger.oldest()
        if pending is None or pending.step == step:
            return
        self._wait_all(pending.launched)
        slot, ids = pending.slot, self.recipe.table.every_row
        with self.keeper.phase(Phase.CORRECT, rows=len(ids)):
            state = self.recipe.table.moments
            apply_correction(state, pending.update, self._rows(ids), slot.values, slot.offsets)
        self.ledger.done(pending)
