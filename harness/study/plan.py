"""The plan of a study: its pairs as plain data in one file, from which run, status, retry and jobs work.

Below the folder of records:

    studies/<study>/plan.json        pairs and their resolved configs, as last asked for
    studies/<study>/table.*          one row per cell, from the records
    studies/<study>/failed/<pair>    why a pair could not be started
    studies/manifests/<scene>        manifest of a scene that was loaded once, and a stamp of its files then
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.config import Config, resolved
from harness.config.checks import expect_utf8
from harness.config.convert import build
from harness.config.resolve import identity_of
from harness.run.fork_pin import pin_of
from harness.store.files import read_json, write_text
from harness.store.identity import canonical_json, cell_id
from harness.store.states import plain_name
from harness.study.matrix import Place
from odin.errors import InputError

PLAN = "plan.json"


@dataclass(frozen=True, kw_only=True)
class PlannedPair:
    """One pair of a study.

    key:      names the pair within the study, and in the folder of records
    where:    axis → label
    baseline: the arm that the others are divided by
    settings: the resolved config; its study.arms are in the order they run
    skipped:  why it is left out, or the empty string
    """

    key: str
    where: Mapping[str, str]
    baseline: str
    settings: Mapping[str, Any]
    skipped: str

    @property
    def cells(self) -> list[tuple[str, int]]:
        """(arm, repeat) in the order they run, as `harness.config.expand` gives them."""
        arms = self.settings["study"]["arms"]
        passes = [arms, arms[::-1]] if self.settings["study"]["mirrored"] else [arms]
        return [(arm, repeat) for repeat, order in enumerate(passes) for arm in order]

    @property
    def scene(self) -> str:
        """A name for what the manifest is of."""
        return hashlib.sha256(canonical_json(self.settings["scene"]).encode()).hexdigest()[:16]

    def stamp(self) -> str:
        """This host, and a hash of names, sizes and times of all files of the scene's photos and model; empty where
        there are none, as of a procedural scene. It says in milliseconds that nothing has changed, which a manifest
        says in seconds; other hosts may have copies with other times."""
        root = Path(str(self.settings["scene"]["path"]))
        below = (root / str(self.settings["scene"]["images"]), root / "sparse")
        seen = [file for folder in below for file in _files(folder)]
        return f"{socket.gethostname()} {hashlib.sha256(repr(seen).encode()).hexdigest()[:16]}" if seen else ""

    def config(self, out: Path) -> Config:
        """The typed config, with records going to `out`."""
        # Plans of studies that were made before faults could be asked for have none.
        return build(Config, {"faults": [], **self.settings, "out": str(out)})

    def ids(self, manifest: str, version: str) -> list[str]:
        """Ids of the cells under a scene's manifest and a code version."""
        settings, pipeline = identity_of(self.settings), self.settings["pipeline"]
        pin = pin_of(pipeline["name"], pipeline["source"], self.settings["engine"]["device"])
        return [
            cell_id({**settings, "arm": arm, "repeat": repeat}, manifest, version, pin) for arm, repeat in self.cells
        ]

    def text(self) -> str:
        """For a line of output: where it is in the matrix, and its arms."""
        place = " ".join(f"{axis}={label}" for axis, label in self.where.items())
        return f"{place} {' / '.join([self.baseline, *self.others])}".strip()

    @property
    def others(self) -> list[str]:
        """The arms that are compared with the baseline."""
        return [arm for arm in self.settings["study"]["arms"] if arm != self.baseline]


