"""The *rooms* capture: three furnished rooms joined by doors, inside-out cameras, true occlusion.

Views in one room mostly see that room, and through the doors a little of the next: co-visibility has the
block structure of real indoor scans.
"""

from __future__ import annotations

import hashlib

import numpy as np

from harness.scenes.procedural.cache import Arrays, cached
from harness.scenes.procedural.mesh import SceneMesh
from harness.scenes.procedural.raycast import RayCaster
from harness.scenes.procedural.render import SUPERSAMPLE, render
from harness.scenes.procedural.rooms_cameras import room_cameras
from harness.scenes.procedural.rooms_layout import build_rooms
from harness.scenes.procedural.rooms_plan import floor_plan
from harness.scenes.procedural.tracks import DETECTION, NOISE, REACH, sample_points
from harness.scenes.spec import Progress, RoomsSpec
from harness.scenes.split import split_views
from odin.tracks import Tracks
from pipelines.camera import Camera
from pipelines.capture import Capture

# Raise when pixels, points or tracks change for the same cameras and meshes.
GENERATOR_VERSION = 1
_PROGRESS_EVERY = 8  # views


def load_rooms(spec: RoomsSpec, *, test_every: int, progress: Progress) -> Capture:
    """The capture of `spec`, from the cache or generated now.

    Raises InputError when no training view is left or the views overlap too little.
    """
    cameras, mesh = rooms_scene(spec)
    train, test = split_views(len(cameras), test_every, spec.name)
    key = _key(spec, cameras, mesh)
    arrays = cached(f"rooms-{key[:32]}", lambda: _generate(spec, cameras, mesh, progress), progress=progress)
    return Capture(
        name=spec.name,
        cameras=cameras,
        images=tuple(arrays["images"]),
        train=train,
        test=test,
        points=arrays["points"],
        colours=arrays["colours"],
        tracks=Tracks(offsets=arrays["offsets"], views=arrays["views"], view_count=len(cameras)),
        manifest=hashlib.sha256(f"{key} test_every={test_every}".encode()).hexdigest(),
    )


def rooms_scene(spec: RoomsSpec) -> tuple[tuple[Camera, ...], SceneMesh]:
    """Cameras in name order, spread evenly over the rooms, and the mesh they look at."""
    rooms = floor_plan(spec.rooms)
    shares = [len(part) for part in np.array_split(np.arange(spec.views), spec.rooms)]
    cameras = [
        camera
        for room, share in zip(rooms, shares, strict=True)
        for camera in room_cameras(room, share, spec.width, spec.height)
    ]
    return tuple(cameras), build_rooms(rooms)


def _generate(spec: RoomsSpec, cameras: tuple[Camera, ...], mesh: SceneMesh, progress: Progress) -> Arrays:
    progress(f"{spec.name}: generating {spec.views} views of {spec.width}x{spec.height} once, for the cache")
    caster = RayCaster(mesh)
    sampled = sample_points(mesh, caster, cameras, spec.points, spec.seed)
    images = []
    for view, camera in enumerate(cameras, start=1):
        images.append(render(mesh, caster, camera))
        if view % _PROGRESS_EVERY == 0:
            progress(f"{spec.name}: rendered {view} of {len(cameras)} views")
    return {
        "images": np.array(images),
        "points": sampled.points,
        "colours": sampled.colours,
        "offsets": np.concatenate([[0], np.cumsum(sampled.seen.sum(1))]).astype(np.int64),
        "views": np.nonzero(sampled.seen)[1].astype(np.int32),
    }


def _key(spec: RoomsSpec, cameras: tuple[Camera, ...], mesh: SceneMesh) -> str:
    """sha256 over what determines the capture: sizes, cameras, mesh, materials and generator; not pixels."""
    digest = hashlib.sha256(repr((GENERATOR_VERSION, SUPERSAMPLE, DETECTION, REACH, NOISE, spec)).encode())
    poses = [np.column_stack([camera.rotation, camera.translation]) for camera in cameras]
    intrinsics = [(camera.fx, camera.fy, camera.cx, camera.cy) for camera in cameras]
    for values in (np.array(poses), np.array(intrinsics), mesh.vertices, mesh.lights):
        # Micrometres: the last bits of sine and cosine differ between machines. + 0.0 turns -0.0 into 0.0.
        digest.update((np.round(values, 6) + 0.0).astype("<f8").tobytes())
    digest.update(mesh.faces.astype("<i8").tobytes() + mesh.surface_of.astype("<i8").tobytes())
    digest.update(repr([camera.name for camera in cameras]).encode())
    digest.update(repr([(surface.material, surface.light) for surface in mesh.surfaces]).encode())
    return digest.hexdigest()
