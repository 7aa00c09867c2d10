"""What the page says beside its exhibits: findings from rows, links that were fitted, and what clocks are worth."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest

from harness.profiles.load import link_profile
from harness.report.clocks import DETERMINISTIC, clock_lines
from harness.report.exhibits import INDEX, Shown
from harness.report.findings import findings
from harness.report.links import by_construction, fitted, link_line
from harness.report.page import write_page
from harness.report.tidy import Tidy, with_unit
from harness.store.files import write_text

HEAD = "exhibit,quantity,scene,pipeline,arm,value,low,high,paper,unit,label,n,commit\n"
ROWS = {
    "headline": (
        "headline,matrix_cells,,,,20,,,,cells,virtual,20,0123456789ab\n"
        "headline,mean_speedup,,,quality,1.3,,,,ratio,virtual,8,0123456789ab\n"
        "headline,mean_speedup,,,quality-random,1.2034,1.1,1.4,,ratio,virtual,20,0123456789ab\n"
        "headline,mean_limit,,,,1.46,,,,ratio,virtual,20,0123456789ab\n"
        "headline,mean_psnr_delta,,,barrier-planned,-1.004,-1.66,-0.3,,dB,virtual,20,0123456789ab\n"
        "headline,in_quality_band,,,barrier-planned,0.4,,,,share,virtual,20,0123456789ab\n"
        "headline,same_bits,,,quality,{same},,,,share,virtual,20,0123456789ab\n"
        "headline,bits_trained_apart,,,quality,3,,,,cells,virtual,20,0123456789ab\n"
        "headline,hidden_wait,,,throughput,0.81,,,0.82,share,virtual,6,0123456789ab\n"
        "headline,hidden,,,throughput,0.57,,,,share,virtual,6,0123456789ab\n"
        "headline,noise_floor,rooms,3DGS,,0.004,,,,share,padded,2,0123456789ab\n"
    ),
    "jittered": (
        "headline,speedup_jittered,,,quality,1.29,1.28,1.31,,ratio,virtual,16,0123456789ab\n"
        "headline,speedup_jittered,,,predicted,1.4,,,,ratio,virtual,16,0123456789ab\n"
    ),
    "fig18": "fig18,effect,bonsai,3DGS,without-SAS,1.15,,,,ratio,virtual,1,0123456789ab\n",
}


def rows(folder: Path, same: float = 1.0) -> Tidy:
    """`ROWS` as files."""
    for name, text in ROWS.items():
        write_text(folder / f"{name}.csv", HEAD + text.format(same=same))
    return Tidy(folder, ROWS)


def test_findings_are_computed_and_carry_their_label(tmp_path: Path) -> None:
    found = findings(rows(tmp_path))
    assert all(line.rstrip(".").endswith("virtual)") for line in found)
    speed, order, exact, hidden, ablation = found
    assert "all 20 cells" in speed and "quality-random 1.203× [1.100×, 1.400×]" in speed and "1.460×" in speed
    assert "1.300×" not in speed  # a mean over 8 cells stands beside none over 20
    assert "-1.00 dB" in order and "12 of 20 cells leave" in order
    assert exact.startswith("Exact overlap costs no quality") and "20 of 20 cells" in exact and "in 3 of them" in exact
    assert "81.0 % of what ranks wait for (the paper: 82.0 %) in the 6 of 20 cells" in hidden and "57.0 %" in hidden
    assert "SAS 1.150×" in ablation


def test_bits_that_differ_are_not_called_exact(tmp_path: Path) -> None:
    exact = next(line for line in findings(rows(tmp_path, same=0.95)) if line.startswith("Exact"))
    assert "is NOT exact everywhere" in exact and "19 of 20 cells" in exact


def test_without_rows_nothing_is_said(tmp_path: Path) -> None:
    assert findings(Tidy(tmp_path, ROWS)) == []
    for text in ("exhibit,value\nheadline,1\n", HEAD + "headline,mean_limit,,,,much,,,,ratio,virtual,20,c\n", "\0"):
        write_text(tmp_path / "headline.csv", text)
        assert findings(Tidy(tmp_path, ["headline"])) == []


def test_clocks(tmp_path: Path) -> None:
    own = rows(tmp_path)
    assert DETERMINISTIC in clock_lines(own, ["virtual"]) and "deterministic" in DETERMINISTIC
    (*_, jitter, floor) = clock_lines(own, ["virtual"])
    assert "varied by 5 % (assumed" in jitter
    assert "16 re-timings: quality 1.290× (1.280 to 1.310), predicted 1.400×." in jitter
    (floor,) = clock_lines(own, ["padded"])
    assert "0.4 % on rooms (3DGS)" in floor and "(padded)" in floor
    assert clock_lines(Tidy(tmp_path, []), ["padded"]) == []


def test_fitted_links_are_told_from_their_files() -> None:
    assert fitted(["cluster", "none"]) == []
    links = fitted(["fig1-dash", "fig1-3dgs", "fig1-3dgs", "none"])
    assert [link.name for link in links] == ["fig1-3dgs", "fig1-dash"]
    said = by_construction(links)
    assert "by construction" in said
    for link in links:
        share = with_unit(link_profile(link.name).exposed.value, "share")
        assert f"{link.name} {share}" in said and share in link_line(link) and "seed 1" in link_line(link)


@pytest.mark.parametrize(("value", "unit", "text"), [(0.5, "share", "50.0 %"), (1.2, "ratio", "1.200×"),
                                                     (-0.1, "dB", "-0.10 dB"), (0.735, "s", "0.735 s")])  # fmt: skip
def test_units(value: float, unit: str, text: str) -> None:
    assert with_unit(value, unit) == text


def test_the_page_shows_them(tmp_path: Path) -> None:
    """Also what is not judged: neither met nor missed."""
    figures = tmp_path / "figures"
    figures.mkdir()
    rows(figures)
    line = {"target": "mean", "aim": "≥ 1.2×", "reached": "1.3×, 8 of 20 cells", "beside": "limit 1.4×",
            "paper": "1.22×", "verdict": "8 of 20 cells: not judged", "missed": "The order fails.",
            "why": "Because."}  # fmt: skip
    shown = [Shown(name=name, title=name, command="c", alt=name, columns=("value", "label"), rows=(("1", "virtual"),),
                   verdicts=(line,) if name == "headline" else ()) for name in ROWS]  # fmt: skip
    write_text(figures / INDEX, json.dumps([one.plain() for one in shown]))
    text = html.unescape(write_page(tmp_path).read_text(encoding="utf-8"))
    assert 'class="open" data-is="verdict">8 of 20 cells: not judged' in text
    assert "limit 1.4×" in text and "The order fails." in text and "states none" not in text
    assert "What we found" in text and all(one in text for one in findings(Tidy(figures, ROWS)))
    assert DETERMINISTIC in text
