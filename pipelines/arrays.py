"""Named arrays of an uncompressed .npz, read without trusting it: every size is compared with the bytes that are there
before anything is allocated, and no header is evaluated (numpy's own reader does both the other way round)."""

from __future__ import annotations

import math
import os
import re
import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_MAGIC = b"\x93NUMPY\x01\x00"
# What numpy.save writes for an array of plain numbers in C order; anything else is refused.
_HEADER = re.compile(rb"\{'descr': '([<|][fiu][1248])', 'fortran_order': False, 'shape': \(([0-9, ]{0,60})\), \} *\n")
_LONGEST_HEADER = 1 << 10


def read_arrays(path: Path, names: Iterable[str]) -> dict[str, NDArray]:
    """The arrays of these names that the file has; others are not looked at.

    Raises OSError, ValueError or what zipfile raises on a file that is not a sound .npz of plain numbers.
    """
    with path.open("rb") as raw, zipfile.ZipFile(raw) as archive:
        size = os.fstat(raw.fileno()).st_size
        return {name: _array(archive, f"{name}.npy", size) for name in names if f"{name}.npy" in archive.NameToInfo}


def _array(archive: zipfile.ZipFile, member: str, size: int) -> NDArray:
    entry = archive.getinfo(member)
    if entry.compress_type != zipfile.ZIP_STORED or not 0 <= entry.file_size <= size:
        raise ValueError(f"{member} is compressed, or larger than the file that holds it")
    data = archive.read(entry)  # compares the checksum
    start = len(_MAGIC) + 2
    length = int.from_bytes(data[len(_MAGIC) : start], "little")
    header = _HEADER.fullmatch(data[start : start + min(length, _LONGEST_HEADER)])
    if not data.startswith(_MAGIC) or header is None:
        raise ValueError(f"{member} is not an array of plain numbers")
    dtype = np.dtype(header[1].decode())
    shape = tuple(int(part) for part in header[2].split(b",") if part.strip())
    left = len(data) - start - length
    if math.prod(shape) * dtype.itemsize != left:
        raise ValueError(f"{member} announces shape {shape} of {dtype} and has {left} bytes")
    return np.frombuffer(data, dtype, offset=start + length).reshape(shape).copy()
