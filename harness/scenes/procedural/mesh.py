"""Triangle meshes whose faces know their material, and a builder for walls, boxes and turned shapes.

World: metres, z up. Legend: F faces, S surfaces, L lights, n samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.scenes.procedural.texture import Material

Vectors = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Surface:
    """A set of faces with one material and one coordinate system.

    u, v:   unit vectors [3]; texture coordinates are world positions along them, so that patterns run on
            across neighbouring pieces of a wall
    axis:   (x, y) of the vertical axis of a turned shape, whose coordinates are (arc length, height); else None
    radius: metres, turns angle into arc length on turned shapes
    light:  index of the lamp that shines on it
    """

    material: Material
    light: int
    u: tuple[float, ...] = (1.0, 0.0, 0.0)
    v: tuple[float, ...] = (0.0, 1.0, 0.0)
    axis: tuple[float, float] | None = None
    radius: float = 0.0

    def coordinates(self, positions: Vectors) -> Vectors:
        """Texture coordinates [n, 2], metres, of world positions [n, 3]."""
        if self.axis is None:
            return positions @ np.array([self.u, self.v]).T
        away = positions[:, :2] - np.array(self.axis)
        return np.column_stack([self.radius * np.arctan2(away[:, 1], away[:, 0]), positions[:, 2]])


@dataclass(frozen=True, kw_only=True)
class SceneMesh:
    """Everything a renderer needs.

    vertices: float64 [*, 3]        faces: int64 [F, 3]
    normals:  float64 [F, 3], unit, towards the visible side
    surface_of: int64 [F], row in `surfaces` of each face
    lights:   float64 [L, 3], lamp positions
    """

    vertices: Vectors
    faces: NDArray[np.int64]
    normals: Vectors
    surface_of: NDArray[np.int64]
    surfaces: tuple[Surface, ...]
    lights: Vectors

    @property
    def corners(self) -> Vectors:
        """Triangle corners, [F, 3, 3]."""
        return self.vertices[self.faces]

    def colours(self, faces: NDArray[np.int64], positions: Vectors) -> Vectors:
        """Shaded colours float64 [n, 3] in 0…1 of positions [n, 3] on faces [n]: lambert plus ambient."""
        owner = self.surface_of[faces]
        order = np.argsort(owner, kind="stable")
        rows, starts = np.unique(owner[order], return_index=True)
        colours = np.empty_like(positions)
        for row, here in zip(rows, np.split(order, starts)[1:], strict=True):
            surface = self.surfaces[row]
            colours[here] = surface.material.albedo(surface.coordinates(positions[here]))
        lamp_of = np.array([surface.light for surface in self.surfaces])
        lamps = self.lights[lamp_of[owner]]
        return colours * _shade(positions, self.normals[faces], lamps)[:, None]


def _shade(positions: Vectors, normals: Vectors, light: Vectors) -> Vectors:
    """Brightness [n]: ambient, plus a lamp that falls to half at 4 m."""
    towards = light - positions
    distance = np.linalg.norm(towards, axis=1)
    facing = np.clip((towards * normals).sum(1) / np.maximum(distance, 1e-9), 0.0, 1.0)
    return 0.48 + 0.62 * facing / (1.0 + (distance / 4.0) ** 2)


class MeshBuilder:
    """Collects faces; every shape is added with outward normals."""

    def __init__(self) -> None:
        self._vertices: list[Vectors] = []
        self._faces: list[NDArray[np.int64]] = []
        self._surface_of: list[NDArray[np.int64]] = []
        self._surfaces: list[Surface] = []
        self._lights: list[ArrayLike] = []
        self._count = 0

    def light(self, position: ArrayLike) -> int:
        """Add a lamp at [3]; returns its index."""
        self._lights.append(position)
        return len(self._lights) - 1

    def quad(self, corner: ArrayLike, u: ArrayLike, v: ArrayLike, material: Material, light: int) -> None:
        """Add the parallelogram corner + s·u + t·v; it is seen from the side u × v points to."""
        corner, u, v = (np.asarray(vector, np.float64) for vector in (corner, u, v))
        surface = Surface(
            material=material,
            light=light,
            u=tuple(u / np.linalg.norm(u)),
            v=tuple(v / np.linalg.norm(v)),
        )
        vertices = np.array([corner, corner + u, corner + u + v, corner + v])
        self._add(vertices, np.array([[0, 1, 2], [0, 2, 3]]), surface)

    def box(
        self, low: ArrayLike, high: ArrayLike, material: Material, light: int, sides: dict[str, Material] | None = None
    ) -> None:
        """Add an axis-parallel box; `sides` overrides the material of "-x", "+x", "-y", "+y", "-z" or "
        ""+z"."""
        sides = sides or {}
        x0, y0, z0 = np.asarray(low, np.float64)
        x1, y1, z1 = np.asarray(high, np.float64)
        dx, dy, dz = np.diag([x1 - x0, y1 - y0, z1 - z0])
        faces = {
            "-x": ((x0, y1, z0), -dy, dz),
            "+x": ((x1, y0, z0), dy, dz),
            "-y": ((x0, y0, z0), dx, dz),
            "+y": ((x1, y1, z0), -dx, dz),
            "-z": ((x0, y1, z0), dx, -dy),
            "+z": ((x0, y0, z1), dx, dy),
        }
        for side, (corner, u, v) in faces.items():
            self.quad(corner, u, v, sides.get(side, material), light)

    def turned(
        self, axis: tuple[float, float], profile: list[tuple[float, float]], material: Material, light: int
    ) -> None:
        """Add a shape turned about a vertical axis; profile holds (radius, height) from bottom to top, "
        "metres."""
        segments = 24
        angle = np.arange(segments) * (2 * np.pi / segments)
        circle = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(segments)])
        rings = [np.array([*axis, height]) + radius * circle for radius, height in profile]
        step = np.arange(segments)
        after = (step + 1) % segments
        faces = []
        for ring in range(len(profile) - 1):
            below, above = ring * segments, (ring + 1) * segments
            faces.append(np.column_stack([below + step, below + after, above + after]))
            faces.append(np.column_stack([below + step, above + after, above + step]))
        surface = Surface(material=material, light=light, axis=axis, radius=max(radius for radius, _ in profile))
        self._add(np.concatenate(rings), np.concatenate(faces), surface)

    def _add(self, vertices: Vectors, faces: NDArray[np.int64], surface: Surface) -> None:
        self._vertices.append(vertices)
        self._faces.append(faces + self._count)
        self._surface_of.append(np.full(len(faces), len(self._surfaces), np.int64))
        self._surfaces.append(surface)
        self._count += len(vertices)

    def build(self) -> SceneMesh:
        """The mesh, without faces of zero area (the tips of turned shapes)."""
        vertices, faces = np.concatenate(self._vertices), np.concatenate(self._faces)
        a, b, c = np.moveaxis(vertices[faces], 1, 0)
        normals = np.cross(b - a, c - a)
        length = np.linalg.norm(normals, axis=1)
        real = length > 1e-9
        return SceneMesh(
            vertices=vertices,
            faces=faces[real],
            normals=normals[real] / length[real, None],
            surface_of=np.concatenate(self._surface_of)[real],
            surfaces=tuple(self._surfaces),
            lights=np.array(self._lights, np.float64),
        )
