"""The 59 columns of a 3D Gaussian in the parameter table (§5 calls the table Θ).

Geometry (11 columns) is all that projection and binning read; the 48 SH columns are first read by the blend.
SH is coefficient-major: column 11 + 3·k + c is coefficient k of channel c; k = 0 is f_dc.
"""

from __future__ import annotations

XYZ = slice(0, 3)  # world units
SCALE = slice(3, 6)  # log of the standard deviation
ROTATION = slice(6, 10)  # quaternion wxyz, not normalised
OPACITY = slice(10, 11)  # logit
F_DC = slice(11, 14)
F_REST = slice(14, 59)

GEOMETRY = slice(0, 11)
COLOUR = slice(11, 59)
COLUMNS = 59
