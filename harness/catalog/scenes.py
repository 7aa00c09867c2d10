"""The catalog as written in catalog.yaml, and the names that users give."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.config.checks import nearest
from harness.store.identity import ROOT
from odin.errors import InputError

FILE = Path(__file__).with_name("catalog.yaml")
VARIABLE = "ODIN_DATA"


@dataclass(frozen=True, kw_only=True)
class CatalogScene:
    """One scene. Its folder is `data folder`/dataset/scene.

    images:  image folder to train on
    archive: URL of the archive that holds it, inside: its folder there; both empty where there is none
    page:    of the authors
    manual:  what to do by hand where there is no archive
    """

    dataset: str
    title: str
    scene: str
    images: str
    archive: str
    inside: str
    page: str
    manual: str

    @property
    def name(self) -> str:
        """DATASET/SCENE."""
        return f"{self.dataset}/{self.scene}"

    def folder(self, data: Path) -> Path:
        """Where it lies below a data folder."""
        return data / self.dataset / self.scene


def data_folder() -> Path:
    """$ODIN_DATA, by default ../shared/data beside the repository."""
    return Path(os.environ.get(VARIABLE) or ROOT.parent / "shared" / "data").expanduser()


@cache
def catalog() -> tuple[CatalogScene, ...]:
    """All scenes, in the order of the file."""
    import yaml

    found = []
    for dataset, entry in yaml.safe_load(FILE.read_text(encoding="utf-8")).items():
        archives: Mapping[str, str] = entry["archives"]
        for scene, one in entry["scenes"].items():
            found.append(
                CatalogScene(
                    dataset=dataset,
                    title=entry["title"],
                    scene=scene,
                    images=one["images"],
                    archive=archives[one["archive"]] if "archive" in one else "",
                    inside=one.get("inside", ""),
                    page=entry["page"],
                    manual=" ".join(one.get("manual", "").split()),
                )
            )
    return tuple(found)


def chosen(names: Sequence[str]) -> list[CatalogScene]:
    """The scenes of these names: a dataset, DATASET/SCENE, or a scene alone; all of them without a name. Raises
    InputError that names the nearest one."""
    if not names:
        return list(catalog())
    known = {scene.dataset for scene in catalog()} | {n for s in catalog() for n in (s.name, s.scene)}
    for name in names:
        if name not in known:
            raise InputError(
                f"The catalog has no dataset or scene {name!r}; the nearest name is {nearest(name, sorted(known))}. "
                "`odin-bench data check` lists them all."
            )
    return [s for s in catalog() if {s.dataset, s.name, s.scene} & set(names)]


def scene_at(path: Path) -> CatalogScene | None:
    """The catalog's scene whose folder this is, told by the last two parts of the path."""
    name = "/".join(Path(path).expanduser().resolve().parts[-2:])
    return next((scene for scene in catalog() if scene.name == name), None)
