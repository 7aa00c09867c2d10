"""`barrier` and `barrier-planned`: every step waits for the whole gradient of the step before."""

from __future__ import annotations

from odin.publication.base import Publication


class WaitingPublication(Publication):
    """The synchronized baseline, with the overlap that DDP would give it: colours leave during the projection
    backward of the step's last view, geometry after it; then all rows are updated."""

    def blocked(self, step: int) -> bool:
        """No window opens."""
        return True

    def _open_window(self, step: int) -> None:
        raise AssertionError("a waiting policy opens no window")
