"""A result is complete and consistent, or it cannot be built."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.store.provenance import Provenance, Slurm, collect_provenance, now
from harness.store.schema import Cell, Label, Link, Measurement, Result, Status, Windows

from .samples import breakdown, cell, measurement, provenance, quality, result


@pytest.mark.parametrize(
    "changes",
    [
        {"step_times": (0.3,) * 3},
        {"step_times": (0.1,) * 4},
        {"step_times": (0.3, 0.3, 0.3, math.nan)},
        {"step_times": (0.6, 0.6, 0.0, 0.0)},
        {"losses": (0.4, math.inf, 0.2, 0.1)},
        {"losses": (0.4,)},
        {"payload_bytes_per_step": (1, 2, 3)},
        {"payload_bytes_per_step": (1, 2, 3, -4)},
        {"images": 15},
        {"overrun_share": 1.1},
        {"structural_share": -0.1},
        {"windows": Windows(clear=3, partial=1, rejected={})},
        {"breakdown": breakdown((0.3, 0, 0, 0, 0, 0), steps=5)},
        {"quality_initial": quality(12.0, views=1)},
        {"final_digest": ""},
        {"padding_scale": 0.0},
    ],
)
def test_a_contradictory_measurement_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        measurement(**changes)


@pytest.mark.parametrize("name", sorted(Measurement.model_fields))
def test_no_field_of_a_measurement_may_be_missing(name: str) -> None:
    fields = dict(measurement())
    del fields[name]
    with pytest.raises(ValidationError, match=name):
        Measurement(**fields)


@pytest.mark.parametrize("model, sample", [(Provenance, provenance()), (Cell, cell()), (Result, result())])
def test_no_field_of_a_record_may_be_missing(model: Any, sample: Any) -> None:
    for name in set(model.model_fields) - {"schema_version"}:
        fields = dict(sample)
        del fields[name]
        with pytest.raises(ValidationError, match=name):
            model(**fields)


@pytest.mark.parametrize(
    "changes",
    [
        {"git_sha": "0123abc"},
        {"git_sha": "unknown", "dirty": False},
        {"ended": datetime(2029, 1, 1, tzinfo=UTC)},
        {"started": datetime(2030, 1, 1)},
        {"cores": 0},
        {"code_version": ""},
    ],
)
def test_a_contradictory_provenance_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        provenance(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"repeat": 2},
        {"arm": "throughput"},
        {"identity": {"seed": 1}},
        {"identity": {"arm": "barrier", "repeat": 0, "seed": 2}},
        {"identity": {"arm": "barrier", "repeat": 0, "scene": {"name": "orbit"}}},
        {"config": {"arm": "barrier", "repeat": 0, "rate": math.nan}},
        {"label": "guessed"},
    ],
)
def test_a_contradictory_cell_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        cell(**changes)


LINK = Link(name="l", beta=1.0, alpha=0.0)


@pytest.mark.parametrize(
    "label, link, scale, fits",
    [
        (Label.MEASURED, None, None, True),
        (Label.MEASURED, LINK, None, False),
        (Label.MEASURED, None, 1.5, False),
        (Label.SHAPED, LINK, None, True),
        (Label.SHAPED, None, None, False),
        (Label.SHAPED, LINK, 1.5, False),
        (Label.PADDED, LINK, 1.5, True),
        (Label.PADDED, LINK, None, False),
        (Label.VIRTUAL, LINK, None, True),
    ],
)
def test_the_label_agrees_with_what_was_emulated(label: Label, link: Any, scale: Any, fits: bool) -> None:
    made = measurement(link=link, padding_scale=scale)
    if fits:
        assert Result.done(cell(label=label), made, provenance()).cell.label is label
    else:
        with pytest.raises(ValidationError, match="label"):
            Result.done(cell(label=label), made, provenance())


def test_done_failed_and_skipped_hold_what_they_need() -> None:
    failed = Result.failed(cell(), "rank 1 was killed", provenance())
    assert (failed.status, failed.reason, failed.measurement) == (Status.FAILED, "rank 1 was killed", None)
    assert Result.skipped(cell(), "left out", provenance()).status is Status.SKIPPED
    with pytest.raises(ValidationError):
        Result.failed(cell(), "", provenance())
    for status, reason, made in (
        (Status.DONE, None, None),
        (Status.DONE, "but", measurement()),
        (Status.FAILED, None, None),
        (Status.FAILED, "why", measurement()),
    ):
        with pytest.raises(ValidationError, match="needs"):
            Result(**(dict(failed) | {"status": status, "reason": reason, "measurement": made}))


def test_an_id_that_does_not_follow_from_the_content_is_refused() -> None:
    fields = dict(result())
    with pytest.raises(ValidationError, match="does not follow"):
        Result(**(fields | {"cell_id": "0" * 16 + "-" + "0" * 8}))
    with pytest.raises(ValidationError, match="does not follow"):
        Result(**(fields | {"provenance": provenance(code_version="other")}))
    with pytest.raises(ValidationError, match="schema_version"):
        Result(**(fields | {"schema_version": 1}))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(1e-4, 1e3), min_size=4, max_size=4), st.floats(5.0, 60.0))
def test_a_record_survives_json_exactly(times: list[float], psnr: float) -> None:
    step = math.fsum(times) / 4
    parts = breakdown((step, 0.0, 0.0, 0.0, 0.0, 0.0))
    made = result(step_times=tuple(times), breakdown=parts, quality_final=quality(psnr), losses=tuple(times))
    assert Result.model_validate_json(made.model_dump_json()) == made


def test_one_provenance_serves_all_cells_of_a_run() -> None:
    later = datetime(2031, 1, 1, tzinfo=UTC)
    assert provenance().spanning(later, later) == provenance(started=later, ended=later)
    with pytest.raises(ValidationError, match="before it started"):
        provenance().spanning(later, datetime(2030, 1, 1, tzinfo=UTC))


def test_this_machine_has_a_provenance(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)
    plain = collect_provenance(started=now())
    assert plain.slurm is None and plain.cores > 0 and plain.memory > 2**20 and plain.versions.torch
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    assert collect_provenance(started=now()).slurm == Slurm(job="17", nodes="n[1-2]", tasks="unknown")


def test_a_record_of_earlier_code_has_not_been_retimed() -> None:
    """Files that were written before cells were re-timed are read; in a file of today's form nothing else may lack."""
    written = json.loads(result().model_dump_json())
    assert written["measurement"].pop("jitter") is None
    read = Result.model_validate_json(json.dumps(written))
    assert read == result() and read.measurement.jitter is None
    del written["measurement"]["memory"]
    with pytest.raises(ValidationError, match="memory"):
        Result.model_validate_json(json.dumps(written))
