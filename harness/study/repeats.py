"""What the repeats of one seed share: a repeat changes only jitter, so much of it must be the same (D§9)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.statistics.ratios import DETERMINISTIC, spread_text
from harness.store.schema import Measurement

Repeats = Mapping[str, tuple[float, ...]]
"""Quantity → its value in each repeat of an arm of one pair."""

STATE = "final state"


def repeats_of(measured: Sequence[Measurement]) -> Repeats:
    """Of one arm of one pair, in order. A final state is the number of the first repeat that has it."""
    digests = [m.final_digest for m in measured]
    found: dict[str, tuple[float, ...]] = {
        STATE: tuple(float(digests.index(digest)) for digest in digests),
        "payload bytes": tuple(float(sum(m.payload_bytes_per_step)) for m in measured),
        "primitives": tuple(float(m.primitives.final) for m in measured),
        "opened windows": tuple(float(m.windows.clear + m.windows.partial) for m in measured),
    }
    psnr = tuple(m.quality_final.psnr.value for m in measured)
    known = tuple(value for value in psnr if value is not None)
    return found | ({"PSNR": known} if len(known) == len(psnr) else {})


def repeat_lines(pairs: Sequence[tuple[str, Repeats]]) -> Iterator[str]:
    """For the seeds of one place and arm, (seed, repeats) each: what is deterministic, and the spread of what is not.
    None where no arm ran twice."""
    several = [(seed, values) for seed, values in pairs if any(len(v) > 1 for v in values.values())]
    if not several:
        return
    names = [name for name in several[0][1] if all(name in values for _, values in several)]
    varying = {n: [(s, v[n]) for s, v in several if len(set(v[n])) > 1] for n in names}
    same = [name for name in names if not varying[name]]
    parts = [f"{', '.join(same)} ({DETERMINISTIC})"] if same else []
    for name in names:
        for seed, values in varying[name][:1]:
            text = f"{len(set(values))} different ones" if name == STATE else spread_text(values)
            more = f" and {len(varying[name]) - 1} more" if len(varying[name]) > 1 else ""
            parts.append(f"{name} {text} (seed {seed}{more})")
    yield f"over repeats of a seed: {'; '.join(parts)}"
