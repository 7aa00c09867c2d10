"""`predicted`: a step reads pending rows at their zero-gradient-step value; nothing is waited for inside it (D§6).

At p0 of A every row takes A's zero-gradient step in place. At p0 of B, A's reduced gradient has usually long
arrived; it is applied as a correction before B's own zero step, in the same pass over the rows. The state is one table,
identical on all ranks. The idea of predicting weights by the optimizer's own rule is known from asynchronous pipeline
training (SpecTrain, XPipe, PipeOptim); new here is the in-place correction.

With `stale` reads there is no zero step: A's update is applied whole at p0 of B (`hogwild`, `without-DAS`).
"""

from __future__ import annotations

from odin.arms import Reads
from odin.phases import Phase
from odin.points import CLOSE
from odin.publication.base import Publication
from odin.publication.window import Window, WindowState


class PredictedPublication(Publication):
    """Nothing is waited for inside a step; rows of both column groups."""

    runs_ahead = True

    def _outstanding(self, step: int) -> tuple[float, float]:
        """What turns the predecessor's predicted step into the real one, and the step's own predicted step."""
        t = self.recipe.table.t
        before, own = self._moves(max(step - 1, 0), max(t, 1)), self._moves(step, t + 1)
        return 2 * before[0] + own[0], 2 * before[1] + own[1]

    def close(self, step: int) -> None:
        """p0. Where nothing comes between, the predecessor's correction and the step's prediction are one pass."""
        before = self.ledger.pending(step - 1)
        if self.arm.reads is not Reads.PREDICTED or before is None or self._audits(step) or self.blocked(step):
            super().close(step)
            return
        self._launch(step, CLOSE)
        self._wait_through(before, None)
        table, update = self.recipe.table, self._pending(step).update
        with self.keeper.phase(Phase.ADVANCE, rows=len(table)):
            table.advance(before.update, before.slot, update, table.every_row)
        self._published(before)
        self._opened(step)
        self._closed(step)

    def _open_window(self, step: int) -> None:
        """Predict the step."""
        table = self.recipe.table
        if self.arm.reads is Reads.PREDICTED:
            with self.keeper.phase(Phase.ZERO_STEP, rows=len(table)):
                table.apply_zero(self._pending(step).update, table.every_row)
        self._opened(step)

    def _opened(self, step: int) -> None:
        rows = len(self.recipe.table)
        self._account(Window(step=step, state=WindowState.CLEAR, delayed_rows=rows, write_rows=rows, rows=rows))

    def _finish(self, step: int) -> None:
        """The predecessor's gradient, as a correction or as a late update."""
        pending = self.ledger.pending(step)
        if pending is None:
            return
        self._wait_through(pending, None)
        table = self.recipe.table
        if self.arm.reads is Reads.PREDICTED:
            self._correct(pending, table.every_row)
        else:
            self._update(pending, table.every_row, 0, len(table.layout.groups))
        self._published(pending)