class StudyPlan:
    """A study's pairs and the folder of records that they go to."""

    def __init__(self, name: str, out: Path, pairs: Sequence[PlannedPair]) -> None:
        self.name, self.out, self.pairs = plain_name(name), Path(out), tuple(pairs)

    @classmethod
    def of(cls, name: str, places: Sequence[Place]) -> StudyPlan:
        """The plan of expanded places. Raises InputError where two of them are the same."""
        pairs = [_planned(place) for place in places]
        seen: set[str] = set()
        for pair in pairs:
            if pair.key in seen:
                raise InputError(f"Study {name} holds the same pair twice: {pair.text()}. Change its axes.")
            seen.add(pair.key)
        return cls(name, Path(places[0].config.out) if places else Path("runs"), pairs)

    @property
    def folder(self) -> Path:
        """Where the study's own files lie."""
        return self.out / "studies" / self.name

    def pair(self, key: str) -> PlannedPair:
        """The pair of that key. Raises InputError."""
        for pair in self.pairs:
            if pair.key == key:
                return pair
        raise InputError(f"Study {self.name} in {self.out} has no pair {key}.")

    def save(self, folder: Path | None = None) -> Path:
        """Write plan.json and return its path. Raises RunError when the disk refuses.

        folder: two levels below the folder of records; by default the study's own, whose plan is the one last asked for
        """
        path = (folder or self.folder) / PLAN
        data = {"study": self.name, "pairs": [asdict(pair) for pair in self.pairs]}
        write_text(path, json.dumps(data, ensure_ascii=False))
        return path

    @classmethod
    def load(cls, path: Path) -> StudyPlan:
        """Read what `save` wrote. Raises InputError."""
        try:
            data = read_json(path)
            pairs = [_checked(PlannedPair(**pair)) for pair in data["pairs"]]
            return cls(data["study"], path.resolve().parents[2], pairs)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(f"The plan {path} cannot be read ({error}). Plan the study again with `run`.") from error

    def manifest(self, pair: PlannedPair) -> str | None:
        """The manifest of a pair's scene, if it was ever loaded."""
        return self._kept(pair)[0]

    def changed(self, pair: PlannedPair) -> bool:
        """Whether files of the pair's scene have been changed, added or removed since it was last loaded: what was
        recorded may be of another scene."""
        _, stamp = self._kept(pair)
        now = pair.stamp() if stamp else ""
        return bool(stamp and now) and stamp != now and str(stamp).split()[0] == now.split()[0]

    def keep_manifest(self, pair: PlannedPair, manifest: str, stamp: str) -> None:
        """Remember it for `status`, with the pair's `stamp` from before it was loaded. Raises RunError when the disk
        refuses."""
        if self._kept(pair) != (manifest, stamp):
            write_text(self._manifest_file(pair), f"{manifest}\n{stamp}\n")

    def _manifest_file(self, pair: PlannedPair) -> Path:
        return self.out / "studies" / "manifests" / pair.scene

    def _kept(self, pair: PlannedPair) -> tuple[str | None, str | None]:
        """Manifest and stamp; stamps came later than published results."""
        try:
            lines = self._manifest_file(pair).read_text(encoding="utf-8").splitlines()
        except OSError:
            return None, None
        return (lines[0].strip() or None) if lines else None, lines[1] if len(lines) > 1 else None

    def note(self, pair: PlannedPair) -> Path:
        """Where the reason lies why a pair could not be started."""
        return self.folder / "failed" / pair.key


def plans(out: Path) -> list[StudyPlan]:
    """All plans below a folder of records. Raises InputError where there is none."""
    found = sorted((Path(out) / "studies").glob(f"*/{PLAN}"))
    if not found:
        raise InputError(f"{out} holds no study. Make one with: odin-bench run STUDY out={out}")
    return [StudyPlan.load(path) for path in found]


def _files(folder: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of every file below a folder that can be seen; links are followed."""
    found = []
    for place, _, names in os.walk(folder, followlinks=True):
        for path in (Path(place) / name for name in names):
            with suppress(OSError):  # it has gone, or may not be seen
                seen = path.stat()
                found.append((str(path.relative_to(folder)), seen.st_size, seen.st_mtime_ns))
    return sorted(found)


def _checked(pair: PlannedPair) -> PlannedPair:
    """The pair of a file, if it has what is read of it without building its config, which other code may have written.

    Raises InputError on a key that leads out of the folder; TypeError, KeyError or AttributeError on anything else.
    """
    if not all(isinstance(text, str) for text in (pair.key, pair.baseline, pair.skipped)):
        raise TypeError("a pair's key, baseline and reason are text")
    plain_name(pair.key)
    canonical_json(identity_of(pair.settings))
    pair.text(), pair.scene, pair.cells
    return pair


def _planned(place: Place) -> PlannedPair:
    settings = resolved(place.config)
    expect_utf8("scene", settings["scene"]["path"])
    if not place.config.scene.procedural:
        # A job starts in another folder than the user.
        settings["scene"]["path"] = str(Path(settings["scene"]["path"]).expanduser().resolve())
    key = hashlib.sha256(canonical_json(settings).encode()).hexdigest()[:12]
    return PlannedPair(
        key=key, where=dict(place.where), baseline=place.arms[0], settings=settings, skipped=place.skipped
    )
