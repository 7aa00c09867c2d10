"""Pictures of recorded timelines: which bars, which steps, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from harness.measure.breakdown import breakdown
from harness.measure.timeline import steps_frame, timeline_frame, write_steps, write_timeline
from harness.report.gantt import Panel, draw_gantt
from harness.report.idle import draw_idle
from harness.report.timeline import timeline_report
from harness.store.schema import Result
from harness.store.store import STEPS, TIMELINE, CellStore
from odin.errors import InputError
from tests.store.samples import cell, measurement, provenance

RANKS, COUNT = 2, 12


def frames(structural: int = -1, audited: int = -1) -> tuple:
    """Every step: 4 ms forward, 2 ms backward, a wait of 1 ms skew (rank 0) and 2 ms transfer, 1 ms update."""
    rows: list[tuple] = []
    for step in range(COUNT):
        for rank in range(RANKS):
            at = 0.010 * step
            late = 0.001 * rank
            rows += [
                (rank, step, "phase", "project", "useful", at, at + 0.004 + late, np.nan),
                (rank, step, "phase", "blend_backward", "useful", at + 0.004 + late, at + 0.006 + late, np.nan),
                (rank, step, "wait", "rest", "wait", at + 0.006 + late, at + 0.009, at + 0.007),
                (rank, step, "collective", "rest", "link", at + 0.007, at + 0.009, at + 0.007),
                (rank, step, "phase", "audit" if step == audited else "update", "odin" if step == audited else "useful",
                 at + 0.009, at + 0.010, np.nan),
            ]  # fmt: skip
    names = ("rank", "step", "kind", "name", "category", "start", "end", "last_join")
    timeline = timeline_frame(dict(zip(names, zip(*rows, strict=True), strict=True)))
    steps = steps_frame(
        {
            "rank": [r for r in range(RANKS) for _ in range(COUNT)],
            "step": [s for _ in range(RANKS) for s in range(COUNT)],
            "start": [0.010 * s for _ in range(RANKS) for s in range(COUNT)],
            "end": [0.010 * (s + 1) for _ in range(RANKS) for s in range(COUNT)],
            "structural": [s == structural for _ in range(RANKS) for s in range(COUNT)],
            "loss": [0.1] * (RANKS * COUNT),
        }
    )
    return timeline, steps


def recorded(root: Path, arm: str, repeat: int = 0, **more: int) -> Path:
    """A cell with those frames in a store."""
    timeline, steps = frames(**more)
    parts = breakdown(timeline, steps)
    m = measurement(
        arm, breakdown=parts, steps=COUNT, images=4 * COUNT, step_times=(0.010,) * COUNT, losses=(0.1,) * COUNT,
        payload_bytes_per_step=(1,) * COUNT,
    )  # fmt: skip
    store = CellStore(root)
    result = Result.done(cell(arm, repeat), m, provenance())
    write_timeline(timeline, store.path(result.cell_id) / TIMELINE)
    write_steps(steps, store.path(result.cell_id) / STEPS)
    store.write_result(result)
    return store.path(result.cell_id)


def test_bars_are_phases_and_the_two_parts_of_waits() -> None:
    timeline, _ = frames()
    panel = Panel(name="x", ranks=2, timeline=timeline, start=0.0, ends=(0.01, 0.02, 0.03), first=0, label="padded")
    (axes,) = draw_gantt([panel]).axes
    drawn = {tuple(c.get_facecolor()[0]): len(c.get_paths()) for c in axes.collections}
    # forward, backward, update, transfer and link in every lane; skew of rank 0 alone
    assert sorted(len(c.get_paths()) for c in axes.collections) == [3] * 10
    assert len(drawn) == 6
    assert [t.get_text() for t in axes.get_yticklabels()] == ["0", "1", "link"]
    assert axes.get_xlim() == (0, 30)
    assert "padded" in axes.get_xlabel()


def test_idle_shares_are_those_of_the_breakdown() -> None:
    parts = breakdown(*frames())
    assert [100 * share for share in parts.idle_by_rank] == pytest.approx([30.0, 20.0])
    assert parts.idle_text == "25.0 % (20.0–30.0)"
    left, right = draw_idle([("barrier", parts), ("quality", parts)], "virtual").axes
    circles = [line for line in left.lines if line.get_marker() == "o"]
    assert [tuple(c.get_xdata()) for c in circles] == [pytest.approx((30.0, 20.0))] * 2
    assert any("hides 0 %" in t.get_text() for t in right.texts)
    assert all("virtual" in axes.get_xlabel() for axes in (left, right))


def test_a_store_is_drawn_arm_by_arm_and_a_rerun_is_byte_identical(tmp_path: Path) -> None:
    for arm, repeat in (("quality", 0), ("barrier", 0), ("quality", 1)):
        recorded(tmp_path, arm, repeat)
    one, two = (timeline_report([tmp_path], out=tmp_path / name) for name in ("one", "two"))
    assert [p.name for p in one] == [
        "timeline.pdf", "timeline.png", "timeline_caption.txt", "idle.pdf", "idle.png", "idle_caption.txt"
    ]  # fmt: skip
    assert [p.read_bytes() for p in one] == [p.read_bytes() for p in two]
    assert "steps 6 to 8" in one[2].read_text() and "padded:" in one[2].read_text()


def test_events_and_audits_are_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **_: Path(path).touch())  # captions are enough here
    folder = recorded(tmp_path, "barrier", structural=6)
    assert "steps 8 to 10" in timeline_report([folder], out=tmp_path / "a")[2].read_text()
    folder = recorded(tmp_path, "predicted", audited=7)
    assert "steps 9 to 11" not in timeline_report([folder], out=tmp_path / "b")[2].read_text()
    assert "steps 1 to 3" in timeline_report([folder], out=tmp_path / "c", first=1)[2].read_text()


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    folder = recorded(tmp_path, "barrier")
    with pytest.raises(InputError, match="no steps 40 to 42"):
        timeline_report([folder], first=40)
    with pytest.raises(InputError, match="not the folder of a finished cell"):
        timeline_report([folder, tmp_path / "nothing"])
    with pytest.raises(InputError, match="holds no records"):
        timeline_report([tmp_path / "nothing"])
