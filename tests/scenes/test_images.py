"""Decoding of image files: pixel formats, orientation flags, damage, sizes."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image

from harness.scenes.colmap.images import read_picture
from harness.scenes.colmap.intrinsics import same_aspect
from odin.errors import InputError

SIZE = (6, 4)
RGB = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
GREY = RGB[:, :, 0]


def saved(folder: Path, image: Image.Image, name: str = "a.png", **options: object) -> Path:
    image.save(folder / name, **options)
    return folder / name


def test_rgb_comes_back_as_it_is(tmp_path: Path) -> None:
    picture = read_picture(saved(tmp_path, Image.fromarray(RGB)), SIZE)
    np.testing.assert_array_equal(picture.pixels, RGB)
    assert picture.size == SIZE
    assert not picture.blended


def test_grey_becomes_rgb(tmp_path: Path) -> None:
    pixels = read_picture(saved(tmp_path, Image.fromarray(GREY)), SIZE).pixels
    np.testing.assert_array_equal(pixels, np.repeat(GREY[:, :, None], 3, axis=2))


def test_a_palette_becomes_rgb(tmp_path: Path) -> None:
    file = saved(tmp_path, Image.fromarray(RGB).quantize(24))
    np.testing.assert_array_equal(read_picture(file, SIZE).pixels, np.asarray(Image.open(file).convert("RGB")))


def test_16_bit_grey_is_scaled_and_not_clipped(tmp_path: Path) -> None:
    deep = GREY.astype(np.uint16) * 257
    pixels = read_picture(saved(tmp_path, Image.fromarray(deep)), SIZE).pixels
    np.testing.assert_array_equal(pixels[:, :, 0], GREY)
    half = np.full((4, 6), 32768, np.uint16)
    assert set(read_picture(saved(tmp_path, Image.fromarray(half)), SIZE).pixels.flat) == {128}


def test_16_bit_colour_is_scaled(tmp_path: Path) -> None:
    # Written by hand, because Pillow cannot write it: 16 bits, colour type 2, no filter.
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    deep = (RGB.astype(np.uint16) * 257).astype(">u2")
    rows = b"".join(b"\0" + row.tobytes() for row in deep)
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", *SIZE, 16, 2, 0, 0, 0))
    file = tmp_path / "a.png"
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    np.testing.assert_array_equal(read_picture(file, SIZE).pixels, RGB)


def test_opaque_alpha_is_dropped(tmp_path: Path) -> None:
    rgba = np.dstack([RGB, np.full((4, 6), 255, np.uint8)])
    picture = read_picture(saved(tmp_path, Image.fromarray(rgba)), SIZE)
    np.testing.assert_array_equal(picture.pixels, RGB)
    assert not picture.blended


def test_transparent_pixels_are_put_on_black(tmp_path: Path) -> None:
    alpha = np.full((4, 6), 255, np.uint8)
    alpha[0] = 0
    alpha[1] = 51
    picture = read_picture(saved(tmp_path, Image.fromarray(np.dstack([RGB, alpha]))), SIZE)
    assert picture.blended
    assert not picture.pixels[0].any()
    np.testing.assert_allclose(picture.pixels[1], RGB[1] / 5, atol=0.5)
    np.testing.assert_array_equal(picture.pixels[2:], RGB[2:])


@pytest.mark.parametrize("mode", ["CMYK", "F", "LAB", "I"])
def test_other_formats_are_refused(tmp_path: Path, mode: str) -> None:
    image = Image.fromarray(GREY.astype(np.float32)) if mode == "F" else Image.new(mode, SIZE)
    with pytest.raises(InputError, match=f"pixel format {mode} is not supported"):
        read_picture(saved(tmp_path, image, "a.tiff"), SIZE)


def flagged(folder: Path, orientation: int, name: str = "a.png", size: tuple[int, int] = SIZE) -> Path:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    return saved(folder, Image.fromarray(RGB).resize(size), name, exif=exif)


@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
@pytest.mark.parametrize("orientation", [0, 1, 5, 6, 7, 8, 9])
def test_a_quarter_turn_is_ignored_where_the_camera_saw_the_pixels_as_stored(
    tmp_path: Path, orientation: int, name: str
) -> None:
    assert read_picture(flagged(tmp_path, orientation, name), SIZE).size == SIZE


@pytest.mark.parametrize(
    ("orientation", "stored", "camera"),
    [(6, SIZE, (4, 6)), (6, (6, 6), (6, 6)), (3, SIZE, SIZE), (2, SIZE, SIZE), (8, SIZE, (60, 10))],
)
def test_an_orientation_that_may_matter_is_refused(
    tmp_path: Path, orientation: int, stored: tuple[int, int], camera: tuple[int, int]
) -> None:
    file = flagged(tmp_path, orientation, size=stored)
    with pytest.raises(InputError, match=f"EXIF orientation {orientation}"):
        read_picture(file, camera)


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.tiff"])
def test_damaged_files_are_named(tmp_path: Path, name: str) -> None:
    file = saved(tmp_path, Image.fromarray(RGB).resize((60, 40)), name)
    whole = file.read_bytes()
    for length in (0, 1, 20, len(whole) // 3):
        file.write_bytes(whole[:length])
        with pytest.raises(InputError, match=f"{name}: cannot be decoded"):
            read_picture(file, (60, 40))


@pytest.mark.parametrize(
    ("camera", "image", "same"),
    [
        ((480, 320), (120, 80), True),
        ((4946, 3286), (1237, 822), True),
        ((1297, 840), (649, 420), True),
        ((480, 320), (320, 480), False),
        ((480, 320), (480, 318), False),
        ((480, 320), (480, 310), False),
        ((480, 320), (960, 640), True),
        ((480, 320), (120, 90), False),
        ((480, 320), (118, 80), False),
    ],
)
def test_same_aspect(camera: tuple[int, int], image: tuple[int, int], same: bool) -> None:
    assert same_aspect(camera, image) == same


@pytest.mark.parametrize("format", ["PNG", "WEBP"])
def test_damaged_exif_is_a_damaged_file(tmp_path: Path, format: str) -> None:
    """Pillow decodes it with the pixels in some formats, and only when asked in others."""
    file = tmp_path / f"a.{format.lower()}"
    Image.new("RGB", (4, 3)).save(file, format, exif=b"Exif\0\0II*\0\xff\xff\xff")
    with pytest.raises(InputError, match="cannot be decoded as an image"):
        read_picture(file, (4, 3))
