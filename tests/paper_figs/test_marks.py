"""What failed is marked under its own arm; what is compared stands apart; the paper's number beside its like."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from paper_figs import fig08, fig09, fig11, fig12, fig13, fig16, scaling
from paper_figs.cells import ON_DEVICE, Cells
from paper_figs.drawing import ARMS, FAILED, OTHERS, PAPER_MARK, SPEEDUP, arm_style
from paper_figs.exhibit import Exhibit
from paper_figs.make import make
from tests.paper_figs.records import smoke


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    return Cells(smoke(tmp_path_factory.mktemp("smoke")))


@pytest.fixture(scope="module")
def lacking(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    """predicted-random, the last arm of these studies, has no record."""
    return Cells(smoke(tmp_path_factory.mktemp("lacking"), "matrix", "city", "scaling", leave_out=1))


def drawn(exhibit: Exhibit, cells: Cells) -> Figure:
    figure = exhibit.draw(cells, exhibit.rows(cells))
    assert figure is not None
    return figure


def lines(figure: Figure, marker: str) -> list[Line2D]:
    return [line for axes in figure.axes for line in axes.lines if line.get_marker() == marker]


def legends(figure: Figure) -> set[str]:
    found = [axes.get_legend() for axes in figure.axes] + list(figure.legends)
    return {text.get_text() for legend in found if legend is not None for text in legend.get_texts()}


def test_no_arm_has_the_mark_of_what_failed_or_of_the_paper() -> None:
    marks = [marker for _, marker in ARMS.values()]
    assert len(set(marks)) == len(marks)
    assert not {"x", "X", "*"} & {*marks, *OTHERS} and PAPER_MARK["marker"] == "*"


@pytest.mark.parametrize(("exhibit", "crosses"), [(fig08, 8), (fig09, 2), (fig11, 3), (fig12, 2), (fig13, 2)])
def test_every_failed_cell_has_a_cross_in_its_arms_colour(
    exhibit: Exhibit, crosses: int, cells: Cells, lacking: Cells
) -> None:
    figure = drawn(exhibit, lacking)
    failed = lines(figure, "x")
    assert len(failed) == crosses and FAILED in legends(figure)
    wanted = to_hex(arm_style("predicted-random")["color"])
    assert {to_hex(line.get_color()) for line in failed} == {wanted}
    sound = drawn(exhibit, cells)
    assert not lines(sound, "x") and FAILED not in legends(sound)


def test_arms_of_fig_8_stand_in_slots_of_their_own(cells: Cells, lacking: Cells) -> None:
    axes = drawn(fig08, cells).axes[0]
    bars = [patch.get_x() + patch.get_width() / 2 for patch in axes.patches]
    marks = [float(x) for line in axes.lines for x in line.get_xdata()]
    places = sorted(bars + marks)
    assert len(places) == 2 * len(fig08.ALL)  # two scenes
    assert min(b - a for a, b in pairwise(places)) > 0.9 * fig08.SLOT
    crossed = drawn(fig08, lacking).axes[0]
    crosses = sorted(float(line.get_xdata()[0]) for line in crossed.lines if line.get_marker() == "x")
    assert crosses == pytest.approx([place for place in places if place % 1 == pytest.approx(2.5 * fig08.SLOT)])
    assert not [text for text in crossed.texts if "FAILED" in text.get_text()]


@pytest.mark.parametrize("exhibit", [fig09, fig13])
def test_a_ratio_is_not_called_like_an_arm(exhibit: Exhibit, cells: Cells) -> None:
    labels = [axes.get_xlabel() for axes in drawn(exhibit, cells).axes]
    assert any(label.startswith(SPEEDUP) for label in labels) and not any("throughput" in label for label in labels)


def zeroed(cells: Cells) -> Cells:
    """The city's records as real ones are: an arm hides nothing of what it waits for."""
    found = Cells(cells.root)
    pairs = []
    for pair in found.pairs("city"):
        results = []
        for result in pair.results:
            run = result.measurement
            assert run is not None and run.exchange is not None
            update = {
                kind: getattr(run.exchange, kind).model_copy(
                    update={"hidden": getattr(run.exchange, kind).hidden.model_copy(update={"value": 0.0})}
                )
                for kind in ("publish", "observe")
                if (result.cell.arm, f"hidden_{kind}") in fig13.WAITED
            }
            exchange = run.exchange.model_copy(update=update)
            results.append(result.model_copy(update={"measurement": run.model_copy(update={"exchange": exchange})}))
        pairs.append(replace(pair, results=tuple(results)))
    found._roles = {"city": pairs}
    return found


