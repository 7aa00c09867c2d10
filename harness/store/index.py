"""What is known of every record of a store without reading them all: one file of a line per record.

A record is read and validated when it is new or has changed (its size or time of change differ); the rest comes from
`index.json`, which may be deleted at any time. Importing this module imports no torch and no pandas.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.store.identity import SCHEMA_VERSION
from harness.store.states import PAIR, RESULT, State, is_running
from odin.errors import InputError, RunError

INDEX = "index.json"
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What a record says of its cell.

    stamp:    (time of change in ns, size) of the record's file
    state:    done, failed or skipped; a record that does not validate is failed
    commit:   that the record comes from
    ended:    s since 1970; wall: s from the cell's start to its end
    manifest (of the scene), pipeline, device, ranks, images: what a cost is looked up by
    """

    stamp: tuple[int, int]
    state: str
    reason: str | None = None
    commit: str = ""
    ended: float = 0.0
    wall: float = 0.0
    manifest: str = ""
    pipeline: str = ""
    device: str = ""
    ranks: int = 0
    images: int = 0


@dataclass(frozen=True, kw_only=True)
class Known:
    """The state of a cell. stale: done, but by other code, whose commit it names. record: the id it lies under."""

    state: State
    stale: bool = False
    reason: str | None = None
    commit: str = ""
    record: str | None = None


class RecordIndex:
    """The records below a store's root as they were at construction."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self.entries = self._read()
        self._by_workload: dict[str, list[str]] = {}
        for cell_id in self.entries:
            self._by_workload.setdefault(_workload(cell_id), []).append(cell_id)

    def state(self, cell_id: str) -> Known:
        """What is known of a cell, as `CellStore.state` says it."""
        own = self.entries.get(cell_id)
        if own is not None and own.state == State.DONE:
            return _known(cell_id, own)
        marker = self.root / "cells" / cell_id / PAIR
        if is_running(self.root, marker):
            return Known(state=State.RUNNING)
        if own is not None:
            return _known(cell_id, own)
        siblings = [i for i in self._by_workload.get(_workload(cell_id), []) if self.entries[i].state == State.DONE]
        if siblings:
            newest = max(siblings, key=lambda i: self.entries[i].ended)
            return _known(newest, self.entries[newest], stale=True)
        return Known(state=State.PENDING)

    def _read(self) -> dict[str, Entry]:
        before, found = self._load(), dict[str, Entry]()
        for cell_id, stamp in sorted(_stamps(self.root / "cells").items()):
            old = before.get(cell_id)
            path = self.root / "cells" / cell_id / RESULT
            # Failed without a commit: the record could not be read, and the reason may have gone by now.
            kept = old is not None and old.stamp == stamp and (old.state == State.DONE or old.commit)
            found[cell_id] = old if old is not None and kept else _entry(path, stamp)
        if found != before:
            self._save(found)
        return found

    def _load(self) -> dict[str, Entry]:
        from harness.store.files import read_json

        try:
            data = read_json(self.root / INDEX)
            if data["version"] != [VERSION, SCHEMA_VERSION]:
                return {}
            found = {i: Entry(**{**e, "stamp": tuple(e["stamp"])}) for i, e in data["records"].items()}
            return {i: entry for i, entry in found.items() if _is_sound(entry)}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
            return {}  # absent, or cut off: everything is read again

    def _save(self, entries: Mapping[str, Entry]) -> None:
        from harness.store.files import write_text

        data: dict[str, Any] = {
            "version": [VERSION, SCHEMA_VERSION],
            "records": {i: asdict(e) for i, e in entries.items()},
        }
        try:
            write_text(self.root / INDEX, json.dumps(data))
        except RunError:
            return  # a store that may only be read is read anew each time


_ENDED = (State.DONE.value, State.FAILED.value, State.SKIPPED.value)


def _is_sound(entry: Entry) -> bool:
    """Whether a line of the file holds what `_entry` would put there; any other is read again."""
    texts = (entry.commit, entry.manifest, entry.pipeline, entry.device, entry.reason or "")
    return (
        isinstance(entry.state, str)
        and entry.state in _ENDED
        and all(isinstance(text, str) for text in texts)
        and all(type(value) in (int, float) and math.isfinite(value) for value in (entry.ended, entry.wall))
        and all(type(count) is int for count in (entry.ranks, entry.images, *entry.stamp))
    )


def _stamps(cells: Path) -> dict[str, tuple[int, int]]:
    found = {}
    try:
        folders = list(cells.iterdir())
    except OSError:
        return {}
    for folder in folders:
        try:
            seen = (folder / RESULT).stat()
        except OSError:
            continue
        found[folder.name] = (seen.st_mtime_ns, seen.st_size)
    return found


def _entry(path: Path, stamp: tuple[int, int]) -> Entry:
    from harness.store.store import load_result

    try:
        result = load_result(path)
        if result.cell_id != path.parent.name:
            raise InputError(f"{path} is the record of cell {result.cell_id}: it was moved or copied.")
    except InputError as error:
        return Entry(stamp=stamp, state=State.FAILED, reason=str(error))
    p, config = result.provenance, result.cell.config
    engine, pipeline = _part(config, "engine"), _part(config, "pipeline")
    return Entry(
        stamp=stamp,
        state=result.status.value,
        reason=result.reason,
        commit=p.git_sha,
        ended=p.ended.timestamp(),
        wall=(p.ended - p.started).total_seconds(),
        manifest=result.cell.manifest,
        pipeline=str(pipeline.get("name", "")),
        device=str(engine.get("device", "")),
        ranks=int(engine.get("ranks", 0)),
        images=result.measurement.images if result.measurement else 0,
    )


def _part(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = config.get(name)
    return part if isinstance(part, Mapping) else {}


def _workload(cell_id: str) -> str:
    return cell_id.rpartition("-")[0]


def _known(cell_id: str, entry: Entry, *, stale: bool = False) -> Known:
    return Known(state=State(entry.state), stale=stale, reason=entry.reason, commit=entry.commit, record=cell_id)
