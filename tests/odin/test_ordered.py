"""Ordered sums on real gloo processes: rank order for every element, whatever the payload is cut into."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from odin.comm.link import Link
from odin.comm.ordered import _Scratch
from odin.comm.transport import Reduction
from tests.odin.processes import PATIENCE, Ranks, run_processes

SIZES = (1, 2, 7, 64, 100_003)
LARGE = SIZES[-1]
# The same payload as one collective and cut in two ways; pieces of any size, also below the number of ranks.
LAYOUTS = {"whole": (LARGE,), "halves": (50_000, 50_003), "odd": (1, 30, 77_777, 22_190, 5)}
SLOW = Link(name="slow", beta=4e6)


def payload(rank: int, size: int) -> torch.Tensor:
    """A rank's terms, float32, of 16 decades of magnitude: almost every order of adding them rounds differently."""
    rng = np.random.default_rng([rank, size])
    return torch.from_numpy((rng.normal(size=size) * 10.0 ** rng.uniform(-8, 8, size)).astype(np.float32))


def in_rank_order(ranks: int, size: int) -> torch.Tensor:
    total = payload(0, size)
    for rank in range(1, ranks):
        total = total + payload(rank, size)
    return total


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.numpy().tobytes()


def sums(here: Ranks) -> dict:
    """Every size and layout in both reductions, and int64 statistics."""
    found: dict = {}
    for reduction in Reduction:
        transport = here.transport(reduction.value, reduction)
        for size in SIZES:
            tensor = payload(here.rank, size)
            transport.all_reduce(tensor, time.monotonic()).wait()
            found[reduction.value, size] = tensor
        for layout, pieces in LAYOUTS.items():
            tensor = payload(here.rank, LARGE)
            handles = [transport.all_reduce(piece, time.monotonic()) for piece in tensor.split(pieces)]
            assert [handle.nbytes for handle in handles] == [4 * piece for piece in pieces]
            for handle in handles:
                handle.wait()
            found[reduction.value, layout] = tensor
        statistics = torch.arange(10).reshape(5, 2) + (here.rank << 40)
        transport.all_reduce(statistics, time.monotonic()).wait()
        found[reduction.value, "int64"] = statistics
        transport.close()
    return found


@pytest.fixture(scope="module", params=[2, 3, 4, 8])
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    return run_processes(request.param, sums, tmp_path_factory.mktemp(f"sums-{request.param}"))


@pytest.mark.parametrize("case", [*SIZES, *LAYOUTS])
def test_every_rank_has_the_sum_in_rank_order(results: list[dict], case: int | str) -> None:
    wanted = in_rank_order(len(results), case if isinstance(case, int) else LARGE)
    assert {bits(found["ordered", case]) for found in results} == {bits(wanted)}


def test_integers_of_any_shape_are_summed(results: list[dict]) -> None:
    ranks = len(results)
    wanted = torch.arange(10).reshape(5, 2) * ranks + (sum(range(ranks)) << 40)
    for found in results:
        assert torch.equal(found["ordered", "int64"], wanted)
        assert torch.equal(found["native", "int64"], wanted)


def test_native_sums_depend_on_the_layout_from_three_ranks_on(results: list[dict]) -> None:
    """What `ordered` is for. With two ranks there is one sum, and both reductions have it."""
    native = {layout: bits(results[0]["native", layout]) for layout in LAYOUTS}
    if len(results) == 2:
        assert set(native.values()) == {bits(results[0]["ordered", "whole"])}
    else:
        assert len(set(native.values())) == len(LAYOUTS)
        assert native["whole"] != bits(results[0]["ordered", "whole"])


