"""Throughput over one rank, for Fig. 11 and 12: by pipeline, ranks and arm, from the study of role "scaling"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from paper_figs.cells import Cells, Pair, source
from paper_figs.drawing import without_number
from paper_figs.tidy import Rows

ROLE = "scaling"
SHARDED = "Grendel"
ARMS = ("barrier", "throughput", "quality", "predicted", "quality-random", "predicted-random")
# pipeline, arm → as the paper names it, with the arm of Odin's
REGIMES = {
    (pipeline, arm): base if arm == "barrier" else f"{base} + Odin ({arm})"
    for pipeline, base in (("3DGS", "DDP"), (SHARDED, "Grendel"))
    for arm in ARMS
}


def reference(cells: Cells) -> dict[str, tuple[float, Pair]]:
    """Scene → images per second of 3DGS on one rank under a barrier, and the pair it is from."""
    alone = [pair for pair in cells.pairs(ROLE) if pair.ranks == 1 and pair.pipeline != SHARDED]
    return {p.scene: (n.images_per_second, p) for p in reversed(alone) if (n := p.numbers("barrier")) is not None}


def over_one_rank(exhibit: str, pairs: Sequence[Pair], base: Mapping[str, tuple[float, Pair]],
                  regimes: Sequence[tuple[str, str]], paper: Mapping[str, float | None]) -> pd.DataFrame:  # fmt: skip
    """Rows speedup_over_one_rank, of the first pair of a place; scene: name and ranks; arm: the regime.

    base:  as `reference`; scenes that are not in it are left out
    paper: regime → the paper's number
    """
    found, seen = Rows(exhibit), set()
    for pair in pairs:
        for key in regimes:
            numbers, place = pair.numbers(key[1]), (pair.scene, pair.ranks, key)
            if key[0] != pair.pipeline or numbers is None or pair.scene not in base or place in seen or pair.ranks == 1:
                continue
            seen.add(place)
            rate, alone = base[pair.scene]
            found.add(
                "speedup_over_one_rank",
                numbers.images_per_second / rate,
                scene=f"{pair.scene}, W = {pair.ranks}",
                pipeline=pair.pipeline,
                arm=REGIMES[key],
                unit="ratio",
                paper=paper.get(REGIMES[key]),
                **source([pair, alone]),
            )
    return found.frame()


def lost(pairs: Sequence[Pair], regimes: Sequence[tuple[str, str]]) -> list[tuple[Pair, tuple[str, str]]]:
    """Pairs on several ranks and regimes of theirs that have no number."""
    own = [pair for pair in pairs if pair.ranks > 1]
    return [
        (group[0], (group[0].pipeline, arm))
        for group, arm in without_number([[pair] for pair in own], ARMS)
        if (group[0].pipeline, arm) in regimes
    ]
