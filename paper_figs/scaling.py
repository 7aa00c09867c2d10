"""Throughput over one rank, for Fig. 11 and 12: by pipeline, ranks and arm, from the study of role "scaling"."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from paper_figs.cells import Cells, Pair, source
from paper_figs.tidy import Rows

ROLE = "scaling"
SHARDED = "Grendel"
# pipeline, arm → as the paper names it
REGIMES = {
    ("3DGS", "barrier"): "DDP",
    ("3DGS", "quality"): "DDP + Odin (quality)",
    ("3DGS", "predicted"): "DDP + Odin (predicted)",
    (SHARDED, "barrier"): "Grendel",
    (SHARDED, "quality"): "Grendel + Odin (quality)",
    (SHARDED, "predicted"): "Grendel + Odin (predicted)",
}


def reference(cells: Cells) -> dict[str, tuple[float, Pair]]:
    """Scene → images per second of 3DGS on one rank under a barrier, and the pair it is from."""
    alone = [pair for pair in cells.pairs(ROLE) if pair.ranks == 1 and pair.pipeline != SHARDED]
    return {p.scene: (n.images_per_second, p) for p in reversed(alone) if (n := p.numbers("barrier")) is not None}


def over_one_rank(exhibit: str, cells: Cells, regimes: Sequence[tuple[str, str]], paper: dict[str, float | None],
                  counts: Sequence[int] = ()) -> pd.DataFrame:  # fmt: skip
    """Rows speedup_over_one_rank; scene: name and ranks; arm: the regime. counts: only so many ranks."""
    found, base = Rows(exhibit), reference(cells)
    seen = set()
    for pair in cells.pairs(ROLE):
        for arm in dict.fromkeys(pair.sequence):
            key, numbers = (pair.pipeline, arm), pair.numbers(arm)
            place = (pair.scene, pair.ranks, key)
            if key not in regimes or numbers is None or pair.scene not in base or place in seen:
                continue
            if pair.ranks == 1 or (counts and pair.ranks not in counts):
                continue
            seen.add(place)
            rate, alone = base[pair.scene]
            regime = REGIMES[key]
            found.add(
                "speedup_over_one_rank",
                numbers.images_per_second / rate,
                scene=f"{pair.scene}, W = {pair.ranks}",
                pipeline=pair.pipeline,
                arm=regime,
                unit="ratio",
                paper=paper.get(regime),
                **source([pair, alone]),
            )
    return found.frame()
