"""Meetings of ranks: done once, done together, and ended when a rank is lost."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import torch

from odin.errors import RunError
from odin.shared import Meeting, SharedTable
from odin.shared.meeting import part_of
from odin.table import ParameterTable
from tests.odin.toy import LAYOUT


def on_threads(ranks: int, main) -> list:
    results: list = [None] * ranks

    def call(rank: int) -> None:
        try:
            results[rank] = main(rank)
        except Exception as error:
            results[rank] = error

    threads = [threading.Thread(target=call, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_once_is_once_and_the_same_object_for_all(ranks: int) -> None:
    meeting, computed = Meeting(ranks), []

    def main(rank: int) -> list[int]:
        def compute(k: int) -> object:
            computed.append(k)
            return object()

        return [id(meeting.once(rank, lambda k=k: compute(k))) for k in range(20)]

    results = on_threads(ranks, main)
    assert sorted(computed) == list(range(20))
    assert all(r == results[0] for r in results)
    assert not meeting._made


def test_nobody_goes_on_before_all_parts_are_done() -> None:
    meeting, done = Meeting(3), []

    def main(rank: int) -> int:
        def task() -> None:
            time.sleep(0.01 * rank)
            done.append(rank)

        meeting.together(task)
        return len(done)

    assert on_threads(3, main) == [3, 3, 3]


@pytest.mark.parametrize("way", ["once", "together"])
def test_a_lost_rank_ends_the_others(way: str) -> None:
    meeting = Meeting(3)

    def main(rank: int) -> None:
        if rank == 0:
            meeting.abort()
            raise ValueError("lost")
        if way == "together":
            meeting.together(lambda: None)
        time.sleep(0.05 * (rank == 1))
        meeting.once(rank, lambda: None if rank != 2 else meeting._gate.wait())

    results = on_threads(3, main)
    assert isinstance(results[0], ValueError)
    assert any(isinstance(r, RunError) for r in results[1:])


@pytest.mark.parametrize(("count", "ranks"), [(0, 3), (2, 3), (7, 3), (64, 8)])
def test_parts_cover_everything_once(count: int, ranks: int) -> None:
    things = list(range(count))
    assert [x for rank in range(ranks) for x in things[part_of(count, rank, ranks)]] == things


def test_an_event_that_leaves_replicas_unequal_is_refused() -> None:
    table = ParameterTable(torch.zeros((4, LAYOUT.columns)), LAYOUT)
    meeting = Meeting(2)
    views = SharedTable.views(table, meeting)

    def event(rank: int) -> None:
        view = views[rank]
        view.part()
        view.parameters[0, 0] = rank
        try:
            view.join()
        except RunError:
            meeting.abort()
            raise

    stopped, refused = on_threads(2, event)
    assert isinstance(stopped, RunError) and "Another rank" in str(stopped)
    assert isinstance(refused, RunError) and "rank 1" in str(refused)


def test_after_an_event_there_is_one_table_again() -> None:
    table = ParameterTable(torch.zeros((4, LAYOUT.columns)), LAYOUT)
    meeting = Meeting(3)
    views = SharedTable.views(table, meeting)

    def event(rank: int) -> None:
        view = views[rank]
        view.keep_evidence()
        view.part()
        grown = torch.ones((6, LAYOUT.columns))
        view.replace(grown, grown.clone(), grown.clone(), np.arange(6) - 2)
        view.join()

    assert on_threads(3, event) == [None] * 3
    assert len({v.parameters.data_ptr() for v in views}) == 1
    assert all(v.moments is views[0].moments and v.evidence is views[0].evidence for v in views)
    assert len(views[2]) == 6
