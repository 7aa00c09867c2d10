"""Table 2: the captures, the paper's and ours."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from harness.catalog.scenes import scene_at
from paper_figs.cells import Cells, source
from paper_figs.exhibit import Need
from paper_figs.paper import stated_table
from paper_figs.tidy import Rows

name = "table2"
title = "Table 2: Captures"
note = (
    "Captures that the recorded studies train on, with the initial primitives of each. The paper's datasets are "
    "counted beside them; a capture counts for one where it lies in the catalog's folder. By name and content the "
    "photos of our own capture bonsai appear to be those of Mip-NeRF 360's bonsai, at another resolution and with "
    "poses of their own: not like for like, so it is not counted there."
)
needs: tuple[Need, ...] = ()


def rows(cells: Cells) -> pd.DataFrame:
    """initial_primitives and test_views per capture, and the paper's scene counts per dataset."""
    found, seen = Rows(name), set[str]()
    for pair in cells.every_pair():
        run = next((run for arm in pair.sequence if (run := pair.run(arm)) is not None), None)
        if run is None or pair.scene in seen:
            continue
        seen.add(pair.scene)
        own = source([pair], scene=pair.scene)
        found.add("initial_primitives", run.primitives.initial, **own)
        found.add("test_views", len(run.quality_final.views), **own)
    datasets = _datasets(cells)
    real = {pair.scene for pair in cells.every_pair() if pair.real}
    table = stated_table()
    commit = next((pair.commit for pair in cells.every_pair()), "none")
    for row in table[table["exhibit"] == "Table 2"].to_dict("records"):
        of_it = float(sum(_compact(dataset) == _compact(row["scene"]) for dataset in datasets))
        found.add("captures_of_dataset", of_it, scene=row["scene"], paper=row["value"], label="computed", commit=commit)
    found.add("captures_of_photos", len(real), label="computed", commit=commit)
    found.add("captures_procedural", len(seen - real), label="computed", commit=commit)
    return found.frame()


def _datasets(cells: Cells) -> list[str]:
    """Title of the catalog's dataset of every recorded capture that is one of the catalog's."""
    paths = {str(pair.setting("scene", "path")) for pair in cells.every_pair() if pair.real}
    return [known.title for path in sorted(paths) if (known := scene_at(Path(path))) is not None]


def _compact(title: str) -> str:
    """A dataset's title as either source writes it, with or without spaces."""
    return title.replace(" ", "").lower()


def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """A table has no picture."""
    return None
