"""Getting scenes: an archive by pooch (or one that the user has), and of it the folders that are trained on."""

from __future__ import annotations

import hashlib
import shutil
import uuid
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from harness.catalog.manifests import enforce_archive
from harness.catalog.scenes import CatalogScene
from odin.errors import InputError, RunError

Tell = Callable[[str], None]
_CHUNK = 1 << 22


def fetch(scenes: Sequence[CatalogScene], data: Path, tell: Tell, archive: Path | None = None) -> list[Path]:
    """Bring the scenes below `data` and return their folders.

    archive: a file of the user's, in place of a download; all scenes must be of it
    Raises InputError for scenes without an archive or for what is no such archive, RunError where a download fails.
    """
    urls = sorted({scene.archive for scene in scenes})
    by_hand = [scene for scene in scenes if not scene.archive]
    if by_hand:
        raise InputError(f"{by_hand[0].name} has no archive to fetch. {by_hand[0].manual} Page: {by_hand[0].page}")
    if archive is not None and len(urls) > 1:
        raise InputError(f"The scenes are in {len(urls)} archives ({', '.join(urls)}); name those of one of them.")
    made = []
    for url in urls:
        file = archive or download(url, data / "archives", tell)
        if not file.is_file():
            raise InputError(f"There is no file {file}. Give the path of the archive that you have downloaded.")
        enforce_archive(url, sha256(file), file)
        made += [extract(file, scene, data, tell) for scene in scenes if scene.archive == url]
    return made


def download(url: str, folder: Path, tell: Tell) -> Path:
    """The archive of that URL in `folder`, downloaded unless it is there. Raises InputError without pooch, RunError
    where the host does not allow it."""
    try:
        import pooch
    except ImportError as error:
        raise InputError(
            f"Downloads need the package pooch (pip install -e '.[data]'). Or download {url} in another way and give "
            "its path: odin-bench data fetch SCENE --archive FILE."
        ) from error
    name = PurePosixPath(url).name
    tell(f"{name}: from {url}")
    try:
        # The sum is ours to enforce: a file that is there may be as old as the first use.
        return Path(pooch.retrieve(url=url, known_hash=None, fname=name, path=folder))
    except Exception as error:  # whatever the network raises, there is one thing to do
        raise RunError(
            f"{url} could not be downloaded ({type(error).__name__}: {' '.join(str(error).split())[:200]}). Download "
            f"it in another way, put it into {folder}, and repeat the command, or give it as --archive FILE."
        ) from error


def extract(file: Path, scene: CatalogScene, data: Path, tell: Tell) -> Path:
    """The scene's model and the images it is trained on, whole or not at all. Raises InputError where they are not in
    the archive, RunError where the disk refuses."""
    folder = scene.folder(data)
    if folder.exists():
        tell(f"{scene.name}: {folder} is there and is left alone")
        return folder
    part = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        with zipfile.ZipFile(file) as archive:
            members = wanted(archive.namelist(), scene)
            for member, place in members:
                target = part / place
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, target.open("wb") as sink:
                    shutil.copyfileobj(source, sink, _CHUNK)
        part.rename(folder)
    except zipfile.BadZipFile as error:
        raise InputError(f"{file} is not a whole zip archive ({error}). Download it again.") from error
    except OSError as error:
        raise RunError(f"{scene.name} cannot be written below {data}: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    tell(f"{scene.name}: {len(members)} files in {folder}")
    return folder


def wanted(names: Sequence[str], scene: CatalogScene) -> list[tuple[str, PurePosixPath]]:
    """Members of an archive that belong to the scene's model or images, and their places in its folder. Raises
    InputError where the archive has no such scene."""
    inside, found = PurePosixPath(scene.inside), []
    for name in names:
        path = PurePosixPath(name)
        if name.endswith("/") or ".." in path.parts or not path.is_relative_to(inside):
            continue
        place = path.relative_to(inside)
        if place.is_relative_to(scene.images) or place.is_relative_to("sparse/0"):
            found.append((name, place))
    if not any(place.is_relative_to(scene.images) for _, place in found):
        raise InputError(
            f"The archive has no {scene.inside}/{scene.images}, where {scene.name} is expected. Its authors may have "
            f"rearranged it; see {scene.page}."
        )
    return found


def sha256(file: Path) -> str:
    """Of a file's bytes."""
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
