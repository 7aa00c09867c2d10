"""A recipe without images: rows are points on a line, a view reads those within its reach.

Gradients depend nonlinearly on the values read, so reading a row before its update is published changes
everything after it. Positions move by up to the Adam bound, so scopes must be inflated to stay supersets: adversarial
gradients grow from step to step by the factor at which the bound is attained, and push neighbours apart.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch

from odin.bitmap import pack
from odin.bound import BETA1, BETA2
from odin.inflation import Inflation
from odin.keeper import Keeper
from odin.layout import ColumnGroup, ColumnLayout
from odin.phases import Phase
from odin.recipe import Event
from odin.table import ParameterTable

LAYOUT = ColumnLayout(
    groups=(ColumnGroup(name="geometry", first=0, last=3), ColumnGroup(name="colour", first=3, last=7))
)
HELD_LAYOUT = ColumnLayout(
    groups=(
        ColumnGroup(name="geometry", first=0, last=3),
        ColumnGroup(name="colour", first=3, last=4),
        ColumnGroup(name="rest", first=4, last=7),
    )
)
REACH = 1.0


@dataclass
class ToyFrame:
    view: int
    rows: np.ndarray
    read: np.ndarray
    geometry: np.ndarray
    step: int
    colour: np.ndarray | None = None

    @property
    def visible(self) -> np.ndarray:
        return self.read

    active = visible

    @property
    def fragments(self) -> int:
        return int(self.read.sum())


class ToyRecipe:
    """`lag` is the largest number of unpublished updates that a read has skipped."""

    splittable = True
    kinds = MappingProxyType({"geometry": slice(0, 3), "colour": slice(3, 7)})

    def __init__(
        self, rows: int, views: int, events: list[Event], lr: float = 0.02, seed: int = 0, selective: bool = False,
        adversarial: bool = False, hold: int = 0,
    ) -> None:  # fmt: skip
        rng = np.random.default_rng(seed)
        table = rng.normal(size=(rows, LAYOUT.columns)).astype(np.float32)
        table[:, 0] = np.sort(rng.uniform(0, views, rows))
        layout = HELD_LAYOUT if hold else LAYOUT
        self.table = ParameterTable(torch.from_numpy(table), layout, selective=selective, hold=hold)
        self.lr, self.events, self.seed = lr, events, seed
        self.adversarial = adversarial
        self.missed = self.lag = 0
        self._published, self._observed = -1, True
        self.visits = torch.zeros(rows, dtype=torch.int64)

    def _position(self) -> np.ndarray:
        return self.table.parameters.numpy()[:, 0].astype(np.float64)

    def scope(self, views, inflation: Inflation) -> np.ndarray:
        reach = REACH + inflation.shift[inflation.level] + 1e-6
        return pack(np.stack([np.abs(self._position() - v - 0.5) <= reach for v in views]))

    def displacement(self, step: int, bound: float) -> tuple[float, float]:
        return self.learning_rates(step)[0] * bound, 0.0

    def learning_rates(self, step: int) -> np.ndarray:
        return np.full(LAYOUT.columns, self.lr * (1 - 0.01 * step))

    def project(self, view: int, rows: np.ndarray, keeper: Keeper) -> ToyFrame:
        self.lag = max(self.lag, keeper.step - self._published - 1)
        with keeper.phase(Phase.PROJECT, rows=len(rows)):
            position = self._position()
            touched = np.flatnonzero(np.abs(position - view - 0.5) <= REACH)
            self.missed += len(np.setdiff1d(touched, rows))
            read = np.abs(position[rows] - view - 0.5) <= REACH
            return ToyFrame(view, rows, read, self.table.parameters.numpy()[rows, :3].copy(), keeper.step)

    def render(self, frame: ToyFrame, keeper: Keeper) -> float:
        with keeper.phase(Phase.BLEND, rows=len(frame.rows)):
            frame.colour = self.table.parameters.numpy()[frame.rows, 3:].copy()
            return float(np.abs(frame.colour[frame.read]).mean()) if frame.read.any() else 0.0

    def backward_colours(self, frame: ToyFrame) -> np.ndarray:
        gradient = np.sin(3 * frame.colour + frame.view) * frame.read[:, None]
        return gradient.astype(np.float32)

    def backward_geometry(self, frame: ToyFrame) -> np.ndarray:
        gradient = np.cos(2 * frame.geometry - frame.view) * frame.read[:, None]
        if self.adversarial:
            gradient[:, 0] = np.where(frame.rows % 2, 1.0, -1.0) * (BETA2 / BETA1) ** frame.step * frame.read
        if self._observed:
            self.visits[torch.from_numpy(frame.rows[frame.read]).long()] += 1
        return gradient.astype(np.float32)

    @contextmanager
    def unobserved(self):
        self._observed = False
        yield
        self._observed = True

    def pixel_change(self, a: ToyFrame, b: ToyFrame) -> float:
        return abs(float(a.geometry[a.read].sum()) - float(b.geometry[b.read].sum()))

    def published(self, step: int) -> None:
        assert step > self._published
        self._published = step

    def events_after(self, step: int) -> Event:
        return self.events[step]

    def restructure(self, step, events, version, reduce, keeper) -> None:
        self._published = step
        if Event.DENSIFY in events:
            reduce(self.visits)
            rng = np.random.default_rng([self.seed, version])
            keep = torch.from_numpy(np.sort(rng.permutation(len(self.table))[: max(2, len(self.table) * 3 // 4)]))
            copies = keep[: len(keep) // 3]
            grown = torch.cat([self.table.parameters[keep], self.table.parameters[copies] + 0.01])
            m = torch.cat([self.table.m[keep], torch.zeros(len(copies), LAYOUT.columns)])
            v = torch.cat([self.table.v[keep], torch.zeros(len(copies), LAYOUT.columns)])
            source = np.concatenate([keep.numpy(), np.full(len(copies), -1)])
            self.table.replace(grown, m, v, source)
            self.visits = torch.zeros(len(grown), dtype=torch.int64)
        if Event.RESET in events:
            self.table.parameters[:, 6] = 0.0
            self.table.m[:, 6] = 0.0
            self.table.v[:, 6] = 0.0
