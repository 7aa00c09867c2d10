"""The board of cuts: ranks that cut a step differently stop before its first segment leaves."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from odin.arms import arm
from odin.comm.stamps import CutBoard
from odin.errors import RunError
from odin.keeper import Keeper
from odin.publication.layout import Cutting, lay_out
from odin.runtime import Runtime
from tests.odin.test_exactness import VIEWS, long_run
from tests.odin.test_layout import random_classes
from tests.odin.threads import run_ranks
from tests.odin.toy import ToyRecipe


def boards(tmp_path: Path, ranks: int, steps: int = 4) -> list[CutBoard]:
    """One board, opened by each rank."""
    path = tmp_path / "cuts"
    CutBoard.create(path, steps, ranks)
    return [CutBoard(path, steps, ranks) for _ in range(ranks)]


def test_ranks_that_cut_alike_agree(tmp_path: Path) -> None:
    ranks = boards(tmp_path, 3)
    for step, value in enumerate((0, 7, 2**31 - 1, 7)):
        for rank, board in enumerate(ranks):
            board.agree(step, rank, value)
    for rank, board in enumerate(ranks):
        board.agree(1, rank, 7)


def test_the_second_rank_names_both(tmp_path: Path) -> None:
    first, second = boards(tmp_path, 2)
    first.agree(2, 0, 0xAB)
    with pytest.raises(RunError) as raised:
        second.agree(2, 1, 0xAC)
    message = str(raised.value)
    assert "step 2" in message
    assert "rank 0: 000000ab, rank 1: 000000ac" in message
    assert "\n" not in message
    with pytest.raises(RunError, match="rank 0: 000000ab, rank 1: 000000ac"):
        first.agree(2, 0, 0xAB)  # whoever looks later sees it too
    first.agree(3, 0, 1)
    second.agree(3, 1, 1)


@pytest.mark.parametrize("odd", [0, 1, 2])
def test_one_of_three_differs(odd: int, tmp_path: Path) -> None:
    ranks = boards(tmp_path, 3)
    said = [9 if rank == odd else 8 for rank in range(3)]
    with pytest.raises(RunError, match="rank 0: 0000000"):
        for rank, board in enumerate(ranks):
            board.agree(0, rank, said[rank])


def test_a_cut_of_hash_zero_is_a_cut(tmp_path: Path) -> None:
    first, second = boards(tmp_path, 2)
    first.agree(0, 0, 0)
    with pytest.raises(RunError, match="rank 0: 00000000, rank 1: 00000001"):
        second.agree(0, 1, 1)


def test_real_cuts_that_differ_in_one_row_differ_on_the_board(tmp_path: Path) -> None:
    first, second = boards(tmp_path, 2)
    classes = random_classes(200, 2, 1)
    cutting = Cutting(unit=2, groups=2, split=True, early=20, lead=10)
    first.agree(0, 0, lay_out(classes, cutting).digest)
    classes.need[np.flatnonzero(classes.last != 255)[0]] ^= 1
    with pytest.raises(RunError, match="differently"):
        second.agree(0, 1, lay_out(classes, cutting).digest)


class OneRowMore(ToyRecipe):
    """A replica that has got something wrong: a view of step 5 may read a row that it may not elsewhere."""

    def scope(self, views, inflation):
        bits = super().scope(views, inflation)
        if self._published >= 3:
            bits[0, 0] ^= np.uint64(1)
        return bits


def test_a_replica_that_differs_stops_both_ranks_before_anything_is_sent(tmp_path: Path) -> None:
    plan, events = long_run()
    path = tmp_path / "cuts"
    CutBoard.create(path, plan.steps, 2)
    messages: list[str] = []

    def main(transport: object) -> None:
        board = CutBoard(path, plan.steps, 2)

        def agree(step: int, value: int) -> None:
            with suppress(RunError):
                board.agree(step, transport.rank, value)
            transport.barrier()  # both have said it, so that both must notice
            board.agree(step, transport.rank, value)

        transport.agree = agree
        recipe = (ToyRecipe, OneRowMore)[transport.rank](60, VIEWS, events)
        runtime = Runtime(recipe, plan, arm("quality"), transport, Keeper())
        try:
            runtime.run()
        except RunError as error:
            messages.append(str(error))
            assert runtime.keeper.step < 9

    _, exchange = run_ranks(2, main)
    assert len(messages) == 2
    assert messages[0] == messages[1]
    assert "rank 0: " in messages[0]
    assert "rank 1: " in messages[0]
    assert exchange.log[0] == exchange.log[1]
