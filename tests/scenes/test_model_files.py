"""Damaged and hostile model files: an InputError that names the file, never anything else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.scenes import SceneSpec, load_scene
from harness.scenes.colmap.checks import check_model
from harness.scenes.colmap.layout import read_model
from odin.errors import InputError

from .toy_scene import binary_files, text_files, toy_model, write_model, write_toy_scene

SMALL = toy_model(views=3, points=12)


def refused(folder: Path, file: str, data: bytes) -> str:
    """Write one bad file into an otherwise good model; the message it is refused with."""
    write_model(folder, SMALL, kinds=["binary" if file.endswith(".bin") else "text"])
    (folder / file).write_bytes(data)
    with pytest.raises(InputError) as raised:
        check_model(read_model(folder, Path(file).suffix))
    return str(raised.value)


@pytest.mark.parametrize("file", ["cameras.bin", "images.bin", "points3D.bin"])
def test_every_prefix_is_refused(tmp_path: Path, file: str) -> None:
    whole = binary_files(SMALL)[file]
    # Every length up to the end of the first records, then a sample.
    for length in sorted({*range(min(200, len(whole))), *range(0, len(whole), 13), len(whole) - 1}):
        assert file in refused(tmp_path, file, whole[:length])


@pytest.mark.parametrize("file", ["cameras.bin", "images.bin", "points3D.bin"])
def test_bytes_after_the_end_are_refused(tmp_path: Path, file: str) -> None:
    assert "1 bytes follow the last" in refused(tmp_path, file, binary_files(SMALL)[file] + b"\0")


@pytest.mark.parametrize("file", ["cameras.bin", "images.bin", "points3D.bin"])
@pytest.mark.parametrize("count", [2**64 - 1, 2**62, 10**9, 0])
def test_a_wrong_record_count_is_refused(tmp_path: Path, file: str, count: int) -> None:
    refused(tmp_path, file, count.to_bytes(8, "little") + binary_files(SMALL)[file][8:])


@pytest.mark.parametrize("length", [2**64 - 1, 2**61, 2**32, 10**6])
def test_a_wrong_track_length_is_refused(tmp_path: Path, length: int) -> None:
    data = bytearray(binary_files(SMALL)["points3D.bin"])
    data[8 + 43 : 8 + 51] = length.to_bytes(8, "little")
    assert "ends inside point number 1" in refused(tmp_path, "points3D.bin", bytes(data))


@pytest.mark.parametrize("file", ["cameras.bin", "images.bin", "points3D.bin"])
def test_flipped_bytes_load_or_are_refused(tmp_path: Path, file: str) -> None:
    whole = binary_files(SMALL)[file]
    write_model(tmp_path, SMALL)
    rng = np.random.default_rng(1)
    outcomes = set()
    for _ in range(250):
        data = bytearray(whole)
        for at in rng.integers(0, len(whole), rng.integers(1, 4)):
            data[at] = rng.integers(0, 256)
        (tmp_path / file).write_bytes(bytes(data))
        try:
            check_model(read_model(tmp_path, ".bin"))
            outcomes.add("loads")
        except InputError:
            outcomes.add("refused")
    assert outcomes == {"loads", "refused"}


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("cameras.txt", "PINHOLE", "PINHOL", "line 2: unknown camera model PINHOL"),
        ("cameras.txt", "44.0 44.0", "44.0", "line 2: PINHOLE has 4 parameters, found 3"),
        ("cameras.txt", "48 36", "48 x", "line 2: invalid literal"),
        ("cameras.txt", "1 PINHOLE 48", "1", "line 2: "),
        ("images.txt", " view_01.png", "", "line 2: expected IMAGE_ID"),
        ("images.txt", "0.5 0.5 -1", "0.5 -1", "line 3: expected the X Y POINT3D_ID triples"),
        ("images.txt", "0.5 0.5 -1", "0.5 a.png -1", "line 3: could not convert"),
        ("images.txt", "0.5 0.5 -1", "0.5 0.5 99999999999999999999", "line 3: "),
        ("points3D.txt", "\n1 ", "\n1 1 ", "line 2: expected POINT3D_ID"),
        ("points3D.txt", "\n1 ", "\nx ", "line 2: invalid literal"),
        ("points3D.txt", "\n1 ", "\n99999999999999999999 ", "line 2: "),
        ("points3D.txt", "\n2 ", "\n1 ", "point id 1 occurs more than once"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, file: str, old: str, new: str, message: str) -> None:
    text = text_files(SMALL)[file]
    assert old in text
    refusal = refused(tmp_path, file, text.replace(old, new, 1).encode())
    assert f"{file}: {message}" in refusal


def test_dropping_an_empty_observation_line_is_noticed(tmp_path: Path) -> None:
    # What an exporter that removes blank lines leaves behind.
    text = text_files(SMALL.unseen_by(1))["images.txt"].replace("\n\n", "\n")
    assert "line 3: " in refused(tmp_path, "images.txt", text.encode())


@pytest.mark.parametrize("file", ["cameras.txt", "images.txt", "points3D.txt"])
def test_binary_bytes_in_a_text_file_are_refused(tmp_path: Path, file: str) -> None:
    assert "cannot be read as UTF-8 text" in refused(tmp_path, file, b"\xff\xfe\x00\x80")


def test_a_color_outside_a_byte_is_refused(tmp_path: Path) -> None:
    fields = text_files(SMALL)["points3D.txt"].splitlines()[1].split()
    fields[4] = "256"
    assert "line 1: " in refused(tmp_path, "points3D.txt", " ".join(fields).encode())


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    write_toy_scene(tmp_path)
    file = tmp_path / "sparse/0/points3D.bin"
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    with pytest.raises(InputError, match=r"points3D.bin: .*ends inside point number 300"):
        load_scene(SceneSpec(path=str(tmp_path)))
