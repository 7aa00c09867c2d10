"""How long tasks take: from a phase profile and the work of a few views, or one unit each where there is no profile.

Legend: N rows, U views per unit, B views per step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.config import Config
from harness.measure.profile import Profile
from harness.run.warmup import Calibration
from odin.arriving import taken
from odin.bitmap import row_ids
from odin.budget import Budget
from odin.comm.link import UNSHAPED, Link, link_for_exposure
from odin.errors import InputError
from odin.inflation import Inflation
from odin.keeper import Keeper, Work
from odin.phases import Phase
from odin.planner.parallelism import DATA_PARALLEL
from pipelines.reference.threedgs import GaussianSplatting

SAMPLED_VIEWS = 4
FRONT = DATA_PARALLEL.front[True].tasks
PROJECT, LEADING = "project", "leading views"


def views_of(task: str, unit: int) -> slice:
    """Which of a unit's views a task of the front works on."""
    return {PROJECT: slice(0, unit), LEADING: slice(0, unit - 1)}.get(task, slice(unit - 1, unit))


@dataclass(frozen=True, kw_only=True)
class Durations:
    """Seconds (or units) of the tasks of a mean unit on the data-parallel graph.

    source:   where they come from, for the reader
    unit:     "ms" or "units", and `scale`, what a second or a unit is in it
    compute:  task of the front → seconds of a mean unit
    update:   of all N rows; zero: of N rows without gradient
    scopes:   of one step's views; validate: the hazard pass
    link:     beta is in bytes per second (or unit)
    unit_rows: rows in the scopes of a unit, mean; table_rows: N
    payload:  bytes of a step's gradient; colour_share: of them, colours
    """

    source: str
    unit: str
    scale: float
    compute: Mapping[str, float]
    update: float
    zero: float
    scopes: float
    validate: float
    link: Link
    ranks: int
    views_per_unit: int
    unit_rows: float
    table_rows: int
    payload: int
    colour_share: float

    @property
    def priced(self) -> bool:
        """Whether they are a prediction; without a profile they only show a shape."""
        return self.unit == "ms"

    @property
    def step_compute(self) -> float:
        """Compute of a barrier step."""
        return sum(self.compute.values()) + self.update

    def transfer(self, nbytes: float) -> float:
        """Seconds that a collective of so many bytes occupies the link; nothing is sent for no bytes."""
        return self.link.all_reduce_seconds(int(nbytes), self.ranks) if nbytes and self.ranks > 1 else 0.0

    def budget(self) -> Budget:
        """What fits on the link while a step computes, for the cut of a step."""
        if not self.link.shaped or self.ranks < 2:
            return Budget()
        rate = self.link.beta * self.ranks / (2 * (self.ranks - 1))
        return Budget(
            bytes_per_second=rate,
            unit_seconds=self.step_compute / self.unit_rows,
            colour_window=self.compute["geometry backward"] * self.views_per_unit / self.unit_rows,
        )

    def of_blocking_step(self) -> dict[str, float]:
        """Task → duration of a step between blocking windows: colours in one bucket, geometry in the other."""
        return {
            **self.compute,
            "colours": self.transfer(self.payload * self.colour_share),
            "geometry": self.transfer(self.payload * (1 - self.colour_share)),
            "update": self.update,
            "scopes": self.scopes,
        }


def durations(
    recipe: GaussianSplatting, config: Config, rows_of_views: NDArray[np.int64], path: Path | None
) -> Durations:
    """Durations of a mean unit of this model.

    rows_of_views: int64 [V], rows in the scope of every training view
    path:          a file that `reproduce` wrote to OUT/profiles, or None for one unit per task

    Raises InputError for a file that is no profile, or that lacks a phase.
    """
    engine, table = config.engine, recipe.table
    unit_rows = max(float(rows_of_views.mean()) * engine.views_per_unit, 1.0)
    known = _unpriced() if path is None else _priced(recipe, rows_of_views, engine.global_batch, path)
    every = range(engine.views_per_unit)
    views = {name: len(every[views_of(name, len(every))]) for name in known["compute"]}
    known["compute"] = {name: seconds * views[name] for name, seconds in known["compute"].items()}
    payload = table.parameters.numel() * 4
    return Durations(
        **known,
        link=_link(config, sum(known["compute"].values()) + known["update"], payload),
        ranks=engine.ranks,
        views_per_unit=engine.views_per_unit,
        unit_rows=unit_rows,
        table_rows=len(table),
        payload=payload,
        colour_share=table.layout.groups[1].width / table.layout.columns,
    )


