"""What mixed parallelism moves and what of it ranks wait for (D§6, D§11): `observe` and `publish` apart.

Seconds are means over ranks and steps. A wait counts as exposed from when the last rank had joined, queueing included,
as in `harness.measure.breakdown`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from harness.store.exchange import Exchange, Redistributed, Transfer
from harness.store.record import Reading
from odin.memory import Memory
from pipelines.reference.redistribute import Redistribution

OBSERVE, PUBLISH = ("sizes", "observe", "observe clear", "observe conflict"), ("publish",)


def exchange_of(
    timeline: pd.DataFrame,
    steps: pd.DataFrame,
    held: Sequence[Memory],
    redistributions: Sequence[Redistribution] = (),
) -> Exchange:
    """Of one cell, from its frames, what its owners held (`odin.memory`, at least one of them) and how their rows moved
    between them."""
    cells = len(steps)
    return Exchange(
        observe=_transfer(timeline, cells, OBSERVE),
        publish=_transfer(timeline, cells, PUBLISH),
        shards=int(steps["rank"].nunique()),
        owner_bytes=max(memory.synchronized for memory in held),
        extra_bytes=max(memory.extra for memory in held),
        redistributed=tuple(Redistributed(**asdict(one)) for one in redistributions),
    )


def _transfer(timeline: pd.DataFrame, cells: int, names: Sequence[str]) -> Transfer:
    """cells: ranks × steps."""
    own = timeline[timeline["name"].isin(names)]
    links, waits = own[own["kind"] == "collective"], own[own["kind"] == "wait"]
    skew = np.maximum(np.minimum(waits["end"], waits["last_join"]) - waits["start"], 0.0)
    exposed = float((waits["end"] - waits["start"] - skew).sum()) / cells
    carried = float((links["end"] - links["start"]).sum()) / cells
    share = Reading.ratio(exposed, carried, "nothing was carried")
    hidden = share if share.value is None else Reading.of(1.0 - share.value)
    return Transfer(carried=carried, exposed=exposed, hidden=hidden, nbytes=float(links["bytes"].sum()) / cells)
