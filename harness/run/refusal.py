"""A scene that cannot be read leaves a failed record too, so that no table is without the cell.

Such a record stands under the scene's settings in place of its manifest, which nobody could compute. It is taken back
as soon as the scene can be read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from harness.config import Cell, Config, resolved
from harness.run.collect import described
from harness.run.fork_pin import fork_pin
from harness.scenes.spec import folder_name
from harness.store import schema
from harness.store.identity import canonical_json
from harness.store.provenance import collect_provenance, now
from harness.store.states import RESULT
from harness.store.store import CellStore
from odin.errors import OdinError

UNREAD = "unread:"


@contextmanager
def refusals_recorded(config: Config, cells: Sequence[Cell], store: CellStore) -> Iterator[None]:
    """Around the reading of a scene: what stops it is recorded as the failure of the first cell, and raised again."""
    started = now()
    try:
        yield
    except OdinError as error:
        with suppress(OdinError, ValueError):  # the reason matters more than its record, which may not hold any path
            store.write_result(_refusal(config, cells[0], str(error), started))
        raise
    _take_back(config, cells[0], store)


def _refusal(config: Config, cell: Cell, reason: str, started: datetime) -> schema.Result:
    return schema.Result.failed(
        _described(config, cell), reason, collect_provenance(started=started, fork_pin=fork_pin(config))
    )


def _described(config: Config, cell: Cell) -> schema.Cell:
    scene = resolved(config)["scene"]
    if not config.scene.procedural:
        scene["path"] = str(Path(config.scene.path).expanduser().resolve())
    digest = hashlib.sha256(canonical_json(scene).encode()).hexdigest()
    name = config.scene.path if config.scene.procedural else folder_name(Path(scene["path"]))
    return described(cell, scene=name or config.scene.path, manifest=UNREAD + digest[:16])


def _take_back(config: Config, cell: Cell, store: CellStore) -> None:
    """Remove the record of an earlier refusal, by whatever code."""
    workload = schema.workload_of(_described(config, cell), fork_pin(config))
    for path in (store.root / "cells").glob(f"{workload}-*/{RESULT}"):
        with suppress(OSError):
            path.unlink()
            path.parent.rmdir()
