"""Table 3: seconds of ahead-of-time planning by number of images."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure

from harness.plan.drawing import colour
from paper_figs.cells import Cells
from paper_figs.drawing import PAPER_MARK, WIDTH, canvas, in_style, legend_above, plain_log
from paper_figs.exhibit import Need, Table
from paper_figs.paper import stated
from paper_figs.tidy import Rows
from paper_figs.wording import listed

name = "table3"
title = "Table 3: Time of ahead-of-time planning"
note = (
    "From track metadata in memory: locality graph, partition, order, windows, of a synthetic capture; the time "
    "includes the graph. Not like for like: the paper states neither the observations per image nor the machine, and "
    "planning time is proportional to the former. Without tracks (Review 6) views are coupled by how far their frusta "
    "overlap, which the run and the plan's provenance say; a view without tracks in a capture that has some is "
    "coupled to none and still scheduled."
)
needs: tuple[Need, ...] = (Table(name="planner"),)


def rows(cells: Cells) -> pd.DataFrame:
    """plan_seconds (wall, least of the warm runs) and plan_cpu_seconds by images, capture and setting."""
    found, table = Rows(name), cells.table("planner")
    if table is None:
        return found.frame()
    own = cells.table_source("planner", "measured", unit="s")
    for row in table[~table["cold"].astype(bool)].to_dict("records"):
        place = f"{row['images']} images, {row['kind']}, {row['obs']}"
        paper = stated("Table 3", "plan_seconds", setting=f"{row['images']} images")
        found.add("plan_seconds", row["wall_s"], scene=place, arm=row["setting"], paper=paper, **own)
        found.add("plan_cpu_seconds", row["cpu_s"], scene=place, arm=row["setting"], **own)
    return found.frame()


def remarks(cells: Cells) -> list[str]:
    """The findings, for the caption."""
    return list(findings(rows(cells)))


def findings(frame: pd.DataFrame) -> Iterator[str]:
    """Where ours is slower than the paper's, per number of observations and setting."""
    own = frame[(frame["quantity"] == "plan_seconds") & frame["paper"].notna()]
    parts = own["scene"].str.extract(r"^(?P<images>\d+) images, .*, (?P<obs>\w+)$")
    own = own.assign(images=parts["images"].astype(int), obs=parts["obs"])
    slower = []
    for (obs, setting), group in own.groupby(["obs", "arm"], sort=False):
        late = group[group["value"] > group["paper"]].sort_values("images")
        each = [
            f"{row['images']:,} ({row['value']:.3f} against {row['paper']:.3f} s)" for row in late.to_dict("records")
        ]
        slower += [f"{obs}, {setting}, at {listed(each)} images"] if each else []
    if len(own):
        faster = int((own["value"] <= own["paper"]).sum())
        said = "; ".join(slower) or "nowhere"
        yield f"SLOWER than the paper's: {said}; as fast or faster at {faster} of {len(own)} points."


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """Seconds over images, log-log."""
    own = rows[rows["quantity"] == "plan_seconds"]
    own = own.assign(images=own["scene"].str.extract(r"^(\d+) images")[0].astype(int),
                     kind=own["scene"].str.extract(r"images, (.*)$")[0])  # fmt: skip
    if own.empty:
        return None
    with canvas(2.7, width=0.75 * WIDTH) as (figure, (axes,)):
        for place, ((kind, arm), line) in enumerate(own.groupby(["kind", "arm"], sort=False)):
            axes.plot(line["images"], line["value"], "-", marker="o^Ds<>vP"[place % 8], ms=4, color=colour(place % 10),
                      label=f"{arm}, {kind}")  # fmt: skip
        paper = own.dropna(subset=["paper"]).drop_duplicates("images").sort_values("images")
        axes.plot(paper["images"], paper["paper"], "-", color="black", lw=0.7)
        axes.plot(paper["images"], paper["paper"], **PAPER_MARK, label="paper")
        axes.set_xscale("log")
        axes.set_yscale("log")
        plain_log(axes.xaxis)
        plain_log(axes.yaxis)
        axes.set_xlabel("images")
        axes.set_ylabel("planning, s (measured)")
        legend_above(axes, 3)
        return figure
