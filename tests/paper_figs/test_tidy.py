"""Tidy rows: what is refused, what a reader sees, and the way to a file and back."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from odin.errors import InputError
from paper_figs.latex import escape, latex_table
from paper_figs.paper import stated
from paper_figs.tidy import COLUMNS, Rows, check_rows, number, read_rows, table_of, write_rows

KNOWN = {"label": "virtual", "commit": "0123456789ab"}


def rows() -> Rows:
    found = Rows("fig8")
    found.add("speedup", 1.25, scene="rooms", pipeline="3DGS", arm="quality", unit="ratio", **KNOWN)
    found.add("mean_speedup", 1.3, arm="throughput", low=1.2, high=1.4, paper=1.22, unit="ratio", n=20, **KNOWN)
    return found


def test_a_file_gives_the_rows_back(tmp_path: Path) -> None:
    frame = rows().frame()
    path = write_rows(frame, tmp_path / "fig8.csv")
    pd.testing.assert_frame_equal(read_rows(path), frame)
    assert path.read_text().splitlines()[0] == ",".join(COLUMNS)
    assert (
        path.read_text().splitlines()[2]
        == "fig8,mean_speedup,,,throughput,1.3,1.2,1.4,1.22,ratio,virtual,20,0123456789ab"
    )


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("label", "", "without an evidence label"),
        ("label", "virtual / guessed", "unknown one"),
        ("value", float("nan"), "no finite value"),
        ("value", float("inf"), "no finite value"),
        ("low", 9.0, "outside its own interval"),
        ("high", 0.1, "outside its own interval"),
        ("n", 0, "lacks its n"),
        ("commit", "", "lacks its n, its commit"),
        ("quantity", "", "its quantity"),
    ],
)
def test_a_number_that_hides_something_is_refused(column: str, value: object, says: str) -> None:
    frame = rows().frame()
    frame.loc[0, column] = value
    with pytest.raises(InputError, match=says):
        check_rows(frame)


def test_a_number_stands_once() -> None:
    with pytest.raises(InputError, match="stands twice"):
        check_rows(pd.concat([rows().frame()] * 2, ignore_index=True))
    with pytest.raises(InputError, match="columns"):
        check_rows(rows().frame().drop(columns="paper"))


def test_a_number_that_could_not_be_had_is_no_row() -> None:
    found = Rows("fig8")
    found.add("speedup", None, **KNOWN)
    found.add_mean("mean_speedup", [], **KNOWN)
    assert found.add_ratios("speedup", [], **KNOWN) is None
    assert found.frame().empty and list(found.frame().columns) == list(COLUMNS)


def test_ratios_over_seeds_have_an_interval_and_one_has_none() -> None:
    found = Rows("fig9")
    found.add_ratios("speedup", [1.2, 1.25, 1.3], scene="rooms", unit="ratio", **KNOWN)
    found.add_ratios("speedup", [1.2], scene="orbit", unit="ratio", **KNOWN)
    found.add_ratios("speedup", [1.2, 1.2], scene="city", unit="ratio", **KNOWN)
    frame = found.frame().set_index("scene")
    assert frame.loc["rooms", "low"] < 1.2 < frame.loc["rooms", "value"] < 1.3 < frame.loc["rooms", "high"]
    assert frame.loc[["orbit", "city"], ["low", "high"]].isna().all(axis=None)
    assert list(frame["n"]) == [3, 1, 2]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(0.229, "share", "22.9 %"), (1.2, "ratio", "1.200×"), (257.0, "ratio", "257×"), (float("nan"), "s", ""),
     (0.0131, "s", "0.0131 s"), (12345.0, "", "12,345")],
)  # fmt: skip
def test_numbers_as_text(value: float, unit: str, text: str) -> None:
    assert number(value, unit) == text


def test_a_reader_sees_the_papers_number_beside_ours() -> None:
    table = table_of(rows().frame())
    assert list(table.columns) == ["quantity", "scene", "pipeline", "arm", "value", "paper", "label", "n"]
    assert list(table.loc[1]) == [
        "mean speedup",
        "",
        "",
        "throughput",
        "1.300× [1.200×, 1.400×]",
        "1.220×",
        "virtual",
        "20",
    ]


def test_latex_has_no_bare_special_character() -> None:
    text = latex_table(rows().frame(), "fig8", "50 % of a_b & c×d")
    assert r"50 \% of a\_b \& c$\times$d" in text and r"\label{tab:fig8}" in text
    assert escape("τ ≥ 0") == r"$\tau$ $\geq$ 0"


def test_the_papers_numbers() -> None:
    assert stated("Fig. 1", "exposed", pipeline="DashGS") == 0.323
    assert stated("Fig. 1", "idle", high=True) == 0.26
    assert stated("Fig. 1", "exposed", pipeline="2DGS") is None
    with pytest.raises(InputError, match="say which"):
        stated("Fig. 1", "exposed")
