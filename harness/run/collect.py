"""From what the ranks saw to frames, a measurement and a record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import pandas as pd
from pydantic import JsonValue

from harness.config import Cell, Config, expand, identity, resolved
from harness.measure.breakdown import breakdown
from harness.measure.exchange import exchange_of
from harness.measure.quality import Lpips, Protocol, Quality, lpips_quality, view_quality
from harness.measure.timeline import step_losses, step_seconds, steps_frame, timeline_frame
from harness.run.execute import Executed
from harness.run.fork_pin import fork_pin
from harness.run.warmup import Calibration
from harness.run.workload import Workload
from harness.store import schema
from harness.store.identity import workload_id
from harness.store.provenance import Provenance
from odin.audit import AuditRecord
from odin.errors import RunError
from odin.memory import Memory
from odin.publication import Window, WindowState


def rank_timeline(executed: Executed, rank: int) -> pd.DataFrame:
    """This rank's timeline, seconds since `executed.origin`."""
    entries, origin = executed.entries, executed.origin
    return timeline_frame(
        {
            "rank": [rank] * len(entries),
            "step": [e.step for e in entries],
            "kind": [e.kind for e in entries],
            "name": [e.name for e in entries],
            "category": [e.category for e in entries],
            "start": [e.start - origin for e in entries],
            "end": [e.end - origin for e in entries],
            "last_join": [e.last_join - origin for e in entries],
            "bytes": [e.nbytes for e in entries],
            "work_rows": [e.work.rows for e in entries],
            "work_entries": [e.work.entries for e in entries],
            "work_fragments": [e.work.fragments for e in entries],
            "work_pixels": [e.work.pixels for e in entries],
        }
    )


def rank_steps(executed: Executed, rank: int) -> pd.DataFrame:
    """This rank's steps, seconds since `executed.origin`."""
    records, origin = executed.records, executed.origin
    return steps_frame(
        {
            "rank": [rank] * len(records),
            "step": [r.step for r in records],
            "start": [r.start - origin for r in records],
            "end": [r.end - origin for r in records],
            "structural": [r.structural for r in records],
            "loss": [r.loss for r in records],
        }
    )


def quality_of(renders: Mapping[str, np.ndarray], workload: Workload, *, with_ssim: bool) -> Quality:
    """Quality of rendered test views against their photographs."""
    photos, protocol = _photos(workload), _protocol(workload)
    views = [view_quality(n, image, photos[n], with_ssim=with_ssim, protocol=protocol) for n, image in renders.items()]
    return Quality.of(views, protocol)


def lpips_of(renders: Mapping[str, np.ndarray], workload: Workload) -> Lpips:
    """LPIPS of rendered test views, or the state that says why there is none."""
    photos, protocol = _photos(workload), _protocol(workload)
    return lpips_quality([(image, photos[name]) for name, image in renders.items()], protocol=protocol)


def _protocol(workload: Workload) -> Protocol:
    return cast(Protocol, workload.config.study.protocol)  # checked where the configuration is built


def _photos(workload: Workload) -> dict[str, np.ndarray]:
    capture = workload.capture
    return {capture.cameras[i].name: capture.images[i] for i in capture.test}


def window_counts(windows: list[Window]) -> schema.Windows:
    """Clear, partial, and rejected by reason."""
    states = Counter(w.state for w in windows)
    rejected = Counter(w.reason for w in windows if w.state is WindowState.REJECTED)
    opened = [w for w in windows if w.state is not WindowState.REJECTED]
    compared = [(w.hazards, w.rows) for w in windows if w.hazards is not None]
    return schema.Windows(
        clear=states[WindowState.CLEAR],
        partial=states[WindowState.PARTIAL],
        rejected=dict(sorted(rejected.items())),
        waited=_mean([w.waited_rows / w.rows for w in opened]),
        delayed=_mean([w.delayed_rows / w.rows for w in opened]),
        written=_mean([w.write_rows / w.rows for w in opened]),
        raw=_mean([h.raw / rows for h, rows in compared]),
        waw=_mean([h.waw / rows for h, rows in compared]),
        war=_mean([h.war / rows for h, rows in compared]),
    )


LARGEST = 1e30  # error of an audit that a record holds


def _audit(a: AuditRecord) -> schema.Audit:
    """Errors are infinite where only the published gradient vanishes; a record holds finite numbers."""
    by_kind = {kind: min(error, LARGEST) for kind, error in a.by_kind.items()}
    return schema.Audit(step=a.step, error=min(a.error, LARGEST), by_kind=by_kind, pixel=a.pixel)


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None


