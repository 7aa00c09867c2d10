"""The benchmark of Fig. 16: both sides do the same work, the CSV has its columns, bad sizes are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import shadow_graph
from benchmarks.shadow_states import COLUMNS, ReplicatedStates
from odin.ledger import RING

TABLE = 4 * 1000 * COLUMNS


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """The benchmark runs torch on one thread; other tests of this process shall not."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def sides_of(rows: int, units: int, seed: int = 0, *, pooled: bool = False) -> tuple:
    return shadow_graph.make_sides(rows, units, share=0.34, seed=seed, pooled=pooled)


@settings(max_examples=15, deadline=None)
@given(rows=st.integers(1, 300), units=st.integers(1, 5), seed=st.integers(0, 99), pooled=st.booleans())
def test_both_sides_leave_the_same_bits(rows: int, units: int, seed: int, pooled: bool) -> None:
    sides = sides_of(rows, units, seed, pooled=pooled)
    before = sides[0].table.parameters.clone()
    for swapped in (False, True):
        shadow_graph.run_cycle(sides, swapped=swapped)
    assert sides[0].table.t == 2 * units
    assert sides[0].table.digest() == sides[1].table.digest()
    assert sides[0].units[0].rows.size == 0 or not torch.equal(before, sides[0].table.parameters)


def test_without_refresh_replication_loses_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplicatedStates, "refresh", lambda self, number: None)
    sides = sides_of(300, 2)
    shadow_graph.run_cycle(sides)
    assert sides[0].table.digest() != sides[1].table.digest()


def test_bytes_are_those_of_the_arrays() -> None:
    for units in (1, 2, 4):
        sides = sides_of(1000, units)
        held = shadow_graph.run_cycle(sides).held
        rows = sum(len(unit.rows) for unit in sides[0].units)
        read = rows * (4 + 4 * COLUMNS)
        assert [held[0, o] for o in ("alias", "view", "stage")] == [0, read, RING * (TABLE + 2 * 8 * 1000)]
        assert [held[1, o] for o in ("alias", "view", "stage")] == [
            3 * TABLE * units,
            3 * TABLE * units + read,
            TABLE * units,
        ]


def test_the_small_form_writes_the_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "costs.csv"
    words = ["--rows", "1000", "--units", "1", "2", "--repeat", "3", "--out", str(out)]
    assert shadow_graph.main(words) == 0
    frame = pd.read_csv(out)
    assert ",".join(frame.columns) == "rows,units,operation,ours_ms,replicated_ms,ratio,ours_bytes,replicated_bytes"
    assert list(frame.operation.unique()) == ["alias", "view", "reuse", "stage", "refresh", "commit", "total"]
    assert len(frame) == 2 * 7
    measured = frame[frame.operation != "refresh"]
    assert np.allclose(measured.ratio, measured.replicated_ms / measured.ours_ms)
    assert frame[frame.operation == "refresh"].ratio.isna().all()
    assert "ours_wall_ms" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--rows", "0"], ["--units", "0"], ["--repeat", "0"], ["--share", "1.5"]])
def test_sizes_that_mean_nothing_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        shadow_graph.main(words)
    assert "at least 1" in capsys.readouterr().err