def test_what_an_arm_waits_for_is_recorded_but_not_drawn(cells: Cells) -> None:
    own = zeroed(cells)
    rows = fig13.rows(own)
    hidden = rows[rows["quantity"].isin(["hidden_publish", "hidden_observe"])]
    assert (hidden["value"] == 0).sum() == 2 * len(fig13.WAITED)
    right = drawn(fig13, own).axes[1]
    assert len(right.lines) == len(hidden) - 2 * len(fig13.WAITED)
    assert {line.get_label() for line in right.lines} == {
        "quality, observe", "predicted, publish", "predicted-random, publish",
    }  # fmt: skip


def test_a_zero_that_is_a_finding_is_drawn(cells: Cells) -> None:
    """predicted waits for no gradient on its way back: where none is hidden all the same, the mark stands at 0."""
    rows = fig13.rows(cells)
    place = (rows["arm"] == "predicted") & (rows["quantity"] == "hidden_publish")
    figure = fig13.draw(cells, rows.assign(value=rows["value"].where(~place, 0.0)))
    assert figure is not None
    at_zero = [line for line in figure.axes[1].lines if list(line.get_xdata()) == [0.0]]
    assert len([line for line in at_zero if line.get_label() == "predicted, publish"]) == 2


def stars(axes: Axes) -> list[Line2D]:
    return [line for line in axes.lines if line.get_marker() == "*"]


def test_fig_12_has_the_papers_number_beside_throughput(cells: Cells) -> None:
    frame = fig12.rows(cells)
    stated = frame[frame["paper"].notna()]
    assert list(stated["arm"]) == ["DDP + Odin (throughput)"] and list(stated["paper"]) == [7.6]
    assert set(frame["arm"]) == set(scaling.REGIMES.values()) and len(frame) == 12
    (axes,) = drawn(fig12, cells).axes
    (star,) = stars(axes)
    named = [text.get_text() for text in axes.get_yticklabels()]
    assert named[int(star.get_ydata()[0])] == "DDP + Odin (throughput)"


def test_fig_12_keeps_the_papers_star_where_throughput_failed(tmp_path: Path) -> None:
    own = Cells(smoke(tmp_path, "scaling"))
    own._roles = {
        "scaling": [
            replace(pair, results=tuple(r for r in pair.results if r.cell.arm != "throughput"))
            for pair in own.pairs("scaling")
        ]
    }
    (axes,) = drawn(fig12, own).axes
    (star,) = stars(axes)
    named = [text.get_text() for text in axes.get_yticklabels()]
    assert named[int(star.get_ydata()[0])] == "DDP + Odin (throughput)" and len(lines(axes.figure, "x")) == 2


def test_arms_of_a_device_are_regimes_too(cells: Cells) -> None:
    """There predicted is called predicted:audit=0:dispatch=static, and throughput does not run."""
    own = Cells(cells.root)
    switched = []
    for pair in own.pairs("scaling"):
        names = {arm: arm + ON_DEVICE if arm.startswith("predicted") else arm for arm in pair.sequence}
        results = tuple(
            r.model_copy(update={"cell": r.cell.model_copy(update={"arm": names[r.cell.arm]})})
            for r in pair.results
            if r.cell.arm != "throughput"
        )
        sequence = tuple(names[arm] for arm in pair.sequence if arm != "throughput")
        switched.append(replace(pair, results=results, sequence=sequence))
    own._roles = {"scaling": switched}
    frame = fig12.rows(own)
    assert list(frame.loc[frame["paper"].notna(), "arm"]) == ["DDP + Odin (predicted)"]
    assert not any("throughput" in arm for arm in frame["arm"]) and len(frame) == 10
    assert not lines(drawn(fig12, own), "x") and len(fig11.rows(own)) == 15


def test_operations_of_fig_16_can_be_told_apart(cells: Cells) -> None:
    left, right = drawn(fig16, cells).axes
    ticks = [tick.get_text() for tick in right.get_xticklabels()]
    assert ticks and all(text.replace(",", "").strip("0.") in ("1", "") for text in ticks)
    marks = [line for line in right.lines if line.get_linestyle() == "None" and len(line.get_ydata())]
    spots = [(x, y) for line in marks for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]
    rows = fig16.rows(cells)
    assert len({y for _, y in spots}) == len(spots) == (rows["quantity"] == "operation_ratio").sum()
    quality, predicted = (line for line in left.lines if line.get_label() in ("quality", "predicted"))
    assert quality.get_linewidth() > predicted.get_linewidth() and predicted.get_linestyle() == "--"
    assert quality.get_markerfacecolor() == "none"


@pytest.mark.parametrize("exhibit", [fig08, fig12], ids=lambda e: e.name)
def test_a_rerun_is_byte_identical_with_crosses(exhibit: Exhibit, lacking: Cells, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        make(exhibit, lacking, tmp_path / folder)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
