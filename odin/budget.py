"""What fits on the link while a step still computes: SAS's decision on what leaves early (§4.2, D§6 Segments).

Nothing here depends on rank-local data, so all ranks cut their segments alike. The order of segments changes when a
row arrives, never its value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A phase profile reduced to what the cut needs.

    bytes_per_second: gradient payload that an all-reduce moves per second
    unit_seconds:     seconds of a unit's work per row in the scopes of its views
    view_seconds:     seconds of a view's work that do not grow with its rows (pixels, fragments, launches); without
                      them a table that has grown seems to leave the link more time than it does
    colour_window:    seconds of a view's projection backward per row in its scope; colours leave during it
    colour_seconds:   seconds of a view's projection backward that do not grow with its rows
    """

    bytes_per_second: float = math.inf
    unit_seconds: float = 0.0
    view_seconds: float = 0.0
    colour_window: float = 0.0
    colour_seconds: float = 0.0

    def early_rows(self, rows_in_unit: float, views: int, carried_bytes: int, row_bytes: int) -> int | None:
        """Rows that reach the other side before a step's last view is done, if they leave after its first view.

        The link first finishes what is left of the step before.

        rows_in_unit: rows in the scopes of a unit's views, mean over ranks
        carried_bytes: gradient bytes of the step before that are still to travel when this one begins
        row_bytes: of one row

        None: no limit is known.
        """
        if not math.isfinite(self.bytes_per_second):
            return None
        unit = self.unit_seconds * rows_in_unit + self.view_seconds * views
        free = unit - max(unit / views, carried_bytes / self.bytes_per_second)
        return max(0, int(free * self.bytes_per_second / row_bytes))

    def colour_rows(self, rows_in_view: int, colour_bytes: int) -> int | None:
        """Rows whose colours travel while the last view's projection goes backward; None: no limit is known."""
        if not math.isfinite(self.bytes_per_second):
            return None
        window = self.colour_window * rows_in_view + self.colour_seconds
        return int(window * self.bytes_per_second / colour_bytes)
