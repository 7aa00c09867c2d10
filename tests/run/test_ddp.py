"""The arm `ddp` in real rank processes: the bits and bytes of `barrier`, in two buckets on the link, colours first."""

from __future__ import annotations

import json

import pytest

from harness.config import load
from harness.measure.timeline import read_timeline
from harness.store.store import TIMELINE, CellStore
from odin.errors import InputError
from tests.run.conftest import STEPS, Reproduced, results

COLOURS, GEOMETRY = 48 * 4, 11 * 4  # bytes of a row


def test_ddp_equals_barrier(plain: Reproduced) -> None:
    assert plain.code in (0, 1)
    got = results(plain.out)
    barrier, ddp = (got[arm].measurement for arm in ("barrier", "ddp"))
    assert ddp.final_digest == barrier.final_digest
    assert ddp.losses == barrier.losses
    assert ddp.payload_bytes_per_step == barrier.payload_bytes_per_step
    assert ddp.windows == barrier.windows
    assert ddp.primitives.final != ddp.primitives.initial  # wrapped anew on the way
    (densified,) = [step for step, sent in enumerate(ddp.payload_bytes_per_step) if not sent]
    timeline = read_timeline(CellStore(plain.out).path(got["ddp"].cell_id) / TIMELINE)
    sent = timeline[(timeline["kind"] == "collective") & (timeline["name"] != "statistics")]
    for rank, step in [(r, s) for r in range(2) for s in range(STEPS)]:
        one = sent[(sent["rank"] == rank) & (sent["step"] == step)].sort_values("start")
        rows = ddp.primitives.initial if step < densified else ddp.primitives.final
        expected = [("colours", COLOURS * rows), ("geometry", GEOMETRY * rows)] if step != densified else []
        assert list(zip(one["name"], one["bytes"], strict=True)) == expected
    joined = sent[sent["name"] == "colours"].groupby("step")["last_join"].first()
    ended = timeline[timeline["name"] == "projection_backward"].groupby("step")["end"].max()
    assert (joined < ended[joined.index]).all()


def test_a_padded_run_prices_what_ddp_adds(padded: Reproduced) -> None:
    assert padded.code in (0, 1)  # 1: this machine was too busy for its own padding
    got = results(padded.out)
    assert got["ddp"].measurement.final_digest == got["barrier"].measurement.final_digest
    (profile,) = (padded.out / "profiles").glob("host-cpu@*.json")
    text = json.loads(profile.read_text())
    assert {"ddp", "ddp_wrap"} <= text["profile"]["coefficients"].keys()
    assert "50-step" in text["profile"]["source"]


def test_one_rank_is_refused_before_anything_starts() -> None:
    with pytest.raises(InputError, match=r"ddp needs a process group.*ranks=2"):
        load(["arms=[barrier,ddp]", "ranks=1"])
