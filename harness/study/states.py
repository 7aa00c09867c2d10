"""The state of every cell of a study, from its plan and the index of records; loads no scene and no torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from harness.store.identity import code_version
from harness.store.index import Known, RecordIndex
from harness.store.states import State
from harness.study.noted import noted_cells
from harness.study.plan import PlannedPair, StudyPlan


@dataclass(frozen=True, kw_only=True)
class CellOf:
    """One cell of a study and what is known of it."""

    pair: PlannedPair
    arm: str
    repeat: int
    known: Known


@dataclass(frozen=True, kw_only=True)
class PairState:
    """A pair and its cells in the order they run."""

    pair: PlannedPair
    cells: tuple[CellOf, ...]

    @property
    def done(self) -> bool:
        """Nothing is left to do: all cells are done (by this code or another), or the pair is left out."""
        return all(cell.known.state in (State.DONE, State.SKIPPED) for cell in self.cells)

    @property
    def failed(self) -> bool:
        """A cell failed, or the pair could not be started."""
        return any(cell.known.state is State.FAILED for cell in self.cells)

    @property
    def running(self) -> bool:
        """Some process holds the pair."""
        return any(cell.known.state is State.RUNNING for cell in self.cells)


def pair_states(plan: StudyPlan, index: RecordIndex | None = None, *, looking: bool = False) -> list[PairState]:
    """The states of all pairs of a plan.

    looking: at the scenes too: where files have changed since their cells were run here, these are pending. For what
             decides what is to run; what is recorded is reported as it is.
    """
    index = index or RecordIndex(plan.out)
    version = code_version()
    manifests: dict[str, str | None] = {}
    for pair in plan.pairs:
        if pair.scene not in manifests:
            known = plan.manifest(pair) or _noted_manifest(plan, pair, index)
            manifests[pair.scene] = None if looking and plan.changed(pair) else known
    return [_pair_state(plan, pair, manifests[pair.scene], version, index) for pair in plan.pairs]


def _noted_manifest(plan: StudyPlan, pair: PlannedPair, index: RecordIndex) -> str | None:
    """Manifest of a scene that was never loaded here, but whose records came with a clone."""
    noted = (index.entries.get(cell) for cell in noted_cells(plan.folder, pair.where))
    return next((entry.manifest for entry in noted if entry is not None and entry.manifest), None)


def counts(states: Sequence[PairState]) -> Counter[str]:
    """How many cells are in which state; `stale` counts those done by other code, which `done` counts too."""
    cells = [cell for state in states for cell in state.cells]
    found = Counter(cell.known.state.value for cell in cells)
    found["stale"] = sum(cell.known.stale for cell in cells)
    return found


def status_lines(plan: StudyPlan, states: Sequence[PairState], *, every: bool) -> Iterator[str]:
    """A summary, then a line for every cell that is failed or running (for every cell at all if `every`)."""
    found = counts(states)
    total = sum(len(state.cells) for state in states)
    told = ", ".join(f"{found[state.value]} {state.value}" for state in State)
    stale = f" ({found['stale']} of them by other code; --refresh runs them again)" if found["stale"] else ""
    yield f"{plan.name}: {total} cells in {len(states)} pairs: {told}{stale}"
    for state in states:
        for cell in state.cells:
            known = cell.known
            if every or known.state in (State.FAILED, State.RUNNING):
                remark = f": {known.reason}" if known.reason else f" (by {known.commit[:12]})" if known.stale else ""
                name = f"{state.pair.key}  {state.pair.text()}  {cell.arm} #{cell.repeat + 1}"
                yield f"{known.state.value:<8} {name}{remark}"


def _pair_state(
    plan: StudyPlan, pair: PlannedPair, manifest: str | None, version: str, index: RecordIndex
) -> PairState:
    known = _known(plan, pair, manifest, version, index)
    cells = [
        CellOf(pair=pair, arm=arm, repeat=repeat, known=what)
        for (arm, repeat), what in zip(pair.cells, known, strict=True)
    ]
    return PairState(pair=pair, cells=tuple(cells))


def _known(plan: StudyPlan, pair: PlannedPair, manifest: str | None, version: str, index: RecordIndex) -> list[Known]:
    if pair.skipped:
        return [Known(state=State.SKIPPED, reason=pair.skipped)] * len(pair.cells)
    found = [Known(state=State.PENDING)] * len(pair.cells)
    if manifest is not None:
        found = [index.state(cell_id) for cell_id in pair.ids(manifest, version)]
    note = plan.note(pair)
    return _with_note(found, note.read_text(encoding="utf-8").strip()) if note.exists() else found


def _with_note(found: list[Known], reason: str) -> list[Known]:
    """A pair that could not be finished: its first cell that is not done has failed, for the reason of the note.

    The note says more than a record where the cluster ended the ranks: they only saw a signal.
    """
    if any(known.state is State.RUNNING for known in found):
        return found
    place = next((k for k, known in enumerate(found) if known.state is State.FAILED), None)
    place = next((k for k, known in enumerate(found) if known.state is State.PENDING), None) if place is None else place
    if place is None:
        return found
    failed = replace(found[place], state=State.FAILED, reason=reason)
    return [*found[:place], failed, *found[place + 1 :]]
