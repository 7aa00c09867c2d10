"""From a configuration and a capture to what a cell trains: settings, plan and recipe."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.config import Config
from harness.config.pipeline import OWN_KEYS
from harness.scenes import load_scene
from harness.scenes.spec import Progress, SceneSpec
from odin.arms import Arm
from odin.plan import Plan
from odin.planner import Frusta, build_plan
from odin.warm import warm_up_rows
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
    def family(self) -> Family:
        """The pipeline."""
        return FAMILIES[self.config.pipeline.name]

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
        """The views of every step under the arm's order, with structural windows blocking."""
        return self.plan_for(arm, self.settings, self.config.scale.steps)

    def plan_for(self, arm: Arm, settings: Settings, steps: int) -> Plan:
        """`plan` for other settings or another length."""
        engine, cameras = self.config.engine, [self.capture.cameras[i] for i in self.capture.train]
        schedule = self.family.schedule(settings, steps, engine.global_batch)
        return build_plan(
            tracks=self.capture.tracks.restrict(self.capture.train),
            centres=np.stack([c.centre for c in cameras]),
            order=arm.order.value,
            ranks=engine.ranks,
            views_per_unit=engine.views_per_unit,
            steps=steps,
            regions=self.config.study.regions,
            seed=self.config.seed,
            structural_after=schedule.boundaries(),
            frusta=Frusta(
                centres=np.stack([c.centre for c in cameras]),
                rotations=np.stack([c.rotation for c in cameras]),
                tan_x=np.array([c.tan_x for c in cameras]),
                tan_y=np.array([c.tan_y for c in cameras]),
            ),
        )


def compile_kernels(config: Config) -> None:
    """Compile, or read from Numba's cache, every kernel that a configuration's steps run."""
    warm_up_rows()
    FAMILIES[config.pipeline.name].compile_kernels()


def load_workload(config: Config, progress: Progress | None = None) -> Workload:
    """Load (or generate) and check the scene of a configuration. Raises InputError."""
    scene = config.scene
    spec = SceneSpec(path=scene.path, images=scene.images, test_every=scene.test_every, skip_missing=scene.skip_missing)
    return Workload(config=config, capture=load_scene(spec, progress=progress))
