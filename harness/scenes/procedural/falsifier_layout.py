"""What stands in the *falsifier* capture: a mosaic, posts far in front of it, and a wall high up behind it.

World: metres, z up; the mosaic stands in the plane y = 0 and faces -y, its middle at x = 0.
"""

from __future__ import annotations

import math

from harness.scenes.procedural.mesh import MeshBuilder, SceneMesh
from harness.scenes.procedural.texture import Material, Rgb

WIDTH, HEIGHT = 3.6, 0.5  # of the mosaic

# The far cameras stand on a roof; their axis falls by ELEVATION towards the mosaic.
DISTANCE = 90.0
ELEVATION = math.radians(25.0)
FAR_Y, FAR_Z = -DISTANCE * math.cos(ELEVATION), HEIGHT / 2 + DISTANCE * math.sin(ELEVATION)
SPREAD = 1.6  # far cameras stand at x = -SPREAD…SPREAD

_AHEAD = 10.0  # from the far cameras to the posts
_POSTS_Y, _POSTS_Z = FAR_Y + _AHEAD * math.cos(ELEVATION), FAR_Z - _AHEAD * math.sin(ELEVATION)
_ROW = 2.17  # posts stand at x = -_ROW…_ROW: a far view is 1.1 m wide there
_PERIOD, _SIDE, _FOOT = 0.37, 0.222, 0.65
# Tops above the axis, of even and odd posts. On the left more of the mosaic is hidden, which weakens the coupling
# of that half of the far views to all near ones. With both halves coupled alike the planner visited one near region
# twice in a row at every second change of round, and the last gradients published there were those of a near step.
_TOPS_LEFT, _TOPS_RIGHT = (0.185, 0.111), (0.139, -0.074)

_WHITE: Rgb = (0.95, 0.93, 0.88)
_BLACK: Rgb = (0.05, 0.05, 0.06)
_RED: Rgb = (0.80, 0.15, 0.10)
_BLUE: Rgb = (0.10, 0.20, 0.70)
_YELLOW: Rgb = (0.95, 0.70, 0.10)

MOSAIC = Material(pattern="picture", colours=(_WHITE, _RED, _BLUE, _YELLOW), size=0.125, seed=3)
POSTS = (
    Material(pattern="checker", colours=(_WHITE, _BLACK), size=0.093, seed=7),
    Material(pattern="diamonds", colours=(_WHITE, _RED, _BLACK, _YELLOW), size=0.28, seed=8),
)
BACKDROP = Material(
    pattern="tiles", colours=((0.36, 0.50, 0.68), (0.62, 0.72, 0.82), (0.86, 0.80, 0.66)), size=0.65, seed=13
)


def build_falsifier() -> SceneMesh:
    """Mosaic, posts and backdrop, each with a lamp of its own; around them it is black."""
    builder = MeshBuilder()
    lamp = builder.light((0, -2.5, 2.0))
    builder.quad((-WIDTH / 2, 0, 0), (WIDTH, 0, 0), (0, 0, HEIGHT), MOSAIC, lamp)
    _posts(builder)
    # High enough that no far view looks there, and that near ones see it above the mosaic's edge.
    lamp = builder.light((0, 1.5, 3.0))
    builder.quad((-2.0, 5.0, 2.8), (4.0, 0, 0), (0, 0, 1.0), BACKDROP, lamp)
    return builder.build()


def _posts(builder: MeshBuilder) -> None:
    lamp = builder.light((0, _POSTS_Y - 2.0, _POSTS_Z + 1.5))
    for post in range(int(2 * _ROW / _PERIOD) + 1):
        x = -_ROW + post * _PERIOD
        top = (_TOPS_LEFT if x < -_SIDE else _TOPS_RIGHT)[post % 2]
        low = (x, _POSTS_Y, _POSTS_Z - _FOOT)
        high = (x + _SIDE, _POSTS_Y + _SIDE, _POSTS_Z + top)
        builder.box(low, high, POSTS[post % 2], lamp)
