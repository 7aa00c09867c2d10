"""The kinds behind A1–A3, through the command line: image content, names and models, tried by planning the scene.

What the loader does with each is tested in tests/scenes; here that a command ends as it should.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pycolmap
import pytest
from PIL import ExifTags, Image

from harness.store.store import CellStore
from odin.errors import InputError
from tests.acceptance.bench import Bench, assert_refused
from tests.scenes.toy_scene import HEIGHT, WIDTH, ToyModel, draw, toy_model, write_model, write_toy_scene

PLAN = ["steps=26", "views_per_unit=1"]
Spoil = Callable[[Path], None]


def picture(change: Callable[[Image.Image], Image.Image], **options: object) -> Spoil:
    """Replaces the fifth photograph by a changed one."""

    def spoil(scene: Path) -> None:
        file = scene / "images/view_05.png"
        image = change(Image.open(file))
        image.save(file, "TIFF" if image.mode == "CMYK" else "PNG", **options)

    return spoil


def truncated(scene: Path) -> None:
    file = scene / "images/view_05.png"
    file.write_bytes(file.read_bytes()[:100])


REFUSED: dict[str, tuple[Spoil, str]] = {
    "turned by 90 degrees": (picture(lambda image: image.rotate(90, expand=True)), "turned by 90 degrees"),
    "cropped": (picture(lambda image: image.crop((0, 0, 30, HEIGHT))), "not the same picture scaled"),
    "an orientation flag": (lambda scene: flag(scene), "EXIF orientation 3"),
    "CMYK": (picture(lambda image: image.convert("CMYK")), "pixel format CMYK is not supported"),
    "truncated": (truncated, "cannot be decoded"),
    "a folder in place of a file": (lambda scene: folder(scene), "1 of 12 images of the model are missing"),
    "no points": (lambda scene: other(scene, lambda m: replace(m, points=())), "12 images and no points"),
    "no images": (lambda scene: other(scene, lambda m: replace(m, images=())), "no registered images"),
    "an escape": (lambda scene: other(scene, lambda m: named(m, "../view_01.png")), "not a path below the image"),
    "a case clash": (lambda scene: other(scene, lambda m: named(m, "VIEW_02.png")), "upper and lower case"),
    "half a model": (lambda scene: half(scene / "sparse/0/points3D.bin"), "points3D.bin: a table of 300 points needs"),
}


def flag(scene: Path) -> None:
    file = scene / "images/view_05.png"
    image = Image.open(file)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 3
    image.save(file, exif=exif)


def folder(scene: Path) -> None:
    (scene / "images/view_05.png").unlink()
    (scene / "images/view_05.png").mkdir()


def half(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


def other(scene: Path, change: Callable[[ToyModel], ToyModel]) -> None:
    write_model(scene / "sparse/0", change(toy_model()))


def named(model: ToyModel, *names: str) -> ToyModel:
    """The model with its first images under other names."""
    first = [replace(image, name=name) for image, name in zip(model.images, names, strict=False)]
    return replace(model, images=(*first, *model.images[len(first) :]))


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_trained_on_is_refused_with_a_record(bench: Bench, tmp_path: Path, case: str) -> None:
    spoil, message = REFUSED[case]
    write_toy_scene(tmp_path / "scene")
    spoil(tmp_path / "scene")
    ended = bench.reproduce(tmp_path / "scene")
    assert_refused(ended, message, str(tmp_path / "scene"))
    assert ended.code == 2 and "compile" not in ended.err


def grey16(scene: Path) -> None:
    file = scene / "images/view_05.png"
    deep = np.asarray(Image.open(file).convert("L")).astype(np.uint16) * 257
    Image.fromarray(deep).save(file)


ACCEPTED: dict[str, Spoil] = {
    "16-bit grey": grey16,
    "grey": picture(lambda image: image.convert("L")),
    "a palette": picture(lambda image: image.quantize(16)),
    "alpha": picture(lambda image: image.convert("RGBA")),
    "half the size": picture(lambda image: image.resize((WIDTH // 2, HEIGHT // 2))),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_other_pixel_formats_are_read(bench: Bench, tmp_path: Path, case: str) -> None:
    write_toy_scene(tmp_path / "scene")
    ACCEPTED[case](tmp_path / "scene")
    _, found = bench.plan(tmp_path / "scene", *PLAN)
    assert len(found.views) == 12


NAMES = ("left/a b.png", "right/a b.png", "größe Ω/日本.png", "a.b.c.png", " lead.png")


@pytest.mark.parametrize("kind", ["binary", "text"])
def test_names_reach_the_plan_as_they_are(bench: Bench, tmp_path: Path, kind: str) -> None:
    """Folders with equal base names, spaces, letters of other scripts; text models split at spaces elsewhere."""
    names = NAMES if kind == "binary" else NAMES[:-1]  # a text model cannot say where a leading space belongs
    model = named(toy_model(), *names)
    write_toy_scene(tmp_path / "a scene", model, kinds=[kind])
    _, found = bench.plan(tmp_path / "a scene", *PLAN)
    assert found.views == tuple(sorted(image.name for image in model.images))


def test_text_and_binary_models_give_one_plan(bench: Bench, tmp_path: Path) -> None:
    plans = []
    for kind in ("binary", "text"):
        write_toy_scene(tmp_path / kind, kinds=[kind])
        plans.append(bench.plan(tmp_path / kind, *PLAN)[1].plan.digest())
    assert len(set(plans)) == 1


def test_rigs_and_frames_of_colmap_4(bench: Bench, tmp_path: Path) -> None:
    """pycolmap writes rigs.bin and frames.bin beside the three files that are read; both kinds of model."""
    model = write_toy_scene(tmp_path / "scene")
    reconstruction = pycolmap.Reconstruction(tmp_path / "scene/sparse/0")
    digests = []
    for write, suffix in ((reconstruction.write_binary, "bin"), (reconstruction.write_text, "txt")):
        for old in (tmp_path / "scene/sparse/0").iterdir():
            old.unlink()
        write(str(tmp_path / "scene/sparse/0"))
        assert (tmp_path / f"scene/sparse/0/rigs.{suffix}").exists()
        _, found = bench.plan(tmp_path / "scene", *PLAN)
        assert len(found.views) == len(model.images)
        digests.append(found.plan.digest())
    assert len(set(digests)) == 1


def test_the_right_pixels_belong_to_names_in_folders(tmp_path: Path) -> None:
    from harness.scenes import SceneSpec, load_scene

    model = named(toy_model(), *NAMES)
    write_toy_scene(tmp_path, model)
    capture = load_scene(SceneSpec(path=str(tmp_path), test_every=0))
    images = {image.name: image for image in model.images}
    for camera, pixels in zip(capture.cameras, capture.images, strict=True):
        np.testing.assert_array_equal(pixels, draw(model, images[camera.name]))


# Results -----------------------------------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("x")
    write_toy_scene(tmp_path / "scene")
    ended = Bench(tmp_path / "file", capsys).reproduce(tmp_path / "scene")
    assert ended.code == 2 and "Cannot keep records in" in ended.last and "Traceback" not in ended.err


def test_a_record_of_another_schema_says_so(bench: Bench, tmp_path: Path) -> None:
    write_toy_scene(tmp_path / "scene")
    (tmp_path / "scene/images/view_05.png").unlink()
    bench.reproduce(tmp_path / "scene")
    (path,) = bench.folder.glob("cells/*/result.json")
    path.write_text(path.read_text().replace('"schema_version": 2', '"schema_version": 1'))
    with pytest.raises(InputError, match=r"has schema 1, this program reads 2.*Read it with that version"):
        list(CellStore(bench.folder).results())
