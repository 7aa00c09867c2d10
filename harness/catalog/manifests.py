"""Hashes of what was used first: manifests of the catalog's scenes and sums of their archives, enforced ever after.

One file per user ($ODIN_MANIFESTS, or manifests.json in the user's data folder), never in a dataset's folder. Copy it
to another machine to enforce the same data there.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

from filelock import AcquireReturnProxy, FileLock, Timeout
from platformdirs import user_data_dir

from harness.catalog.scenes import scene_at
from harness.store.files import read_json, write_text
from odin.errors import InputError, RunError

VARIABLE = "ODIN_MANIFESTS"
_LOCK_SECONDS = 30


def manifests_file() -> Path:
    """Where the hashes are kept."""
    return Path(os.environ.get(VARIABLE) or Path(user_data_dir("odin-bench")) / "manifests.json").expanduser()


def recorded() -> Mapping[str, str]:
    """What was recorded: key → "sha256 date". Raises InputError where the file cannot be read as such."""
    try:
        data = read_json(manifests_file())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"{manifests_file()} cannot be read ({error}). Restore it, or delete it.") from error
    if not isinstance(data, dict) or not all(isinstance(value, str) for value in data.values()):
        raise InputError(f"{manifests_file()} is not a table of hashes. Restore it, or delete it.")
    return data


def scene_key(name: str, images: str, test_every: int) -> str:
    """What a manifest is recorded under: the same scene at another size or split is another entry."""
    return f"{name} {images} test_every={test_every}"


def enforce_scene(path: str, images: str, test_every: int, manifest: str) -> None:
    """Record the manifest of a catalog's scene at its first use. Raises InputError where it is another one later.

    Paths that lie nowhere in the catalog are left alone.
    """
    scene = scene_at(Path(path))
    if scene is not None:
        key = scene_key(scene.name, images, test_every)
        _enforce(key, manifest, f"Scene {scene.name} ({images}) in {path}", f"odin-bench data forget {scene.name}")


def enforce_archive(url: str, digest: str, file: Path) -> None:
    """The same for the sum of an archive."""
    _enforce(url, digest, f"{file}, downloaded from {url},", f"remove its line from {manifests_file()}")


def forget(name: str) -> int:
    """Forget the manifests of a scene; how many there were."""
    with _locked():
        before = recorded()
        after = {key: value for key, value in before.items() if key.split(" ")[0] != name}
        if after != before:
            _write(after)
        return len(before) - len(after)


def _enforce(key: str, digest: str, what: str, change: str) -> None:
    known = recorded().get(key, "")
    if not known:
        with _locked():
            known = recorded().get(key, "")  # another process may have been first
            if not known:
                _write({**recorded(), key: f"{digest} {time.strftime('%Y-%m-%d')}"})
                return
    first, _, date = known.partition(" ")
    if first != digest:
        raise InputError(
            f"{what} is not what it was at its first use on {date}: sha256 {digest[:16]}…, recorded {first[:16]}… in "
            f"{manifests_file()}. Numbers of the two cannot be compared. Restore the files, or, if the change is "
            f"meant, {change}."
        )


def _locked() -> AcquireReturnProxy:
    file = manifests_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(file.with_suffix(".lock")).acquire(timeout=_LOCK_SECONDS)
    except (OSError, Timeout) as error:
        raise RunError(
            f"Hashes of captures cannot be recorded in {file} ({error}). Set {VARIABLE} to a file that can be written."
        ) from error


def _write(entries: Mapping[str, str]) -> None:
    write_text(manifests_file(), json.dumps(dict(sorted(entries.items())), indent=1) + "\n")
