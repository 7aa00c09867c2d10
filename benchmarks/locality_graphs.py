"""The locality graphs of §4.1.1 on one model in training, and four of its views as the paper's example (Fig. 5).

    python -m benchmarks.locality_graphs                                                 # rooms, 7,000 images
    python -m benchmarks.locality_graphs scene=../shared/data/bonsai images=images_4 --out graphs.csv

Weights are Jaccard similarities of conservative scopes (geometry), of realized active sets (computation), of what is
important in them (importance), and of the tracks that structure from motion found, which is what Odin plans by. All
are of the same state of the model, but for the tracks, which are known before it. The four views are the two that
share most tracks, the view that shares least with both, and the one that shares most with that.

Columns: scene, images, graph, first, second (numbers 1…4 in the example), weight; and of all pairs of training views
their number (`pairs`), mean weight (`mean`) and the share above 0 (`coupled`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.gate_window import Training
from benchmarks.view_sets import DEFAULTS, look_at_views, train
from harness.config import load
from harness.run.workload import Workload, load_workload
from odin.arms import arm
from odin.errors import InputError, OdinError
from odin.planner import LocalityGraph, computation_graph, geometry_graph, importance_graph, locality_graph

CSV_COLUMNS = ["scene", "images", "graph", "first", "second", "weight", "pairs", "mean", "coupled"]

Weights = NDArray[np.float64]


def dense(graph: LocalityGraph) -> Weights:
    """All weights, float64 [V, V], 0 on the diagonal and where there is no edge."""
    weights = np.zeros((graph.view_count, graph.view_count))
    weights[np.repeat(np.arange(graph.view_count), graph.degree), graph.neighbours] = graph.weights
    return weights


def example(weights: Weights) -> tuple[int, int, int, int]:
    """Two coupled views, and two coupled views far from them; ties go to lower numbers. Raises InputError below 4."""
    if len(weights) < 4:
        raise InputError(f"The example takes 4 training views; the scene has {len(weights)}.")
    one, two = divmod(int(np.argmax(weights)), len(weights))
    from_both = weights[one] + weights[two]
    from_both[[one, two]] = np.inf
    three = int(np.argmin(from_both))
    near = weights[three].copy()
    near[[one, two, three]] = -1
    return one, two, three, int(np.argmax(near))


def measure(workload: Workload) -> pd.DataFrame:
    """Train, then build all graphs over all training views; columns as `CSV_COLUMNS`."""
    plan = workload.plan(arm("barrier"))
    training = Training(workload.recipe(), plan)
    train(training, 0, plan.steps)
    sets = look_at_views(training, range(len(workload.capture.train)))
    graphs = {
        "geometry": geometry_graph(sets.scopes, sets.activity.row_count, top_k=None),
        "computation": computation_graph(sets.activity, top_k=None),
        "importance": importance_graph(sets.activity, top_k=None),
        "tracks": locality_graph(workload.tracks, top_k=None),
    }
    weights = {name: dense(graph) for name, graph in graphs.items()}
    chosen, found = example(weights["tracks"]), []
    for name, own in weights.items():
        every = own[np.triu_indices(len(own), k=1)]
        common = {"pairs": len(every), "mean": every.mean(), "coupled": (every > 0).mean()}
        for first, second in combinations(range(4), 2):
            edge = {"first": first + 1, "second": second + 1, "weight": own[chosen[first], chosen[second]]}
            found.append({"graph": name, **edge, **common})
    frame = pd.DataFrame(found).assign(scene=workload.capture.name, images=plan.steps * plan.global_batch)
    return frame[CSV_COLUMNS]


def main(arguments: Sequence[str]) -> int:
    """Measure, print the table, and write it as CSV where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path)
    given = parser.parse_intermixed_args(arguments)
    try:
        frame = measure(load_workload(load(["steps=1750", *DEFAULTS, *given.words]), print))
    except OdinError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(frame.round(4).to_string(index=False))
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        frame.to_csv(given.out, index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
