"""The numbers that 2DGS renderers agree on, beside those of `render/conventions.py`."""

from __future__ import annotations

FAR = 100.0  # with NEAR the range that depths are mapped to 0…1 over, for the distortion
LOW_PASS = 2.0  # 1 / σ² of the screen-space low-pass filter, σ = √½ px
MEDIAN = 0.5  # the median depth is that of the last fragment laid down at a transmittance above this
# A disc that comes nearer to the camera plane than this (view-space z) has no usable box and is tested in all tiles.
BOUND = 0.01
