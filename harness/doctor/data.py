"""What is there to train on and to score with: real captures, LPIPS weights."""

from __future__ import annotations

from pathlib import Path

from harness.catalog.scenes import data_folder
from harness.doctor.finding import Finding, ok, warn

MODEL_FILES = ("cameras", "images", "points3D")


def captures() -> Finding:
    """Real captures in the data folder."""
    folder = data_folder()
    names = sorted(scene.name for scene in folder.iterdir() if is_capture(scene)) if folder.is_dir() else []
    if names:
        return ok("real captures", f"{', '.join(names)} in {folder}")
    return warn("real captures", f"none in {folder}; scene=rooms needs none", "export ODIN_DATA=FOLDER")


def is_capture(scene: Path) -> bool:
    """Whether a folder has a complete COLMAP model where the field puts it."""
    model = scene / "sparse" / "0"
    return any(all((model / f"{name}{ext}").is_file() for name in MODEL_FILES) for ext in (".bin", ".txt"))


def lpips() -> Finding:
    """Whether LPIPS will be a number, or a state that says why not."""
    from harness.measure.quality import COMPUTED, VGG_WEIGHTS, WEIGHTS_VARIABLE, lpips_state

    state = lpips_state()
    if state == COMPUTED:
        return ok("lpips", "weights found")
    install = "package" in state
    fix = "pip install -e '.[lpips]'" if install else f"export {WEIGHTS_VARIABLE}=FOLDER  # with {VGG_WEIGHTS}"
    return warn("lpips", state, fix)
