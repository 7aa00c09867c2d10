"""What became of each overlap window: the account behind Fig. 17 and Review 1."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from odin.hazards import Hazards
from odin.plan import Blocking, Plan

REJECTED_SHARE = 0.95  # of the transfer waited for before the successor begins: the window did not open (D§3)


class WindowState(Enum):
    """What became of the edge between two consecutive steps (D§3)."""

    CLEAR = "clear"  # nothing is waited for: no conflict, or an arm that looks for none
    PARTIAL = "partial"  # the successor began before all of the predecessor had arrived
    REJECTED = "rejected"  # blocking, or ≥ 95 % of the transfer is waited for before the successor begins


@dataclass(frozen=True, kw_only=True)
class Window:
    """Account of the window after `step`.

    reason:       why it was rejected
    hazards:      rows in conflict by kind, where scopes were compared
    waited_rows:  rows of W⁺ that the successor waits for before p0
    delayed_rows: rows of W⁺ that it may read before they are published, as far as this rank did not wait after all
                  (chunks of the gate)
    held:         share of the transfer's bytes that the successor waits for before it projects its first view; with
                  column groups that is geometry alone
    write_rows:   rows of W⁺ (all rows where there are no scopes)
    rows:         rows of the table
    """

    step: int
    state: WindowState
    reason: str = ""
    hazards: Hazards | None = None
    waited_rows: int = 0
    delayed_rows: int = 0
    held: float = 1.0
    write_rows: int = 0
    rows: int = 0


def rejection(plan: Plan, step: int) -> str:
    """Why the window after a step did not open."""
    flags = Blocking(int(plan.blocking[step])) if step < plan.steps - 1 else Blocking.NONE
    return str(flags.name).lower() if flags else "everything is waited for"


def state_of(waited: int, held: float) -> WindowState:
    """State of an open window by the rows that are waited for at all, and the share of the transfer that is waited for
    before the successor begins."""
    if waited == 0:
        return WindowState.CLEAR
    return WindowState.REJECTED if held >= REJECTED_SHARE else WindowState.PARTIAL
