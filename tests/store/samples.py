"""Records made up for tests: plausible, complete, and changed by keyword."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from harness.measure.breakdown import Breakdown
from harness.measure.quality import Lpips, Quality, ViewQuality
from harness.store.provenance import Provenance, Versions
from harness.store.record import Reading
from harness.store.schema import Cell, Label, Link, Measurement, Primitives, Result, Seeds, Windows

STEPS = 4
ARMS = ("barrier", "barrier-planned", "quality", "predicted")
SEQUENCE = (*ARMS, *reversed(ARMS))

# useful, transfer, skew, odin, structural, other: s per step
PARTS: dict[str, tuple[float, ...]] = {
    "barrier": (0.200, 0.085, 0.012, 0.0, 0.002, 0.001),
    "barrier-planned": (0.200, 0.084, 0.010, 0.001, 0.002, 0.001),
    "quality": (0.201, 0.021, 0.006, 0.009, 0.002, 0.001),
    "predicted": (0.202, 0.001, 0.004, 0.006, 0.002, 0.001),
    "quality-random": (0.201, 0.024, 0.008, 0.009, 0.002, 0.001),
}
PSNR = {"barrier": 21.3, "barrier-planned": 21.4, "quality": 21.4, "predicted": 21.39, "quality-random": 21.3}


def breakdown(parts: tuple[float, ...], factor: float = 1.0, steps: int = STEPS, ranks: int = 2) -> Breakdown:
    """Equal ranks."""
    useful, transfer, skew, odin, structural, other = (factor * part for part in parts)
    return Breakdown(
        ranks=ranks,
        steps=steps,
        step=useful + transfer + skew + odin + structural + other,
        useful=useful,
        transfer=transfer,
        skew=skew,
        odin=odin,
        structural=structural,
        other=other,
        wait_by_rank=(transfer + skew,) * ranks,
        useful_by_rank=(useful,) * ranks,
        hideable=Reading.of(0.99),
    )


def quality(psnr: float, views: int = 2) -> Quality:
    """Views around a PSNR."""
    return Quality.of(
        [ViewQuality(view=f"v{k}.png", psnr=psnr + 0.1 * k, ssim=Reading.of(0.7 + 0.01 * k)) for k in range(views)]
    )


def measurement(
    arm: str = "barrier", factor: float = 1.0, views: int = 2, ranks: int = 2, **changes: Any
) -> Measurement:
    """A finished cell's numbers, `factor` times as slow as usual."""
    parts = breakdown(PARTS[arm], factor, ranks=ranks)
    values: dict[str, Any] = {
        "plan_digest": "0f" * 8,
        "ranks": ranks,
        "global_batch": 4,
        "images": 4 * STEPS,
        "steps": STEPS,
        "profile": "host-cpu@12ab34cd",
        "link": Link(name="exposed-295", beta=1.2e8, alpha=0.0),
        "padding_scale": 1.5,
        "overrun_share": 0.0,
        "payload_bytes_per_step": (236_000,) * STEPS,
        "final_digest": ("aa" if arm == "barrier" else "cc" if arm == "predicted" else "bb") * 32,
        "primitives": Primitives(initial=1000, final=1000),
        "structural_share": 0.0,
        "quality_initial": quality(12.0, views),
        "quality_final": quality(PSNR[arm], views),
        "lpips": Lpips(state="not computed: package lpips absent"),
        "step_times": (parts.step,) * STEPS,
        "losses": (0.4, 0.3, 0.2, 0.1),
        "breakdown": parts,
        "windows": Windows(clear=0, partial=2, rejected={"structural": 1}, waited=0.2, delayed=0.0, written=0.5),
        "audits": (),
        "retimed_from": None,
        "memory": None,
        "exchange": None,
        "jitter": None,
    }
    return Measurement(**(values | changes))


def provenance(**changes: Any) -> Provenance:
    """Of a machine that does not exist."""
    values: dict[str, Any] = {
        "git_sha": "0123456789abcdef0123456789abcdef01234567",
        "dirty": False,
        "code_version": "feedc0de12345678",
        "fork_pin": "none",
        "versions": Versions(python="3.11.7", torch="2.14.1", numba="0.68.1", numpy="2.4.6"),
        "hostname": "node1",
        "cpu": "Example CPU",
        "cores": 2,
        "memory": 24 * 2**30,
        "gpu": "none",
        "slurm": None,
        "started": datetime(2030, 1, 1, 12, 0, tzinfo=UTC),
        "ended": datetime(2030, 1, 1, 12, 5, tzinfo=UTC),
        "priority": "ordinary",
    }
    return Provenance(**(values | changes))


def cell(arm: str = "barrier", repeat: int = 0, **changes: Any) -> Cell:
    """One of the eight cells of a mirrored headline."""
    identity = {"arm": arm, "repeat": repeat, "scene": {"name": "rooms"}, "seed": 1}
    values: dict[str, Any] = {
        "study": "headline",
        "pair": "77aa88bb99cc00dd",
        "sequence": SEQUENCE,
        "arm": arm,
        "repeat": repeat,
        "config": {**identity, "scene": {"name": "rooms", "path": "/data/rooms"}},
        "identity": identity,
        "scene": "rooms",
        "manifest": "5c" * 32,
        "label": Label.PADDED,
        "seeds": Seeds(run=1, jitter=repeat),
    }
    return Cell(**(values | changes))


def result(arm: str = "barrier", repeat: int = 0, factor: float = 1.0, views: int = 2, **changes: Any) -> Result:
    """A done cell; `changes` go to its measurement."""
    return Result.done(cell(arm, repeat), measurement(arm, factor, views, **changes), provenance())


def sequence(**changes: Any) -> list[Result]:
    """All eight cells; the second run of every arm is 0.4 % slower."""
    return [result(arm, k, 1 + 0.004 * k, **changes) for k in (0, 1) for arm in ARMS]
