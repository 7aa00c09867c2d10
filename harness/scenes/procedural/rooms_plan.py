"""Floor plan of the *rooms* capture: rooms in a row along x. World: metres, z up, floor at z = 0."""

from __future__ import annotations

from dataclasses import dataclass

WALL = 0.16  # thickness between two rooms
_SIZES = ((4.6, 4.0), (4.0, 4.6), (4.8, 3.8))  # width along x, depth along y; repeats


@dataclass(frozen=True, kw_only=True)
class Room:
    """The floor rectangle x0…x1, y0…y1 of one room, metres, and its place in the row."""

    index: int
    x0: float
    x1: float
    y0: float
    y1: float

    @property
    def centre(self) -> tuple[float, float]:
        """Middle of the floor, (x, y)."""
        return (self.x0 + self.x1) / 2, (self.y0 + self.y1) / 2


def floor_plan(count: int) -> tuple[Room, ...]:
    """`count` rooms from x = 0 on, with walls of thickness WALL between them."""
    rooms = []
    x = 0.0
    for index in range(count):
        width, depth = _SIZES[index % len(_SIZES)]
        rooms.append(Room(index=index, x0=x, x1=x + width, y0=0.0, y1=depth))
        x += width + WALL
    return tuple(rooms)
