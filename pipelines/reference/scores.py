"""TamingGS's scores: which primitives matter most for what a few views still get wrong (Mallick et al. 2024).

A view's score of a row is a weighted sum of nine quantities, each divided by its median over the rows that have it,
times the view's photometric loss. Scores of views are summed as int64 in fixed point, so neither the order of views
nor the number of ranks that share them changes a bit (D§5).

Legend: N rows of the table, M rows of one view, H, W image size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

Floats = NDArray[np.float64]

FIXED = float(2**20)
_LARGEST = float(2**40)  # 2⁴⁰ · 2²⁰ · 8 views still fit an int64, more views hold smaller scores


@dataclass(frozen=True, kw_only=True)
class Coefficients:
    """Upstream's weights of the quantities (train.py at its pin)."""

    view: float = 50.0
    edge: float = 50.0
    mse: float = 50.0
    gradient: float = 25.0
    distance: float = 50.0
    opacity: float = 100.0
    depth: float = 5.0
    loss: float = 10.0
    radius: float = 10.0
    scale: float = 25.0
    count: float = 0.1
    blend: float = 50.0


COEFFICIENTS = Coefficients()


@dataclass(frozen=True, kw_only=True)
class RowTerms:
    """What does not depend on the view, each float64 [N]: mean gradient norm, opacity, volume (product of scales)."""

    gradient: Floats
    opacity: Floats
    volume: Floats


@dataclass(frozen=True, kw_only=True)
class ViewTerms:
    """What a view says of its rows.

    rows: int32 [M]; depth, radius: float64 [M], 0 where the row is not visible
    loss, count, blend, distance: float64 [M], sums over the pixels that the row contributes to
    photometric: the view's loss
    """

    rows: NDArray[np.int32]
    depth: Floats
    radius: Floats
    loss: Floats
    count: Floats
    blend: Floats
    distance: Floats
    photometric: float


def normalised(values: Floats) -> Floats:
    """Values over the (lower) median of the positive ones; 0 where not positive or not a number."""
    values = np.nan_to_num(values, nan=0.0)
    positive = values[values > 0]
    if not len(positive):
        return np.zeros_like(values)
    middle = (len(positive) - 1) // 2
    median = np.partition(positive, middle)[middle]
    return np.where(values > 0, values / median, 0.0)


def edges(photo: NDArray[np.uint8]) -> Floats:
    """Edge strength of a photo, uint8 [H, W, 3], scaled to 0…1, float64 [H, W]; 0 for one without contrast.

    The filter leaves the outermost pixels as they are, which upstream takes for edges; here they have none.
    """
    found = Image.fromarray(photo).convert("L").filter(ImageFilter.FIND_EDGES)
    strength = np.array(found, np.float64)
    strength[[0, -1], :], strength[:, [0, -1]] = 0.0, 0.0
    return _stretched(strength)


def pixel_weights(
    image: NDArray[np.float32], photo: NDArray[np.float32], edge: Floats, weights: Coefficients = COEFFICIENTS
) -> NDArray[np.float32]:
    """How much a pixel asks for: its error and its edge strength, float32 [H, W]. image, photo: [H, W, 3]."""
    error = np.abs(image.astype(np.float64) - photo).mean(axis=2)
    return (weights.mse * _stretched(error) + weights.edge * edge).astype(np.float32)


def row_scores(rows: RowTerms, weights: Coefficients = COEFFICIENTS) -> Floats:
    """The part of a view's scores that is the same for every view, [N]."""
    terms = [(weights.gradient, rows.gradient), (weights.opacity, rows.opacity), (weights.scale, rows.volume)]
    return np.sum([weight * normalised(values) for weight, values in terms], axis=0)


def add_view(total: NDArray[np.int64], shared: Floats, view: ViewTerms, weights: Coefficients = COEFFICIENTS) -> None:
    """Add a view's scores, in fixed point, to `total` [N]. shared: `row_scores`, [N]."""
    terms = [
        (weights.depth, view.depth),
        (weights.radius, view.radius),
        (weights.distance, view.distance),
        (weights.loss, view.loss),
        (weights.count, view.count),
        (weights.blend, view.blend),
    ]
    own = np.sum([weight * normalised(values) for weight, values in terms], axis=0)
    visible = view.radius > 0
    seen = view.rows[visible]
    score = weights.view * view.photometric * (own[visible] + shared[seen])
    total[seen] += np.rint(np.minimum(score, _LARGEST) * FIXED).astype(np.int64)


def _stretched(values: Floats) -> Floats:
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.zeros_like(values)
