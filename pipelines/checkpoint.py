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

CHECKPOINT_VERSION = 1
_NONE = np.zeros((0, 0), np.float32)


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a checkpoint belongs to and where training stood.

    next_step: first step still to train; t: Adam counter; structural_version: structural events so far (also the
    key of their random draws); plan, manifest: digests that a resume must match; state: numbers that only this
    pipeline has; held_t: Adam counter of a held group (odin/held.py)
    """

    pipeline: str
    next_step: int
    t: int
    structural_version: int
    sh_degree: int
    resets: int
    seed: int
    plan: str
    manifest: str
    version: int = CHECKPOINT_VERSION
    state: dict[str, float] = field(default_factory=dict)
    held_t: int = 0


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """parameters, m, v: float32 [N, D]; statistics: int64 [N, 2], summed over ranks; held: float32 [N, C], summed
    gradients of a held group, None where no group is."""

    header: Header
    parameters: NDArray[np.float32]
    m: NDArray[np.float32]
    v: NDArray[np.float32]
    statistics: NDArray[np.int64]
    held: NDArray[np.float32] | None = None


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write atomically. Raises InputError when the folder cannot be written; an older file stays intact."""
    header = np.frombuffer(json.dumps(asdict(checkpoint.header)).encode(), np.uint8)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            np.savez(
                file,
                header=header,
                parameters=checkpoint.parameters,
                m=checkpoint.m,
                v=checkpoint.v,
                statistics=checkpoint.statistics,
                held=_NONE if checkpoint.held is None else checkpoint.held,
            )
            file.flush()
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
            arrays = {key: file[key] for key in ("parameters", "m", "v", "statistics")}
            if "held" in file and file["held"].shape != _NONE.shape:
                arrays["held"] = file["held"]
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
        and _sound_sums(arrays.get("held"), shape[0])
    )
    if not sound:
        raise InputError(
            f"Checkpoint {path} (version {header.version}, this program writes {CHECKPOINT_VERSION}) has arrays of "
            "unexpected shape, type or value: parameters and both moments must be finite float32 of one shape, "
            "second moments not negative. Resume from an older one, or start again without resume."
        )


def _sound_sums(held: NDArray | None, rows: int) -> bool:
    if held is None:
        return True
    return held.dtype == np.float32 and held.ndim == 2 and len(held) == rows and bool(np.isfinite(held).all())


def require_match(path: Path, header: Header, *, pipeline: str, plan: str, manifest: str, seed: int) -> None:
    """Raise InputError when a checkpoint belongs to another run than the one that wants to resume."""
    wanted = {"pipeline": pipeline, "plan": plan, "manifest": manifest, "seed": seed}
    for key, value in wanted.items():
        if getattr(header, key) != value:
            raise InputError(
                f"Checkpoint {path} was made with {key} {getattr(header, key)!r}, this run has {value!r}. Resume with "
                "the scene, seed, steps, ranks and order it was started with, or start a new run in another folder."
            )
