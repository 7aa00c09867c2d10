"""What clocks stand behind the numbers of a page: how noisy they are, and how far they compare with the paper's."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from harness.jitter.record import SIGMA
from harness.report.tidy import Row, Tidy
from harness.store.schema import Label

DETERMINISTIC = (
    "Noise of virtual numbers: deterministic (prices have no spread, so that a repeat gives the same number); the "
    "spread from seed to seed is in Review 2."
)
JITTERED = "speedup_jittered"  # mean over the matrix's cells under one draw; low and high: of all draws
COMPUTED_CLOCK = (
    "Every number of the paper is of GPUs on large scenes; virtual ones of ours are of a clock over committed prices, "
    "on small captures that stand for large ones."
)


def jitter_line(rows: Sequence[Row]) -> str:
    """What the means over the matrix would be if phases varied. rows: of `JITTERED`."""
    each = ", ".join(
        f"{row.arm} {row.text}" + (f" ({row.low:.3f} to {row.high:.3f})" if row.low is not None else "") for row in rows
    )
    return (
        f"If every phase varied by {100 * SIGMA:g} % (assumed; lognormal, independent), the mean speedup over the "
        f"cells that have one would be, over {rows[0].n} re-timings: {each}."
    )


def clock_lines(rows: Tidy, labels: Collection[str]) -> list[str]:
    """One sentence each. labels: those on the page."""
    lines = [COMPUTED_CLOCK, DETERMINISTIC] if Label.VIRTUAL.value in labels else []
    varied = [row for row in rows.all("headline", JITTERED) if row.label in labels]
    lines += [jitter_line(varied)] if varied else []
    floor = rows.first("headline", "noise_floor")
    if floor is not None:
        lines.append(
            f"Noise floor of timed numbers, the largest spread of an arm over its own repeats: {floor.text} on "
            f"{floor.scene} ({floor.pipeline}), of {floor.n} pairs ({floor.label})."
        )
    return lines
