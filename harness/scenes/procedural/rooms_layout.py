"""The *rooms* capture: rooms in a row behind one another along x, joined by door openings.

World: metres, z up, floor at z = 0. Furniture stands along the walls, so that cameras can walk the middle.
"""

from __future__ import annotations

from itertools import pairwise

from harness.scenes.procedural.mesh import MeshBuilder, SceneMesh
from harness.scenes.procedural.rooms_furniture import FURNISH
from harness.scenes.procedural.rooms_materials import BASE, FLOORS, WALLS
from harness.scenes.procedural.rooms_plan import WALL, Room
from harness.scenes.procedural.texture import Material

HEIGHT = 2.6
DOOR_WIDTH, DOOR_HEIGHT = 1.0, 2.05


def build_rooms(rooms: tuple[Room, ...]) -> SceneMesh:
    """Shell, doors, furniture and one lamp per room."""
    builder = MeshBuilder()
    for room in rooms:
        x, y = room.centre
        light = builder.light((x, y, HEIGHT - 0.35))
        _shell(builder, room, light, last=room.index == len(rooms) - 1)
        FURNISH[room.index % len(FURNISH)](builder, room, light)
    for left, right in pairwise(rooms):
        _wall_with_door(builder, left, right)
    return builder.build()


def _walls_of(room: Room) -> Material:
    return WALLS[room.index % len(WALLS)]


def _shell(builder: MeshBuilder, room: Room, light: int, *, last: bool) -> None:
    """Floor, ceiling and the walls that no neighbour shares, seen from inside."""
    wall = _walls_of(room)
    # Floor and ceiling reach half a wall further, so that they close the doorways.
    x0 = room.x0 - (WALL / 2 if room.index else 0.0)
    x1 = room.x1 + (0.0 if last else WALL / 2)
    dx, dy, up = (x1 - x0, 0, 0), (0, room.y1 - room.y0, 0), (0, 0, HEIGHT)
    back = (0, room.y0 - room.y1, 0)
    builder.quad((x0, room.y0, 0), dx, dy, FLOORS[room.index % len(FLOORS)], light)
    builder.quad((x0, room.y1, HEIGHT), dx, back, BASE["ceiling"], light)
    builder.quad((x1, room.y0, 0), (x0 - x1, 0, 0), up, wall, light)
    builder.quad((x0, room.y1, 0), dx, up, wall, light)
    if room.index == 0:
        builder.quad((x0, room.y0, 0), dy, up, wall, light)
    if last:
        builder.quad((x1, room.y1, 0), back, up, wall, light)
    _skirting(builder, room, light)


def _skirting(builder: MeshBuilder, room: Room, light: int) -> None:
    for y0, y1 in ((room.y0, room.y0 + 0.02), (room.y1 - 0.02, room.y1)):
        builder.box((room.x0, y0, 0), (room.x1, y1, 0.1), BASE["white"], light)


def _wall_with_door(builder: MeshBuilder, left: Room, right: Room) -> None:
    """Two pieces and a lintel; each side wears the wallpaper of its room."""
    x0, x1 = left.x1, right.x0
    far = max(left.y1, right.y1)
    # Doors alternate between the two ends, so that one does not look through the whole row.
    door = 0.7 if left.index % 2 == 0 else min(left.y1, right.y1) - 0.7 - DOOR_WIDTH
    end = door + DOOR_WIDTH
    pieces = (((0, 0), (door, HEIGHT)), ((end, 0), (far, HEIGHT)), ((door, DOOR_HEIGHT), (end, HEIGHT)))
    for light, room, low_x, high_x in (
        (left.index, left, x0, x0 + WALL / 2),
        (right.index, right, x1 - WALL / 2, x1),
    ):
        papered = "-x" if room is left else "+x"
        for (y0, z0), (y1, z1) in pieces:
            sides = {papered: _walls_of(room)}
            builder.box((low_x, y0, z0), (high_x, y1, z1), BASE["white"], light, sides)
