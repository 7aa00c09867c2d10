"""The *falsifier* capture: built to break the gradient gate of §4.3 (D§10 Review 1).

The gate lets a step B read a primitive before the update of step A has arrived when its gradient in A is small,
‖g_A(p)‖ ≤ τ · mean. Far views see a mosaic through a long lens, past posts: each of its primitives covers a pixel or
less and has a small gradient, while the posts, nine times nearer, have gradients many times larger and raise the
mean. Near views see the same mosaic from 0.45 m, and it dominates their gradient. Three things follow:

- Adam normalises each row by its own past, so the mosaic moves by about its learning rate in a far step too.
- The learning rate of positions grows with the extent of the cameras (upstream's rule): at 49 m a step is at first
  7.9 mm, which is 1.3 pixels of a near view.
- A wall high above gives every near view thousands of rows that the far views never touch. So the rows that the
  gate passes stay below τ of B's scope, and the test of the delayed-scope ratio passes too.

The planner cannot see it coming: far and near views share few SfM points, so it takes them for weakly coupled and
schedules a near step after every far one.
"""

from __future__ import annotations

from harness.scenes.procedural.capture import Blueprint, load_blueprint
from harness.scenes.procedural.falsifier_cameras import far_cameras, near_cameras
from harness.scenes.procedural.falsifier_layout import build_falsifier
from harness.scenes.procedural.tracks import lens_reach
from harness.scenes.spec import FalsifierSpec, Progress
from pipelines.capture import Capture

# Raise when pixels, points or tracks change for the same cameras and meshes.
GENERATOR_VERSION = 1


def load_falsifier(spec: FalsifierSpec, *, test_every: int, progress: Progress) -> Capture:
    """The capture of `spec`, from the cache or generated now.

    Raises InputError when no training view is left or the views overlap too little.
    """
    return load_blueprint(falsifier_blueprint(spec), test_every=test_every, progress=progress)


def falsifier_blueprint(spec: FalsifierSpec) -> Blueprint:
    """Cameras and mesh of `spec`, nothing rendered yet; far views come first in name order."""
    far = spec.views // 2
    cameras = (
        *far_cameras(far, spec.width, spec.height),
        *near_cameras(spec.views - far, spec.width, spec.height),
    )
    return Blueprint(
        kind="falsifier",
        version=GENERATOR_VERSION,
        spec=spec,
        cameras=cameras,
        mesh=build_falsifier(),
        reach=lens_reach(cameras),
    )
