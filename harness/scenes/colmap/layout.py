"""Where things are in a scene folder: the model, the image folder, the image files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from harness.scenes.colmap.binary import read_binary
from harness.scenes.colmap.model import Model, printable
from harness.scenes.colmap.text import read_text
from odin.errors import InputError

_FILES = ("cameras", "images", "points3D")
_FOLDERS = ("sparse/0", "sparse")
_READERS: dict[str, Callable[[Path], Model]] = {".bin": read_binary, ".txt": read_text}
_SHOWN = 5  # names listed in full in a message


def check_scene_folder(scene: Path) -> None:
    """Raise InputError unless `scene` is an existing folder."""
    if not scene.is_dir():
        found = "is a file" if scene.exists() else "does not exist"
        raise InputError(
            f"Scene folder {scene} {found}. Give a folder with images and sparse/0, or the name of a "
            "procedural capture such as rooms."
        )


def find_model(scene: Path) -> tuple[Path, str]:
    """Folder and suffix (.bin or .txt) of the scene's model; binary wins over text, sparse/0 over sparse.

    Raises InputError, listing what was looked for and what is there, when no complete model exists.
    """
    for folder in _FOLDERS:
        for suffix in _READERS:
            if all((scene / folder / f"{name}{suffix}").is_file() for name in _FILES):
                return scene / folder, suffix
    looked = " or ".join(f"{folder}/{{{','.join(_FILES)}}}{{.bin,.txt}}" for folder in _FOLDERS)
    raise InputError(
        f"Scene {scene}: no complete COLMAP model. Looked for {looked}, all three files of one kind; found "
        f"{_present(scene)}. Put the model there (colmap model_converter changes between the kinds)."
    )


def read_model(folder: Path, suffix: str) -> Model:
    """Read the model that `find_model` found; InputError when its bytes or lines do not fit."""
    return _READERS[suffix](folder)


def model_files(folder: Path, suffix: str) -> list[Path]:
    """The three files of a model."""
    return [folder / f"{name}{suffix}" for name in _FILES]


def _present(scene: Path) -> str:
    files = [
        path.relative_to(scene).as_posix()
        for folder in _FOLDERS
        for path in sorted((scene / folder).glob("*"))
        if path.is_file()
    ]
    return shortened(files) if files else "nothing in either folder"


def find_image_folder(scene: Path, images: str) -> Path:
    """The image folder, or InputError that says which ones exist."""
    folder = scene / images
    if folder.is_dir():
        return folder
    others = sorted(path.name for path in scene.glob("images*") if path.is_dir())
    there = f"there is {', '.join(others)}" if others else "there is no folder named images* at all"
    raise InputError(
        f"Scene {scene}: image folder {images} does not exist; {there}. Choose one with images=…, or make it "
        "by scaling down the photos of images."
    )


def check_names(names: list[str], model: Path) -> None:
    """Raise InputError for names that occur twice, differ only in case, or lead out of the image folder."""
    unusable = [name for name in names if not _stays_below(name)]
    if unusable:
        raise InputError(
            f"Model {model}: image name {shortened(map(repr, unusable))} is not a path below the image "
            "folder. Rename the image in the model to a path relative to that folder."
        )
    _check_unique(names, model, "occurs more than once", lambda name: name)
    # Such a pair is one file on macOS and Windows, and sorts differently from tool to tool.
    _check_unique(names, model, "differs from another only in upper and lower case", str.casefold)


def _stays_below(name: str) -> bool:
    return bool(name) and "\0" not in name and not Path(name).is_absolute() and ".." not in Path(name).parts


def _check_unique(names: list[str], model: Path, problem: str, key: Callable[[str], str]) -> None:
    counts = Counter(map(key, names))
    clashing = sorted({name for name in names if counts[key(name)] > 1})
    if clashing:
        raise InputError(
            f"Model {model}: image name {problem}: {shortened(clashing)}. Rename the images and export the "
            "model again, so that every view has a name of its own."
        )


def missing_images(folder: Path, names: list[str]) -> list[str]:
    """The names without a file below `folder`."""
    return [name for name in names if not _is_file(folder / name)]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name longer than the file system allows
        return False


def missing_error(folder: Path, missing: list[str], total: int) -> InputError:
    """The error for image files that the model lists and the disk does not have."""
    return InputError(
        f"{folder}: {len(missing)} of {total} images of the model are missing: {shortened(missing)}."
        f"{_lookalike(folder, missing[0])} Restore the files, or set skip_missing=true to train without "
        "these views."
    )


def _lookalike(folder: Path, name: str) -> str:
    """A hint when only case or extension differ: the usual reason after images were converted."""
    wanted = folder / name
    try:
        present = list(wanted.parent.iterdir())
    except OSError:  # no such sub-folder
        return ""
    same = [path.name for path in present if path.stem.casefold() == wanted.stem.casefold()]
    return f" The folder has {min(same)}, which differs in extension or case." if same else ""


def shortened(names: Iterable[str]) -> str:
    """The first few names, then how many more there are."""
    listed = [printable(name) for name in names]
    rest = len(listed) - _SHOWN
    return ", ".join(listed[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
