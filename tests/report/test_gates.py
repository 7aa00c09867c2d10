"""Every gate is seen to fail on a pair it must refuse, and to pass the others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from harness.report.gates import MEASUREMENT_GATES, PAYLOAD_DRIFT, RECORD_GATES, Pair, failures, judge
from harness.store.schema import Cell, Label, Primitives, Result, Seeds
from tests.report.test_reduction import summed
from tests.store.samples import SEQUENCE, cell, measurement, provenance, quality, result, sequence


def pair(arm: str = "quality", changed: Result | None = None, results: list[Result] | None = None) -> Pair:
    """An arm of the sequence beside the baseline, with one record replaced."""
    cells = results or sequence()
    if changed is not None:
        place = (changed.cell.arm, changed.cell.repeat)
        cells = [changed if (r.cell.arm, r.cell.repeat) == place else r for r in cells]
    of = {name: tuple(r for r in cells if r.cell.arm == name) for name in set(SEQUENCE)}
    reference = tuple(r.measurement for r in of["barrier-planned"] if r.measurement)
    return Pair(baseline=of["barrier"], arm=of[arm], expected=(2, 2), reference=reference)


def other(label: Label = Label.PADDED, manifest: str = "5c" * 32, seed: int = 1, **origin: Any) -> Result:
    """The second run of `quality` in another setting."""
    made = cell("quality", 1, label=label, manifest=manifest, seeds=Seeds(run=seed, jitter=1))
    changes = {} if label is Label.PADDED else {"padding_scale": None}
    return Result.done(made, measurement("quality", **changes), provenance(**origin))


def on_device(arm: str, repeat: int, device: str) -> Cell:
    """A cell whose configuration names a device."""
    plain = cell(arm, repeat)
    engine = {"engine": {"device": device}}
    return cell(arm, repeat, config={**plain.config, **engine}, identity={**plain.identity, **engine})


@pytest.mark.parametrize("arm", sorted(set(SEQUENCE)))
def test_a_sound_sequence_passes_every_gate(arm: str) -> None:
    outcomes = judge(pair(arm))
    assert [o.gate for o in outcomes] == [g.name for g in (*RECORD_GATES, *MEASUREMENT_GATES)]
    assert all(o.passed and o.detail for o in outcomes)
    assert failures(outcomes) == ""


AN_HOUR_AGO = provenance().started - timedelta(hours=1)

BROKEN: list[tuple[str, Result, str]] = [
    ("complete", Result.failed(cell("quality", 1), "rank 1 was killed", provenance()), "rank 1 was killed"),
    ("complete", Result.failed(cell("barrier", 0), "no space", provenance()), "barrier run 0 failed: no space"),
    ("complete", Result.skipped(cell("quality", 0), "left out", provenance()), "quality run 0 skipped: left out"),
    ("one setting", other(label=Label.SHAPED), "label differs: padded / shaped"),
    ("one setting", other(manifest="aa"), "scene differs"),
    ("one setting", other(seed=2), "seed differs: 1 / 2"),
    ("one setting", other(hostname="node2"), "machine differs"),
    ("one setting", other(code_version="other"), "code version differs: feedc0de12345678 / other"),
    ("one setting", result("quality", 1, padding_scale=2.0), "padding scale differs: 1.5 / 2.0"),
    ("one setting", result("quality", 1, profile="none"), "profile differs"),
    ("one setting", summed("quality", 1, "ordered", ranks=2), "reduction differs: native / ordered"),
    ("one run", other(started=AN_HOUR_AGO, ended=AN_HOUR_AGO), "quality run 1 was recorded before quality run 0"),
    ("equal images", result("quality", 1, images=32, global_batch=8), "16 / 32 images"),
    ("equal payload", result("quality", 1, payload_bytes_per_step=(1, 1, 1, 1)), "4 to 944000 bytes"),
    ("quality band", result("quality", 1, quality_final=quality(19.0)), "differs from the baseline by -1.10 dB"),
    ("overrun", result("barrier", 1, overrun_share=0.02), "barrier run 1 overran its padding in 2.0 % of steps"),
    ("bit-identity", result("quality", 1, final_digest="de" * 32), "differs from barrier-planned's"),
]


@pytest.mark.parametrize(
    ("gate", "changed", "reason"), BROKEN, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_gate_refuses(gate: str, changed: Result, reason: str) -> None:
    failed = {o.gate: o.detail for o in judge(pair(changed=changed)) if not o.passed}
    assert reason in failed[gate]
    assert f"{gate}: " in failures(judge(pair(changed=changed)))


def test_every_gate_has_been_seen_to_refuse() -> None:
    assert {g.name for g in (*RECORD_GATES, *MEASUREMENT_GATES)} == {gate for gate, *_ in BROKEN} | {"distinct cells"}


def test_a_missing_cell_is_incomplete() -> None:
    cells = [r for r in sequence() if (r.cell.arm, r.cell.repeat) != ("quality", 1)]
    outcomes = judge(pair(results=cells))
    assert failures(outcomes) == "complete: 1 of 2 runs of the arm are recorded"
    assert len(outcomes) == len(RECORD_GATES)


def test_a_cell_is_not_counted_twice() -> None:
    cells = [r for r in sequence() if (r.cell.arm, r.cell.repeat) != ("quality", 1)]
    assert "distinct cells: counted twice: cell" in failures(judge(pair(results=[*cells, result("quality", 0)])))
    twin = Result.done(cell("quality", 0), measurement("quality"), provenance(code_version="x"))
    assert "counted twice: quality run 0" in failures(judge(pair(results=[*cells, twin])))


def test_payload_may_drift_only_where_densification_has_run() -> None:
    grown = Primitives(initial=1000, final=1020)
    bytes_later = (236_000, 236_000, 240_000, 240_000)
    drifted = result("quality", 1, payload_bytes_per_step=bytes_later, primitives=grown)
    assert failures(judge(pair(changed=drifted))) == ""
    other_start = result("quality", 1, payload_bytes_per_step=(236_004, *bytes_later[1:]), primitives=grown)
    assert "equal payload" in failures(judge(pair(changed=other_start)))
    doubled = (236_000, *[int(236_000 * (1 + 2 * PAYLOAD_DRIFT))] * 3)
    assert "equal payload" in failures(judge(pair(changed=result(
        "quality", 1, payload_bytes_per_step=doubled, primitives=grown))))  # fmt: skip


def test_gates_that_cannot_be_judged_pass() -> None:
    no_views = [result(r.cell.arm, r.cell.repeat, views=0) for r in sequence()]
    assert failures(judge(pair(results=no_views))) == ""
    # A GPU's atomics change the last bits; there an exact arm is not held to bit-identity.
    on_gpu = [
        Result.done(
            on_device(r.cell.arm, r.cell.repeat, "cuda"),
            measurement(r.cell.arm, final_digest=f"{k:064x}"),
            provenance(gpu="A100"),
        )
        for k, r in enumerate(sequence())
    ]
    assert failures(judge(pair(results=on_gpu))) == ""
    # `predicted` is not an exact arm.
    assert failures(judge(pair("predicted", result("predicted", 1, final_digest="de" * 32)))) == ""


def test_virtual_cells_may_be_of_several_runs() -> None:
    """Nothing was timed; a pair on that engine is completed cell by cell."""
    virtual = [
        Result.done(
            cell(r.cell.arm, r.cell.repeat, label=Label.VIRTUAL),
            measurement(r.cell.arm, padding_scale=None),
            provenance(started=AN_HOUR_AGO) if r.cell.repeat else provenance(),
        )
        for r in sequence()
    ]
    assert failures(judge(pair(results=virtual))) == ""


@pytest.mark.parametrize(("device", "judged"), [("cpu", True), ("cuda", False)])
def test_bits_are_judged_wherever_no_gpu_computed_them(device: str, judged: bool) -> None:
    """That the machine has one does not matter."""
    records = [
        Result.done(
            on_device(r.cell.arm, r.cell.repeat, device),
            measurement(r.cell.arm, **({"final_digest": "de" * 32} if r.cell.arm == "quality" else {})),
            provenance(gpu="NVIDIA H200"),
        )
        for r in sequence()
    ]
    assert ("bit-identity" in failures(judge(pair(results=records)))) is judged