def label_of(config: Config) -> schema.Label:
    """The evidence label that this configuration earns (D§1)."""
    engine, link = config.engine, config.link
    if config.faults:
        return schema.Label.DISTURBED
    if engine.virtual:
        return schema.Label.VIRTUAL
    if engine.padded:
        return schema.Label.PADDED
    shaped = link.shaped and engine.ranks > 1
    return schema.Label.SHAPED if shaped else schema.Label.MEASURED


def describe(cell: Cell, workload: Workload) -> schema.Cell:
    """The cell's identity as the record keeps it."""
    return described(cell, scene=workload.capture.name, manifest=workload.capture.manifest)


def described(cell: Cell, *, scene: str, manifest: str) -> schema.Cell:
    """The same of a scene by its name and manifest."""
    run: dict[str, JsonValue] = {"arm": cell.arm, "repeat": cell.repeat}
    settings = identity(cell.config)
    return schema.Cell(
        study=cell.config.study.name,
        pair=workload_id(settings, manifest, fork_pin(cell.config)),
        sequence=tuple(c.arm for c in expand(cell.config)),
        arm=cell.arm,
        repeat=cell.repeat,
        config={**resolved(cell.config), **run},
        identity={**settings, **run},
        scene=scene,
        manifest=manifest,
        label=label_of(cell.config),
        seeds=schema.Seeds(run=cell.config.seed, jitter=cell.repeat),
    )


def measure(
    workload: Workload,
    executed: Executed,
    timeline: pd.DataFrame,
    steps: pd.DataFrame,
    calibration: Calibration,
    *,
    late_steps: int,
    initial: Quality,
    renders: Mapping[str, np.ndarray],
    memory: schema.Memory | None = None,
    shards: Sequence[Memory] = (),
) -> schema.Measurement:
    """The measurement of a finished cell, from the frames of all ranks.

    late_steps: steps in which some rank was late at a join or a wait
    shards:     what owners of shards held, where there are any
    """
    config, plan = workload.config, executed.plan
    padded, link = config.engine.padded, calibration.link
    scale = calibration.stretch if padded else None
    return schema.Measurement(
        plan_digest=plan.digest(),
        ranks=plan.ranks,
        global_batch=plan.global_batch,
        images=plan.steps * plan.global_batch,
        steps=plan.steps,
        profile=calibration.name if padded or config.engine.virtual else "none",
        link=schema.Link(name=link.name, beta=link.beta, alpha=link.alpha) if link.shaped else None,
        padding_scale=scale,
        overrun_share=late_steps / plan.steps,
        payload_bytes_per_step=tuple(executed.payload),
        final_digest=executed.recipe.table.digest(),
        primitives=schema.Primitives(initial=executed.initial_rows, final=len(executed.recipe.table)),
        structural_share=sum(r.structural for r in executed.records) / plan.steps,
        quality_initial=initial,
        quality_final=quality_of(renders, workload, with_ssim=True),
        lpips=lpips_of(renders, workload),
        step_times=tuple(step_seconds(steps)),
        losses=tuple(step_losses(steps)),
        breakdown=breakdown(timeline, steps),
        windows=window_counts(executed.windows),
        audits=tuple(_audit(a) for a in executed.audits),
        memory=memory,
        retimed_from=None,
        exchange=exchange_of(timeline, steps, shards, executed.redistributions) if shards else None,
        jitter=None,
    )


def remeasure(
    source: schema.Result, executed: Executed, timeline: pd.DataFrame, steps: pd.DataFrame
) -> schema.Measurement:
    """The measurement of an arm that trains the bits of `source` and was only timed: what depends on time is its own.

    Raises RunError where the two are not of the same bits.
    """
    trained, plan = source.measurement, executed.plan
    losses = tuple(step_losses(steps))
    if trained is None or trained.plan_digest != plan.digest() or trained.losses != losses:
        raise RunError(
            f"Cell {source.cell_id} cannot be re-timed for another arm: it followed another plan or has other losses. "
            "This is an error of the harness; its cells were recorded up to here."
        )
    changes = {
        "payload_bytes_per_step": tuple(executed.payload),
        "step_times": tuple(step_seconds(steps)),
        "breakdown": breakdown(timeline, steps),
        "windows": window_counts(executed.windows),
        "retimed_from": source.cell_id,
        "memory": None,
        "jitter": None,
    }
    return schema.Measurement.model_validate(trained.model_copy(update=changes).model_dump())


def record(cell: Cell, workload: Workload, measurement: schema.Measurement, provenance: Provenance) -> schema.Result:
    """The finished cell's record."""
    return schema.Result.done(describe(cell, workload), measurement, provenance)
