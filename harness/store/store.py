"""Where records lie on disk, and what state a cell is in.

Below the root of a store:

    cells/<cell id>/result.json    the record; with it a cell is done, failed or skipped
    cells/<cell id>/pair           the pair under whose lock the cell runs
    cells/<cell id>/timeline.parquet, steps.parquet, trace.json
    cells/<cell id>/model.ply      the trained Gaussians, of an arm's first run
    profiles/<name>@<digest>.json  prices, padding and link of a pair
    locks/<pair>.lock              held while a pair runs
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

from filelock import Timeout
from pydantic import ValidationError

from harness.config.checks import expect_utf8
from harness.store.files import write_text
from harness.store.identity import SCHEMA_VERSION
from harness.store.schema import Result, Status
from harness.store.states import PAIR, RESULT, State, is_running, pair_lock, plain_name
from odin.errors import InputError, RunError

TIMELINE, STEPS, TRACE, MODEL = "timeline.parquet", "steps.parquet", "trace.json", "model.ply"
WINDOWS, DELAYS = "windows.parquet", "delays.parquet"
# `state` holds a pair's lock for an instant to see whether it is free; a real claim outlasts that.
CLAIM_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class CellState:
    """The state of a cell. A stale one is done by another code version.

    commit: of the record, None without one
    reason: of a failed or skipped cell
    record: the id under which the record lies (another than asked for when stale)
    """

    state: State
    stale: bool = False
    commit: str | None = None
    reason: str | None = None
    record: str | None = None


class CellStore:
    """Records below one folder, which is made unless `create` is false.

    Raises InputError at construction when the folder cannot be written, or is not there and must not be made.
    """

    def __init__(self, root: Path, *, create: bool = True) -> None:
        self.root = Path(root)
        if not create:
            if not (self.root / "cells").is_dir():
                raise InputError(f"{self.root} holds no records: it has no folder `cells`.")
            return
        expect_utf8("out", str(self.root))
        try:
            (self.root / "cells").mkdir(parents=True, exist_ok=True)
            (self.root / "locks").mkdir(exist_ok=True)
            with TemporaryFile(dir=self.root / "locks"):
                pass  # a folder may exist and still refuse files: better to know before a run than after
        except OSError as error:
            raise InputError(
                f"Cannot keep records in {self.root}: {error.strerror}. Choose a folder that can be written."
            ) from error

    def path(self, cell_id: str) -> Path:
        """The folder of a cell. Raises InputError on a name that is not an id."""
        return self.root / "cells" / plain_name(cell_id)

    def write_result(self, result: Result) -> Path:
        """Replace the cell's record, whole or not at all. Raises RunError when the disk refuses."""
        path = self.path(result.cell_id) / RESULT
        # Not model_dump_json: it writes a NaN that was smuggled past validation as null.
        text = json.dumps(result.model_dump(mode="json"), indent=1, allow_nan=False, ensure_ascii=False)
        write_text(path, text + "\n")
        return path

    def read_result(self, cell_id: str) -> Result:
        """The cell's record. Raises InputError when there is none or it does not validate."""
        path = self.path(cell_id) / RESULT
        result = load_result(path)
        if result.cell_id != cell_id:
            raise InputError(f"{path} is the record of cell {result.cell_id}: it was moved or copied.")
        return result

    def results(self) -> Iterator[Result]:
        """All records, in order of their ids. Raises InputError at the first that does not validate."""
        for path in sorted((self.root / "cells").glob(f"*/{RESULT}")):
            yield load_result(path)

    def state(self, cell_id: str) -> CellState:
        """What is known of a cell. Raises InputError on a record that does not validate."""
        folder = self.path(cell_id)
        own = self.read_result(cell_id) if (folder / RESULT).exists() else None
        if own is not None and own.status is Status.DONE:
            return _state_of(own, stale=False)
        if is_running(self.root, folder / PAIR):
            return CellState(state=State.RUNNING)
        if own is not None:
            return _state_of(own, stale=False)
        stale = [r for r in self._siblings(cell_id) if r.status is Status.DONE]
        if stale:
            return _state_of(max(stale, key=lambda r: r.provenance.ended), stale=True)
        return CellState(state=State.PENDING)

    @contextmanager
    def pair_lock(self, pair: str, cell_ids: list[str]) -> Iterator[None]:
        """Hold a pair while its cells run; `state` then says so. Raises RunError when another holds it."""
        for cell_id in cell_ids:
            write_text(self.path(cell_id) / PAIR, pair + "\n")
        lock = pair_lock(self.root, pair)
        try:
            lock.acquire(timeout=CLAIM_SECONDS)
        except Timeout as error:
            raise RunError(
                f"Another process is running pair {pair} (lock {error.lock_file}). Wait, or run other pairs."
            ) from error
        try:
            yield
        finally:
            lock.release()

    def _siblings(self, cell_id: str) -> Iterator[Result]:
        workload = cell_id.rsplit("-", 1)[0]
        for path in sorted((self.root / "cells").glob(f"{workload}-*/{RESULT}")):
            with suppress(InputError):  # that a sibling cannot be read says nothing about this cell
                yield load_result(path)


def load_result(path: Path) -> Result:
    """A record from its file. Raises InputError that names the file and the first thing wrong with it."""
    try:
        return Result.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"Cannot read the record {path}: {error.strerror}.") from error
    except ValidationError as error:
        _refuse_other_schema(path)
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the record as a whole"
        raise InputError(
            f"The record {path} is broken ({error.error_count()} error(s); first: {where}: {first['msg']}). "
            "Restore it, or delete it to run the cell again."
        ) from error


def _refuse_other_schema(path: Path) -> None:
    """Raise InputError where a record that does not validate was written under another schema."""
    try:
        version = json.loads(path.read_bytes())["schema_version"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return
    if version != SCHEMA_VERSION:
        raise InputError(
            f"The record {path} has schema {version}, this program reads {SCHEMA_VERSION}: another version of it has "
            "written it. Read it with that version, or move it away and run the cell again."
        )


def _state_of(result: Result, *, stale: bool) -> CellState:
    return CellState(
        state=State(result.status.value),
        stale=stale,
        commit=result.provenance.git_sha,
        reason=result.reason,
        record=result.cell_id,
    )
