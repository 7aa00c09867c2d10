"""Table 2: the captures, the paper's and ours."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from paper_figs.cells import Cells, source
from paper_figs.exhibit import Need
from paper_figs.paper import stated_table
from paper_figs.tidy import Rows

name = "table2"
title = "Table 2: Captures"
note = (
    "Captures that the recorded studies train on, with the initial primitives of each. The paper's datasets are "
    "counted beside them; they are not the same, and none of the paper's photos is used or shown here."
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
    real = {pair.scene for pair in cells.every_pair() if pair.real}
    table = stated_table()
    commit = next((pair.commit for pair in cells.every_pair()), "none")
    for row in table[table["exhibit"] == "Table 2"].to_dict("records"):
        found.add("captures_of_dataset", 0.0, scene=row["scene"], paper=row["value"], label="computed", commit=commit)
    found.add("captures_of_photos", len(real), label="computed", commit=commit)
    found.add("captures_procedural", len(seen - real), label="computed", commit=commit)
    return found.frame()


def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """A table has no picture."""
    return None
