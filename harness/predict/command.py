"""Run a prediction: train, re-time, print, write."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from harness.config import Config
from harness.measure.profile import Profile
from harness.predict.figure import write as write_figure
from harness.predict.run import Predicted, predict_arms, trained_arms
from harness.predict.table import (
    COLUMNS,
    WINDOW_COLUMNS,
    Results,
    csv_text,
    rows,
    text_table,
    text_windows,
    worst_windows,
)
from harness.profiles.calibration import calibrated, cluster_link, committed_prices, survey
from harness.progress import Progress
from harness.report.summary import BASELINE
from harness.run.together import run_threads
from harness.run.warmup import Calibration
from harness.run.workload import Workload, load_workload
from harness.store.files import write_text
from odin.arms import Waits, arm
from odin.errors import InputError
from pipelines.render.cpu import warm_up


def run_predict(config: Config, ranks: Sequence[int]) -> int:
    """Predict all arms at all rank counts; prints a table and writes CSV and a picture below `out`. Returns 0."""
    if not config.compute.committed:
        raise InputError("predict needs committed prices, compute=rtx4090: this machine says nothing of a GPU.")
    names = config.study.arms
    if any(arm(name).waits is Waits.DDP for name in names):
        raise InputError("predict has no arm ddp: its cost is torch's own. On the same link it does what barrier does.")
    if config.cluster.name != "local":
        cluster_link(config.cluster.name, max(ranks))
    workloads = _workloads(config, ranks)
    results, used = predict(workloads, names)
    folder = Path(config.out) / "predict" / _folder_name(config, workloads[0])
    note = _basis(config, workloads[0].capture.name, used)
    _write(results, note, folder)
    print("\n".join([text_table(results), "", *_costly(results), "", note, f"Table and picture: {folder}"]))
    return 0


def predict(workloads: Sequence[Workload], names: tuple[str, ...]) -> tuple[Results, Calibration]:
    """Results by rank count, and the calibration of the last one. The survey is made once."""
    torch.set_num_threads(1)
    warm_up()
    profile: Profile = committed_prices(workloads[0].config.compute)
    surveyed = survey(workloads[-1], profile, run_threads)
    steps = workloads[0].config.scale.steps
    images = sum(w.config.engine.global_batch for w in workloads) * steps * len(trained_arms(names))
    results: dict[int, list[Predicted]] = {}
    with Progress(images, "predict") as progress:
        for workload in workloads:
            calibration = calibrated(workload, profile, surveyed)
            progress.label = f"predict, {workload.config.engine.ranks} rank(s)"
            results[workload.config.engine.ranks] = predict_arms(
                workload, names, calibration, lambda n: progress.update(progress.done + n)
            )
    return results, calibration


def _workloads(config: Config, ranks: Sequence[int]) -> list[Workload]:
    """One per rank count on one capture. All plans are tried before anything is trained, so bad input fails first."""
    capture = load_workload(config, progress=_say).capture
    configs = [replace(config, engine=replace(config.engine, ranks=count)) for count in ranks]
    workloads = [Workload(config=one, capture=capture) for one in configs]
    for workload in workloads:
        workload.plan(arm(BASELINE))
    return workloads


def _write(results: Results, note: str, folder: Path) -> None:
    windows = [row for arms in results.values() for p in arms for row in worst_windows(p, p.parts.steps)]
    write_text(folder / "predict.csv", csv_text(rows(results), COLUMNS))
    write_text(folder / "windows.csv", csv_text(windows, WINDOW_COLUMNS))
    write_text(folder / "basis.txt", note + "\n")
    write_figure(results, note.split("\n")[0], folder)


def _costly(results: Results) -> list[str]:
    """The costliest windows at the most ranks of every arm that may open one."""
    return [text_windows(p) for p in results[max(results)] if p.arm.waits is not Waits.ALL and p.arm.sas]


def _basis(config: Config, scene: str, used: Calibration) -> str:
    """What the numbers rest on; the first line is short enough for a picture."""
    compute = config.compute
    where = f"link {used.link.name}" if config.cluster.name == "local" else f"cluster {config.cluster.name}"
    first = f"{scene}, {config.pipeline.name}, {compute.name}, {where}, {config.scale.steps} steps"
    lines = [first, f"Prices {used.name}; compute during a transfer takes {compute.overlap_slowdown:g} times as long."]
    if (compute.scale_rows, compute.scale_pixels) != (1, 1):
        lines.append(
            f"A row of this scene stands for {compute.scale_rows:g}, a pixel for {compute.scale_pixels:g}: it is a "
            "small scene that stands for a large one (scale_rows=1 scale_pixels=1 for the scene as it is)."
        )
    return "\n".join([*lines, "Prices and links are files with sources in results/profiles; nothing was timed here."])


def _folder_name(config: Config, workload: Workload) -> str:
    where = config.cluster.name if config.cluster.name != "local" else config.link.name
    return re.sub(r"[^A-Za-z0-9._+-]+", "_", f"{workload.capture.name}-{config.pipeline.name}-{where}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
