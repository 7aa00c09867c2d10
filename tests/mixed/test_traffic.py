"""Where rows lie on their way, against plain loops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.run.together import run_threads
from odin.bound import adam_bound
from odin.comm.link import UNSHAPED
from odin.keeper import Keeper
from odin.mixed.bands import whole_views
from odin.mixed.owners import Owners
from odin.mixed.traffic import Inbox, Outbox, Traffic, with_ids
from odin.rows import ADAM, Moments, Rows, Update, apply_gradient
from pipelines.reference.threedgs import LAYOUT


@dataclass
class Sent:
    """Rows of a view at an owner; the one column of a projected row says owner, part, view and row."""

    view: int
    rows: np.ndarray
    projected: torch.Tensor


def observed(rng: np.random.Generator, ranks: int, units: int, parts: int) -> list:
    """[part][owner][view], disjoint rows of each owner's view in ascending order over the parts."""
    found: list = [[[] for _ in range(ranks)] for _ in range(parts)]
    for owner in range(ranks):
        for view in range(ranks * units):
            which = rng.integers(0, parts + 1, 7)  # parts: not read at all
            for part in range(parts):
                rows = np.flatnonzero(which == part).astype(np.int32)
                tag = torch.tensor(rows + 100.0 * owner + 10_000.0 * view)[:, None].float()
                found[part][owner].append(Sent(view, rows, tag))
    return found


def tagged(ids: np.ndarray, one: Sent) -> list[tuple[int, float]]:
    """(global id, tag) of the rows of a view at an owner."""
    return list(zip(ids[one.rows].tolist(), one.projected[:, 0].tolist(), strict=True))


@settings(deadline=None)
@given(seed=st.integers(0, 1000), ranks=st.integers(1, 4), units=st.integers(1, 3), parts=st.integers(1, 2))
def test_rows_reach_their_view_in_order_and_gradients_their_rows(seed: int, ranks: int, units: int, parts: int) -> None:
    sent = observed(np.random.default_rng(seed), ranks, units, parts)
    counts = np.array([[[len(one.rows) for one in views] for views in owners] for owners in sent])
    traffic = Traffic(counts=counts, starts=whole_views(ranks, units).starts)
    # Owners hold adjacent places, or interleaved ones.
    ids = np.arange(7 * ranks, dtype=np.int32).reshape(7, ranks).T if seed % 2 else np.arange(7 * ranks, dtype=np.int32)
    ids = np.ascontiguousarray(ids.reshape(ranks, 7))
    returned = []
    for rank in range(ranks):
        inbox = Inbox(traffic=traffic, rank=rank)
        own = range(rank * units, (rank + 1) * units)
        for part in range(parts):
            received = [with_ids([(sent[part][o][v], None) for v in own], ids[o], 1) for o in range(ranks)]
            assert [len(rows) for rows in received] == traffic.sizes(part)[:, rank].tolist()
            inbox.parts.append(torch.cat(received))
        back = torch.full((inbox.returning, 1), -1.0)
        for position, view in enumerate(own):
            rows, places = inbox.task(position)
            every = [(i, t) for part in sent for o in range(ranks) for i, t in tagged(ids[o], part[o][view])]
            assert rows[:, 0].tolist() == [tag for _, tag in sorted(every)], "not in ascending global id"
            back[torch.from_numpy(places)] = rows
        assert (back >= 0).all()
        returned.append(back)
    sizes = traffic.returning()
    for owner in range(ranks):
        starts = [int(sizes[rank, :owner].sum()) for rank in range(ranks)]
        gradient = torch.cat(
            [b[s : s + sizes[r, owner]] for r, (b, s) in enumerate(zip(returned, starts, strict=True))]
        )
        outbox = Outbox(traffic, owner)
        for part in range(parts):
            for view in range(ranks * units):
                assert torch.equal(gradient[outbox.slice(part, view)], sent[part][owner][view].projected)


def test_owners_collect_rows_of_unequal_number() -> None:
    def rank(transport: object) -> list:
        owners = Owners(transport, Keeper())
        rows = torch.full((transport.rank * 2, 3), float(transport.rank))
        return owners.gather_rows(rows)[:, 0].tolist()

    assert run_threads(3, UNSHAPED, rank) == [[1.0] * 2 + [2.0] * 4] * 3


@pytest.mark.parametrize("batch", [1, 4, 16, 64])
def test_the_bound_holds_for_scaled_constants(batch: int) -> None:
    adam = ADAM.for_batch(batch)
    rng, state = np.random.default_rng(batch), Moments(**{k: np.zeros((40, 59), np.float32) for k in "pmv"})
    rows = Rows(ids=np.arange(40, dtype=np.int32), layout=LAYOUT, lo=0, hi=2)
    offsets = np.stack([np.arange(40) * 59, np.arange(40) * 59 + 11]).astype(np.int64)
    for t in range(1, 60):
        before = state.p.copy()
        growth = (adam.beta1 / adam.beta2) ** -t  # the worst case grows like this
        gradient = (rng.choice([1.0, growth], (40, 59)) * 1e-3).astype(np.float32).reshape(-1)
        if not np.isfinite(gradient).all() or growth > 1e15:
            break
        update = Update(t=t, lr=np.full(59, 1e-2), scale=1.0, adam=adam)
        apply_gradient(state, update, rows, gradient, offsets)
        moved = np.abs(state.p - before).max()
        assert moved <= 1e-2 * adam_bound(t, adam.beta1, adam.beta2) * 1.001 + 1e-7
