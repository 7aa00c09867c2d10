"""Furniture of the *rooms* capture: three kinds of room, all of boxes and turned shapes."""

from __future__ import annotations

from collections.abc import Callable

from harness.scenes.procedural.mesh import MeshBuilder
from harness.scenes.procedural.rooms_materials import BASE, PICTURES
from harness.scenes.procedural.rooms_plan import Room
from harness.scenes.procedural.texture import Material


def furnish_living(b: MeshBuilder, room: Room, light: int) -> None:
    """Sofa at the far wall, bookshelf at the near one, rug and low table in the middle."""
    x, y = room.centre
    b.box((x - 1.3, y - 0.9, 0), (x + 1.3, y + 0.9, 0.015), BASE["rug"], light)
    _table(b, (x - 0.5, y - 0.3), (x + 0.5, y + 0.3), 0.42, BASE["walnut"], light)
    _vase(b, (x + 0.2, y), 0.42, light)
    sx, sy = x - 1.1, room.y1 - 0.95
    b.box((sx, sy, 0.1), (sx + 2.2, sy + 0.9, 0.42), BASE["sofa"], light)
    b.box((sx, sy + 0.65, 0.42), (sx + 2.2, sy + 0.9, 0.9), BASE["sofa"], light)
    for side in (sx - 0.2, sx + 2.2):
        b.box((side, sy, 0.1), (side + 0.2, sy + 0.9, 0.62), BASE["sofa"], light)
    b.box((sx + 0.2, sy + 0.5, 0.42), (sx + 0.65, sy + 0.64, 0.8), BASE["cushion"], light)
    b.box((sx + 1.5, sy + 0.5, 0.42), (sx + 1.95, sy + 0.64, 0.8), BASE["cushion"], light)
    b.box((x - 1.6, room.y0, 0), (x + 0.4, room.y0 + 0.35, 1.95), BASE["oak"], light, {"+y": BASE["books"]})
    _picture(b, (x - 0.55, room.y1 - 0.04, 1.25), (1.1, 0, 0.8), PICTURES[0], light)
    _picture(b, (room.x0, y - 0.5, 1.1), (0, 1.0, 0.75), PICTURES[1], light)
    _lamp(b, (room.x1 - 0.4, room.y1 - 0.4), light)
    _plant(b, (room.x0 + 0.4, room.y0 + 0.4), light)


def furnish_kitchen(b: MeshBuilder, room: Room, light: int) -> None:
    """Counter with tiles and fridge at the far wall, table with stools, sideboard at the near wall."""
    x, y = room.centre
    counter = {"-y": BASE["oak"], "+z": BASE["stone"]}
    b.box((room.x0, room.y1 - 0.6, 0), (x + 0.9, room.y1, 0.9), BASE["white"], light, counter)
    b.box((room.x0, room.y1 - 0.02, 0.9), (x + 0.9, room.y1, 1.5), BASE["kitchen"], light)
    b.box((room.x0 + 0.3, room.y1 - 0.35, 1.5), (x + 0.5, room.y1, 2.2), BASE["walnut"], light)
    b.box((x + 0.95, room.y1 - 0.65, 0), (x + 1.6, room.y1, 1.8), BASE["steel"], light)
    _vase(b, (room.x0 + 0.6, room.y1 - 0.3), 0.9, light)
    _table(b, (x - 0.6, y - 0.45), (x + 0.6, y + 0.45), 0.74, BASE["oak"], light)
    for stool_x, stool_y in ((x - 0.9, y - 0.2), (x + 0.9, y + 0.2), (x + 0.1, y - 0.8)):
        b.turned(
            (stool_x, stool_y), [(0.05, 0), (0.05, 0.42), (0.2, 0.43), (0.2, 0.48), (0, 0.48)], BASE["clay"], light
        )
    b.box((x - 0.9, room.y0, 0), (x + 0.9, room.y0 + 0.4, 0.8), BASE["walnut"], light)
    _plant(b, (x - 0.5, room.y0 + 0.2), light, height=0.8)
    _picture(b, (x - 0.1, room.y0, 1.15), (0.9, 0, 0.7), PICTURES[2], light)


