"""`barrier` and `barrier-planned`: every step waits for the whole gradient of the step before."""

from __future__ import annotations

from odin.publication.base import Publication, WindowState


class WaitingPublication(Publication):
    """The synchronized baseline, with the overlap that DDP would give it: colours leave during the projection
    backward of the step's last view."""

    def colours_done(self, step: int) -> None:
        """Send the colour bucket, unless the step's gradient is dropped."""
        if not self.drops_gradient(step):
            pending = self._begin_pending(step)
            self._launch(pending, pending.slot.segments[0], self.recipe.table.every_row)

    def close(self, step: int) -> None:
        """Send geometry, wait for both buckets, update every row."""
        pending = self.ledger.oldest()
        assert pending is not None and pending.step == step
        self._launch_buckets(pending)
        self._publish_all_rows(pending)
        rows = len(self.recipe.table)
        self._account(step, WindowState.REJECTED, rows, rows)

    def abandon(self, step: int) -> None:
        """Nothing is pending and nothing is sent."""
        self.ledger.require_flushed()
        self._account(step, WindowState.REJECTED, 0, 0)
