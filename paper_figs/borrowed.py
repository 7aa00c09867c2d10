"""What the headline shows of other exhibits: the city, quality over seeds, planning, memory, admission, equal bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from harness.report.reduction import EXACT_REFERENCE
from odin.phases import Phase
from paper_figs import fig13, review2, table3
from paper_figs.cells import Cells, Pair, over_seeds, source, speedups
from paper_figs.paper import stated
from paper_figs.tidy import Rows

CITY = ("speedup", "limit", "exposed", "hidden_publish", "hidden_observe")
LIKE_THE_PAPER = ("predicted", "predicted-random")  # arms of the city that the paper's speedups stand beside
POOLED = ("quality_delta", "equivalence_bound", "quality_delta_same_order", "equivalence_bound_same_order")
QUALITY = (*POOLED, "largest_psnr_delta_fixed", "worst_psnr_delta")
FIXED, DENSIFIED = ", densification off", ", densification on"  # how scenes of Review 2 end
EXACT = ("quality", "paper-quality")
PLACE = ["scene", "seed", "ranks", "optimizer", "steps"]  # what arms of benchmarks/bits.csv are compared within
PLANS = {
    "dense": "plan_seconds_50000",
    "light": "plan_seconds_50000_light",
}  # about 1,000 and 100 observations per image


def add_city(found: Rows, cells: Cells) -> None:
    """Of each number of ranks W: speedup_W, limit_W, exposed_W, hidden_publish_W, hidden_observe_W, hidden_transfer_W,
    and observe_ms_W, what the link spends on projected rows in a step."""
    frame = fig13.rows(cells)
    for scene in dict.fromkeys(frame["scene"]):
        own, ranks = frame[frame["scene"] == scene], scene.rpartition(" ")[2]
        for quantity in CITY:
            _borrow(found, own[own["quantity"] == quantity], f"{quantity}_{ranks}",
                    stated("Fig. 13", f"speedup_{ranks}") if quantity == "speedup" else None)  # fmt: skip
    for group in over_seeds(cells.pairs("city")):
        _transfers(found, group)


def add_seeds(found: Rows, cells: Cells) -> None:
    """`QUALITY` of Review 2; fewest_seeds_fixed: seeds behind the scene of largest_psnr_delta_fixed with fewest;
    largest_perturbed_spread: of barrier's controls with densification, the scene with the largest."""
    frame = review2.rows(cells)
    for quantity in QUALITY:
        _borrow(found, frame[frame["quantity"] == quantity], quantity)
    fixed = frame[(frame["quantity"] == "psnr_delta_same_order") & frame["scene"].str.endswith(FIXED)]
    for row in fixed.sort_values("n").drop_duplicates("arm").to_dict("records"):
        more: dict[str, Any] = {key: row[key] for key in ("arm", "label", "commit", "n")}
        found.add("fewest_seeds_fixed", row["n"], unit="seeds", **more)
    spread = frame[(frame["quantity"] == "perturbed_spread") & frame["scene"].str.endswith(DENSIFIED)]
    _borrow(found, spread.nlargest(1, "value"), "largest_perturbed_spread")


def add_plans(found: Rows, cells: Cells) -> None:
    """Of 50,000 images of the aerial capture: plan_seconds_50000 by setting, …_light of few observations, and
    plan_cpu_seconds_50000."""
    frame = table3.rows(cells)
    for kind, quantity in PLANS.items():
        own = frame[frame["scene"] == f"50000 images, aerial, {kind}"]
        seconds = own[own["quantity"] == "plan_seconds"]
        _borrow(found, seconds if kind == "dense" else seconds.assign(paper=float("nan")), quantity)
        if kind == "dense":
            _borrow(found, own[own["quantity"] == "plan_cpu_seconds"], "plan_cpu_seconds_50000")


