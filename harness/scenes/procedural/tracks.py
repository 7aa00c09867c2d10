"""Points and tracks of a SceneMesh, as structure from motion would leave them.

Legend: P points, V views, C candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.scenes.procedural.mesh import SceneMesh, Vectors
from harness.scenes.procedural.raycast import RayCaster
from odin.errors import InputError
from pipelines.camera import Camera

# SIFT matches a point in only part of the views that see it. With these two a point of the default rooms is in
# 5.9 views on average and 68 % of the pairs of views share none; the real captures of ../shared/data have
# 5.6 to 8.0 views, and 0 to 65 % of the pairs.
DETECTION = 0.9  # chance up to REACH
REACH = 3.0  # metres; farther features cover fewer pixels, and the chance falls with that area
REACH_FOCAL = 0.62  # the lens REACH is for, as a share of the image width
NOISE = 0.004  # metres, standard deviation per axis; a tenth of a pixel at 3 m
_GRAZING = 0.15  # smallest cosine between view ray and normal at which a point is found
_BATCHES = 40
_PAIRS = 1 << 22  # of a candidate and a view that are looked at together: bounds the memory of captures with many views


@dataclass(frozen=True, kw_only=True)
class SurfacePoints:
    """Sampled surface points with their observations.

    points:  float64 [P, 3], metres, with NOISE added
    colours: uint8 [P, 3]
    seen:    bool [P, V]; every row has at least two
    """

    points: Vectors
    colours: NDArray[np.uint8]
    seen: NDArray[np.bool_]


def lens_reach(cameras: Sequence[Camera]) -> Vectors:
    """Reach [V] of each view in metres: a long lens gives a far feature as many pixels as a near one has."""
    return np.array([REACH * camera.fx / (REACH_FOCAL * camera.width) for camera in cameras])


def sample_points(
    mesh: SceneMesh,
    caster: RayCaster,
    cameras: Sequence[Camera],
    count: int,
    seed: int,
    *,
    reach: float | Vectors = REACH,
) -> SurfacePoints:
    """`count` points, spread evenly over the surface that at least two views see.

    reach: metres, for all views or [V]
    Raises InputError when the views overlap too little for that.
    """
    rng = np.random.default_rng(seed)
    batches: list[SurfacePoints] = []
    size = min(count, max(1, _PAIRS // len(cameras)))
    for _ in range(_BATCHES * -(-count // size)):
        batches.append(_batch(mesh, caster, cameras, size, rng, reach))
        if sum(len(batch.points) for batch in batches) >= count:
            return SurfacePoints(
                points=np.concatenate([batch.points for batch in batches])[:count],
                colours=np.concatenate([batch.colours for batch in batches])[:count],
                seen=np.concatenate([batch.seen for batch in batches])[:count],
            )
    raise InputError(
        f"The {len(cameras)} views overlap too little to give {count} points seen twice. Ask for more views, "
        "or fewer rooms or points."
    )


def _batch(
    mesh: SceneMesh,
    caster: RayCaster,
    cameras: Sequence[Camera],
    size: int,
    rng: np.random.Generator,
    reach: float | Vectors,
) -> SurfacePoints:
    """Up to `size` points: candidates on the surface, without those that fewer than two views observe."""
    faces, positions = _on_surface(mesh, size, rng)
    seen = np.column_stack([observed(mesh, caster, camera, faces, positions) for camera in cameras])
    seen &= rng.random(seen.shape) < _chance(cameras, positions, reach)
    noise = rng.normal(0.0, NOISE, positions.shape)
    kept = seen.sum(1) >= 2
    colours = np.round(255.0 * mesh.colours(faces[kept], positions[kept]))
    return SurfacePoints(
        points=positions[kept] + noise[kept],
        colours=np.clip(colours, 0, 255).astype(np.uint8),
        seen=seen[kept],
    )


def _chance(cameras: Sequence[Camera], positions: Vectors, reach: float | Vectors) -> Vectors:
    """Probability [C, V] that structure from motion finds a visible point in a view."""
    centres = np.array([camera.centre for camera in cameras])
    distance = np.linalg.norm(positions[:, None] - centres[None], axis=2)
    return DETECTION * np.minimum(1.0, (reach / distance) ** 2)


def _on_surface(mesh: SceneMesh, count: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], Vectors]:
    """Faces [C] chosen by area and positions [C, 3] uniform on them."""
    a, b, c = np.moveaxis(mesh.corners, 1, 0)
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    faces = rng.choice(len(area), size=count, p=area / area.sum())
    s, t = rng.random((2, count))
    root = np.sqrt(s)[:, None]
    t = t[:, None]
    return faces, (1 - root) * a[faces] + root * (1 - t) * b[faces] + root * t * c[faces]


def observed(
    mesh: SceneMesh, caster: RayCaster, camera: Camera, faces: NDArray[np.int64], positions: Vectors
) -> NDArray[np.bool_]:
    """bool [C]: the point projects into the image, faces the camera and nothing stands in between."""
    local = positions @ camera.rotation.T + camera.translation
    depth = np.maximum(local[:, 2], 1e-9)
    x = camera.fx * local[:, 0] / depth + camera.cx
    y = camera.fy * local[:, 1] / depth + camera.cy
    rays = camera.centre - positions
    facing = (rays * mesh.normals[faces]).sum(1) > _GRAZING * np.linalg.norm(rays, axis=1)
    inside = (local[:, 2] > 0.1) & (x > 0) & (x < camera.width) & (y > 0) & (y < camera.height)
    seen = inside & facing
    seen[seen] = caster.visible(camera.centre, positions[seen])
    return seen
