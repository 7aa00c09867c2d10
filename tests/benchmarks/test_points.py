"""The benchmark of reading a model reads what it wrote, and an exactness that compares nothing is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import bit_identity, points
from harness.scenes.colmap.binary import read_points
from odin.tracks import Tracks


def test_points_come_back(tmp_path: Path) -> None:
    tracks = Tracks(offsets=np.array([0, 2, 5]), views=np.array([3, 0, 1, 2, 4], np.int32), view_count=5)
    points.write_points(tmp_path / "points3D.bin", tracks)
    found = read_points(tmp_path / "points3D.bin")
    assert found.ids.tolist() == [1, 2]
    assert found.offsets.tolist() == [0, 2, 5]
    assert found.image_ids.tolist() == [4, 1, 2, 3, 5]
    assert found.xyz.tolist() == [[1.0, 1.0, 1.0]] * 2


def test_it_prints_medians(capsys: pytest.CaptureFixture[str]) -> None:
    assert points.main(["--images", "40", "--obs", "light", "--repeat", "1"]) == 0
    assert "s CPU (median of 1, in the page cache)" in capsys.readouterr().out


def test_one_arm_has_nothing_to_be_compared_with(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bit_identity.main(["--arms", "quality"])
    assert "--arms needs two arms" in capsys.readouterr().err
