"""The comparison of a headline here with one on a cluster sees what differs; a short one agrees."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.slurm_headline import cells, differing, main
from harness.store.store import CellStore
from slurm.testcluster import obstacle
from tests.store import samples


def store(out: Path, **changes: object) -> Path:
    CellStore(out).write_result(samples.result(**changes))
    return out


def test_equal_records_differ_in_nothing(tmp_path: Path) -> None:
    one, other = (cells(store(tmp_path / name)) for name in ("a", "b"))
    assert differing(one, other) == []


def test_what_differs_is_named(tmp_path: Path) -> None:
    one = cells(store(tmp_path / "a"))
    ((key, result),) = one.items()
    assert result.measurement is not None
    changed = result.measurement.model_copy(update={"final_digest": "0" * 64, "payload_bytes_per_step": 1})
    other = {key: result.model_copy(update={"measurement": changed})}
    assert [line.split(": ")[1] for line in differing(one, other)] == ["final_digest", "payload_bytes_per_step"]
    assert differing(one, {}) == [f"{key[0]} #{key[1] + 1} is recorded once only"]
    assert "it failed in one place" in differing(one, {key: result.model_copy(update={"measurement": None})})[0]
    assert "not the same" in differing(one, {key: result.model_copy(update={"cell_id": "ff" * 8})})[0]


@pytest.mark.slow
@pytest.mark.skipif(bool(obstacle(submitit=True)), reason=obstacle(submitit=True))
def test_a_short_headline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["scene=rooms?views=16&width=48&height=36&points=400", "views_per_unit=1", "steps=6", "padded=false"]
    assert main([*words, "link=none", "--out", str(tmp_path)]) == 0
    assert "Equal: final_digest" in capsys.readouterr().out
