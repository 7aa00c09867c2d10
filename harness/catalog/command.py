"""`odin-bench data`: which captures of the paper are here, what is missing, how to get it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness.catalog.check import Found, look
from harness.catalog.manifests import forget, manifests_file, recorded
from harness.catalog.scenes import CatalogScene, chosen, data_folder
from harness.exits import ends_in_exit

Names = Annotated[
    list[str] | None, typer.Argument(metavar="NAME", show_default=False, help="Datasets or scenes; all by default.")
]
data_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="The captures of the paper: which are here, what is missing, how to get it.",
)


@data_app.command("check")
@ends_in_exit
def check(names: Names = None) -> int:
    """Say of each scene what is there and what is missing, and how to get it; 1 if something is missing."""
    data = data_folder()
    found = [look(scene, data) for scene in chosen(names or [])]
    print("\n".join(check_lines(found, data)))
    return int(not all(one.complete for one in found))


@data_app.command("fetch")
@ends_in_exit
def fetch_scenes(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Datasets or scenes.")],
    archive: Annotated[Path | None, typer.Option(help="An archive that you have, in place of the download.")] = None,
) -> int:
    """Download scenes below $ODIN_DATA and unpack what is trained on; scenes that are there are left alone."""
    from harness.catalog.fetch import fetch

    fetch(chosen(names), data_folder(), lambda line: print(line, file=sys.stderr, flush=True), archive)
    return 0


@data_app.command("forget")
@ends_in_exit
def forget_scene(name: Annotated[str, typer.Argument(metavar="SCENE", help="DATASET/SCENE.")]) -> int:
    """Forget the recorded manifests of a scene that was changed on purpose."""
    for scene in chosen([name]):
        print(f"{scene.name}: {forget(scene.name)} manifests forgotten in {manifests_file()}")
    return 0


def check_lines(found: Sequence[Found], data: Path) -> Iterator[str]:
    """A line per scene, then how to get what is missing, once for each archive."""
    known = recorded()
    yield f"Captures below {data} (set ODIN_DATA for another folder); manifests in {manifests_file()}"
    for one in found:
        yield f"{one.scene.name:<24} {_state(one, known)}"
    missing = [one.scene for one in found if not one.complete]
    for archive in dict.fromkeys(scene.archive for scene in missing):
        yield from _how([scene for scene in missing if scene.archive == archive], data)


def _state(one: Found, known: Mapping[str, str]) -> str:
    if not one.complete:
        return f"missing: {', '.join(one.missing)}"
    used = any(key.startswith(f"{one.scene.name} ") for key in known)
    manifest = "manifest recorded" if used else "not used yet"
    return f"ok: {one.photos} photos, {manifest}; scene={one.folder} images={one.scene.images}"


def _how(scenes: Sequence[CatalogScene], data: Path) -> Iterator[str]:
    first = scenes[0]
    names = " ".join(scene.name for scene in scenes)
    yield f"\nTo get {names} ({first.title}; terms: {first.page}):"
    if not first.archive:
        yield from (f"  {scene.manual} Folder: {scene.folder(data)}" for scene in scenes)
        return
    yield f"  odin-bench data fetch {names}"
    yield f"  or download {first.archive}"
    yield f"  and: odin-bench data fetch {names} --archive FILE"
