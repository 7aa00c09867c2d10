"""How a sequence summed over ranks, and what may be said about its bits (D§5 Exact arms)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from harness.store.schema import Result
from harness.store.store import MODEL, CellStore
from odin.arms import arm as arm_named
from pipelines.export import read_ply

EXACT_REFERENCE = "barrier-planned"
NATIVE, ORDERED = "native", "ordered"
# Two numbers have one sum. From three on it depends on the order, and a native one on how the payload was cut.
MOST_NATIVE_RANKS = 2


def reduction_of(result: Result) -> str:
    """`native` or `ordered`."""
    engine = result.cell.identity.get("engine")
    return str(engine.get("reduce", NATIVE)) if isinstance(engine, dict) else NATIVE


def sums_depend_on_layout(results: Sequence[Result]) -> bool:
    """Whether some cell summed natively over so many ranks that bits of arms are not comparable."""
    return any(
        r.measurement is not None and r.measurement.ranks > MOST_NATIVE_RANKS and reduction_of(r) == NATIVE
        for r in results
    )


def model_differences(store: CellStore, results: Sequence[Result]) -> dict[str, str]:
    """Exact arm → largest difference of a parameter of its model from its reference's, or why there is none.

    Only for sums that depend on the layout; where they do not, final states are compared bit for bit.
    """
    if not sums_depend_on_layout(results):
        return {}
    first = {r.cell.arm: r for r in results if r.cell.repeat == 0 and r.measurement is not None}
    references = {name: arm_named(name).reference for name in first if arm_named(name).exact}
    return {
        name: _difference(store, first[name], first[reference])
        for name, reference in references.items()
        if reference in first and name != reference
    }


def reduction_lines(results: Sequence[Result], differences: Mapping[str, str]) -> Iterator[str]:
    """What a reader must know of the sums, for more than two ranks: one sentence per line.

    differences: of `model_differences`
    """
    ranks = max((r.measurement.ranks for r in results if r.measurement is not None), default=1)
    if ranks <= MOST_NATIVE_RANKS:
        return
    if not sums_depend_on_layout(results):
        yield f"Sums over the {ranks} ranks are taken in rank order (reduce=ordered)."
        return
    yield (
        f"Native reduction: not compared bit for bit, because over {ranks} ranks the order of its additions depends "
        "on how an arm cuts its payload; reduce=ordered makes exact arms comparable."
    )
    if differences:
        each = ", ".join(f"{arm} {difference}" for arm, difference in differences.items())
        yield f"Largest difference of a parameter of the final model from that of waiting in the same order: {each}."


def _difference(store: CellStore, one: Result, other: Result) -> str:
    paths = [store.path(result.cell_id) / MODEL for result in (one, other)]
    if not all(path.exists() for path in paths):
        return "n/a (a model file is missing)"
    models = [read_ply(path) for path in paths]
    if len(models[0]) != len(models[1]):
        return f"n/a ({len(models[0])} against {len(models[1])} primitives)"
    return f"{np.abs(models[0] - models[1]).max(initial=0.0):.3g}"
