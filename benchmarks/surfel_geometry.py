"""How close surfels come to the true surface: 2DGS trained on *orbit*, its depth and normals against the ray caster.

    python -m benchmarks.surfel_geometry --steps 700 --set lambda_dist=100 depth_ratio=1 reset_at=[]

Over the pixels of held-out views where a ray meets a surface and the model covers more than half: the angle between
rendered and true normals (the weighted mean normal, and the normal of the depth map) and |depth - true| / true, for
the expected and the median depth. Targets: median angle ≤ 25°, median depth error ≤ 5 %. Writes `geometry.csv` (one
line per view and one for all) and a picture of rendered and true maps per view.

Legend: H, W image size, n pixels compared.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.config import load
from harness.run.workload import Workload, load_workload
from harness.scenes import OrbitSpec
from harness.scenes.load import sizes
from harness.scenes.procedural.orbit import orbit_blueprint
from harness.scenes.procedural.raycast import RayCaster
from harness.scenes.procedural.truth import Truth, true_geometry
from odin.arms import ARMS
from odin.comm.transport import SingleRank
from odin.keeper import Keeper
from odin.runtime import Runtime
from pipelines.camera import Camera
from pipelines.reference.twodgs import SurfelSplatting
from pipelines.render.surfels.protocol import SurfelBlended
from pipelines.render.surfels.regularise import depth_normals

NORMAL_TARGET, DEPTH_TARGET = 25.0, 0.05  # degrees, share
COVERED = 0.5  # accumulated opacity above which a pixel is compared

Map = NDArray[np.float64]


def train(workload: Workload, report_every: int) -> SurfelSplatting:
    """One rank, the barrier arm; prints its progress."""
    arm = ARMS["barrier"]
    recipe = workload.recipe()
    assert isinstance(recipe, SurfelSplatting)
    runtime = Runtime(recipe, workload.plan(arm), arm, SingleRank(), Keeper())
    start = time.process_time()

    def tell(record: object) -> None:
        done = len(runtime.records) + 1
        if done % report_every == 0:
            seconds = time.process_time() - start
            print(f"step {done}: {len(recipe.table)} surfels, {seconds:.0f} CPU s", flush=True)

    runtime.run(on_step=tell)
    return recipe


def angles(a: Map, b: Map) -> Map:
    """Degrees between vectors [n, 3]; 90 where one is zero."""
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    cosine = np.where(norms > 0, (a * b).sum(1) / np.maximum(norms, 1e-12), 0.0)
    return np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))


def errors(blended: SurfelBlended, truth: Truth, camera: Camera, ratio: float) -> dict[str, Map]:
    """Errors of the compared pixels, each [n]; depth normals also lack the border."""
    inner = np.zeros(truth.hit.shape, bool)
    inner[1:-1, 1:-1] = True
    here = truth.hit & (blended.alpha.numpy() > COVERED)
    depth = truth.depth[here]
    of_depth = depth_normals(blended, camera, ratio).astype(np.float64)
    return {
        "normal": angles(blended.normal.double().numpy()[here], truth.normal[here]),
        "depth_normal": angles(of_depth[here & inner], truth.normal[here & inner]),
        "expected": np.abs(blended.expected.double().numpy()[here] - depth) / depth,
        "median": np.abs(blended.median.double().numpy()[here] - depth) / depth,
        "covered": np.array([here.sum() / truth.hit.sum()]),
    }


def shown_normals(normal: Map) -> NDArray[np.uint8]:
    """Camera-space normals [H, W, 3] as colours: x right, y up, towards the viewer."""
    length = np.linalg.norm(normal, axis=2, keepdims=True)
    unit = np.where(length > 1e-6, normal / np.maximum(length, 1e-6), 0.0)
    return np.asarray(127.5 + 127.5 * unit * [1.0, -1.0, -1.0], np.uint8)


def shown_depth(depth: Map, low: float, high: float) -> NDArray[np.uint8]:
    """Depth [H, W] as grey, near is bright; 0 and inf are black."""
    share = np.clip((high - depth) / (high - low), 0.0, 1.0)
    seen = np.isfinite(depth) & (depth > 0)
    return np.repeat(np.where(seen, 255 * (0.1 + 0.9 * share), 0.0).astype(np.uint8)[..., None], 3, axis=2)


def picture(blended: SurfelBlended, truth: Truth, photo: NDArray[np.uint8], camera: Camera, ratio: float) -> Map:
    """Upper row: rendered image, normals, normals of depth, depth. Lower row: photo, true normals (twice), depth."""
    low, high = float(truth.depth[truth.hit].min()), float(truth.depth[truth.hit].max())
    median = blended.median.double().numpy()
    rendered = [
        np.clip(255 * blended.image.numpy(), 0, 255).astype(np.uint8),
        shown_normals(blended.normal.double().numpy()),
        shown_normals(depth_normals(blended, camera, ratio).astype(np.float64)),
        shown_depth(median, low, high),
    ]
    true = [photo, *[shown_normals(truth.normal)] * 2, shown_depth(truth.depth, low, high)]
    return np.concatenate([np.concatenate(row, axis=1) for row in (rendered, true)])


def psnr(image: NDArray[np.float32], photo: NDArray[np.uint8]) -> float:
    """dB of one view."""
    return float(-10 * np.log10(((np.clip(image, 0, 1) - photo / 255.0) ** 2).mean()))


def evaluate(recipe: SurfelSplatting, workload: Workload, spec: OrbitSpec, out: Path) -> pd.DataFrame:
    """Columns view, normal_deg, depth_normal_deg, expected_share, median_share, covered, psnr: medians per view and,
    last, over all pixels. Writes a picture per view."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    mesh = orbit_blueprint(spec).mesh
    caster, ratio = RayCaster(mesh), recipe.settings.depth_ratio
    lines, pooled = [], []
    for view in workload.capture.test:
        camera, photo = workload.capture.cameras[view], workload.capture.images[view]
        blended, truth = recipe.maps(camera), true_geometry(mesh, caster, camera)
        found = errors(blended, truth, camera, ratio) | {"psnr": np.array([psnr(blended.image.numpy(), photo)])}
        pooled.append(found)
        lines.append({"view": camera.name} | {name: float(np.median(values)) for name, values in found.items()})
        shown = np.kron(picture(blended, truth, photo, camera, ratio), np.ones((3, 3, 1), np.uint8))
        plt.imsave(out / camera.name, np.asarray(shown, np.uint8))
    everything = {name: float(np.median(np.concatenate([p[name] for p in pooled]))) for name in pooled[0]}
    return pd.DataFrame([*lines, {"view": "all"} | everything])


def main() -> None:
    """Train, evaluate, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="", help='sizes of orbit, as in "views=48&width=80&height=60"')
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--set", nargs="*", default=[], help="further words, as in lambda_dist=100")
    parser.add_argument("--out", type=Path, default=Path("results/surfel-geometry"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    scene = f"orbit?{given.size}" if given.size else "orbit"
    words = [f"scene={scene}", "pipeline=2dgs", "ranks=1", f"steps={given.steps}", "test_every=8", *given.set]
    workload = load_workload(load(words), print)
    recipe = train(workload, max(1, given.steps // 20))
    frame = evaluate(recipe, workload, sizes("orbit", OrbitSpec, given.size), given.out)
    frame.to_csv(given.out / "geometry.csv", index=False)
    print(frame.to_string(index=False))
    last = frame.iloc[-1]
    met = last.normal <= NORMAL_TARGET and last["median"] <= DEPTH_TARGET
    print(f"targets: normal ≤ {NORMAL_TARGET}°, depth ≤ {DEPTH_TARGET:.0%}: {'met' if met else 'NOT met'}")


if __name__ == "__main__":
    main()
