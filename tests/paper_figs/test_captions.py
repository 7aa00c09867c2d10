"""Captions, tables and texts in place of pictures: short, labelled, and nothing that failed is lost."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from harness.profiles.load import link_profile
from harness.report.exhibits import INDEX, Shown
from harness.report.page import caption_lines, failed_lines
from paper_figs import fig01
from paper_figs.caption import MOST_FAILED, caption, used
from paper_figs.cells import Cells
from paper_figs.exhibit import Exhibit
from paper_figs.latex import latex_table
from paper_figs.make import alternative, make_all
from paper_figs.registry import EXHIBITS, exhibits
from paper_figs.tidy import COLUMNS, LABELS, Rows
from tests.paper_figs.records import smoke


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    return Cells(smoke(tmp_path_factory.mktemp("whole")))


@pytest.fixture(scope="module")
def lacking(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    """Two arms of every pair of the matrix have no record: quality-random and predicted-random."""
    return Cells(smoke(tmp_path_factory.mktemp("lacking"), "matrix", leave_out=2))


def text_of(name: str, cells: Cells, *, whole: bool = False) -> str:
    (exhibit,) = exhibits([name])
    return caption(exhibit, exhibit.rows(cells), cells, whole=whole)


def test_arms_that_are_not_shown_are_not_in_a_caption(lacking: Cells) -> None:
    """Fig. 1 shows barrier alone, which failed nowhere."""
    text = text_of("fig1", lacking)
    assert "FAILED" not in text and "Failed cells" not in text
    assert text_of("fig1", lacking, whole=True).count("\nFAILED ") == 16


def test_many_failures_are_counted_per_arm(lacking: Cells) -> None:
    (line,) = [line for line in text_of("fig8", lacking).splitlines() if line.startswith("Failed cells")]
    assert line == (
        "Failed cells, each named in the report: quality-random 8 of 8 (complete); predicted-random 8 of 8 (complete)."
    )
    assert "FAILED" not in text_of("fig8", lacking)


def test_few_failures_are_named(tmp_path: Path) -> None:
    text = text_of("fig9", Cells(smoke(tmp_path, "matrix", leave_out=1)))
    assert 0 < text.count("\nFAILED ") <= MOST_FAILED and "Failed cells" not in text


def test_the_report_still_names_every_failure(lacking: Cells) -> None:
    (matrix,) = [exhibit for exhibit in EXHIBITS if exhibit.name == "fig8"]
    make_all([matrix], lacking, whole=False)
    folder = lacking.root / "figures"
    (shown,) = Shown.load(folder / INDEX)
    failures = [line for pair in used(matrix, lacking) for line in pair.failures]
    assert len(failures) == 16 and failed_lines([shown], []) == [f"{line}." for line in failures]
    assert not any("FAILED" in line for line in caption_lines(shown))
    for written in ("fig8_caption.txt", "fig8.tex"):
        assert "FAILED" not in (folder / written).read_text()


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda e: e.name)
def test_captions_are_short_whatever_fails(exhibit: Exhibit, cells: Cells, lacking: Cells) -> None:
    for some in (cells, lacking):
        frame = exhibit.rows(some) if all(need.there(some) for need in exhibit.needs) else pd.DataFrame()
        assert frame.empty or len(caption(exhibit, frame, some).splitlines()) <= 16


def test_a_text_in_place_of_a_picture_keeps_label_and_source(cells: Cells) -> None:
    (fig8,) = exhibits(["fig8"])
    text = alternative(fig8, fig8.rows(cells))
    first, *others = text.removeprefix(f"{fig8.title}: ").removesuffix(".").split("); ")
    assert first.startswith("mean speedup throughput ") and first.endswith("×] (virtual, n = 8; the paper: 1.220×")
    assert others and all("(virtual, n = " in other and "the paper" not in other for other in others)


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda e: e.name)
def test_every_number_in_place_of_a_picture_is_labelled(exhibit: Exhibit, cells: Cells) -> None:
    told = alternative(exhibit, exhibit.rows(cells)).removeprefix(f"{exhibit.title}: ").split("); ")
    assert told and all(re.search(rf" \(({'|'.join(LABELS)})[^()]*, n = \d+", one) for one in told)


def rows(count: int) -> pd.DataFrame:
    found = Rows("fig8")
    for place in range(count):
        found.add("speedup", 1.2, scene=f"scene {place}", label="virtual", commit="a")
    return found.frame()


def test_a_table_that_fits_no_page_breaks_over_pages() -> None:
    text = latex_table(rows(60), "fig8", "Some & more.", "Fig. 8: Title_")
    lines = text.splitlines()
    assert lines[0].startswith("% Needs \\usepackage{booktabs,longtable}")
    assert r"\caption[Fig. 8: Title\_]{Some \& more.}\label{tab:fig8} \\" in lines
    assert text.count(r"\begin{longtable}") == text.count(r"\end{longtable}") == 1
    assert lines.index(r"\endfirsthead") < lines.index(r"\endhead") < lines.index(r"\endfoot")
    assert sum(line.startswith("speedup & scene ") for line in lines) == 60 and r"\begin{table}" not in text


def test_a_small_table_floats_unless_its_caption_fills_the_page() -> None:
    text = latex_table(rows(5), "fig8", "Short.")
    assert text.startswith("% Needs \\usepackage{booktabs}.\n") and r"\begin{table}" in text and "[" not in text
    assert r"\begin{longtable}" in latex_table(rows(5), "fig8", "Long. " * 500)


def test_the_links_of_fig_1_say_what_they_were_fitted_to(cells: Cells) -> None:
    (said,) = fig01.remarks(cells)
    shares = [f"{name} {100 * link_profile(name).exposed.value:.1f} %" for name in ("fig1-3dgs", "fig1-dash")]
    assert all(share in said for share in shares) and "by construction" in said and "seed 1" in said
    assert said in text_of("fig1", cells).splitlines()


def test_links_that_were_not_fitted_say_nothing(cells: Cells, monkeypatch: pytest.MonkeyPatch) -> None:
    (pair,) = cells.pairs("matrix")[:1]
    first, *more = pair.results
    config = {**first.cell.config, "link": {**first.cell.config["link"], "name": "none"}}
    bare = first.model_copy(update={"cell": first.cell.model_copy(update={"config": config})})
    monkeypatch.setattr(Cells, "pairs", lambda self, *roles: [replace(pair, results=(bare, *more))])
    assert fig01.remarks(cells) == []


def test_the_papers_idle_range_stands_beside_the_skew(cells: Cells) -> None:
    """Idle time of a rank is its skew and its transfer; the paper's range starts below the transfer alone."""
    frame = fig01.rows(cells)
    assert list(frame.columns) == list(COLUMNS)
    by = dict(list(frame.groupby("quantity")))
    assert by["idle_least"]["paper"].isna().all() and by["idle_most"]["paper"].isna().all()
    assert set(by["idle_skew_least"]["paper"]) == {0.01} and set(by["idle_skew_most"]["paper"]) == {0.26}
    pair = cells.pairs("matrix")[0]
    run = pair.run("barrier")
    assert run is not None
    parts, skew = run.breakdown, fig01.skew(pair)
    assert len(skew) == pair.ranks and sum(skew) / len(skew) == pytest.approx(parts.skew / parts.step, abs=0.02)
    assert all(0 <= one <= idle for one, idle in zip(skew, parts.idle_by_rank, strict=True))


def test_the_index_is_plain_data(lacking: Cells) -> None:
    make_all(exhibits(["fig1"]), lacking, whole=False)
    (one,) = [one for one in json.loads((lacking.root / "figures" / INDEX).read_text()) if one["name"] == "fig1"]
    assert "by construction" in one["caption"] and one["alt"].count("(virtual, n = ") == len(one["alt"].split("); "))
