"""What clocks stand behind the numbers of a page: how noisy they are, and how far they compare with the paper's."""

from __future__ import annotations

from collections.abc import Collection

from harness.report.tidy import Tidy
from harness.store.schema import Label

DETERMINISTIC = (
    "Noise of virtual numbers: deterministic (prices have no jitter, so that a repeat gives the same number); the "
    "spread from seed to seed is in Review 2."
)
COMPUTED_CLOCK = (
    "Every number of the paper is of GPUs on large scenes; virtual ones of ours are of a clock over committed prices, "
    "on small captures that stand for large ones."
)


def clock_lines(rows: Tidy, labels: Collection[str]) -> list[str]:
    """One sentence each. labels: those on the page."""
    lines = [COMPUTED_CLOCK, DETERMINISTIC] if Label.VIRTUAL.value in labels else []
    floor = rows.first("headline", "noise_floor")
    if floor is not None:
        lines.append(
            f"Noise floor of timed numbers, the largest spread of an arm over its own repeats: {floor.text} on "
            f"{floor.scene} ({floor.pipeline}), of {floor.n} pairs ({floor.label})."
        )
    return lines
