"""`odin-bench run`, `status` and `retry`: from words to a plan, and from a plan to what is printed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.store.index import RecordIndex
from harness.study.estimate import cost
from harness.study.file import load_study
from harness.study.matrix import expand_study
from harness.study.plan import StudyPlan, plans
from harness.study.states import PairState, counts, pair_states, status_lines


def plan_study(study: str, words: Sequence[str]) -> StudyPlan:
    """The plan of a study under the words. Raises InputError."""
    file = load_study(study)
    return StudyPlan.of(file.name, expand_study(file, words))


def dry_run_lines(plan: StudyPlan) -> Iterator[str]:
    """Every cell with its state, how many there are, and what the missing ones will cost."""
    index = RecordIndex(plan.out)
    states = pair_states(plan, index, looking=True)
    yield from status_lines(plan, states, every=True)
    missing = [state.pair for state in states if not state.done]
    yield f"{len(missing)} of {len(states)} pairs are to run; records go to {plan.out}"
    yield from cost(plan, missing, index.entries.values()).lines()


def run_study(study: str, words: Sequence[str], *, dry_run: bool, refresh: bool) -> int:
    """Run what is missing of a study on this machine, pair by pair; 1 if some pair could not be finished."""
    plan = plan_study(study, words)
    if dry_run:
        print("\n".join(dry_run_lines(plan)))
        return 0
    plan.save()
    states = pair_states(plan, looking=True)
    return run_states(plan, [s for s in states if not s.pair.skipped and (refresh or not s.done)], refresh=refresh)


def retry_study(path: Path) -> int:
    """Run the pairs with a failed cell again, each as a whole; 1 if some pair could not be finished."""
    code = 0
    for plan in plans(path):
        failed = [state for state in pair_states(plan) if state.failed and not state.running]
        if failed:
            code = max(code, run_states(plan, failed, refresh=False))
        else:
            print(f"{plan.name}: no cell has failed.")
    return code


def study_status(path: Path, *, every: bool) -> int:
    """Print the state of every study below a folder of records."""
    found = plans(path)
    index = RecordIndex(found[0].out)
    for plan in found:
        print("\n".join(status_lines(plan, pair_states(plan, index, looking=True), every=every)))
    return 0


def finish(plan: StudyPlan) -> list[PairState]:
    """Write the table and the summary of a study from its records, and print the summary; the states that it shows."""
    from harness.store.files import write_text
    from harness.store.store import CellStore
    from harness.study.summary import grouped, pair_ratios, summary_lines
    from harness.study.table import study_table, write_table

    states = pair_states(plan)
    paths = write_table(plan, study_table(plan, states))
    lines = list(summary_lines(grouped(pair_ratios(states, CellStore(plan.out)))))
    write_text(plan.folder / "summary.txt", "".join(f"{line}\n" for line in lines))
    print("\n".join([*lines, *status_lines(plan, states, every=False)]))
    print(f"Table: {', '.join(map(str, paths))}")
    return states


def run_states(plan: StudyPlan, states: Sequence[PairState], *, refresh: bool) -> int:
    """Run pairs, then write and print the study; 1 if some pair could not be finished."""
    from harness.study.run import run_pairs

    if not states:
        print("All cells of this study are done; --refresh would run them again.", file=sys.stderr)
    failures = run_pairs(plan, [state.pair for state in states], refresh=refresh)
    failed = counts(finish(plan))["failed"] > 0
    # A refresh that fails leaves cells of the run before it, which are done.
    return int(failed or (refresh and bool(failures)))