def _unpriced() -> dict[str, Any]:
    """Fields of `Durations`; compute is that of one view."""
    return {
        "source": "one unit per view and phase and none for Odin's own work: without a phase profile a schedule has a "
        "shape and is no prediction",
        "unit": "units",
        "scale": 1.0,
        "compute": {task.name: 3.0 if task.name == LEADING else 1.0 for task in FRONT},
        "update": 1.0,
        **dict.fromkeys(("zero", "scopes", "validate"), 0.0),
    }


def _priced(recipe: GaussianSplatting, rows_of_views: NDArray[np.int64], batch: int, path: Path) -> dict[str, Any]:
    """Fields of `Durations`; compute is that of one view with the mean number of rows in scope."""
    profile, total = read_profile(path), len(recipe.table)
    per_row = _row_prices(recipe, profile, rows_of_views)
    return {
        "source": f"profile {path.name} ({profile.source}), work of {min(SAMPLED_VIEWS, len(rows_of_views))} views "
        "of the initial model",
        "unit": "ms",
        "scale": 1e3,
        "compute": {name: seconds * float(rows_of_views.mean()) for name, seconds in per_row.items()},
        "update": profile.price(Phase.UPDATE.value, Work(rows=total)),
        "zero": profile.price(Phase.ZERO_STEP.value, Work(rows=total)),
        "scopes": profile.price(Phase.SCOPES.value, Work(rows=total * batch)),
        "validate": profile.price(Phase.HAZARDS.value, Work(rows=total)),
    }


def read_profile(path: Path) -> Profile:
    """The profile in a calibration file. Raises InputError if it is none."""
    try:
        return Calibration.from_json(path.read_text(encoding="utf-8")).profile
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            f"{path} is not a phase profile ({type(error).__name__}: {error}). Give a file that `reproduce headline` "
            "wrote to OUT/profiles, or profile=none."
        ) from error


def _link(config: Config, compute: float, nbytes: int) -> Link:
    """The emulated link of a study, solved for this compute as its warm-up would."""
    if not config.link.shaped or config.engine.ranks < 2:
        return UNSHAPED
    return link_for_exposure(config.link.name, config.link.exposed_share, compute, nbytes, config.engine.ranks)


def _row_prices(recipe: GaussianSplatting, profile: Profile, rows_of_views: NDArray[np.int64]) -> dict[str, float]:
    """Seconds per row in scope of each task of the front, over a few views from all along the capture."""
    count = len(rows_of_views)
    views = np.unique(np.linspace(0, count - 1, min(SAMPLED_VIEWS, count)).round().astype(int))
    keeper = Keeper()
    table = recipe.table
    for view in views:
        scope = taken(recipe.scope([int(view)], Inflation.none(len(table))))[0]
        frame = recipe.project(int(view), row_ids(scope, len(table)), keeper)
        recipe.render(frame, keeper)
        for phase in (Phase.COLOUR_BACKWARD, Phase.PROJECTION_BACKWARD):
            with keeper.phase(phase, rows=len(frame.rows)):
                pass  # priced by rows alone, so there is nothing to run
    seconds: dict[str, float] = {}
    for entry in keeper.entries:
        seconds[entry.name] = seconds.get(entry.name, 0.0) + profile.price(entry.name, entry.work)
    rows = max(int(rows_of_views[views].sum()), 1)
    return {task.name: sum(seconds[phase.value] for phase in task.phases) / rows for task in FRONT}
