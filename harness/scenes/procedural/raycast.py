"""Ray casting on a SceneMesh: which face is seen first, and how far away it is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.scenes.procedural.mesh import SceneMesh, Vectors


class RayCaster:
    """First hits through trimesh and embree; embree finds the face, the distance is computed in float64."""

    def __init__(self, mesh: SceneMesh) -> None:
        # Imported late: only generating a capture needs it, reading a cached one does not.
        import trimesh
        from trimesh.ray.ray_pyembree import RayMeshIntersector

        # process=False keeps vertices and faces in our order, so that face numbers mean our faces.
        self._scene = RayMeshIntersector(trimesh.Trimesh(mesh.vertices, mesh.faces, process=False))
        self._anchor = mesh.corners[:, 0]
        self._normals = mesh.normals

    def first_hits(self, origin: Vectors, directions: Vectors) -> tuple[NDArray[np.int64], Vectors]:
        """Face int64 [n] (-1: none) and distance [n] in units of each direction's length (inf: none).

        origin [3] is common to all rays; directions [n, 3] need not be unit vectors.
        """
        origins = np.broadcast_to(origin, directions.shape)
        faces = self._scene.intersects_first(origins, directions).astype(np.int64)
        hit = faces >= 0
        distance = np.full(len(directions), np.inf)
        normals = self._normals[faces[hit]]
        height = ((self._anchor[faces[hit]] - origin) * normals).sum(1)
        distance[hit] = height / (directions[hit] * normals).sum(1)
        return faces, distance

    def visible(self, origin: Vectors, targets: Vectors) -> NDArray[np.bool_]:
        """bool [n]: nothing stands between origin [3] and targets [n, 3], which lie on faces of the mesh."""
        _, distance = self.first_hits(origin, targets - origin)
        # The target's own face is hit at 1, give or take embree's float32.
        return distance > 1.0 - 1e-4
