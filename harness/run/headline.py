"""`odin-bench reproduce headline`: one mirrored sequence of cells, its records, table and figure."""

from __future__ import annotations

import shutil
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from harness.catalog.manifests import enforce_scene
from harness.config import Cell, Config, expand
from harness.progress import Progress
from harness.report.exchange import exchange_lines
from harness.report.headline import headline_of, sequences, write_headline
from harness.report.reduction import model_differences, reduction_lines
from harness.report.summary import BASELINE
from harness.report.table import print_headline
from harness.run.collect import describe
from harness.run.fork_pin import fork_pin
from harness.run.launch import Starter, launch
from harness.run.refusal import refusals_recorded
from harness.run.spec import RunSpec
from harness.run.workload import load_workload
from harness.store import schema
from harness.store.files import sweep
from harness.store.identity import SCHEMA_VERSION, cell_id, code_version
from harness.store.provenance import collect_provenance, now
from harness.store.store import CellStore, State
from odin.errors import OdinError, RunError
from odin.planner.stream import check_batch


def run_headline(config: Config, *, refresh: bool) -> int:
    """Run what is missing of the sequence, then print its table and draw its figure; 0 unless a gate failed.

    A sequence is timed as a whole: if one of its cells is missing or failed, all of them run (D§9 Pair).
    """
    store = CellStore(Path(config.out))
    cells = expand(config)
    with refusals_recorded(config, cells, store):
        ids, _ = identify(config, cells)
    states = {i: store.state(i) for i in ids}
    done = all(s.state is State.DONE and not s.stale for s in states.values())
    if refresh or not done:
        ids = run_cells(config, cells, ids, store)
    else:
        print("All cells of this sequence are done; --refresh would run them again.", file=sys.stderr)
    return _show(store, [store.read_result(store.state(i).record or i) for i in ids])


def _show(store: CellStore, results: Sequence[schema.Result]) -> int:
    """Print the table; the last line names the folder of results and the figure."""
    if BASELINE not in results[0].cell.sequence:
        return _show_cells(store, results)
    ((name, group),) = sequences(results).items()
    summary = headline_of(store, group)
    print_headline(summary)
    for line in exchange_lines(results):
        print(line)
    folder = store.root / "report" / name
    figure = next(p for p in write_headline(summary, folder) if p.suffix == ".png")
    print(f"Results: {store.root / 'cells'} (tables in {folder}), figure: {figure}")
    return int(any(row.numbers is None for row in summary.rows))


def _show_cells(store: CellStore, results: Sequence[schema.Result]) -> int:
    """Without the baseline there is nothing to divide by; the cells still have quality and final states."""
    for result in results:
        if m := result.measurement:
            initial, final = m.quality_initial.psnr.text(".2f"), m.quality_final.psnr.text(".2f", unit=" dB")
            print(
                f"{result.cell.arm} #{result.cell.repeat + 1} ({result.cell.label.value}): "
                f"test PSNR {initial} → {final}, {m.primitives.final} primitives, final state {m.final_digest[:16]}"
            )
    for line in reduction_lines(results, model_differences(store, results)):
        print(line)
    print(f"No speedup: {BASELINE} is not among the arms. Results: {store.root / 'cells'}")
    return int(any(r.measurement is None for r in results))


def identify(config: Config, cells: Sequence[Cell]) -> tuple[list[str], str]:
    """Cell ids and the manifest of the scene, which this reads or generates: bad input fails before any process starts.

    Raises InputError, also where a capture of the catalog is not what it was at its first use.
    """
    workload = load_workload(config, progress=_say)
    scene = config.scene
    check_batch(len(workload.capture.train), config.engine.ranks, config.engine.views_per_unit, config.scale.steps)
    if not len(workload.capture.tracks.views):
        _say(f"{workload.capture.name}: no tracks: views are ordered by how far their frusta overlap")
    if not scene.procedural:
        enforce_scene(scene.path, scene.images, scene.test_every, workload.capture.manifest)
    version = code_version()
    described = [describe(cell, workload) for cell in cells]
    pin = fork_pin(config)
    ids = [cell_id(d.identity, d.manifest, version, pin, SCHEMA_VERSION) for d in described]
    return ids, workload.capture.manifest


