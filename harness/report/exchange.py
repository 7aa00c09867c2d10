"""Lines about mixed parallelism under a headline table; none for replicated pipelines."""

from __future__ import annotations

from collections.abc import Sequence

from harness.store.schema import Result

_MIB = 2.0**20


def exchange_lines(results: Sequence[Result]) -> list[str]:
    """What each arm's owners and ranks exchange, of its first finished run."""
    lines, seen = [], set[str]()
    for result in results:
        found = result.measurement.exchange if result.measurement is not None else None
        if found is None or result.cell.arm in seen:
            continue
        seen.add(result.cell.arm)
        observe, publish = found.observe, found.publish
        lines.append(
            f"{result.cell.arm} ({result.cell.label.value}, {found.shards} owners): hidden-publish "
            f"{publish.hidden.text('.1f', 100, ' %')} of {1e3 * publish.carried:.3f} ms/step, hidden-observe "
            f"{observe.hidden.text('.1f', 100, ' %')} of {1e3 * observe.carried:.3f} ms/step; sent per rank and step "
            f"{observe.nbytes / _MIB:.3f} + {publish.nbytes / _MIB:.3f} MiB; an owner holds "
            f"{found.owner_bytes / _MIB:.2f} MiB and {found.extra_bytes / _MIB:.2f} MiB besides"
        )
    return lines
