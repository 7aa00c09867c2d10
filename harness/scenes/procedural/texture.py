"""Procedural materials: albedo as a function of surface coordinates in metres.

Legend: n samples, uv float64 [n, 2] in metres, colours float64 [n, 3] in 0…1.
Features are 8 cm and up: at 120 px across 78° one pixel covers 4 cm of a wall 3 m away, and texture below
the pixel would be noise that no number of Gaussians can fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Rgb = tuple[float, float, float]
Samples = NDArray[np.float64]

_TABLE = 64  # random values repeat after this many cells; a power of two


@dataclass(frozen=True, kw_only=True)
class Material:
    """What a surface looks like.

    pattern: key of `PATTERNS`
    colours: palette, at least two
    size:    metres, the pattern's main feature
    seed:    which random table it draws from
    """

    pattern: str
    colours: tuple[Rgb, ...]
    size: float
    seed: int = 0

    def albedo(self, uv: Samples) -> Samples:
        """Colours [n, 3] at surface coordinates [n, 2], with a soft mottling over the pattern."""
        colours = PATTERNS[self.pattern](uv, self)
        mottling = 0.88 + 0.24 * _noise(uv / 0.35, self.seed + 1)
        return np.clip(colours * mottling[:, None], 0.0, 1.0)

    def palette(self) -> Samples:
        """The colours as an array [c, 3]."""
        return np.array(self.colours)


@cache
def _table(seed: int) -> Samples:
    return np.random.default_rng(seed).random((_TABLE, _TABLE))


def _cell(i: Samples, j: Samples, seed: int) -> Samples:
    """One random value in 0…1 per integer cell, [n]."""
    return _table(seed)[i.astype(np.int64) & (_TABLE - 1), j.astype(np.int64) & (_TABLE - 1)]


def _noise(xy: Samples, seed: int) -> Samples:
    """Value noise in 0…1 with unit cells, [n]."""
    base = np.floor(xy)
    t = xy - base
    s = t * t * (3.0 - 2.0 * t)
    i, j = base.T
    low = _cell(i, j, seed) * (1 - s[:, 0]) + _cell(i + 1, j, seed) * s[:, 0]
    high = _cell(i, j + 1, seed) * (1 - s[:, 0]) + _cell(i + 1, j + 1, seed) * s[:, 0]
    return low * (1 - s[:, 1]) + high * s[:, 1]


def _mix(a: Samples, b: Samples, t: Samples) -> Samples:
    return a + (b - a) * t[:, None]


def _pick(palette: Samples, values: Samples) -> Samples:
    """Palette colour for values in 0…1."""
    return palette[np.minimum((values * len(palette)).astype(np.int64), len(palette) - 1)]


def _plain(uv: Samples, m: Material) -> Samples:
    """Two colours blended by soft noise: plaster, fabric."""
    first, second = m.palette()[:2]
    return _mix(first, second, 0.6 * _noise(uv / m.size, m.seed) + 0.4 * _noise(uv * (2.3 / m.size), m.seed + 2))


def _checker(uv: Samples, m: Material) -> Samples:
    parity = np.floor(uv / m.size).sum(1) % 2
    return _pick(m.palette()[:2], parity * 0.99)


def _planks(uv: Samples, m: Material) -> Samples:
    """Boards along u, `size` wide, each with its own tone, grain and a dark joint."""
    row, across = np.divmod(uv[:, 1] / m.size, 1.0)
    along = uv[:, 0] / (7.0 * m.size) + _cell(row, row, m.seed)
    board, position = np.divmod(along, 1.0)
    grain = _noise(np.column_stack([uv[:, 0] / 0.5, uv[:, 1] / (0.3 * m.size)]), m.seed + 2)
    tone = 0.6 * _cell(board, row, m.seed + 3) + 0.4 * grain
    first, second = m.palette()[:2]
    joint = (across < 0.1) | (position < 0.015)
    return _mix(first, second, tone) * np.where(joint, 0.55, 1.0)[:, None]


def _brick(uv: Samples, m: Material) -> Samples:
    """Bricks `size` long in running bond; the last colour is the mortar."""
    row, y = np.divmod(uv[:, 1] / (0.42 * m.size), 1.0)
    column, x = np.divmod(uv[:, 0] / m.size + 0.5 * (row % 2), 1.0)
    first, second, mortar = m.palette()
    joint = (x < 0.08) | (y < 0.18)
    return np.where(joint[:, None], mortar, _mix(first, second, _cell(column, row, m.seed)))


def _tiles(uv: Samples, m: Material) -> Samples:
    """Square tiles of random tone between grout lines of the last colour."""
    cells, inside = np.divmod(uv / m.size, 1.0)
    first, second, grout = m.palette()
    joint = inside.min(1) < 0.06
    tone = _cell(cells[:, 0], cells[:, 1], m.seed)
    return np.where(joint[:, None], grout, _mix(first, second, tone))


def _stripes(uv: Samples, m: Material) -> Samples:
    """Wallpaper: vertical stripes, with a row of diamonds of the last colour on every other one."""
    stripe, x = np.divmod(uv[:, 0] / m.size, 1.0)
    y = np.mod(uv[:, 1] / (1.6 * m.size) + 0.25 * stripe, 1.0)
    diamond = (np.abs(x - 0.5) + 1.6 * np.abs(y - 0.5) < 0.42) & (stripe % 2 == 0)
    colours = _pick(m.palette()[:2], (stripe % 2) * 0.99)
    return np.where(diamond[:, None], m.palette()[-1], colours)


def _diamonds(uv: Samples, m: Material) -> Samples:
    """Rug: nested diamonds in the palette's colours."""
    away = np.abs(np.mod(uv / m.size, 1.0) - 0.5).sum(1)
    return _pick(m.palette(), away)


def _books(uv: Samples, m: Material) -> Samples:
    """Book spines on shelves `size` apart; the last colour is the shelf."""
    shelf, y = np.divmod(uv[:, 1] / m.size, 1.0)
    column = np.floor(uv[:, 0] / 0.09 + 0.37 * shelf)
    tall = 0.62 + 0.26 * _cell(column, shelf, m.seed)
    spine = _pick(m.palette()[:-1], _cell(shelf, column, m.seed + 1))
    band = np.abs(y - 0.4 * tall) < 0.07
    colours = spine * np.where(band, 1.35, 1.0)[:, None]
    colours = np.where((y > tall)[:, None], 0.35 * m.palette()[-1], colours)
    return np.where((y < 0.12)[:, None], m.palette()[-1], colours)


def _picture(uv: Samples, m: Material) -> Samples:
    """Abstract painting: flat areas of the palette's colours between curved borders."""
    scaled = uv / m.size
    bent = scaled + 0.35 * np.sin(2.1 * scaled[:, ::-1] + m.seed)
    return _pick(m.palette(), _noise(bent * 2.2, m.seed) * 0.7 + _noise(bent * 1.1, m.seed + 4) * 0.3)


PATTERNS: dict[str, Callable[[Samples, Material], Samples]] = {
    "plain": _plain,
    "checker": _checker,
    "planks": _planks,
    "brick": _brick,
    "tiles": _tiles,
    "stripes": _stripes,
    "diamonds": _diamonds,
    "books": _books,
    "picture": _picture,
}
