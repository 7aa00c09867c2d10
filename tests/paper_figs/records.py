"""A folder with a record for every cell of the smoke scale and a table for every benchmark, made up for tests."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pandas as pd

from harness.config.resolve import identity_of
from harness.measure.breakdown import Breakdown
from harness.measure.quality import Quality, ViewQuality
from harness.measure.timeline import write_steps, write_timeline
from harness.store.exchange import Exchange, Transfer
from harness.store.identity import NONE, code_version, workload_id
from harness.store.record import Reading
from harness.store.schema import Jitter, Label, Link, Measurement, Primitives, Result, Seeds, Windows
from harness.store.store import STEPS, TIMELINE, CellStore
from harness.study.command import plan_study
from harness.study.plan import PlannedPair, StudyPlan
from harness.study.scale import load_scale
from odin.arms import Order
from odin.arms import arm as arm_named
from tests.measure.ring import steps_of, timeline
from tests.store import samples

# useful, transfer, skew, odin, structural: s per step; arms that are not here wait as much as `throughput`.
PARTS = {
    "barrier": (0.020, 0.0080, 0.0020, 0.0, 0.0004),
    "barrier-planned": (0.020, 0.0078, 0.0018, 0.0001, 0.0004),
    "paper-quality": (0.020, 0.0077, 0.0018, 0.0003, 0.0004),
    "quality:groups=off": (0.020, 0.0040, 0.0014, 0.0006, 0.0004),
    "quality": (0.020, 0.0022, 0.0012, 0.0006, 0.0004),
    "throughput": (0.020, 0.0016, 0.0010, 0.0007, 0.0004),
    "predicted": (0.020, 0.0002, 0.0006, 0.0008, 0.0004),
    "without-SAS": (0.020, 0.0078, 0.0018, 0.0002, 0.0004),
}


CODE = code_version()


def bits_of(arm: str) -> str:
    """What stands for the final state of an exact arm: that of waiting in the same order of views."""
    name = arm_named(arm).reference
    return "bb" if name == "barrier-planned" else hashlib.sha256(name.encode()).hexdigest()[:2]


def noise(*what: object) -> float:
    """A number in ±1 that depends on what it is of."""
    return int(hashlib.sha256(repr(what).encode()).hexdigest()[:8], 16) / 2**31 - 1


def smoke(root: Path, *studies: str, leave_out: int = 0) -> Path:
    """Records and tables of the smoke scale; studies: only these parts; leave_out: cells of each pair without one."""
    for part in load_scale("smoke").parts:
        if studies and part.name not in studies:
            continue
        if part.study:
            record(plan_study(part.study, [f"out={root}"]), leave_out)
        else:
            part.table(root).parent.mkdir(parents=True, exist_ok=True)
            TABLES[part.name]().to_csv(part.table(root), index=False)
            part.table(root).with_suffix(".json").write_text(json.dumps({"git_sha": "ab" * 20, "dirty": False}))
    return root


def record(plan: StudyPlan, leave_out: int = 0) -> None:
    """A record for every cell of a plan, and the manifests of its scenes."""
    plan.save()
    store = CellStore(plan.out)
    for pair in plan.pairs:
        manifest = hashlib.sha256(pair.scene.encode()).hexdigest()
        plan.keep_manifest(pair, manifest, pair.stamp())
        for index in range(len(pair.cells) - leave_out):
            made = result(pair, index, manifest)
            store.write_result(made)
            if plan.name.endswith("-timeline"):
                _write_frames(store.path(made.cell_id), made)


def _write_frames(folder: Path, made: Result) -> None:
    """The timeline of a cell, and its steps."""
    run = made.measurement
    assert run is not None
    frame = timeline(run.steps, run.ranks, late=1.0, overlapped=not made.cell.arm.startswith("barrier"))
    write_timeline(frame, folder / TIMELINE)
    write_steps(steps_of(run.steps, run.ranks), folder / STEPS)


def result(pair: PlannedPair, index: int, manifest: str) -> Result:
    """The record of a pair's index-th cell."""
    arm, repeat = pair.cells[index]
    run, settings = {"arm": arm, "repeat": repeat}, dict(pair.settings)
    virtual = settings["engine"]["name"] == "virtual"
    cell = samples.cell(
        arm,
        repeat,
        pair=workload_id(identity_of(settings), manifest, NONE),
        sequence=tuple(a for a, _ in pair.cells),
        config={**settings, **run},
        identity={**identity_of(settings), **run},
        scene=settings["scene"]["path"].replace("?", "-").replace("&", "-").replace("=", ""),
        manifest=manifest,
        label=Label.VIRTUAL if virtual else Label.MEASURED,
        seeds=Seeds(run=settings["seed"], jitter=repeat),
    )
    return Result.done(cell, measurement(settings, arm), samples.provenance(code_version=CODE))


