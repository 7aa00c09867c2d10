"""What was aimed at before the runs (D§11), beside what the paper states: data for `paper_figs.verdict`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from paper_figs import reasons
from paper_figs.lookup import Lookup
from paper_figs.paper import stated
from paper_figs.review2 import LEAST_POOLED
from paper_figs.tidy import number

CELLS = 20  # of the fixed matrix: four pipelines on five captures
ADMISSION = "not measured at this scale: python -m benchmarks.admission scene=$ODIN_DATA/bonsai images=images_4"


@dataclass(frozen=True, kw_only=True)
class Stated:
    """A number of results/paper/stated.csv. scene, setting: to choose among several; says: what it is of."""

    exhibit: str
    quantity: str
    unit: str
    says: str = ""
    scene: str = ""
    setting: str = ""

    @property
    def value(self) -> float | None:
        """The number, of a range its lower end."""
        return stated(self.exhibit, self.quantity, **self._where)

    def text(self) -> str:
        """With its unit, as a range where the paper states one; the empty string where it states none."""
        low, high = self.value, stated(self.exhibit, self.quantity, high=True, **self._where)
        if low is None:
            return ""
        upper = "" if high is None else f" to {number(high, self.unit)}"
        text = f"±{number(high, self.unit)}" if high == -low else f"{number(low, self.unit)}{upper}"
        return f"{text}{f' ({self.says})' if self.says else ''}"

    @property
    def _where(self) -> dict[str, Any]:
        return {name: value for name in ("scene", "setting") if (value := getattr(self, name))}


@dataclass(frozen=True, kw_only=True)
class Beside:
    """Another number of the headline that stands with a target's.

    text: with {value} and {n}; arm: None for the target's own
    """

    text: str
    quantity: str
    arm: str | None = None


@dataclass(frozen=True, kw_only=True)
class Target:
    """What was aimed at, for each of `arms`.

    aim:    the value that meets it, in `unit`; None where there is none, so that the paper's number stands beside ours
    most:   the aim is an upper bound
    asks:   places that it is about; with fewer it is not judged. matrix: all those of the matrix, if it has more
    of:     what these places are called; count: the quantity that counts them, by default the n of the row
    worst:  the value is of the worst place, so that a miss counts however few there are
    paper:  what the paper states of it, in numbers or words
    beside: other numbers that stand with it
    missed: why it is missed or not judged
    absent: what is said where it is not recorded
    why:    why ours and the paper's number differ, without a full stop
    """

    text: str
    quantity: str
    arms: tuple[str, ...]
    unit: str = "share"
    aim: float | None = None
    most: bool = False
    asks: int = 1
    matrix: bool = False
    of: str = "cells"
    count: str = ""
    worst: bool = False
    paper: Stated | str = ""
    beside: tuple[Beside, ...] = ()
    missed: Callable[[Lookup, str], str] = reasons.none
    absent: str = "not measured here"
    why: str


EXACT, PREDICTED = ("quality", "quality-random"), ("predicted", "predicted-random")
LATE = ("throughput", *PREDICTED)  # arms that read late
MEAN = Stated(exhibit="Abstract", quantity="mean_speedup", unit="ratio", says="throughput-first")
STRESS = Stated(exhibit="Fig. 17", quantity="speedup", unit="ratio", scene="stress subset",
                says="quality-first, a subset")  # fmt: skip
WAIT = Stated(exhibit="Abstract", quantity="hidden", unit="share", says="of critical-path wait")
BAND = Stated(exhibit="Fig. 15", quantity="quality_delta", unit="share", says="aggregates, one seed")

MEANS = Target(
    text="mean speedup", quantity="mean_speedup", arms=PREDICTED, unit="ratio", aim=1.30, asks=CELLS, matrix=True,
    paper=MEAN, beside=(
        Beside(text="photos alone {value} (n = {n})", quantity="mean_speedup_real"),
        Beside(text="{value} over waiting in the same order ({n} cells)", quantity="mean_speedup_same_order"),
        Beside(text="{value} of it from skew", quantity="mean_speedup_from_skew"),
        Beside(text="limit {value}", quantity="mean_limit", arm=""),
        Beside(text="without skew {value}", quantity="mean_limit_no_skew", arm=""),
    ),
    missed=reasons.speedup,
    why="the paper's throughput-first waits for rows that fail its gate, predicted waits for none",
)  # fmt: skip
SPEEDUPS = (
    replace(MEANS, text="mean speedup, exact", arms=EXACT, aim=1.20, paper=STRESS,
            why="the paper's quality-first is all-or-nothing, ours waits by row and column group"),
    MEANS,
    replace(MEANS, text="mean speedup of the paper's default", arms=("throughput",), aim=None,
            why="the paper runs the pipelines' own code on 13 scenes, ours are reference pipelines on five"),
    replace(MEANS, text="mean speedup where a transfer costs compute nothing (overlap_slowdown 1.00)",
            quantity="mean_speedup_slowdown_1", aim=1.35, beside=(), missed=reasons.slowdown,
            why="the paper does not say what a transfer costs the computation beside it"),
)  # fmt: skip

HIDEABLE = Target(
    text="hidden-transfer ÷ hideable", quantity="hidden_transfer_of_hideable", arms=PREDICTED, aim=0.95, asks=CELLS,
    matrix=True, paper=replace(WAIT, says="of all wait; see hidden-wait"),
    beside=(
        Beside(text="of all transfer {value}", quantity="hidden_transfer"),
        Beside(text="of all wait {value}", quantity="hidden_wait"),
        Beside(text="of all lost time {value}", quantity="hidden"),
        Beside(text="against waiting in the same order {value} ({n} cells)",
               quantity="hidden_transfer_of_hideable_same_order"),
    ),
    missed=reasons.hidden,
    why="hideable leaves out structural windows, so that a share can exceed 100 %; the paper's is of all wait, also "
    "for slower ranks",
)  # fmt: skip
HIDDEN = (
    HIDEABLE,
    replace(HIDEABLE, text="hidden-wait of the paper's default", quantity="hidden_wait", arms=("throughput",), aim=None,
            paper=WAIT,
            beside=(Beside(text="of all lost time, its own work included, {value}", quantity="hidden"),
                    Beside(text="against waiting in the same order {value} ({n} cells)",
                           quantity="hidden_wait_same_order")),
            why="the paper's abstract claims it of 13 scenes, its Fig. 19 of one run; ours is a mean over cells"),
)  # fmt: skip

QUALITY = (
    Target(text="final bits are those of waiting in the same order", quantity="same_bits", arms=EXACT, aim=1.0,
           asks=CELLS, of="cells trained apart", count="bits_trained_apart", worst=True, paper="“equivalent”",
           missed=reasons.bits, why="the paper compares aggregates of quality, ours every bit of the final state"),
    Target(text="final bits are those of waiting in the same order, real processes on bonsai: ranks × optimizers",
           quantity="same_bits_processes", arms=("quality", "paper-quality"), aim=1.0, asks=8, of="comparisons",
           worst=True, paper="“equivalent”", absent="not measured at this scale: python -m benchmarks.bit_identity",
           why="the paper compares aggregates of quality, ours every bit of the final state"),
    Target(text="PSNR, equivalent with densification: 90 % interval's end", quantity="equivalence_bound", arms=LATE,
           aim=0.005, most=True, asks=LEAST_POOLED, of="pairs", paper=BAND, missed=reasons.pooled,
           beside=(Beside(text="mean {value}", quantity="quality_delta"),
                   Beside(text="worst scene {value}", quantity="worst_psnr_delta"),
                   Beside(text="against waiting in the same order mean {value} ({n} pairs)",
                          quantity="quality_delta_same_order"),
                   Beside(text="its interval's end {value}", quantity="equivalence_bound_same_order")),
           why="the paper reports aggregates over one seed; ours is an equivalence test over pairs"),
    Target(text="PSNR without densification, worst scene, same order", quantity="largest_psnr_delta_fixed", arms=LATE,
           unit="dB", aim=0.02, most=True, asks=3, of="seeds", count="fewest_seeds_fixed", worst=True,
           missed=reasons.seeds,
           why="the paper has no comparison without densification, which is chaotic"),
)  # fmt: skip


def _city(ranks: int) -> Target:
    return Target(
        text=f"city at {ranks} ranks, speedup", quantity=f"speedup_{ranks}", arms=PREDICTED,
        paper=Stated(exhibit="Fig. 13", quantity=f"speedup_{ranks}", unit="ratio", says="MatrixCity"),
        beside=(
            Beside(text="exposed {value} of barrier's step", quantity=f"exposed_{ranks}"),
            Beside(text="barrier's own {value}", quantity=f"exposed_{ranks}", arm="barrier"),
            Beside(text="limit {value}", quantity=f"limit_{ranks}", arm=""),
            Beside(text="hidden-transfer {value}", quantity=f"hidden_transfer_{ranks}"),
            Beside(text="quality's {value}", quantity=f"hidden_transfer_{ranks}", arm="quality"),
            Beside(text="hidden-observe {value}", quantity=f"hidden_observe_{ranks}"),
            Beside(text="quality's {value}", quantity=f"hidden_observe_{ranks}", arm="quality"),
        ),
        missed=reasons.city(ranks),
        why="the paper's is MatrixCity on GPUs, ours a procedural city with its own exposed share",
    )  # fmt: skip


CITY = (
    _city(32),
    _city(64),
    replace(_city(64), text="city at 64 ranks, hidden-publish", quantity="hidden_publish_64", aim=0.85,
            paper=Stated(exhibit="Fig. 13", quantity="speedup_64", unit="ratio", says="speedup; no share of publish"),
            missed=reasons.none, why="publish is the gradients' way back, of which the paper states no share"),
)  # fmt: skip
COST = (
    Target(text="plan for 50,000 images, s", quantity="plan_seconds_50000", arms=("default",), unit="s", aim=0.45,
           most=True,
           paper=Stated(exhibit="Table 3", quantity="plan_seconds", unit="s", setting="50000 images"),
           beside=(Beside(text="all observations {value}", quantity="plan_seconds_50000", arm="all_cap16"),),
           missed=reasons.plan,
           why="the paper states neither its machine nor the observations per image, so it is not like for like"),
    Target(text="hazard pass, of the CPU renderer's step on bonsai, 2 ranks", quantity="hazard_share",
           arms=("quality",), aim=0.001, most=True, absent=ADMISSION, missed=reasons.hazards,
           why="the paper states no share of a step"),
    Target(text="scopes and admission, of the CPU renderer's step on bonsai, 2 ranks", quantity="admission_share",
           arms=("quality",), aim=0.03, most=True, absent=ADMISSION,
           beside=(Beside(text="in the matrix all of Odin's own work is priced at {value} of a step",
                          quantity="mean_odin_share"),),
           why="the paper states no share of a step"),
    Target(text="extra memory ÷ one gradient slot and bitmaps, at every K", quantity="extra_memory_of_bound",
           arms=("quality", "predicted"), unit="ratio", aim=1.0, most=True, worst=True,
           paper="nearly flat in K (Fig. 16)",
           beside=(Beside(text="over {n} values of K it differs by {value}", quantity="extra_memory_spread"),),
           why="the paper does not define what grows with its K; ours holds one slot, whatever K is"),
)  # fmt: skip
TARGETS = (*SPEEDUPS, *HIDDEN, *QUALITY, *CITY, *COST)
