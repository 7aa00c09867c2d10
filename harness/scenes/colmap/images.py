"""Image files to RGB bytes. What Pillow would change without a word is handled or refused.

- EXIF orientation is never applied. COLMAP does not apply it either: its cameras describe pixels as stored.
  A flag that would turn the image is accepted only where the sizes prove that the camera saw it unturned.
- 16-bit grey is scaled to 8 bits (Pillow clips it to white); 16-bit colour arrives already scaled.
- Alpha: opaque is dropped; anything else is put on black, as 3DGS does, and reported.
- Grey becomes RGB. Colour spaces other than grey, RGB and palette are refused.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, UnidentifiedImageError

from harness.scenes.colmap.intrinsics import Size, same_aspect
from odin.errors import InputError

_UPRIGHT = 1
_QUARTER_TURNS = (5, 6, 7, 8)


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One decoded file.

    pixels:  uint8 [height, width, 3], RGB
    digest:  sha256 of the file's bytes
    blended: the file had transparent pixels, which were put on black
    """

    pixels: NDArray[np.uint8]
    digest: str
    blended: bool

    @property
    def size(self) -> Size:
        """(width, height) in pixels."""
        return self.pixels.shape[1], self.pixels.shape[0]


def read_picture(file: Path, camera_size: Size) -> Picture:
    """Decode one image whose camera has `camera_size` = (width, height).

    Raises InputError for a damaged file, an unsupported pixel format, or an orientation flag that matters.
    """
    try:
        raw = file.read_bytes()
        image = Image.open(io.BytesIO(raw))
        image.load()
        image.getexif()  # kept by the image; damaged, it raises as pixels do
    # Pillow's decoders raise OSError, ValueError, SyntaxError, struct.error and more on broken bytes.
    except Exception as error:
        # Pillow's own text for this one names an address in memory.
        reason = "unknown format" if isinstance(error, UnidentifiedImageError) else str(error)
        raise InputError(
            f"{file}: cannot be decoded as an image ({reason}). The file is damaged, or not an image at all; "
            "copy it again."
        ) from error
    _check_orientation(file, image, camera_size)
    pixels, blended = _rgb(file, image)
    return Picture(pixels=pixels, digest=hashlib.sha256(raw).hexdigest(), blended=blended)


def _check_orientation(file: Path, image: Image.Image, camera_size: Size) -> None:
    flag = image.getexif().get(ExifTags.Base.Orientation, _UPRIGHT)
    if flag not in range(2, 9):
        return
    as_stored = same_aspect(camera_size, image.size)
    as_turned = same_aspect(camera_size, image.size[::-1]) if flag in _QUARTER_TURNS else as_stored
    if as_stored and not as_turned:
        return
    raise InputError(
        f"{file} is stored as {image.size[0]}x{image.size[1]} pixels with EXIF orientation {flag}, its "
        f"camera is {camera_size[0]}x{camera_size[1]}: viewers show it turned, and the sizes do not prove "
        "that the model was made from the pixels as stored. If it was, clear the flag (exiftool "
        "-Orientation= FILE); if it was made from the turned image, turn the pixels (mogrify -auto-orient "
        "FILE)."
    )


def _rgb(file: Path, image: Image.Image) -> tuple[NDArray[np.uint8], bool]:
    # Pillow below 11 calls the 16-bit grey of a PNG I, which elsewhere is 32 bits without a known white.
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG"):
        return _scaled_grey(np.asarray(image)), False
    if image.has_transparency_data:
        return _on_black(image.convert("RGBA"))
    if image.mode not in ("1", "L", "P", "RGB"):
        raise InputError(
            f"{file}: pixel format {image.mode} is not supported. Save it as 8-bit RGB or grey, PNG or JPEG."
        )
    return np.array(image.convert("RGB")), False


def _scaled_grey(values: NDArray) -> NDArray[np.uint8]:
    """8-bit RGB of 16-bit grey."""
    # 65535 = 255 * 257
    grey = ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)
    return np.repeat(grey[:, :, None], 3, axis=2)


def _on_black(image: Image.Image) -> tuple[NDArray[np.uint8], bool]:
    rgba = np.asarray(image)
    alpha = rgba[:, :, 3:].astype(np.uint32)
    if alpha.min() == 255:
        return rgba[:, :, :3].copy(), False
    return ((rgba[:, :, :3] * alpha + 127) // 255).astype(np.uint8), True