def run_cells(
    config: Config,
    cells: Sequence[Cell],
    ids: Sequence[str],
    store: CellStore,
    *,
    refresh: bool = True,
    starter: Starter | None = None,
    lock: str = "",
) -> list[str]:
    """Run the sequence and return the ids of its records.

    refresh: also where every cell is done by now: another process may have run them while this one waited
    starter: of the rank processes, here by default
    lock:    id of the cell by which the pair is locked, where `cells` are only some of a pair; the first one by default

    Raises what ended it; then the first cell that did not finish is recorded as failed, and those before it are done.
    """
    with store.pair_lock(f"pair-{lock or ids[0]}", list(ids)):
        if not refresh and all(store.state(i).state is State.DONE for i in ids):
            return list(ids)
        for cell_id in ids:
            sweep(store.path(cell_id))
        folder = scratch(store)
        spec = RunSpec(config=config, cells=tuple((c.arm, c.repeat) for c in cells), folder=folder.resolve())
        started, finished = now(), dict[int, str]()
        with Progress(len(cells) * config.scale.steps, "warm-up") as progress:
            teller = Teller(progress, config.scale.steps, finished)
            try:
                launch(spec, teller, starter)
                _require_all(cells, finished, folder)
            except OdinError as error:
                try:
                    _record_failure(cells, ids, store, finished, str(error), started, config)
                except OdinError as refused:  # what ended the run is what the user must learn first
                    _say(f"The failure could not be recorded either: {refused}")
                raise
    shutil.rmtree(folder, ignore_errors=True)
    return [finished[i] for i in range(len(cells))]


def _require_all(cells: Sequence[Cell], finished: Mapping[int, str], folder: Path) -> None:
    """Raise RunError where ranks have ended as if all were well, and did not say that a cell is done."""
    missing = next((cell for index, cell in enumerate(cells) if index not in finished), None)
    if missing is not None:
        raise RunError(
            f"The ranks ended without an error, but have not recorded {missing.arm} #{missing.repeat + 1}. Something "
            f"ended them early or took their output; see the logs in {folder}."
        )


def scratch(store: CellStore) -> Path:
    """A fresh folder for one run. Raises RunError where it cannot be made."""
    folder = store.root / "scratch" / f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:6]}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise RunError(
            f"Cannot write in {store.root}: {error.strerror}. Nothing was started. Free some space or choose a folder "
            "that can be written (out=), and run the same command again."
        ) from error
    return folder


def _record_failure(
    cells: Sequence[Cell],
    ids: Sequence[str],
    store: CellStore,
    finished: dict[int, str],
    reason: str,
    started: datetime,
    config: Config,
) -> None:
    """The first cell that did not finish is failed with the reason; later ones stay pending."""
    left = (i for i in range(len(cells)) if i not in finished)  # or is done, and it could not be said any more
    index = next((i for i in left if store.state(ids[i]).state is not State.DONE), None)
    if index is None:
        return
    cell = describe(cells[index], load_workload(config))
    provenance = collect_provenance(started=started, fork_pin=fork_pin(config))
    store.write_result(schema.Result.failed(cell, reason, provenance))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Teller:
    """Turns rank 0's messages into progress."""

    def __init__(self, progress: Progress, steps: int, finished: dict[int, str]) -> None:
        self._progress, self._steps, self._finished = progress, steps, finished
        self._cell = ""

    def __call__(self, message: dict) -> None:
        """One message of rank 0."""
        stage = message.get("stage")
        if stage == "cell":
            self._cell = f"{message['arm']} #{message['repeat'] + 1}"
            self._progress.label = self._cell
        elif stage == "step":
            done = message["index"] * self._steps + message["done"]
            self._progress.update(done, f"loss {message['loss']:.4f}")
        elif stage == "resumed" and message["step"]:
            print(f"resumed after {message['step']} steps", file=sys.stderr, flush=True)
        elif stage == "done":
            self._finished[message["index"]] = message["cell_id"]
        elif stage in {"compile", "warm-up", "calibrated", "overrun", "more padding"}:
            details = ", ".join(f"{k} {v}" for k, v in message.items() if k != "stage")
            print(f"{stage}{': ' + details if details else ''}", file=sys.stderr, flush=True)
