"""What of a scene is there: folder, model, images; from names and headers, no image is read."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from harness.catalog.scenes import CatalogScene

MODEL = ("cameras", "images", "points3D")
KINDS = (".bin", ".txt")
PHOTOS = frozenset({".jpg", ".jpeg", ".png"})


@dataclass(frozen=True, kw_only=True)
class Found:
    """A scene as it lies on the disk. missing: what is not there, in words; empty where all is."""

    scene: CatalogScene
    folder: Path
    missing: tuple[str, ...]
    photos: int

    @property
    def complete(self) -> bool:
        """It can be trained on."""
        return not self.missing


def look(scene: CatalogScene, data: Path) -> Found:
    """Look at one scene. A model that lists more images than there are photos counts as missing photos."""
    folder = scene.folder(data)
    if not folder.is_dir():
        return Found(scene=scene, folder=folder, missing=("the folder",), photos=0)
    missing = []
    model = folder / "sparse" / "0"
    kind = next((k for k in KINDS if all((model / f"{name}{k}").is_file() for name in MODEL)), None)
    if kind is None:
        missing.append(f"sparse/0/{{{','.join(MODEL)}}}.bin (or .txt)")
    photos = count_photos(folder / scene.images)
    listed = listed_images(model / f"images{kind}") if kind else 0
    if not photos:
        missing.append(f"photos in {scene.images}")
    elif photos < listed:
        missing.append(f"{listed - photos} of {listed} photos in {scene.images}")
    return Found(scene=scene, folder=folder, missing=tuple(missing), photos=photos)


def count_photos(folder: Path) -> int:
    """Image files below a folder."""
    return sum(path.suffix.lower() in PHOTOS for path in folder.rglob("*")) if folder.is_dir() else 0


def listed_images(file: Path) -> int:
    """How many images a model's file lists: the head of images.bin, or two lines each in images.txt; 0 where it cannot
    be read."""
    try:
        if file.suffix == ".bin":
            with file.open("rb") as stream:
                (count,) = struct.unpack("<Q", stream.read(8))
            return int(count)
        lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
        return (len(lines) + 1) // 2  # the last one's points may be an empty line that is cut off
    except (OSError, UnicodeDecodeError, struct.error):
        return 0