def order(here: Ranks) -> dict:
    """A large and a small sum at once: who is there first, without and with a wait of the main thread."""
    transport = here.transport("order", Reduction.ORDERED, SLOW)
    large, small = payload(here.rank, LARGE), payload(here.rank, 7)
    first = transport.all_reduce(large, time.monotonic())
    second = transport.all_reduce(small, time.monotonic())
    second_arrival = second.wait()
    arrived = large.clone()
    first_arrival = first.wait()
    assert second.wait() == second_arrival
    alone = payload(here.rank, 64)
    handle = transport.all_reduce(alone, time.monotonic())
    wanted, deadline = in_rank_order(here.ranks, 64), time.monotonic() + PATIENCE
    while not torch.equal(alone, wanted) and time.monotonic() < deadline:
        time.sleep(0.005)  # progress is the thread's; nobody has waited
    assert torch.equal(alone, wanted)
    handle.wait()
    transport.close()
    times = [[a.joined, a.last_join, a.start, a.finish, a.real] for a in (first_arrival, second_arrival)]
    return {"large": arrived, "small": small, "times": torch.tensor(times, dtype=torch.float64)}


def test_sums_arrive_in_the_order_of_their_launch_on_the_emulated_link(tmp_path: Path) -> None:
    found = run_processes(3, order, tmp_path)
    for rank in found:
        assert torch.equal(rank["large"], in_rank_order(3, LARGE))
        assert torch.equal(rank["small"], in_rank_order(3, 7))
        (_, last_join, start, finish, _), (_, _, second_start, second_finish, _) = rank["times"].tolist()
        assert last_join == start == max(r["times"][0, 0].item() for r in found)
        assert finish - start == pytest.approx(SLOW.all_reduce_seconds(4 * LARGE, 3))
        assert second_start == finish and second_finish > finish
        assert torch.equal(rank["times"][:, 1:4], found[0]["times"][:, 1:4])


def failing(here: Ranks) -> dict:
    """A sum that gloo refuses, then one that it would not."""
    transport = here.transport("failing", Reduction.ORDERED)
    with pytest.raises(RuntimeError, match="view"):
        transport.all_reduce(torch.zeros(4, 4).t(), time.monotonic())
    transport.close()
    transport = here.transport("refused", Reduction.ORDERED)
    refused = transport.all_reduce(torch.zeros(6, dtype=torch.complex64), time.monotonic())
    later = transport.all_reduce(torch.zeros(6), time.monotonic())
    errors = []
    for handle in (refused, refused, later):
        with pytest.raises(RuntimeError) as caught:
            handle.wait()
        errors.append(caught.value)
    assert len({id(error) for error in errors}) == 1
    transport.close()
    return {"error": str(errors[0])}


def test_an_error_of_the_thread_is_raised_where_the_sum_is_waited_for(tmp_path: Path) -> None:
    for found in run_processes(3, failing, tmp_path):
        assert "scalar type" in found["error"]


def lost(here: Ranks) -> dict:
    """The last rank goes without joining; the others see it where they wait."""
    transport = here.transport("lost", Reduction.ORDERED)
    if here.rank == here.ranks - 1:
        torch.save({}, here.folder / f"result-{here.rank}.pt")
        os._exit(0)
    with pytest.raises(RuntimeError) as caught:
        transport.all_reduce(torch.zeros(100), time.monotonic()).wait()
    transport.close()
    torch.save({"error": str(caught.value)}, here.folder / f"result-{here.rank}.pt")
    os._exit(0)


def test_a_lost_rank_is_an_error_and_no_hang(tmp_path: Path) -> None:
    started = time.monotonic()
    found = run_processes(3, lost, tmp_path)
    assert all(rank["error"] for rank in found[:-1])
    assert time.monotonic() - started < PATIENCE


def test_the_buffer_grows_to_the_largest_payload_and_is_reused() -> None:
    scratch = _Scratch()
    large = scratch.of(torch.float32, 100)
    assert scratch.of(torch.float32, 7).data_ptr() == large.data_ptr()
    assert scratch.of(torch.int64, 50).data_ptr() == large.data_ptr()
    assert scratch.of(torch.int64, 51).shape == (51,)
