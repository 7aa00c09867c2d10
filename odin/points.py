"""Program points of a step: where segments leave and where they are published (D§6 Program points).

Steps A → B. A's segments are launched at points of A and published at points of B, in this order:

    B projects view j      GEOMETRY(j)  p1(j)   what view j's projection may read
    B blends view j        COLOUR(j)    p1'(j)  what its blend may read
    B's view j is done     VIEW(j)              rows that no later view of B touches may leave
    colours of B are done  COLOURS              colours leave during the last projection backward
    B's gradient is done   CLOSE        p0      everything else, of both steps
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache


class Kind(Enum):
    """What a point stands before or after."""

    GEOMETRY = "geometry"
    COLOUR = "colour"
    VIEW = "view"
    COLOURS = "colours"
    CLOSE = "close"


@dataclass(frozen=True)
class Point:
    """A point of a step; `position` counts the unit's views where the point belongs to one of them."""

    kind: Kind
    position: int = 0


COLOURS = Point(Kind.COLOURS)
CLOSE = Point(Kind.CLOSE)


@cache
def geometry(position: int) -> Point:
    """p1: before the position-th views are projected."""
    return Point(Kind.GEOMETRY, position)


@cache
def colour(position: int) -> Point:
    """p1': before the position-th views are blended."""
    return Point(Kind.COLOUR, position)


@cache
def view_done(position: int) -> Point:
    """After the position-th view's projection backward."""
    return Point(Kind.VIEW, position)
