"""The *city* on shards (D§10 Fig. 13, D§11): mixed parallelism on 8, 32 and 64 virtual ranks over nodes of 8.

    python -m benchmarks.city                                            # 8, 32 and 64 ranks; hours on a small machine
    python -m benchmarks.city --ranks 8 --steps 20 "scene=city?views=256"

Every line is a training of one arm with real numerics on a virtual clock: prices of the committed GPU profile, the link
of the committed cluster. `hidden_publish` is the share of the gradients' way back that no rank waits for,
`hidden_observe` that of projected rows. The first arm is the baseline; it orders views at random, the others follow the
plan. All lines have evidence label `virtual`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from harness.config import load
from harness.measure.breakdown import Breakdown, breakdown, limit
from harness.measure.exchange import exchange_of
from harness.profiles.calibration import cluster_link, committed_prices
from harness.run.collect import rank_steps, rank_timeline
from harness.run.together import train
from harness.run.workload import Workload, load_workload
from harness.store.exchange import Exchange
from harness.store.files import write_text
from odin.arms import arm as arm_named
from odin.comm.link import Link
from odin.errors import OdinError
from odin.keeper import NominalKeeper, Work
from pipelines.render.cpu import warm_up as compile_renderer

ARMS = ("barrier", "barrier-planned", "quality", "predicted")
VIEWS_PER_UNIT, VIEWS_PER_RANK = 2, 32  # the city grows with the ranks: ground per view is constant
DEFAULTS = ("pipeline=grendel", "engine=virtual", "densify=false", f"views_per_unit={VIEWS_PER_UNIT}", "link=none")
PAPER = {32: 1.27, 64: 1.89}  # Fig. 13
CSV_COLUMNS = [
    *["ranks", "views", "rows", "arm", "label", "step_ms", "speedup", "paper", "exposed", "limit"],
    *["publish_ms", "hidden_publish", "observe_ms", "hidden_observe", "owner_bytes", "extra_bytes"],
]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the virtual clock runs on. slowdown: of compute during a transfer."""

    price: Callable[[str, Work], float]
    link: Link
    slowdown: float = 1.0


def committed(ranks: int, cluster: str, scale_rows: float) -> Setting:
    """Prices of the committed GPU and the link of a committed cluster. Raises InputError."""
    words = ["engine=virtual", "compute=rtx4090", "overlap_slowdown=1.05", "link=none"]
    compute = load([*words, f"compute.scale_rows={scale_rows}"]).compute
    link = cluster_link(cluster, ranks).carrying(scale_rows)
    return Setting(price=committed_prices(compute).price, link=link, slowdown=compute.overlap_slowdown)


def workload_of(words: Sequence[str], ranks: int, steps: int) -> Workload:
    """The city for so many ranks. Raises InputError for words that mean nothing."""
    views = max(VIEWS_PER_RANK * ranks, 4 * VIEWS_PER_UNIT * ranks)
    scene = f"scene=city?views={views}"
    return load_workload(load([scene, *DEFAULTS, *words, f"ranks={ranks}", f"steps={steps}"]))


def seen(workload: Workload, arm: str, setting: Setting) -> tuple[Breakdown, Exchange, int]:
    """Train one arm: where its time went, what it exchanged, and its primitives."""

    def keeper(transport: object) -> NominalKeeper:
        return NominalKeeper(setting.price, transport.pace(setting.slowdown))  # type: ignore[attr-defined]

    executed, _ = train(workload, arm_named(arm), setting.link, keeper)
    timeline = pd.concat([rank_timeline(e, rank) for rank, e in enumerate(executed)], ignore_index=True)
    steps = pd.concat([rank_steps(e, rank) for rank, e in enumerate(executed)], ignore_index=True)
    held = [e.shard for e in executed if e.shard is not None]
    return breakdown(timeline, steps), exchange_of(timeline, steps, held), len(executed[0].recipe.table)


def lines(workload: Workload, setting: Setting, arms: Sequence[str] = ARMS) -> list[dict[str, object]]:
    """One line of the CSV per arm; the first arm is the baseline."""
    ranks, found, base = workload.config.engine.ranks, [], None
    for arm in arms:
        parts, exchange, rows = seen(workload, arm, setting)
        base = base or parts
        found.append(
            {
                "ranks": ranks,
                "views": len(workload.capture.train),
                "rows": rows,
                "arm": arm,
                "label": "virtual",
                "step_ms": 1e3 * parts.step,
                "speedup": base.step / parts.step,
                "paper": PAPER.get(ranks),
                "exposed": parts.transfer / base.step,
                "limit": limit(base).value,
                "publish_ms": 1e3 * exchange.publish.carried,
                "hidden_publish": exchange.publish.hidden.value,
                "observe_ms": 1e3 * exchange.observe.carried,
                "hidden_observe": exchange.observe.hidden.value,
                "owner_bytes": exchange.owner_bytes,
                "extra_bytes": exchange.extra_bytes,
            }
        )
    return found


def main(arguments: Sequence[str]) -> int:
    """Train, print the table and write the CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--ranks", type=int, nargs="+", default=[8, 32, 64], metavar="W")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--cluster", default="rtx4090-pcie4+erdma160")
    parser.add_argument("--scale-rows", type=float, default=1.0, help="what a row of the small city stands for")
    parser.add_argument("--out", type=Path, default=Path("runs/city/city.csv"))
    given = parser.parse_args(list(arguments))
    rows: list[dict[str, object]] = []
    try:
        for ranks in given.ranks:
            workload = workload_of(given.words, ranks, given.steps)
            compile_renderer()
            setting = committed(ranks, given.cluster, given.scale_rows)
            rows += lines(workload, setting)
            print(pd.DataFrame(rows, columns=CSV_COLUMNS).to_string(index=False, float_format="%.3f"), flush=True)
    except OdinError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    given.out.parent.mkdir(parents=True, exist_ok=True)
    write_text(given.out, pd.DataFrame(rows, columns=CSV_COLUMNS).to_csv(index=False))
    print(f"{given.out}: {len(rows)} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
