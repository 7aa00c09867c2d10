"""Atomic checkpoints: arrays and a small JSON header in one .npz, never a pickle.

A checkpoint is written at flushed state, to a temporary name, synced and renamed, so the newest file is either
whole or absent. A hash over all arrays under their names notices what checksums of single ones cannot: moments that
have changed places, or parts of two checkpoints in one file. Legend: N primitives, D columns.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from odin.errors import InputError
from odin.writing import about_to_replace
from pipelines.arrays import read_arrays

CHECKPOINT_VERSION = 5
_LONGEST_HEADER = 1 << 16  # bytes


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
    present: dict[str, Any] = {key: np.ascontiguousarray(array) for key, array in arrays.items() if array is not None}
    document = {"header": asdict(checkpoint.header), "digest": _digest(present)}
    header = np.frombuffer(json.dumps(document, allow_nan=False).encode(), np.uint8)
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
        arrays = read_arrays(path, ("header", *_ARRAYS, *_OPTIONAL))
        header, digest = _read_header(arrays.pop("header"))
        absent = [key for key in _ARRAYS if key not in arrays]
        if absent or digest != _digest(arrays):
            raise ValueError(f"it lacks {absent[0]}" if absent else "its arrays are not those that were saved together")
    # On broken bytes zipfile raises what struct, zlib and codecs raise, and json RecursionError.
    except Exception as error:
        raise InputError(
            f"{path} is not a readable checkpoint of this program ({type(error).__name__}: {error}). Resume from an "
            "older one, or start again without resume."
        ) from error
    _check(path, arrays)
    return Checkpoint(header=header, **arrays)


def _digest(arrays: Mapping[str, NDArray]) -> str:
    """sha256 over names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for key in sorted(arrays):
        digest.update(f"{key} {arrays[key].dtype.str} {arrays[key].shape}\n".encode())
        digest.update(arrays[key].data if arrays[key].size else b"")
    return digest.hexdigest()


def _read_header(data: NDArray) -> tuple[Header, str]:
    """The header and the digest beside it. Raises ValueError where it says something else than `save` writes."""
    if data.nbytes > _LONGEST_HEADER:
        raise ValueError(f"its header has {data.nbytes} bytes")
    document = json.loads(data.tobytes())
    values = document["header"] if isinstance(document, dict) and set(document) == {"header", "digest"} else None
    if not isinstance(values, dict):
        raise ValueError("its header is not one of this program")
    if values.get("version") != CHECKPOINT_VERSION:
        raise ValueError(f"it has version {values.get('version')}, this program writes {CHECKPOINT_VERSION}")
    kinds = {one.name: one.type for one in fields(Header)}
    wrong = [key for key in kinds if key not in values or not _is_a(values[key], str(kinds[key]))]
    if wrong or set(values) != set(kinds):
        raise ValueError(f"its header has no sound {wrong[0]}" if wrong else "its header has unknown keys")
    return Header(**values), str(document["digest"])


def _is_a(value: Any, kind: str) -> bool:
    """Whether JSON holds a value of a field of that annotation; counts are below 2⁶³."""
    if kind == "int":
        return type(value) is int and 0 <= value < 2**63
    if kind == "dict[str, float]":
        return isinstance(value, dict) and all(type(v) in (int, float) and math.isfinite(v) for v in value.values())
    return type(value) is {"bool": bool, "str": str}[kind]


def _check(path: Path, arrays: dict[str, NDArray]) -> None:
    shape = arrays["parameters"].shape
    sound = (
        len(shape) == 2
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
            f"Checkpoint {path} has arrays of unexpected shape, type or value: parameters and both moments must be "
            "finite float32 of one shape, second moments, norms and costs not negative. Resume from an older one, or "
            "start again without resume."
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


def require_shape(
    path: Path, checkpoint: Checkpoint, *, columns: int, held: int | None, views: int | None, steps: int
) -> None:
    """Raise InputError when a checkpoint's arrays are of another table or other views, or it stands beyond the plan.

    held:  columns of the pipeline's held group, None where it has none
    views: training views, one cost each; None where costs are of something else
    """
    own = checkpoint.parameters.shape[1], None if checkpoint.held is None else checkpoint.held.shape[1]
    costs = views if views is None or checkpoint.costs is None else len(checkpoint.costs)
    if own != (columns, held) or costs != views or checkpoint.header.next_step > steps:
        raise InputError(
            f"Checkpoint {path} has {own[0]} columns ({own[1] or 0} held), {costs or 0} costs and continues with step "
            f"{checkpoint.header.next_step}; this pipeline has {columns} columns ({held or 0} held), this run "
            f"{views or 0} training views and {steps} steps. Resume with the code and the settings that wrote it."
        )
