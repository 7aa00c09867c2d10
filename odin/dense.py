"""Arrays as kernels take them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def dense(array: NDArray[Any], dtype: type[np.generic]) -> NDArray[Any]:
    """The array of a type, in C order and writeable, itself where it is so already. Writeable although kernels only
    read it: Numba would compile each of them again for a read-only array. `np.require` alone does the same, but where
    nothing is to be done it takes ten times as long."""
    if array.dtype == dtype and array.flags.carray:
        return array
    return np.require(array, dtype, ["C", "W"])
