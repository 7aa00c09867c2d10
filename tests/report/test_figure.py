"""The figure is drawn from the summary alone and is byte-identical on a rerun."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import pytest
from PIL import Image

from harness.measure.breakdown import PARTS
from harness.report.figure import draw_headline, write_headline_figure
from harness.report.summary import headline
from tests.store.samples import ARMS, result, sequence


def test_a_rerun_is_byte_identical(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    one = write_headline_figure(headline(sequence()), tmp_path / "one")
    two = write_headline_figure(headline(sequence()), tmp_path / "two")
    assert [p.name for p in one] == ["headline.pdf", "headline.png", "headline_caption.txt"]
    assert [p.read_bytes() for p in one] == [p.read_bytes() for p in two]
    assert dict(mpl.rcParams) == before  # no setting leaks
    pdf = one[0].read_bytes()
    assert b"CreationDate" not in pdf and b"/Type3" not in pdf and b"/Type0" in pdf
    with Image.open(one[1]) as image:
        assert image.width == pytest.approx(6.9 * 200, abs=1)
    assert one[2].read_text().endswith(headline(sequence()).caption + "\n")


def test_every_run_is_a_dot_and_every_part_a_bar() -> None:
    summary = headline(sequence())
    left, right = draw_headline(summary).axes
    dots = [line.get_xdata() for line in left.lines if line.get_marker() == "o"]
    assert [tuple(xs) for xs in dots] == [row.numbers.repeats for row in summary.rows if row.numbers]
    assert left.get_xscale() == "log"
    assert sorted(line.get_xdata()[0] for line in left.lines if line.get_linestyle() in ("-", "--"))[:1] == [1.0]
    assert [text.get_text() for text in right.get_legend().get_texts()] == list(PARTS)
    widths = [patch.get_width() for patch in right.patches]
    assert len(widths) == len(PARTS) * len(ARMS)
    assert widths[0] == pytest.approx(200.4) and sum(widths) == pytest.approx(sum((300, 298, 240, 216)) * 1.002)
    for axes in (left, right):
        assert "(padded)" in axes.get_xlabel()


def test_a_failed_arm_is_named_and_not_drawn(tmp_path: Path) -> None:
    cells = [r for r in sequence() if r.cell.arm != "predicted"]
    summary = headline([*cells, *(result("predicted", k, overrun_share=0.5) for k in (0, 1))])
    left, right = draw_headline(summary).axes
    for axes in (left, right):
        assert [t.get_text() for t in axes.texts].count("FAILED") == 1
    assert len(right.patches) == len(PARTS) * 3
    caption = write_headline_figure(summary, tmp_path)[-1].read_text()
    assert caption.startswith("FAILED predicted: overrun: predicted run 0 overran its padding in 50.0 % of steps")


def test_a_summary_without_numbers_is_drawn() -> None:
    left, right = draw_headline(headline([])).axes
    assert right.get_legend() is None
    assert [t.get_text() for t in left.texts] == ["FAILED"] * 4
