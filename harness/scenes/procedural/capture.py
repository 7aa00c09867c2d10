"""From cameras and a mesh to a Capture: rendered once, cached, with a manifest that says what it depends on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from harness.scenes.procedural.cache import Arrays, cached
from harness.scenes.procedural.mesh import SceneMesh, Vectors
from harness.scenes.procedural.raycast import RayCaster
from harness.scenes.procedural.render import SUPERSAMPLE, render
from harness.scenes.procedural.tracks import DETECTION, NOISE, REACH, sample_points
from harness.scenes.spec import Progress, Spec
from harness.scenes.split import split_views
from odin.tracks import Tracks
from pipelines.camera import Camera
from pipelines.capture import Capture

_PROGRESS_EVERY = 8  # views


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """A procedural capture before anything is rendered.

    kind:    name of the generator, the prefix of its files in the cache
    version: raised when pixels, points or tracks change for the same cameras and meshes
    spec:    the sizes asked for
    cameras: V cameras in name order
    mesh:    what they look at
    reach:   metres up to which a view finds points, a number or [V]
    """

    kind: str
    version: int
    spec: Spec
    cameras: tuple[Camera, ...]
    mesh: SceneMesh
    reach: float | Vectors = field(default=REACH)

    def key(self) -> str:
        """sha256 over what determines the capture: sizes, cameras, mesh, materials and generator; not pixels.

        `reach` is a function of cameras and generator, and so is covered by them.
        """
        cameras, mesh = self.cameras, self.mesh
        constants = (self.version, SUPERSAMPLE, DETECTION, REACH, NOISE, self.spec)
        digest = hashlib.sha256(repr(constants).encode())
        poses = [np.column_stack([camera.rotation, camera.translation]) for camera in cameras]
        intrinsics = [(camera.fx, camera.fy, camera.cx, camera.cy) for camera in cameras]
        for values in (np.array(poses), np.array(intrinsics), mesh.vertices, mesh.lights):
            # Micrometres: the last bits of sine and cosine differ between machines. + 0.0 turns -0.0 into 0.0.
            digest.update((np.round(values, 6) + 0.0).astype("<f8").tobytes())
        digest.update(mesh.faces.astype("<i8").tobytes() + mesh.surface_of.astype("<i8").tobytes())
        digest.update(repr([camera.name for camera in cameras]).encode())
        digest.update(repr([(surface.material, surface.light) for surface in mesh.surfaces]).encode())
        return digest.hexdigest()


def load_blueprint(blueprint: Blueprint, *, test_every: int, progress: Progress) -> Capture:
    """The capture of a blueprint, from the cache or generated now.

    Raises InputError when no training view is left or the views overlap too little.
    """
    spec, cameras = blueprint.spec, blueprint.cameras
    train, test = split_views(len(cameras), test_every, spec.name)
    key = blueprint.key()
    arrays = cached(f"{blueprint.kind}-{key[:32]}", lambda: generate(blueprint, progress), progress=progress)
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


def generate(blueprint: Blueprint, progress: Progress) -> Arrays:
    """Pictures, points and tracks, as they are cached."""
    spec, cameras, mesh = blueprint.spec, blueprint.cameras, blueprint.mesh
    progress(f"{spec.name}: generating {spec.views} views of {spec.width}x{spec.height} once, for the cache")
    caster = RayCaster(mesh)
    sampled = sample_points(mesh, caster, cameras, spec.points, spec.seed, reach=blueprint.reach)
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
