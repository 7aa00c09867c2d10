"""DashGS's resolution schedule from the training images' spectra (Chen et al. 2025), upstream's formulas.

The share of an image's spectrum that a downscaled copy keeps says how much there is to learn at that size. Training
starts at the scale that keeps a quarter of the leanest image's spectrum and passes through 32 levels of equally spaced
content; a level begins when the logarithm of its content, over that of the whole, reaches its share of the schedule.

Legend: V images, H, W image size, L levels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.fft
from numpy.typing import NDArray

START_FACTOR = 4.0
LARGEST_SCALE = 8.0
LEVELS = 32
_BISECTIONS = 64


@dataclass(frozen=True, kw_only=True)
class ResolutionSchedule:
    """When training views are downscaled, and by how much.

    scales: L factors, falling to 1
    begins: L + 1 scaled image counts; between the k-th and the next the factor goes from that of level k-1 to that of
            level k (the first two are 0), and the last one is the end of the schedule
    """

    scales: tuple[float, ...]
    begins: tuple[int, ...]

    @property
    def full_from(self) -> int:
        """The count from which views are at full resolution, where upstream lets the position rate decay."""
        return next(b for b, s in zip(self.begins, self.scales, strict=False) if s < 2)

    def scale(self, count: float) -> float:
        """Factor by which views are downscaled at a scaled image count, a whole number as upstream: between levels
        the number of pixels grows in proportion to the count, and the factor is rounded down."""
        if count >= self.begins[-1]:
            return 1.0
        level = 1
        while level + 1 < len(self.scales) and count >= self.begins[level + 1]:
            level += 1
        now, after = self.begins[level], self.begins[level + 1]
        last, this = self.scales[level - 1], self.scales[level]
        share = (count - now) / (after - now) if after > now else 1.0
        inverse = share * (1.0 / this**2 - 1.0 / last**2) + 1.0 / last**2
        return float(max(1, int(inverse**-0.5)))


class _Content:
    """Sums of a spectrum over centred windows. spectrum: float64 [H, W], moduli with the constant in the centre."""

    def __init__(self, spectrum: NDArray[np.float64]) -> None:
        self.height, self.width = spectrum.shape
        self._sums = np.zeros((self.height + 1, self.width + 1))
        self._sums[1:, 1:] = spectrum.cumsum(axis=0).cumsum(axis=1)

    @property
    def total(self) -> float:
        return float(self._sums[-1, -1])

    def kept(self, scale: float) -> float:
        """Of the window that an image downscaled by `scale` can hold."""
        rows, columns = (self.height + 1) // 2, (self.width + 1) // 2
        # At least the constant and its neighbours, where an image is smaller than twice the scale.
        half_rows, half_columns = max(1, int(self.height / scale) // 2), max(1, int(self.width / scale) // 2)
        top, bottom = rows - half_rows, min(rows + half_rows, self.height)
        left, right = columns - half_columns, min(columns + half_columns, self.width)
        sums = self._sums
        return float(sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left])

    def scale_for(self, content: float) -> float:
        """The largest factor that keeps at least `content`, by bisection of its inverse."""
        low, high = 0.0, 1.0
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            if self.kept(1.0 / middle) < content:
                low = middle
            else:
                high = middle
        return 1.0 / high


def resolution_schedule(photos: Sequence[NDArray[np.uint8]], until: int) -> ResolutionSchedule:
    """The schedule of training images, uint8 [H, W, 3] each, ending at the scaled image count `until`.

    Images of another size than the first one count for the starting scale only (upstream needs one size).
    """
    largest, total, used = LARGEST_SCALE, np.zeros(photos[0].shape[:2]), 0
    for photo in photos:
        spectrum = _spectrum(photo)
        content = _Content(spectrum)
        largest = min(largest, content.scale_for(content.total / START_FACTOR))
        if spectrum.shape == total.shape:
            total += spectrum
            used += 1
    return levels(total / used, max(largest, 1.0), until)


def levels(spectrum: NDArray[np.float64], largest: float, until: int) -> ResolutionSchedule:
    """The schedule from a mean spectrum, float64 [H, W], and the starting scale."""
    content = _Content(spectrum)
    least, whole = content.kept(largest), content.total
    scales, begins = [largest], [0]
    for level in range(1, LEVELS - 1):
        wanted = (whole - least) * level / (LEVELS - 1) + least
        scales.append(content.scale_for(wanted))
        begins.append(_begin((whole - least) * (level - 1) / (LEVELS - 1) + least, least, whole, until))
    scales.append(1.0)
    last = (whole - least) * (LEVELS - 2) / (LEVELS - 1) + least
    begins += [_begin(last, least, whole, until), until]
    return ResolutionSchedule(scales=tuple(scales), begins=tuple(begins))


def _begin(content: float, least: float, whole: float, until: int) -> int:
    return int(until * math.log(content / least) / math.log(whole / least)) if whole > least else 0


def _spectrum(photo: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Moduli of the Fourier transform summed over channels, constant in the centre, float64 [H, W]."""
    total = np.zeros(photo.shape[:2])
    for channel in range(3):
        transform = scipy.fft.fft2(np.ascontiguousarray(photo[..., channel], np.float32) / np.float32(255.0))
        total += np.abs(transform)
    return np.fft.fftshift(total)
