"""What the headline takes over from tables of benchmarks: equal bits of real processes, and what admission costs."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from paper_figs.borrowed import add_admission, add_processes
from paper_figs.cells import Cells
from paper_figs.lookup import Lookup
from paper_figs.reasons import hazards
from paper_figs.tidy import Rows
from tests.paper_figs.records import admission, bits


def looked_up(root: Path, **tables: pd.DataFrame) -> Lookup:
    """The rows that these tables of benchmarks lead to."""
    (root / "benchmarks").mkdir()
    for name, table in tables.items():
        table.to_csv(root / "benchmarks" / f"{name}.csv", index=False)
        (root / "benchmarks" / f"{name}.json").write_text(json.dumps({"git_sha": "ab" * 20, "dirty": False}))
    found, cells = Rows("headline"), Cells(root)
    add_processes(found, cells)
    add_admission(found, cells)
    return Lookup(found.frame())


def test_every_comparison_of_bits_counts_once(tmp_path: Path) -> None:
    row = looked_up(tmp_path, bits=pd.concat([bits(), bits().assign(repeat=1)])).row("same_bits_processes", "quality")
    assert row is not None and (row["value"], row["n"], row["label"]) == (1.0, 2, "measured")


def test_one_state_that_differs_is_seen(tmp_path: Path) -> None:
    table = bits()
    table.loc[(table["optimizer"] == "selective") & (table["arm"] == "quality"), "state"] = "another"
    found = looked_up(tmp_path, bits=table)
    assert found.value("same_bits_processes", "quality") == 0.5
    assert found.value("same_bits_processes", "paper-quality") == 1.0


def test_a_state_that_was_taken_over_is_no_comparison(tmp_path: Path) -> None:
    found = looked_up(tmp_path, bits=bits().assign(trained=lambda table: table["arm"] != "quality"))
    assert found.row("same_bits_processes", "quality") is None
    assert found.value("same_bits_processes", "paper-quality") == 1.0


def test_the_hazard_pass_is_told_apart_from_its_phase(tmp_path: Path) -> None:
    found = looked_up(tmp_path, admission=admission())
    assert found.value("hazard_share", "quality") == pytest.approx(0.001)
    assert found.value("admission_share", "quality") == pytest.approx(0.027)
    assert found.value("hazard_ms", "quality") == pytest.approx(0.02)
    assert "0.02 ms" in hazards(found, "quality")


def test_nothing_is_made_of_no_table(tmp_path: Path) -> None:
    found = looked_up(tmp_path)
    assert found.row("same_bits_processes", "quality") is None and found.row("hazard_share", "quality") is None
