"""Fig. 18: the ablation: throughput and quality without each component, and the HOGWILD control."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from paper_figs.cells import Cells, over_seeds, place, speedups
from paper_figs.drawing import canvas, in_style
from paper_figs.exhibit import Need, Study
from paper_figs.quality import decibels
from paper_figs.tidy import Rows, evidence

name = "fig18"
title = "Fig. 18: Ablation"
note = (
    "Left: throughput over barrier's; dashed: full throughput-first. Right: test PSNR minus barrier's. hogwild, also "
    "the paper's w/o LP: random order, waits only until its gradient slot is free, reads what was last published, "
    "validates nothing; it keeps the staging and has neither the locality graph nor SDS (Review 5). "
    "overlap-without-locality: random order, every window validated."
)
needs: tuple[Need, ...] = (Study(role="ablation"),)
BASELINE, FULL = "barrier", "throughput"


def rows(cells: Cells) -> pd.DataFrame:
    """speedup and psnr_delta per arm; effect: full ÷ without, of the ablated ones."""
    found = Rows(name)
    for group in over_seeds(cells.pairs("ablation")):
        own = place(group)
        full = speedups(group, FULL)
        for arm in dict.fromkeys(group[0].sequence):
            if arm == BASELINE:
                continue
            ratios = speedups(group, arm)
            found.add_ratios("speedup", ratios, arm=arm, unit="ratio", **own)
            if arm.startswith("without-") and len(ratios) == len(full):
                found.add_ratios(
                    "effect", [a / b for a, b in zip(full, ratios, strict=True)], arm=arm, unit="ratio", **own
                )
            changes = [d for pair in group if (d := decibels(pair, arm)) is not None]
            found.add_mean("psnr_delta", changes, arm=arm, unit="dB", **own)
    return found.frame()


@in_style
def draw(cells: Cells, rows: pd.DataFrame) -> Figure | None:
    """A bar per arm, a mark per scene where there are several."""
    ratios, changes = (rows[rows["quantity"] == q] for q in ("speedup", "psnr_delta"))
    arms = list(dict.fromkeys(changes["arm"]))
    if not arms:
        return None
    with canvas(0.27 * len(arms) + 0.8, 2, sharey=True) as (figure, (left, right)):
        for axes, frame in ((left, ratios), (right, changes)):
            for arm, own in frame.groupby("arm", sort=False):
                y = arms.index(arm)
                axes.barh(y, own["value"].mean(), 0.62, color="0.55" if arm != FULL else "0.3", zorder=1)
                if len(own) > 1:
                    axes.plot(own["value"], [y] * len(own), "o", ms=3.5, mfc="white", mec="black", mew=0.8, zorder=3)
        for arm in set(arms) - set(ratios["arm"]):
            left.annotate(
                "FAILED", (0, arms.index(arm)), (3, 0), textcoords="offset points", va="center", color="firebrick"
            )
        full = ratios.loc[ratios["arm"] == FULL, "value"].mean()
        left.axvline(1, color="0.3", lw=0.8, zorder=2)
        left.axvline(full, color="black", lw=0.9, ls="--", zorder=2)
        right.axvline(0, color="0.3", lw=0.8)
        left.set_yticks(range(len(arms)), arms)
        left.set_ylim(len(arms) - 0.5, -0.5)
        kind = evidence(rows)
        left.set_xlabel(f"throughput ÷ barrier ({kind})")
        right.set_xlabel(f"test PSNR − barrier's, dB ({kind})")
        return figure
