"""What stands in the *city* capture: blocks of four buildings on a grid of streets.

World: units of about 3 m (a storey), z up, ground at z = 0, the first block's corner at the origin. Features are half a
unit and up: a pixel of a 120-pixel view covers about a quarter of a unit.
"""

from __future__ import annotations

import numpy as np

from harness.scenes.procedural.mesh import MeshBuilder, SceneMesh
from harness.scenes.procedural.texture import Material, Rgb

PITCH = 20.0  # from block to block
_STREET = 4.0
_YARD = 1.2  # between the buildings of a block
_LOW, _HIGH = 3.0, 10.0  # heights
_SEED = 0xC17

_WHITE: Rgb = (0.92, 0.91, 0.88)
_CREAM: Rgb = (0.86, 0.80, 0.66)
_GREY: Rgb = (0.45, 0.46, 0.48)
_DARK: Rgb = (0.22, 0.23, 0.25)
_RED: Rgb = (0.70, 0.28, 0.20)
_BLUE: Rgb = (0.24, 0.36, 0.58)
_GREEN: Rgb = (0.26, 0.44, 0.22)
_OCHRE: Rgb = (0.84, 0.64, 0.30)

GROUND = Material(pattern="tiles", colours=(_GREY, (0.58, 0.58, 0.56), _WHITE), size=2.5, seed=81)
FACADES = (
    Material(pattern="brick", colours=(_RED, (0.82, 0.46, 0.34), _CREAM), size=2.0, seed=82),
    Material(pattern="tiles", colours=(_BLUE, (0.50, 0.62, 0.78), _WHITE), size=1.6, seed=83),
    Material(pattern="stripes", colours=(_CREAM, _OCHRE, _DARK), size=1.4, seed=84),
    Material(pattern="checker", colours=(_WHITE, _GREY), size=1.3, seed=85),
    Material(pattern="books", colours=(_RED, _BLUE, _OCHRE, _CREAM, _DARK), size=1.5, seed=86),
)
ROOFS = (
    Material(pattern="planks", colours=(_RED, (0.50, 0.20, 0.16)), size=1.0, seed=87),
    Material(pattern="plain", colours=(_GREEN, (0.44, 0.60, 0.30)), size=2.0, seed=88),
    Material(pattern="tiles", colours=(_DARK, _GREY, _WHITE), size=1.5, seed=89),
    Material(pattern="picture", colours=(_OCHRE, _BLUE, _WHITE, _RED), size=3.0, seed=90),
)


def build_city(blocks: int) -> SceneMesh:
    """`blocks` × `blocks` blocks; a block looks the same in a city of any size."""
    builder = MeshBuilder()
    # One lamp per block, or light would fall off across the city.
    for row in range(blocks):
        for column in range(blocks):
            x, y = column * PITCH, row * PITCH
            lamp = builder.light((x + 0.35 * PITCH, y + 0.3 * PITCH, _HIGH + 4.0))
            builder.quad((x, y, 0), (PITCH, 0, 0), (0, PITCH, 0), GROUND, lamp)
            _block(builder, x + _STREET / 2, y + _STREET / 2, np.random.default_rng([_SEED, row, column]), lamp)
    return builder.build()


def _block(builder: MeshBuilder, x: float, y: float, rng: np.random.Generator, lamp: int) -> None:
    """Four buildings round a yard, some with a smaller storey on top."""
    inner = PITCH - _STREET
    half = (inner - _YARD) / 2
    for corner_x in (x, x + half + _YARD):
        for corner_y in (y, y + half + _YARD):
            height = float(rng.uniform(_LOW, _HIGH))
            facade, roof = FACADES[rng.integers(len(FACADES))], ROOFS[rng.integers(len(ROOFS))]
            high = (corner_x + half, corner_y + half, height)
            builder.box((corner_x, corner_y, 0), high, facade, lamp, {"+z": roof})
            if rng.random() < 0.5:
                low = (corner_x + 0.25 * half, corner_y + 0.25 * half, height)
                top = (corner_x + 0.75 * half, corner_y + 0.75 * half, height + float(rng.uniform(1.0, 3.0)))
                builder.box(low, top, FACADES[rng.integers(len(FACADES))], lamp, {"+z": roof})
