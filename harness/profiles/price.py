"""From a compute profile to the prices that the virtual clock and the planner use.

    seconds = Σ over features of work · (bytes / (memory_bandwidth · streaming_efficiency) + seconds)
              + kernels · launch + seconds["constant"]

A small scene stands for a large one by two factors: every row (and bin entry, which is a row on a tile) stands for
`rows` of them, every pixel (and composited fragment, which is a row on a pixel) for `pixels`. Prices of work and bytes
on the link are multiplied, launches are not, and the profile's name says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.measure.profile import FEATURES, Profile
from harness.profiles.constants import ComputeProfile, PhasePrice, digest


@dataclass(frozen=True, kw_only=True)
class Scale:
    """What one row and one pixel of the scene stand for."""

    rows: float = 1.0
    pixels: float = 1.0

    @property
    def factors(self) -> tuple[float, ...]:
        """In the order of FEATURES: rows, entries, fragments, pixels, constant."""
        return (self.rows, self.rows, self.pixels, self.pixels, 1.0)

    @property
    def says(self) -> str:
        """Part of a profile's name; empty where the scene stands for itself."""
        if self == Scale():
            return ""
        return f"×{self.rows:g}rows×{self.pixels:g}pixels"


def priced(profile: ComputeProfile, scale: Scale) -> Profile:
    """The profile as coefficients per feature, for scenes at a scale."""
    prices = {name: _coefficients(profile, price) for name, price in profile.phases.items()}
    scaled = {
        name: tuple(c * f for c, f in zip(price, scale.factors, strict=True)) for name, price in sorted(prices.items())
    }
    source = f"results/profiles/compute/{profile.name}.yaml@{digest(profile)}"
    if scale.says:
        source += f"; a row stands for {scale.rows:g}, a pixel for {scale.pixels:g}"
    return Profile(name=profile.name + scale.says, source=source, coefficients=scaled, samples={}, residual={})


def _coefficients(profile: ComputeProfile, price: PhasePrice) -> tuple[float, ...]:
    constants = profile.constants
    rate = constants["memory_bandwidth"].value * constants["streaming_efficiency"].value
    found = [price.bytes.get(name, 0.0) / rate + price.seconds.get(name, 0.0) for name in FEATURES]
    found[FEATURES.index("constant")] += price.kernels * constants["launch"].value
    return tuple(found)
