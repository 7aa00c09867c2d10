"""Adaptive density control of 3DGS: clone, split, prune, and the opacity reset.

Legend: N primitives before, N' after.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from odin.errors import RunError
from pipelines.columns import OPACITY, ROTATION, SCALE, XYZ
from pipelines.reference.settings import Settings

_SPLIT_INTO = 2
_SPLIT_SHRINK = 0.8 * _SPLIT_INTO
_WORLD_LIMIT = 0.1  # pruned above this share of the extent, once opacities have been reset


class Noise(Protocol):
    """Standard normal draws, as a generator gives them."""

    def normal(self, *, size: tuple[int, ...]) -> NDArray[np.float64]:
        """So many draws."""
        ...


class ShardNoise:
    """The draws of one owner for the rows that it splits, as one owner of all rows would draw them.

    own, every: ids (places in the order of all rows) of the rows that this owner and that all owners split
    """

    def __init__(self, seed: int, version: int, own: NDArray[np.int32], every: NDArray[np.int32]) -> None:
        self._rng = np.random.default_rng(np.random.SeedSequence([seed, 0xDE, version]))
        self._total, self._places = len(every), np.searchsorted(np.sort(every), own)

    def normal(self, *, size: tuple[int, ...]) -> NDArray[np.float64]:
        """Draws for both halves of this owner's rows, [2 · own, 3]."""
        drawn = self._rng.normal(size=(_SPLIT_INTO, self._total, *size[1:]))
        return drawn[:, self._places].reshape(size)


@dataclass(frozen=True, kw_only=True)
class Densified:
    """The new table, float32 [N', 59], and for each row the old row whose moments it keeps, or -1 for none."""

    parameters: NDArray[np.float32]
    source: NDArray[np.int64]
    cloned: int
    split: int
    pruned: int

    def only(self, alive: NDArray[np.bool_]) -> Densified:
        """Without the rows that are not `alive`, bool [N']."""
        pruned = self.pruned + int((~alive).sum())
        return replace(self, parameters=self.parameters[alive], source=self.source[alive], pruned=pruned)


def densify(
    parameters: NDArray[np.float32],
    mean_norm: NDArray[np.float64],
    settings: Settings,
    extent: float,
    rng: np.random.Generator,
    *,
    prune_large: bool,
) -> Densified:
    """Clone small and split large rows whose mean screen-space gradient reaches the threshold, then prune.

    mean_norm: float64 [N]; prune_large: an opacity reset has happened (upstream's size rule is on)
    """
    hot = mean_norm >= settings.densify_grad_threshold
    small = small_rows(parameters, settings, extent)
    grown = grow(parameters, np.flatnonzero(hot & small), np.flatnonzero(hot & ~small), rng)
    return grown.only(alive_rows(grown.parameters, settings, extent, prune_large))


def nothing_left(rows: int, min_opacity: float) -> RunError:
    """The error for a densification after which there is nothing to train."""
    return RunError(
        f"Densification pruned all {rows} primitives: every opacity is below {min_opacity}, or every one is too large "
        "for the scene. After an opacity reset it came too soon: leave at least 50 steps between reset_at and the next "
        "of densify_at, or raise densification_floor_steps. Otherwise look at the scale of the scene."
    )


def small_rows(parameters: NDArray[np.float32], settings: Settings, extent: float) -> NDArray[np.bool_]:
    """Rows that are cloned rather than split, bool [N]."""
    small: NDArray[np.bool_] = np.exp(parameters[:, SCALE].max(axis=1)) <= settings.percent_dense * extent
    return small


def grow(parameters: NDArray[np.float32], clone: NDArray[np.int64], split: NDArray[np.int64], rng: Noise) -> Densified:
    """Copies of the rows `clone` and two smaller ones in place of each of `split`, behind all that stay."""
    keep = np.setdiff1d(np.arange(len(parameters)), split, assume_unique=True)
    grown = np.concatenate([parameters[keep], parameters[clone], _split(parameters[split], rng)])
    added = np.full(len(grown) - len(keep), -1, np.int64)
    return Densified(
        parameters=grown, source=np.concatenate([keep, added]), cloned=len(clone), split=len(split), pruned=0
    )


def reset_opacity(parameters: NDArray[np.float32], settings: Settings) -> None:
    """Lower every opacity to at most `reset_opacity_to`, in place."""
    ceiling = np.float32(np.log(settings.reset_opacity_to / (1 - settings.reset_opacity_to)))
    parameters[:, OPACITY] = np.minimum(parameters[:, OPACITY], ceiling)


def _split(rows: NDArray[np.float32], rng: Noise) -> NDArray[np.float32]:
    """Two samples inside each primitive, 1.6 times smaller."""
    out = np.repeat(rows[None], _SPLIT_INTO, axis=0).reshape(-1, rows.shape[1])
    sigma = np.exp(out[:, SCALE].astype(np.float64))
    offset = rng.normal(size=sigma.shape) * sigma
    out[:, XYZ] += np.einsum("nij,nj->ni", _rotations(out[:, ROTATION]), offset).astype(np.float32)
    out[:, SCALE] = np.log(sigma / _SPLIT_SHRINK).astype(np.float32)
    return out


def alive_rows(
    parameters: NDArray[np.float32], settings: Settings, extent: float, prune_large: bool
) -> NDArray[np.bool_]:
    """Rows that are neither faint nor, with `prune_large`, too large, bool [N]."""
    opacity = 1 / (1 + np.exp(-parameters[:, OPACITY.start].astype(np.float64)))
    alive = opacity >= settings.min_opacity
    if prune_large:
        alive &= np.exp(parameters[:, SCALE].max(axis=1)) <= _WORLD_LIMIT * extent
    return alive


def _rotations(quaternions: NDArray[np.float32]) -> NDArray[np.float64]:
    """Rotation matrices of wxyz quaternions, [N, 3, 3]."""
    q = quaternions.astype(np.float64)
    w, x, y, z = (q / np.linalg.norm(q, axis=1, keepdims=True)).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.array(rows).transpose(2, 0, 1)
