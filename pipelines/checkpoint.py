"""Atomic checkpoints: arrays and a small JSON header in one .npz, never a pickle.

A checkpoint is written at flushed state, to a temporary name, synced and renamed, so the newest file is either
whole or absent. Legend: N primitives, D columns.
"""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from odin.errors import InputError
from odin.writing import about_to_replace

CHECKPOINT_VERSION = 4


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a checkpoint belongs to and where training stood.

    next_step: first step still to train; t: Adam counter; structural_version: structural events so far (also the
    key of their random draws); fallen: reads are waited for since an audit failed; plan, manifest: digests that a
    resume must match, as the arm's whole name; state: numbers that only this pipeline has; held_t: Adam counter of a
    held group (odin/held.py)
    """

    pipeline: str
    arm: str
    next_step: int
    t: int
    structural_version: int
    sh_degree: int
    resets: int
    fallen: bool
    seed: int
    plan: str
    manifest: str
    version: int = CHECKPOINT_VERSION
    state: dict[str, float] = field(default_factory=dict)
    held_t: int = 0


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """parameters, m, v: float32 [N, D]; statistics: int64 [N, 2], summed over ranks.

    evidence: float32 [N], costs: int64 [V]: what the arm has learnt (odin/publication/knowledge.py), where it keeps
              any; of a shard, costs are those of tile rows (odin/mixed/balance.py)
    held:     float32 [N, C], summed gradients of a held group, where there is one
    ids:      int32 [N], places of a shard's rows in the order of all, ascending, where primitives are sharded
    """

    header: Header
    parameters: NDArray[np.float32]
    m: NDArray[np.float32]
    v: NDArray[np.float32]
    statistics: NDArray[np.int64]
    evidence: NDArray[np.float32] | None = None
    costs: NDArray[np.int64] | None = None
    held: NDArray[np.float32] | None = None
    ids: NDArray[np.int32] | None = None


_ARRAYS = ("parameters", "m", "v", "statistics")
_OPTIONAL = ("evidence", "costs", "held", "ids")


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write atomically. Raises InputError when the folder cannot be written; an older file stays intact."""
    arrays = {key: getattr(checkpoint, key) for key in _ARRAYS + _OPTIONAL}
    present = {key: array for key, array in arrays.items() if array is not None}
    header = np.frombuffer(json.dumps(asdict(checkpoint.header)).encode(), np.uint8)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            np.savez(file, header=header, **present)
            file.flush()
            about_to_replace(temporary, path)
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(
            f"Could not write checkpoint {path}: {error.strerror}. Earlier checkpoints are untouched; free space or "
            "choose another folder with out=FOLDER."
        ) from error


def load(path: Path) -> Checkpoint:
    """Read and check a checkpoint. Raises InputError naming the file for anything that is not one."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {key: file[key] for key in (*_ARRAYS, *(key for key in _OPTIONAL if key in file))}
            header = Header(**json.loads(file["header"].tobytes()))
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{path} is not a readable checkpoint of this program ({type(error).__name__}: {error}). Resume from an "
            "older one, or start again without resume."
        ) from error
    _check(path, header, arrays)
    return Checkpoint(header=header, **arrays)


def _check(path: Path, header: Header, arrays: dict[str, NDArray]) -> None:
    shape = arrays["parameters"].shape
    sound = (
        header.version == CHECKPOINT_VERSION
        and len(shape) == 2
        and all(arrays[k].dtype == np.float32 and arrays[k].shape == shape for k in ("parameters", "m", "v"))
        and arrays["statistics"].dtype == np.int64
        and arrays["statistics"].shape == (shape[0], 2)
        and all(np.isfinite(arrays[k]).all() for k in ("parameters", "m", "v"))
        and bool((arrays["v"] >= 0).all())
        and _is_knowledge(arrays, shape[0])
        and _sound_sums(arrays.get("held"), shape[0])
        and _are_places(arrays.get("ids"), shape[0])
    )
    if not sound:
        raise InputError(
            f"Checkpoint {path} (version {header.version}, this program writes {CHECKPOINT_VERSION}) has arrays of "
            "unexpected shape, type or value: parameters and both moments must be finite float32 of one shape, "
            "second moments, norms and costs not negative. Resume from an older one, or start again without resume."
        )


def _is_knowledge(arrays: dict[str, NDArray], rows: int) -> bool:
    evidence, costs = arrays.get("evidence"), arrays.get("costs")
    known = evidence is None or (
        evidence.dtype == np.float32 and evidence.shape == (rows,) and not bool((evidence < 0).any())
    )
    return known and (costs is None or (costs.dtype == np.int64 and costs.ndim == 1 and bool((costs >= 0).all())))


def _sound_sums(held: NDArray | None, rows: int) -> bool:
    if held is None:
        return True
    return held.dtype == np.float32 and held.ndim == 2 and len(held) == rows and bool(np.isfinite(held).all())


def _are_places(ids: NDArray | None, rows: int) -> bool:
    if ids is None:
        return True
    return ids.dtype == np.int32 and ids.shape == (rows,) and bool((np.diff(ids) > 0).all() and (ids >= 0).all())


def require_match(path: Path, header: Header, *, pipeline: str, arm: str, plan: str, manifest: str, seed: int) -> None:
    """Raise InputError when a checkpoint belongs to another run than the one that wants to resume."""
    wanted = {"pipeline": pipeline, "arm": arm, "plan": plan, "manifest": manifest, "seed": seed}
    for key, value in wanted.items():
        if getattr(header, key) != value:
            raise InputError(
                f"Checkpoint {path} was made with {key} {getattr(header, key)!r}, this run has {value!r}. Resume with "
                "the arm, scene, seed, steps and ranks it was started with, or start a new run in another folder."
            )
