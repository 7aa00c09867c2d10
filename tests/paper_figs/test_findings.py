"""Findings in words, and the rows that they come from: each is said only where the rows show it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

from paper_figs import fig10, fig14, fig15, fig18, review2, table2, table3, wording
from paper_figs.caption import caption
from paper_figs.cells import Cells
from paper_figs.make import make
from paper_figs.paper import stated, stated_table
from paper_figs.tidy import Rows
from tests.paper_figs.records import smoke

OWN: dict[str, Any] = {"label": "virtual", "commit": "ab" * 6}


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    studies = ("regions", "tau", "batch", "ablation", "quality", "control", "planner")
    return Cells(smoke(tmp_path_factory.mktemp("findings"), *studies))


def frame(exhibit: ModuleType, *rows: tuple[str, str, str, float]) -> pd.DataFrame:
    """Rows of (quantity, scene, arm, value)."""
    found = Rows(exhibit.name)
    for quantity, scene, arm, value in rows:
        found.add(quantity, value, scene=scene, arm=arm, **OWN)
    return found.frame()


def test_effects_are_called_none_below_a_threshold() -> None:
    assert wording.percent(1.156) == "+15.6 %" and wording.percent(0.923) == "−7.7 %"
    assert wording.percent(1.0001) == "±0.0 %" and wording.points(-0.033) == "−3.3 %"
    assert wording.effect_of(0.996) == "no effect (−0.4 %)" and wording.effect_of(0.99) == "−1.0 %"
    assert wording.quality_effect_of(0.09) == "no effect (+0.09 dB)" and wording.quality_effect_of(-0.24) == "−0.24 dB"
    assert "±0.5 %" in wording.THRESHOLDS and "±0.2 dB" in wording.THRESHOLDS
    assert [wording.listed(texts) for texts in ((), ("a",), ("a", "b", "c"))] == ["", "a", "a, b and c"]


# (speedup, PSNR − barrier's) of bonsai at the laptop scale
ABLATION = {
    "barrier-planned": (0.997, -0.754),
    "throughput": (1.152, -0.669),
    "without-SAS": (0.997, -0.754),
    "without-SDS": (1.157, -0.913),
    "without-DDS": (1.152, -0.669),
    "without-DAS": (1.248, -0.819),
    "hogwild": (1.256, 0.173),
}


def ablation(**changes: tuple[float, float]) -> pd.DataFrame:
    found, arms = [], ABLATION | {f"without-{name}": values for name, values in changes.items()}
    full, best = arms["throughput"]
    for arm, (ratio, psnr) in arms.items():
        found += [("speedup", "a", arm, ratio), ("psnr_delta", "a", arm, psnr)]
        found += [("waiting", "a", arm, 0.02), ("own_work", "a", arm, 0.15)]
        if arm.startswith("without-"):
            found += [("effect", "a", arm, full / ratio), ("effect_psnr", "a", arm, best - psnr)]
    return frame(fig18, *found)


def test_an_ablation_that_changes_nothing_is_called_so() -> None:
    text = "\n".join(fig18.findings(ablation()))
    assert "SAS +15.5 %, PSNR no effect (+0.08 dB); SDS no effect (−0.4 %), PSNR +0.24 dB; DDS no effect" in text
    assert "DAS −7.7 %" in text and "without-DDS is throughput BY CONSTRUCTION" in text
    assert "without-SAS is barrier-planned by construction" in text
    assert "only the absence of SAS costs speed; hogwild is at 1.256×, +9.0 % from throughput" in text
    assert "the fastest is hogwild" in text and "no finding yet" in text


def test_an_ablation_that_changes_something_is_not() -> None:
    text = "\n".join(fig18.findings(ablation(DDS=(1.1, -0.669), SAS=(1.0, -0.754))))
    assert "by construction" not in text.lower()
    assert "DDS +4.7 %" in text and "absence of SAS and DDS costs speed" in text


def test_bars_begin_at_one_and_name_the_effect(cells: Cells) -> None:
    figure = fig18.draw(cells, fig18.rows(cells))
    assert figure is not None
    bars = figure.axes[0].patches
    assert {bar.get_x() for bar in bars} == {1.0} and len(bars) == 8
    texts = " ".join(text.get_text() for text in figure.axes[0].texts)
    assert all(f"   {component} " in texts for component in fig18.COMPONENTS)


def test_effects_come_from_pairs_that_have_both(cells: Cells) -> None:
    rows = fig18.rows(cells).set_index(["quantity", "arm"])["value"]
    for arm in ("without-SAS", "without-SDS", "hogwild"):
        assert rows["effect", arm] == pytest.approx(rows["speedup", "throughput"] / rows["speedup", arm])
        assert rows["effect_psnr", arm] == pytest.approx(rows["psnr_delta", "throughput"] - rows["psnr_delta", arm])
    assert all(0 < rows["waiting", arm] < 1 for arm in ("throughput", "hogwild"))


def gains(*ratios: tuple[int, int, float], arm: str = "throughput") -> list[tuple[str, str, str, float]]:
    return [("speedup", f"a, W = {ranks}, B = {batch}", arm, ratio) for ranks, batch, ratio in ratios]


def test_gains_by_batch_and_ranks() -> None:
    falling = gains((2, 2, 1.18), (2, 4, 1.11), (4, 4, 1.27), (4, 8, 1.16))
    text = "\n".join(fig10.findings(frame(fig10, *falling, *gains((2, 2, 1.2), (2, 4, 1.25), arm="quality"))))
    assert "2 ranks +18.0 % and +11.0 % (B = 2 and 4); 4 ranks +27.0 % and +16.0 % (B = 4 and 8)" in text
    assert "narrows with B at every number of ranks, as the paper says" in text
    assert "does NOT always narrow with B for quality." in text
    assert "At B = 4 throughput gains +11.0 % and +27.0 % on 2 and 4 ranks: it grows with ranks." in text
    assert "faster than throughput at 2 of 2 points" in text
    (grown,) = fig10.findings(frame(fig10, *gains((2, 2, 1.1), (2, 4, 1.2))))
    assert "it does NOT always narrow" in grown
    assert list(fig10.findings(frame(fig10))) == []


def test_how_much_regions_and_the_gate_change() -> None:
    by_k = [
        ("speedup_by_regions", f"a, K = {k}", "throughput", ratio) for k, ratio in ((1, 1.142), (4, 1.163), (8, 1.164))
    ]
    by_tau = [
        row
        for arm, ratio, late in (("throughput:tau=0.05", 1.152, 0.016), ("throughput:tau=0.8", 1.1537, 0.164))
        for row in (
            ("speedup_by_tau", "a", arm, ratio), ("late_by_tau", "a", arm, late), ("waiting_by_tau", "a", arm, 0.02)
        )
    ]  # fmt: skip
    text = "\n".join(
        fig14.findings(frame(fig14, *by_k, *by_tau), [(4, "predicted"), (16, "quality"), (16, "predicted")])
    )
    assert "throughput over K: 1.142× (K = 1) to 1.164× (K = 8), +1.9 %; the paper's default K = 4, −0.1 %" in text
    assert "predicted at K = 4; quality and predicted at K = 16" in text
    assert "over τ (0.05 to 0.8): 1.152× to 1.154×, 0.15 %, no effect" in text
    assert "go from 1.6 to 16.4 %" in text and "waits are 2.0 % of a step at most" in text
    assert list(fig14.findings(frame(fig14))) == []


def test_panels_say_on_how_many_ranks(cells: Cells) -> None:
    figure = fig14.draw(cells, fig14.rows(cells))
    assert figure is not None
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["4 ranks, B = 4"] * 2
    assert all(axes.get_ylabel() in ("", "speedup over barrier (virtual)") for axes in figure.axes)


@pytest.mark.parametrize("exhibit", [fig10, fig15, fig18, review2], ids=lambda e: e.name)
def test_a_rerun_is_byte_identical(exhibit: ModuleType, cells: Cells, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        make(exhibit, cells, tmp_path / folder)
    files = sorted((tmp_path / "one").iterdir())
    assert len(files) == 5 and all(f.read_bytes() == (tmp_path / "two" / f.name).read_bytes() for f in files)


@pytest.mark.parametrize(("exhibit", "study"), [(fig14, "regions"), (fig10, "batch"), (fig18, "ablation")])
def test_what_failed_is_a_cross_at_the_baseline(exhibit: ModuleType, study: str, tmp_path: Path) -> None:
    """A line breaks there: it has no point where there is no number."""
    lacking = Cells(smoke(tmp_path, *({study, "tau"} if exhibit is fig14 else {study}), leave_out=1))
    figure = exhibit.draw(lacking, exhibit.rows(lacking))
    assert figure is not None
    crosses = [line for axes in figure.axes for line in axes.lines if line.get_marker() == "x"]
    assert crosses and all(1.0 in (*line.get_ydata(), *line.get_xdata()) for line in crosses)
    legends = [legend for axes in figure.axes if (legend := axes.get_legend()) is not None] + figure.legends
    assert any(text.get_text() == "failed a gate" for legend in legends for text in legend.get_texts())


def test_no_row_of_quality_has_a_number_of_the_papers(cells: Cells) -> None:
    rows = fig15.rows(cells)
    single = rows[rows["quantity"].str.startswith("quality_delta_")]
    assert len(single) and single["paper"].isna().all()
    (outside,) = rows[rows["quantity"] == "outside_band"].to_dict("records")
    shown = single[single["arm"] == "throughput"]["value"]
    assert outside["paper"] == 0.0 and outside["n"] == len(shown)
    assert outside["value"] == pytest.approx((shown.abs() > 0.01).mean())
    assert "outside band (throughput) 0.0 %" in caption(fig15, rows, cells)


def test_what_the_order_costs_stands_apart(cells: Cells) -> None:
    rows = fig15.rows(cells)
    means = rows.set_index(["quantity", "arm"])["value"]
    assert means["mean_quality_delta_psnr", "barrier-planned"] == means["mean_quality_delta_psnr", "quality"]
    assert means["mean_quality_delta_psnr_same_order", "quality"] == 0.0  # bit-identical
    assert ("mean_quality_delta_psnr_same_order", "predicted-random") not in means
    text = "\n".join(fig15.remarks(cells))
    assert "barrier-planned alone, which reads nothing late, is at" in text and "In barrier's own order:" in text


@pytest.mark.parametrize(("order", "same", "why"), [(-0.04, 0.007, True), (0.001, -0.03, False)])
def test_the_order_is_blamed_only_where_it_costs_more(order: float, same: float, why: bool) -> None:
    mean = "mean_quality_delta_psnr"
    rows = frame(fig15, ("outside_band", "", "throughput", 1.0), (mean, "", "throughput", order + same),
                 (mean, "", "quality", order), (f"{mean}_same_order", "", "throughput", same))  # fmt: skip
    assert ("Why lower than the paper's: the order." in "\n".join(fig15.findings(rows))) is why


def test_the_worst_scene_is_named_and_the_control_apart(cells: Cells) -> None:
    rows = review2.rows(cells)
    for quantity, kind in (("worst_psnr_delta", "on"), ("worst_psnr_delta_fixed", "off")):
        worst = rows[rows["quantity"] == quantity]
        assert set(worst["arm"]) == set(review2.ARMS) and worst["scene"].str.endswith(f", densification {kind}").all()
        for row in worst.to_dict("records"):
            own = rows[(rows["quantity"] == "psnr_delta") & (rows["arm"] == row["arm"])]
            assert row["value"] == own[own["scene"].str.endswith(kind)]["value"].min()
    spread = rows[rows["quantity"] == "perturbed_spread"]
    assert set(spread["arm"]) == {"perturbed"} and len(spread) == 2
    text = "\n".join(review2.remarks(cells))
    assert "Worst scene with densification on, the control apart: throughput " in text
    assert "n too small: half-width" in text and "from 48 pairs on" in text and "from 20 pairs on" in text
    assert "perturbed barrier spreads over" in text


@pytest.mark.parametrize(
    ("n", "least", "says"), [(19, 20, "n too small: half-width"), (20, 20, "equivalent"), (47, 48, "n too small"),
                             (48, 48, "equivalent"), (1, 20, "n too small: n = 1")]
)  # fmt: skip
def test_few_pairs_are_not_classified(n: int, least: int, says: str) -> None:
    text = review2._verdict([1 + 1e-4 * (k % 3) for k in range(n)], least)
    assert text.startswith(says) and text.count("n = ") == 1


def test_brackets_of_ranges_are_not_called_students(cells: Cells) -> None:
    text = caption(review2, review2.rows(cells), cells)
    assert "Brackets: Student's 95 % interval over seeds" in text
    assert "of psnr delta same order the smallest and the largest seed" in text


def plans(*times: tuple[int, str, float]) -> pd.DataFrame:
    found = Rows(table3.name)
    for images, obs, seconds in times:
        paper = stated("Table 3", "plan_seconds", setting=f"{images} images")
        found.add("plan_seconds", seconds, scene=f"{images} images, aerial, {obs}", arm="default", paper=paper, **OWN)
    return found.frame()


@pytest.mark.parametrize(
    ("times", "says"),
    [
        ([(1000, "dense", 0.05), (2000, "dense", 0.1), (5000, "dense", 0.06)],
         "dense, default, at 1,000 (0.050 against 0.013 s) and 2,000 (0.100 against 0.028 s) images; as fast or faster "
         "at 1 of 3 points."),
        ([(5000, "dense", 0.06)], "SLOWER than the paper's: nowhere; as fast or faster at 1 of 1 points."),
    ],
)  # fmt: skip
def test_slower_than_the_papers_plan_is_said(times: Sequence[tuple[int, str, float]], says: str) -> None:
    (text,) = table3.findings(plans(*times))
    assert text.endswith(says)


def test_notes_that_reviewers_asked_for() -> None:
    assert "none of the paper's photos" not in table2.note and "appear to be those of Mip-NeRF 360" in table2.note
    assert "Without tracks (Review 6)" in table3.note


def test_what_the_paper_is_said_to_state() -> None:
    table = stated_table().set_index(["exhibit", "quantity"])
    hidden = table.loc[("Abstract", "hidden")]
    assert hidden["pipeline"] == "four pipelines" and "Fig. 19 of one" in hidden["note"]
    assert table.loc[("Fig. 19", "hidden"), "pipeline"] == "3DGS"
    assert all(
        table.loc[key, "pipeline"] == "not stated"
        for key in (("Fig. 3", "iterations"), ("Fig. 12", "speedup_over_one_gpu"))
    )
    setup = {key: stated("Setup", key) for key in ("scenes", "pipelines", "most_gpus", "pcie_lanes", "link")}
    assert setup == {"scenes": 13, "pipelines": 4, "most_gpus": 64, "pcie_lanes": 16, "link": 160}
