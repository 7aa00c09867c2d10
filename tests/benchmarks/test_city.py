"""The city benchmark on a very small city: nodes of two ranks, all arms, errors as sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import city
from odin.comm.link import ClusterLink
from odin.keeper import Work

TINY = ["scene=city?views=32&width=48&height=36&points=600", "test_every=0", "views_per_unit=1"]
NODES = ClusterLink(name="nodes", beta=2e9, per_node=2, across_alpha=1e-6, across_beta=1e8)


def price(phase: str, work: Work) -> float:
    return 1e-5 + 1e-7 * work.rows + 1e-8 * work.entries + 1e-9 * work.fragments + 1e-8 * work.pixels


def test_every_arm_has_a_line_and_predicted_hides_publish() -> None:
    workload = city.workload_of(TINY, 4, steps=8)
    found = city.lines(workload, city.Setting(price=price, link=NODES))
    assert [line["arm"] for line in found] == list(city.ARMS)
    assert all(list(line) == city.CSV_COLUMNS for line in found)
    by_arm = {line["arm"]: line for line in found}
    assert by_arm["barrier"]["speedup"] == 1.0
    assert by_arm["predicted"]["hidden_publish"] > 0.5 > by_arm["barrier-planned"]["hidden_publish"]
    assert by_arm["predicted"]["step_ms"] < by_arm["barrier-planned"]["step_ms"]
    assert by_arm["quality"]["hidden_observe"] > by_arm["barrier-planned"]["hidden_observe"]


def test_words_that_mean_nothing_are_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert city.main(["nonsense=3", "--ranks", "2", "--out", str(tmp_path / "x.csv")]) == 2
    assert "nonsense" in capsys.readouterr().err
    assert not (tmp_path / "x.csv").exists()