def furnish_bedroom(b: MeshBuilder, room: Room, light: int) -> None:
    """Bed with head at the far wall, wardrobe and desk at the near wall, lamp and pictures."""
    x, y = room.centre
    b.box((x - 0.8, room.y1 - 1.45, 0), (x + 0.8, room.y1, 0.3), BASE["walnut"], light)
    b.box((x - 0.78, room.y1 - 1.42, 0.3), (x + 0.78, room.y1 - 0.1, 0.52), BASE["quilt"], light)
    b.box((x - 0.6, room.y1 - 0.5, 0.52), (x + 0.6, room.y1 - 0.12, 0.64), BASE["white"], light)
    b.box((x - 0.9, room.y1 - 0.08, 0), (x + 0.9, room.y1, 1.05), BASE["oak"], light)
    b.box((room.x1 - 1.5, room.y0, 0), (room.x1 - 0.1, room.y0 + 0.55, 2.0), BASE["oak"], light)
    _table(b, (x - 1.5, room.y0 + 0.05), (x - 0.1, room.y0 + 0.6), 0.74, BASE["walnut"], light)
    b.box((x - 1.2, room.y0 + 0.1, 0.74), (x - 0.5, room.y0 + 0.16, 1.16), BASE["kitchen"], light)
    b.box((x - 0.35, y - 0.6, 0), (x + 0.35, y + 0.3, 0.015), BASE["rug"], light)
    _vase(b, (x - 0.3, room.y0 + 0.3), 0.74, light)
    _lamp(b, (x + 1.25, room.y1 - 0.35), light)
    _plant(b, (room.x1 - 0.4, room.y1 - 1.2), light)
    _picture(b, (x - 0.5, room.y1 - 0.04, 1.4), (1.0, 0, 0.7), PICTURES[3], light)
    _picture(b, (room.x1 - 0.04, y - 0.5, 1.2), (0, 0.9, 0.7), PICTURES[0], light)


FURNISH: tuple[Callable[[MeshBuilder, Room, int], None], ...] = (
    furnish_living,
    furnish_kitchen,
    furnish_bedroom,
)


def _table(
    b: MeshBuilder, low: tuple[float, float], high: tuple[float, float], height: float, material: Material, light: int
) -> None:
    b.box((*low, height - 0.05), (*high, height), material, light)
    for x in (low[0] + 0.03, high[0] - 0.09):
        for y in (low[1] + 0.03, high[1] - 0.09):
            b.box((x, y, 0), (x + 0.06, y + 0.06, height - 0.05), material, light)


def _picture(
    b: MeshBuilder, corner: tuple[float, float, float], size: tuple[float, float, float], material: Material, light: int
) -> None:
    """A framed painting 4 cm deep; `size` is 0 in the direction it hangs against."""
    depth = tuple(extent or 0.04 for extent in size)
    high = tuple(start + extent for start, extent in zip(corner, depth, strict=True))
    b.box(corner, high, material, light, {"-z": BASE["walnut"], "+z": BASE["walnut"]})


def _vase(b: MeshBuilder, at: tuple[float, float], z: float, light: int) -> None:
    profile = [(0.06, 0), (0.11, 0.08), (0.11, 0.16), (0.05, 0.24), (0.07, 0.3)]
    b.turned(at, [(radius, z + height) for radius, height in profile], BASE["vase"], light)


def _lamp(b: MeshBuilder, at: tuple[float, float], light: int) -> None:
    b.turned(at, [(0.16, 0), (0.16, 0.03), (0.025, 0.04), (0.025, 1.3)], BASE["steel"], light)
    b.turned(at, [(0.25, 1.25), (0.15, 1.6), (0, 1.6)], BASE["shade"], light)


def _plant(b: MeshBuilder, at: tuple[float, float], light: int, height: float = 0.0) -> None:
    pot = [(0.12, 0), (0.17, 0.3), (0.0, 0.28)]
    crown = [(0.0, 0.34), (0.22, 0.5), (0.26, 0.7), (0.16, 0.95), (0.0, 1.05)]
    for profile, material in ((pot, BASE["clay"]), (crown, BASE["leaves"])):
        b.turned(at, [(radius, height + z) for radius, z in profile], material, light)
