"""Scalar float64 helpers of the row kernels: 3-vectors as tuples, exp and log.

Strict IEEE arithmetic, no fused multiply-add, no library function: a row's bits depend on nothing but the row,
wherever it stands in the table and whatever machine it is on.

Numba's cache does not see that a callee in another file changed: delete `__pycache__` after a change here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Vec = tuple[float, float, float]
Table = NDArray[np.float32] | NDArray[np.float64]

# Entry points, called from Python and cached.
ROW: dict[str, Any] = {"nogil": True, "cache": True, "boundscheck": False, "error_model": "numpy"}
# Helpers, compiled into their callers only: without wrappers and cache entries of their own all kernels compile in
# two thirds of the time. Calling one from Python would crash; `helper.py_func` is the plain function.
HELPER: dict[str, Any] = {**ROW, "cache": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
# Helpers whose arithmetic the compiler may rearrange. Left out of line, such a helper would exist twice: as compiled
# for itself, which the process that compiles its caller runs, and as compiled once more with its caller, which every
# later process loads from the cache. The two may round differently, and ranks would differ by who compiled.
INLINED: dict[str, Any] = {**HELPER, "forceinline": True}

_LN2 = math.log(2.0)
_LOG2E = 1.0 / _LN2
_WHOLE = 1.5 * 2.0**52
_SQRT2 = math.sqrt(2.0)
_MANTISSA = np.int64((1 << 52) - 1)
_ONE = np.int64(1023 << 52)


@njit(**HELPER)
def exp(x: float) -> float:
    """exp(x) to 3e-10 relative, far below a float32 ulp; x is clamped to ±700."""
    x = min(max(x, -700.0), 700.0)
    n = math.floor(x * _LOG2E + 0.5)
    r = x - n * _LN2
    # Taylor on |r| ≤ ln 2 / 2; the first term left out is r⁹ / 9!.
    y = 1.0 / 5040.0 + r * (1.0 / 40320.0)
    y = 1.0 / 120.0 + r * (1.0 / 720.0 + r * y)
    y = 1.0 / 6.0 + r * (1.0 / 24.0 + r * y)
    y = 1.0 + r * (1.0 + r * (0.5 + r * y))
    # The low bits of n + 1.5·2⁵² are those of n: a conversion to int64 would not be vectorised.
    exponent = np.float64(n + _WHOLE).view(np.int64) + np.int64(1023)
    return y * np.int64(exponent << np.int64(52)).view(np.float64)


@njit(**HELPER)
def log(x: float) -> float:
    """Natural logarithm of x > 0 to 2e-10."""
    bits = np.float64(x).view(np.int64)
    exponent = (bits >> np.int64(52)) - np.int64(1023)
    m = np.int64((bits & _MANTISSA) | _ONE).view(np.float64)
    if m > _SQRT2:
        m *= 0.5
        exponent += 1
    # 2 artanh(s) with |s| ≤ 0.172; the first term left out is 2 s¹¹ / 11.
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    y = 2.0 + q * (2.0 / 3.0 + q * (2.0 / 5.0 + q * (2.0 / 7.0 + q * (2.0 / 9.0))))
    return y * s + exponent * _LN2


@njit(**HELPER)
def dot(a: Vec, b: Vec) -> float:
    """Scalar product."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@njit(**HELPER)
def cross(a: Vec, b: Vec) -> Vec:
    """Vector product."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@njit(**HELPER)
def mix(p: float, a: Vec, q: float, b: Vec) -> Vec:
    """p·a + q·b."""
    return p * a[0] + q * b[0], p * a[1] + q * b[1], p * a[2] + q * b[2]


@njit(**HELPER)
def vec(table: Table, i: int) -> Vec:
    """The first three columns of row i, as float64."""
    return np.float64(table[i, 0]), np.float64(table[i, 1]), np.float64(table[i, 2])


@njit(**HELPER)
def log_scales(geometry: Table, i: int) -> Vec:
    """Columns 3–5 of row i of the geometry, as float64."""
    return np.float64(geometry[i, 3]), np.float64(geometry[i, 4]), np.float64(geometry[i, 5])