def measurement(settings: dict, arm: str) -> Measurement:
    """Plausible numbers that depend on the setting and the arm alone."""
    engine, steps = settings["engine"], settings["scale"]["steps"]
    ranks, batch = engine["ranks"], engine["ranks"] * engine["views_per_unit"]
    place = (settings["pipeline"]["name"], settings["scene"]["path"], ranks, settings["study"]["regions"])
    parts = breakdown(arm, ranks, steps, engine["views_per_unit"], 1 + 0.05 * noise(place))
    chaos = 0.15 if settings["pipeline"]["densify"] else 0.004
    order = "" if arm_named(arm).order is Order.RANDOM else "plan"
    psnr = 20 + noise(place[1]) + chaos * noise(settings["seed"], arm if not arm_named(arm).exact else order,
                                                settings["pipeline"]["perturb"])  # fmt: skip
    views = [ViewQuality(view=f"v{k}.png", psnr=psnr + k, ssim=Reading.of(0.7 + 0.01 * (psnr - 20))) for k in range(2)]
    exact = arm_named(arm).exact
    return samples.measurement(
        "barrier",
        plan_digest=hashlib.sha256(order.encode()).hexdigest()[:16],
        ranks=ranks, global_batch=batch, images=batch * steps, steps=steps,
        profile="rtx4090@12ab34cd" if engine["name"] == "virtual" else "none",
        link=Link(name=settings["link"]["name"], beta=1e10, alpha=1e-6) if settings["link"]["name"] != "none" else None,
        padding_scale=None, payload_bytes_per_step=(236_000,) * steps,
        final_digest=(bits_of(arm) if exact else hashlib.sha256(arm.encode()).hexdigest()[:2]) * 32,
        primitives=Primitives(initial=1350, final=1350), quality_final=Quality.of(views),
        quality_initial=samples.quality(12.0), step_times=(parts.step,) * steps, losses=(0.3,) * steps, breakdown=parts,
        jitter=Jitter(sigma=0.05, step_seconds=(parts.step * 1.02, parts.step * 1.01)),
        windows=windows(arm, steps), exchange=exchange(parts) if settings["pipeline"]["name"] == "grendel" else None,
    )  # fmt: skip


def breakdown(arm: str, ranks: int, steps: int, unit: int, factor: float) -> Breakdown:
    """The parts of an arm; one rank alone waits for nothing, ranks differ a little."""
    useful, transfer, skew, odin, structural = PARTS.get(arm, PARTS["throughput"])
    useful *= factor * unit / 2
    transfer, skew = (0.0, 0.0) if ranks == 1 else (transfer * factor, skew)
    share = [1 + 0.3 * noise("rank", rank) for rank in range(ranks)]
    scale = ranks / sum(share)
    return Breakdown(
        ranks=ranks, steps=steps, step=useful + transfer + skew + odin + structural, useful=useful, transfer=transfer,
        skew=skew, odin=odin, structural=structural, other=0.0,
        wait_by_rank=tuple((transfer + skew) * s * scale for s in share), useful_by_rank=(useful,) * ranks,
        hideable=Reading.of(0.97) if ranks > 1 else Reading.absent("n/a: no rank waits for a transfer"),
    )  # fmt: skip


def windows(arm: str, steps: int) -> Windows:
    """All rejected where an arm waits for everything."""
    if arm in ("barrier", "barrier-planned", "paper-quality", "without-SAS"):
        return Windows(clear=0, partial=0, rejected={"conflict": steps - 1})
    return Windows(clear=0, partial=steps - 2, rejected={"structural": 1}, waited=0.2, delayed=0.1, written=0.5)


def exchange(parts: Breakdown) -> Exchange:
    """Traffic of shards, hidden as far as the parts say."""
    hidden = Reading.of(max(0.0, 1 - parts.transfer / 0.008))
    one = Transfer(carried=0.008, exposed=parts.transfer, hidden=hidden, nbytes=1e6)
    return Exchange(observe=one, publish=one, shards=parts.ranks, owner_bytes=10**6, extra_bytes=10**5)


