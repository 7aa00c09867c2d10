"""TamingGS's pixel scores on a device: `cpu.score_kernels` as torch operations on gsplat's tile lists.

Structural: it runs at densifications, on a few views. Sums over tiles are atomic on CUDA, so they repeat to rounding
only.

Legend: M rows, E tile entries, H, W image size.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch

from pipelines.render.conventions import ALPHA_MAX, ALPHA_MIN, TILE, TRANSMITTANCE_MIN

# Entries that are looked at together: some ten float64 arrays of 256 pixels each are alive at once.
CHUNK = 1 << 14


def pixel_scores(
    splats: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    offsets: torch.Tensor,
    ids: torch.Tensor,
    weights: torch.Tensor,
) -> torch.Tensor:
    """Sums over the pixels that each row contributes to, float64 [M, 4]: of the pixels' weights, their number,
    alpha · transmittance, and distances to the row's centre in pixels. Blocks: the host takes the lengths of the lists.

    splats: means2d [M, 2], conics [M, 3], opacities [M]; offsets: int32 [1, rows of tiles, columns]; ids: int32 [E],
    tile after tile, front to back; weights: float32 [H, W]
    """
    means2d, _, _ = splats
    sums = torch.zeros((len(means2d), 4), dtype=torch.float64, device=means2d.device)
    starts = torch.cat([offsets.reshape(-1).long(), offsets.new_tensor([len(ids)]).long()])
    for first, last in _pieces(starts.tolist()):
        piece = starts[first : last + 1]
        rows = ids[int(piece[0]) : int(piece[-1])].long()
        tiles = torch.repeat_interleave(torch.arange(first, last, device=rows.device), piece.diff())
        sums.index_add_(0, rows, _of_entries(splats, rows, tiles, offsets.shape[2], weights))
    return sums


def _pieces(starts: list[int]) -> Iterator[tuple[int, int]]:
    """Ranges of tiles with at most CHUNK entries, or one tile."""
    first = 0
    for tile, (begin, end) in enumerate(pairwise(starts)):
        if end - starts[first] > CHUNK and begin > starts[first]:
            yield first, tile
            first = tile
    if starts[-1] > starts[first]:
        yield first, len(starts) - 1


def _of_entries(
    splats: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    rows: torch.Tensor,
    tiles: torch.Tensor,
    columns: int,
    weights: torch.Tensor,
) -> torch.Tensor:
    """The four sums of each entry over the pixels of its tile, float64 [E, 4]."""
    means2d, conics, opacities = (values.index_select(0, rows).double() for values in splats)
    inner = torch.arange(TILE * TILE, device=rows.device)
    x = (tiles % columns * TILE)[:, None] + inner % TILE
    y = torch.div(tiles, columns, rounding_mode="floor")[:, None] * TILE + torch.div(inner, TILE, rounding_mode="floor")
    inside = (x < weights.shape[1]) & (y < weights.shape[0])
    dx, dy = x + 0.5 - means2d[:, :1], y + 0.5 - means2d[:, 1:]
    a, b, c = (conics[:, k : k + 1] for k in range(3))
    alpha = opacities[:, None] * torch.exp(-0.5 * (a * dx * dx + c * dy * dy) - b * dx * dy)
    alpha = torch.where(alpha >= ALPHA_MIN, alpha.clamp(max=ALPHA_MAX), 0.0)
    before, after = _transmittances(alpha, tiles)
    # Transmittance never rises: what would bring it below the limit ends the pixel, and so does all that follows.
    reached = inside & (alpha > 0) & (after >= TRANSMITTANCE_MIN)
    asked = weights[y.clamp(max=weights.shape[0] - 1), x.clamp(max=weights.shape[1] - 1)].double()
    terms = (asked, torch.ones_like(alpha), alpha * before, torch.sqrt(dx * dx + dy * dy))
    return torch.stack([torch.where(reached, term, 0.0).sum(dim=1) for term in terms], dim=1)


def _transmittances(alpha: torch.Tensor, tiles: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Transmittance in front of and behind each entry at each pixel, as if no pixel ever ended, [E, 256] each.

    Sums of logarithms that start anew with each tile: a product over many tiles would vanish.
    """
    logs = torch.log1p(-alpha)
    total = torch.cumsum(logs, dim=0)
    new = torch.cat([tiles.new_ones(1, dtype=torch.bool), tiles[1:] != tiles[:-1]])
    start = torch.cummax(torch.where(new, torch.arange(len(tiles), device=tiles.device), 0), dim=0).values
    behind = total - (total - logs).index_select(0, start)
    return torch.exp(behind - logs), torch.exp(behind)
