"""A band of tile rows of a view: only its tiles are blended, only its own rows go backward.

Tiles outside get empty lists, so the kernels are those of whole views and a tile inside has the same bits.

Legend: T tiles (row-major), E list entries, R tile rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from pipelines.camera import Camera
from pipelines.render.conventions import TILE
from pipelines.render.cpu.renderer import TileLists
from pipelines.render.protocol import Bins, Blended
from pipelines.render.ssim import l1_dssim_rows

# A pixel of the loss costs as much as 27 composited fragments, a list entry as much as one: seconds of pixels, of
# fragments (forward and backward) and bytes of entries in the committed profile rtx4090. It balances; it need not be
# exact.
PIXEL_IN_FRAGMENTS = 27
# Tile rows on either side that the loss of a band looks at: twice the radius of SSIM's window, 10 of 16 pixels.
HALO = 1


def tile_rows(camera: Camera) -> int:
    """R."""
    return -(-camera.height // TILE)


def widened(band: tuple[int, int], camera: Camera) -> tuple[int, int]:
    """The band with what its loss looks at."""
    return max(band[0] - HALO, 0), min(band[1] + HALO, tile_rows(camera))


def height(band: tuple[int, int], camera: Camera) -> int:
    """Rows of pixels of a band."""
    return min(TILE * band[1], camera.height) - TILE * band[0]


def loss(image: torch.Tensor, photo: torch.Tensor, band: tuple[int, int], weight: float) -> tuple[float, torch.Tensor]:
    """The share of a band's pixels in the photometric loss of a view, and the loss's gradient with respect to them,
    float32 [H, W, 3], 0 outside. image, photo: float32 [H, W, 3]."""
    first, last = TILE * band[0], min(TILE * band[1], len(image))
    share, own = l1_dssim_rows(image, photo, first, last, weight)
    gradient = torch.zeros_like(image)
    gradient[first:last] = own
    return share, gradient


def touched(centres: NDArray[np.float32], extents: NDArray[np.float32], band: tuple[int, int]) -> NDArray[np.bool_]:
    """Rows whose box touches a tile row of the band, bool [M]; the arithmetic of `bin_kernels.tile_range`.

    centres, extents: float32 [M], vertical, in pixels; negative extents are culled rows
    """
    centre, half = centres.astype(np.float64), extents.astype(np.float64)
    first, last = np.floor((centre - half) / TILE), np.floor((centre + half) / TILE)
    inside: NDArray[np.bool_] = (extents >= 0) & (first < band[1]) & (last >= band[0])
    return inside


def restricted(bins: Bins, band: tuple[int, int]) -> Bins:
    """The lists of the tiles in a band."""
    lists: TileLists = bins.data
    start, stop = lists.starts[band[0] * lists.columns], lists.starts[band[1] * lists.columns]
    # Copied, so that what lies in the arrays is what a small view would have.
    rows, starts = lists.rows[start:stop].copy(), np.clip(lists.starts, start, stop) - start
    return Bins(entries=len(rows), data=replace(lists, starts=starts, rows=rows))


def backward_of(blended: Blended, bins: Bins, band: tuple[int, int]) -> Blended:
    """What the backward of a band's own rows replays, of a blend of the widened band."""
    lists, state = bins.data, blended.data
    stops = lists.starts[:-1].copy()
    own = slice(band[0] * lists.columns, band[1] * lists.columns)
    stops[own] = state.stops[own]
    return replace(blended, data=replace(state, stops=stops))


def row_work(blended: Blended, bins: Bins, band: tuple[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """List entries and composited fragments of each tile row of a band, int64 [R of the band] each."""
    lists, state = bins.data, blended.data
    ends = state.bands.astype(np.int64)
    fragments = 8 * (ends[:, 1] - ends[:, 0] + ends[:, 3] - ends[:, 2] + 2)  # two columns of 8 pixels
    before = np.concatenate([[0], fragments.cumsum()])
    per_tile = np.stack([np.diff(lists.starts), before[state.stops] - before[lists.starts[:-1]]])
    entries, done = per_tile.reshape(2, -1, lists.columns).sum(axis=2)[:, band[0] : band[1]].astype(np.int64)
    return entries, done


def row_costs(
    entries: NDArray[np.int64], fragments: NDArray[np.int64], band: tuple[int, int], camera: Camera
) -> NDArray[np.int64]:
    """What each tile row of a band costs, in composited fragments, int64 [R of the band]."""
    heights = np.minimum(TILE, camera.height - TILE * np.arange(*band))
    costs: NDArray[np.int64] = fragments + entries + PIXEL_IN_FRAGMENTS * camera.width * heights
    return costs
