"""From a configuration and a capture to what a cell trains: settings, plan and recipe."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.config import Config
from harness.config.pipeline import OWN_KEYS
from harness.run.windows import at_every_window, full_graph, live_bytes
from harness.scenes import load_scene
from harness.scenes.spec import Progress, SceneSpec
from odin.arms import Arm
from odin.plan import Plan
from odin.planner import Frusta, build_plan
from odin.planner.sas import Evidence, window_couplings, with_windows
from odin.tracks import Tracks
from odin.warm import warm_up_rows
from pipelines.adapters.pins import require_checkout
from pipelines.adapters.registry import FORKS, ForkFamily
from pipelines.backend import CPU, Backend
from pipelines.capture import Capture
from pipelines.reference.registry import FAMILIES, Family
from pipelines.reference.settings import Settings
from pipelines.reference.threedgs import GaussianSplatting


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One capture under one configuration; the same on every rank, but for the place that a rank computes in."""

    config: Config
    capture: Capture
    backend: Backend = CPU

    @property
    def family(self) -> Family | ForkFamily:
        """The pipeline."""
        return _family(self.config)

    @property
    def settings(self) -> Settings:
        """The recipe's settings."""
        p, steps = self.config.pipeline, self.config.scale.steps
        every = p.densify_every
        densify_at = tuple(range(every, steps, every)) if every else p.densify_at
        own = {key: getattr(p, key) for key in OWN_KEYS[p.name]}
        return self.family.settings(
            **own,
            sh_degree=p.sh_degree,
            lambda_dssim=p.lambda_dssim,
            densify=p.densify,
            initial_subsample=p.initial_subsample,
            perturb=p.perturb,
            optimizer=p.optimizer,
            seed=self.config.seed,
            densification_floor_steps=p.densification_floor_steps,
            sh_floor_steps=p.sh_floor_steps,
            reset_floor_steps=p.reset_floor_steps,
            densify_at=densify_at,
            reset_at=p.reset_at,
            sh_at=p.sh_at,
        )

    def recipe(self) -> GaussianSplatting:
        """A fresh model."""
        return self.with_settings(self.settings, self.config.scale.steps)

    def with_settings(self, settings: Settings, steps: int) -> GaussianSplatting:
        """A fresh model under other settings or another length (the warm-up's)."""
        batch = self.config.engine.global_batch
        return self.family.build(self.capture, settings, self.backend, steps=steps, batch=batch)

    def plan(self, arm: Arm) -> Plan:
        """The views of every step under the arm's order, with the windows that SAS keeps blocking.

        Arms of one order share one plan. One that waits anyway, as `without-SAS`, waits at every window alike.
        """
        plan, study = self.plan_for(arm, self.settings, self.config.scale.steps), self.config.study
        memory, limit = study.memory_bytes, study.largest_coupling
        if memory is None and limit is None:
            return plan
        live = None if memory is None else at_every_window(plan, live_bytes(self.recipe().table, plan))
        coupling = None if limit is None else window_couplings(full_graph(self.tracks, self.frusta), plan)
        evidence = Evidence(live_bytes=live, memory_budget=memory, coupling=coupling, coupling_limit=limit)
        return with_windows(plan, evidence)

    @property
    def tracks(self) -> Tracks:
        """Tracks of the training views."""
        return self.capture.tracks.restrict(self.capture.train)

    @property
    def frusta(self) -> Frusta:
        """What the training views look at."""
        cameras = [self.capture.cameras[i] for i in self.capture.train]
        return Frusta(
            centres=np.stack([c.centre for c in cameras]),
            rotations=np.stack([c.rotation for c in cameras]),
            tan_x=np.array([c.tan_x for c in cameras]),
            tan_y=np.array([c.tan_y for c in cameras]),
        )

    def plan_for(self, arm: Arm, settings: Settings, steps: int) -> Plan:
        """The order alone, for any settings and length: only structural windows are blocking."""
        engine, frusta = self.config.engine, self.frusta
        schedule = self.family.schedule(settings, steps, engine.global_batch)
        return build_plan(
            tracks=self.tracks,
            centres=frusta.centres,
            order=arm.order.value,
            ranks=engine.ranks,
            views_per_unit=engine.views_per_unit,
            steps=steps,
            regions=self.config.study.regions,
            seed=self.config.seed,
            structural_after=schedule.boundaries(),
            frusta=frusta,
        )


def compile_kernels(config: Config) -> None:
    """Compile, or read from Numba's cache, every kernel that a configuration's steps run."""
    warm_up_rows()
    _family(config).compile_kernels()


def _family(config: Config) -> Family | ForkFamily:
    name = config.pipeline.name
    return FORKS[name] if config.pipeline.source == "fork" else FAMILIES[name]


def load_workload(config: Config, progress: Progress | None = None) -> Workload:
    """Load (or generate) and check the scene of a configuration. Raises InputError, also where it trains a fork that is
    absent."""
    if config.pipeline.source == "fork":
        require_checkout(FORKS[config.pipeline.name].pin)
    scene = config.scene
    spec = SceneSpec(path=scene.path, images=scene.images, test_every=scene.test_every, skip_missing=scene.skip_missing)
    return Workload(config=config, capture=load_scene(spec, progress=progress))