def planner() -> pd.DataFrame:
    """As benchmarks.planner writes it."""
    rows = [
        (images, "aerial", "dense", setting, 2, cold, images * cost, images * cost * 1.6, 80.0, 0.3)
        for images in (1000, 2000)
        for setting, cost in (("default", 1.2e-5), ("all_cap16", 3.6e-5))
        for cold in (True, False)
    ]
    names = ["images", "kind", "obs", "setting", "threads", "cold", "wall_s", "cpu_s", "peak_mb", "load"]
    return pd.DataFrame(rows, columns=names)


def shadow_memory() -> pd.DataFrame:
    """The columns that are shown of benchmarks.shadow_memory."""
    rows = [(k, arm, 6.0e5, 1.5e6 * k) for arm in ("quality", "predicted") for k in (1, 2, 4)]
    return pd.DataFrame(rows, columns=["regions", "arm", "extra", "replicated_extra"])


def shadow_graph() -> pd.DataFrame:
    """The columns that are shown of benchmarks.shadow_graph."""
    ratios = {
        "alias": 150.0,
        "view": 6.0,
        "reuse": 0.9,
        "stage": 1.4,
        "refresh": float("nan"),
        "commit": 1.6,
        "total": 2.1,
    }
    rows = [(10_000, units, name, ratio * units**0.1) for units in (1, 2) for name, ratio in ratios.items()]
    return pd.DataFrame(rows, columns=["rows", "units", "operation", "ratio"])


def falsifier() -> pd.DataFrame:
    """The columns that are shown of benchmarks.falsifier."""
    rows = [
        (scene, kind, error * (1 + 0.3 * k), 0.3 * error * (1 + 0.2 * k), 0.4, 0.1)
        for scene, error in (("falsifier-views37", 0.11), ("rooms-views36", 0.02))
        for kind in ("reduced", "history", "local")
        for k in range(3)
    ]
    return pd.DataFrame(rows, columns=["scene", "evidence", "stale", "predicted", "passing", "energy"])


def locality() -> pd.DataFrame:
    """As benchmarks.locality writes it."""
    rows = [
        ("rooms-views36", moment, images, 1400, f"v{k}.png", 0.4 + 0.1 * k, 0.3 + 0.1 * k, 0.2 + 0.05 * k)
        for moment, images in (("initial", 0), ("mid", 3500), ("late", 7000), ("after a reset", 7000))
        for k in range(3)
    ]
    names = ["scene", "moment", "images", "primitives", "view", "geometry", "computation", "importance"]
    return pd.DataFrame(rows, columns=names)


def locality_graphs() -> pd.DataFrame:
    """As benchmarks.locality_graphs writes it."""
    rows = [
        ("rooms-views36", 64, graph, first, second, scale * weight, 465, 0.2 * scale, 0.7 * scale)
        for graph, scale in (("geometry", 1.0), ("computation", 0.9), ("importance", 0.6), ("tracks", 0.3))
        for first, second, weight in ((1, 2, 0.6), (1, 3, 0.1), (1, 4, 0.0), (2, 3, 0.05), (2, 4, 0.004), (3, 4, 0.4))
    ]
    names = ["scene", "images", "graph", "first", "second", "weight", "pairs", "mean", "coupled"]
    return pd.DataFrame(rows, columns=names)


def admission() -> pd.DataFrame:
    """As benchmarks.admission writes it, without the phases that are not shown."""
    rows = [("scopes", 0.0, 0.41, 2.05), ("hazards", 0.0, 0.13, 0.65), ("step", 19.0, 20.0, 100.0),
            ("hazard_pass", 0.0, 0.02, 0.10)]  # fmt: skip
    return pd.DataFrame(rows, columns=["phase", "barrier-planned", "quality", "share_%"])


def bits() -> pd.DataFrame:
    """As benchmarks.bit_identity writes it, without what is not shown."""
    rows = [("rooms-views36", 0, 2, optimizer, 60, arm, 0, f"state of {optimizer}", True)
            for optimizer in ("dense", "selective")
            for arm in ("barrier-planned", "paper-quality", "quality")]  # fmt: skip
    names = ["scene", "seed", "ranks", "optimizer", "steps", "arm", "repeat", "state", "trained"]
    return pd.DataFrame(rows, columns=names)


TABLES = {
    "planner": planner,
    "shadow_memory": shadow_memory,
    "shadow_graph": shadow_graph,
    "falsifier": falsifier,
    "locality": locality,
    "locality_graphs": locality_graphs,
}