def add_memory(found: Rows, cells: Cells) -> None:
    """By arm, over all K: extra_memory_of_bound, the largest extra memory ÷ that of one slot and bitmaps, and
    extra_memory_spread, the largest ÷ the smallest − 1."""
    table = cells.table("shadow_memory")
    if table is None or "formula_extra" not in table:
        return
    own = cells.table_source("shadow_memory", "measured")
    for arm, rows in table.groupby("arm", sort=False):
        more: dict[str, Any] = {"arm": str(arm), "n": len(rows), **own}
        found.add("extra_memory_of_bound", (rows["extra"] / rows["formula_extra"]).max(), unit="ratio", **more)
        found.add("extra_memory_spread", rows["extra"].max() / rows["extra"].min() - 1.0, unit="share", **more)


def add_processes(found: Rows, cells: Cells) -> None:
    """same_bits_processes by exact arm: share of the comparisons with waiting in the same order, over ranks and
    optimizers, that end in equal bits, every arm trained by processes of its own; from benchmarks/bits.csv."""
    table = cells.table("bits")
    if table is None:
        return
    table = table[table["trained"]].drop_duplicates([*PLACE, "arm"])
    for arm in EXACT:
        both = [table[table["arm"] == name].set_index(PLACE)["state"] for name in (arm, EXACT_REFERENCE)]
        known = pd.concat(both, axis=1, join="inner")
        if len(known):
            own = cells.table_source("bits", "measured", arm=arm, n=len(known), unit="share")
            found.add("same_bits_processes", float((known.iloc[:, 0] == known.iloc[:, 1]).mean()), **own)


def add_admission(found: Rows, cells: Cells) -> None:
    """Of a step's CPU time: hazard_share (hazard pass alone; hazard_ms), admission_share (scopes, hazards, cut), from
    benchmarks/admission.csv as benchmarks/admission.py writes it."""
    table = cells.table("admission")
    if table is None:
        return
    phase, _, arm, share = table.columns
    table = table.set_index(phase)
    own = cells.table_source("admission", "measured", arm=arm)
    found.add("hazard_share", table.at["hazard_pass", share] / 100.0, unit="share", **own)
    found.add("hazard_ms", table.at["hazard_pass", arm], unit="ms", **own)
    both = table.loc[[Phase.SCOPES.value, Phase.HAZARDS.value], share].sum()
    found.add("admission_share", both / 100.0, unit="share", **own)


def _transfers(found: Rows, group: Sequence[Pair]) -> None:
    ranks = group[0].ranks
    own = source(group, pipeline=group[0].pipeline)
    found.add_ratios(f"speedup_{ranks}", speedups(group, EXACT_REFERENCE), arm=EXACT_REFERENCE, unit="ratio", **own)
    for arm in ("barrier", EXACT_REFERENCE, *fig13.ARMS[1:]):
        known = [(run, numbers) for pair in group
                 if (run := pair.run(arm)) is not None and (numbers := pair.numbers(arm)) is not None]  # fmt: skip
        hidden = [value for _, numbers in known if (value := numbers.against.hidden_transfer.value) is not None]
        found.add_mean(f"hidden_transfer_{ranks}", hidden, arm=arm, unit="share", **own)
        spent = [1e3 * run.exchange.observe.carried for run, _ in known if run.exchange is not None]
        found.add_mean(f"observe_ms_{ranks}", spent, arm=arm, unit="ms", **own)


def _borrow(found: Rows, frame: pd.DataFrame, quantity: str, paper: float | None = None) -> None:
    """Rows of another exhibit under a name of their own. paper: stands beside `LIKE_THE_PAPER` where a row has none."""
    for row in frame.to_dict("records"):
        more: dict[str, Any] = {key: row[key] for key in ("pipeline", "arm", "label", "commit", "unit", "n")}
        bounds: dict[str, Any] = {key: None if row[key] != row[key] else row[key] for key in ("low", "high", "paper")}
        if bounds["paper"] is None and row["arm"] in LIKE_THE_PAPER:
            bounds["paper"] = paper
        found.add(quantity, row["value"], **bounds, **more)
