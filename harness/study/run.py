"""Running a study's pairs on this machine, one after the other; what one of them does leaves the others untouched."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from harness.config import expand
from harness.run.headline import identify, run_cells
from harness.run.launch import Starter
from harness.run.refusal import refusals_recorded
from harness.store.files import write_text
from harness.store.states import PAIR, State, is_running
from harness.store.store import CellStore
from harness.study.plan import PlannedPair, StudyPlan
from odin.errors import OdinError


def run_pairs(plan: StudyPlan, pairs: Sequence[PlannedPair], *, refresh: bool) -> list[str]:
    """Run what is missing of the pairs; one paragraph for each that could not be finished."""
    failures = []
    for place, pair in enumerate(pairs, start=1):
        print(f"pair {place} of {len(pairs)}: {pair.text()}", file=sys.stderr, flush=True)
        reason = run_pair(plan, pair, refresh=refresh)
        if reason:
            print(reason, file=sys.stderr, flush=True)
            failures.append(f"{pair.key} {pair.text()}: {reason}")
    return failures


def run_pair(plan: StudyPlan, pair: PlannedPair, *, refresh: bool = False, starter: Starter | None = None) -> str:
    """Run a pair unless all of its cells are done; the reason if it could not be finished, else the empty string.

    starter: of the rank processes, here by default

    Cells of a pair share one allocation and one calibration, so a pair is run as a whole or not at all (D§9); but on
    the virtual engine with committed prices nothing is timed here, and only the missing cells are run.
    """
    config = pair.config(plan.out)
    note, ids = plan.note(pair), list[str]()
    store, cells = CellStore(Path(config.out)), expand(config)
    try:
        with refusals_recorded(config, cells, store):
            stamp = pair.stamp()
            ids, manifest = identify(config, cells)
        plan.keep_manifest(pair, manifest, stamp)
        left = [k for k, i in enumerate(ids) if refresh or store.state(i).state is not State.DONE]
        if left and not (config.engine.virtual and config.compute.committed):
            left = list(range(len(ids)))
        elif left:  # cells of one pair are of one code
            left = [k for k, i in enumerate(ids) if k in left or store.state(i).stale]
        if left:
            wanted = [cells[k] for k in left], [ids[k] for k in left]
            run_cells(config, *wanted, store, refresh=refresh, starter=starter, lock=ids[0])
    except OdinError as error:
        if ids and not refresh and _all_done(store, ids):
            return ""  # another process held the pair, and has just finished it
        return _noted(store, note, ids, str(error))
    except Exception as error:  # a defect: the other pairs are none the worse for it
        traceback.print_exc()
        said = " ".join(f"{type(error).__name__}: {error}".split())
        return _noted(
            store, note, ids, f"This is a defect of odin-bench, not of the input ({said}); see its traceback."
        )
    note.unlink(missing_ok=True)
    return ""


def _all_done(store: CellStore, ids: Sequence[str]) -> bool:
    try:
        return all(store.state(i).state is State.DONE for i in ids)
    except OdinError:  # a record that cannot be read is not done
        return False


def _noted(store: CellStore, note: Path, ids: Sequence[str], reason: str) -> str:
    """Keep the reason: where a cell has failed the record says so; where nothing could be started this is the only
    place."""
    if not any(is_running(store.root, store.path(i) / PAIR) for i in ids):
        try:
            write_text(note, f"{reason}\n")
        except OdinError as refused:  # of a full disk; what ended the pair is what the user must learn first
            print(f"The reason could not be kept either: {refused}", file=sys.stderr, flush=True)
    return reason
