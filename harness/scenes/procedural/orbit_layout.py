"""What stands in the *orbit* capture: a table with objects, boxes and turned shapes, on a square of floor.

World: metres, z up, floor at z = 0, the table's middle at x = y = 0. Around the floor it is black.
"""

from __future__ import annotations

import math

from harness.scenes.procedural.mesh import MeshBuilder, SceneMesh
from harness.scenes.procedural.texture import Material, Rgb

TOP = 0.75  # height of the table
_HALF_X, _HALF_Y = 0.75, 0.55
_FLOOR = 1.5  # half side
_LEG = 0.07

_WHITE: Rgb = (0.93, 0.92, 0.88)
_CREAM: Rgb = (0.86, 0.80, 0.66)
_NAVY: Rgb = (0.14, 0.20, 0.45)
_RED: Rgb = (0.75, 0.20, 0.15)
_TEAL: Rgb = (0.10, 0.48, 0.48)
_OCHRE: Rgb = (0.90, 0.66, 0.20)
_DARK: Rgb = (0.20, 0.16, 0.14)

FLOOR = Material(pattern="tiles", colours=((0.40, 0.44, 0.50), (0.62, 0.66, 0.70), _WHITE), size=0.35, seed=61)
WOOD = Material(pattern="planks", colours=((0.74, 0.54, 0.33), (0.48, 0.30, 0.17)), size=0.18, seed=62)
PARCEL = Material(pattern="brick", colours=((0.70, 0.36, 0.25), (0.84, 0.52, 0.36), _CREAM), size=0.16, seed=63)
BOOKS = (
    Material(pattern="stripes", colours=(_NAVY, (0.24, 0.34, 0.62), _OCHRE), size=0.1, seed=64),
    Material(pattern="diamonds", colours=(_CREAM, _RED, _DARK), size=0.16, seed=65),
    Material(pattern="checker", colours=(_TEAL, _WHITE), size=0.08, seed=66),
)
VASE = Material(pattern="checker", colours=(_WHITE, _NAVY), size=0.08, seed=67)
BALL = Material(pattern="stripes", colours=(_RED, _OCHRE, _WHITE), size=0.11, seed=68)
CUP = Material(pattern="tiles", colours=(_TEAL, (0.35, 0.66, 0.62), _CREAM), size=0.1, seed=69)
CRATE = Material(pattern="picture", colours=(_OCHRE, _RED, _NAVY, _WHITE), size=0.2, seed=70)


def build_orbit() -> SceneMesh:
    """Floor, table and objects under two lamps."""
    builder = MeshBuilder()
    lamp, other = builder.light((1.2, -1.0, 2.6)), builder.light((-1.3, 1.1, 2.4))
    builder.quad((-_FLOOR, -_FLOOR, 0), (2 * _FLOOR, 0, 0), (0, 2 * _FLOOR, 0), FLOOR, lamp)
    _table(builder, lamp)
    builder.box((-0.62, -0.1, TOP), (-0.3, 0.25, TOP + 0.26), PARCEL, lamp)
    _books(builder, other)
    builder.box((0.12, -0.42, TOP), (0.44, -0.16, TOP + 0.14), CRATE, lamp)
    _turned(
        builder, (0.45, 0.2), [(0.07, 0), (0.13, 0.1), (0.13, 0.2), (0.05, 0.32), (0.08, 0.4), (0, 0.4)], VASE, lamp
    )
    _turned(builder, (0.0, 0.05), _circle(0.13), BALL, other)
    _turned(builder, (-0.28, -0.34), [(0.06, 0), (0.1, 0.22), (0, 0.22)], CUP, lamp)
    return builder.build()


def _table(builder: MeshBuilder, lamp: int) -> None:
    builder.box((-_HALF_X, -_HALF_Y, TOP - 0.06), (_HALF_X, _HALF_Y, TOP), WOOD, lamp)
    for x in (-_HALF_X + 0.04, _HALF_X - 0.04 - _LEG):
        for y in (-_HALF_Y + 0.04, _HALF_Y - 0.04 - _LEG):
            builder.box((x, y, 0), (x + _LEG, y + _LEG, TOP - 0.06), WOOD, lamp)


def _books(builder: MeshBuilder, lamp: int) -> None:
    """A stack of three, each a little smaller than the one below."""
    for level, material in enumerate(BOOKS):
        low = (-0.2 + 0.03 * level, 0.26 + 0.02 * level, TOP + 0.06 * level)
        high = (0.16 - 0.02 * level, 0.5 - 0.02 * level, TOP + 0.06 * (level + 1))
        builder.box(low, high, material, lamp)


def _circle(radius: float) -> list[tuple[float, float]]:
    """Profile of a ball that lies on the table: (radius, height above it)."""
    angles = [math.pi * k / 12 for k in range(13)]
    return [(radius * math.sin(a), radius * (1.0 - math.cos(a))) for a in angles]


def _turned(
    builder: MeshBuilder, at: tuple[float, float], profile: list[tuple[float, float]], material: Material, lamp: int
) -> None:
    builder.turned(at, [(radius, TOP + height) for radius, height in profile], material, lamp)
