"""Constants of the 3DGS recipe, with upstream's names and values (FORKS.md: 3DGS at its pin).

Schedule constants count IMAGES of a 30,000-image budget and are scaled to the run's budget; intervals have a
floor in STEPS, the same in all arms, without which a short run would densify on every step (D§5 Units of work).
"""

from __future__ import annotations

from dataclasses import dataclass

from odin.errors import InputError

REFERENCE_BUDGET = 30_000


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One 3DGS training run.

    perturb: initial positions are multiplied by 1 + perturb (quality control of D§9)
    optimizer: "dense" Adam, or "selective": visible rows only and no bias correction, as SparseGaussianAdam
    densify_at, reset_at, sh_at: event step counts set outright ("after this many steps"), or None for the
        schedule
    """

    sh_degree: int = 3
    lambda_dssim: float = 0.2
    densify: bool = True
    initial_subsample: float = 0.9
    perturb: float = 0.0
    seed: int = 0
    optimizer: str = "dense"

    position_lr_init: float = 0.00016
    position_lr_final: float = 0.0000016
    feature_lr: float = 0.0025
    opacity_lr: float = 0.05
    scaling_lr: float = 0.005
    rotation_lr: float = 0.001

    percent_dense: float = 0.01
    densify_grad_threshold: float = 0.0002
    min_opacity: float = 0.005
    reset_opacity_to: float = 0.01
    densify_from: int = 500
    densify_until: int = 15_000
    densification_interval: int = 100
    opacity_reset_interval: int = 3000
    sh_interval: int = 1000

    densification_floor_steps: int = 25
    sh_floor_steps: int = 10
    reset_floor_steps: int = 300
    densify_at: tuple[int, ...] | None = None
    reset_at: tuple[int, ...] | None = None
    sh_at: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.sh_degree <= 3:
            raise InputError(f"pipeline.sh_degree is {self.sh_degree}; SH degrees 0 to 3 are supported.")
        if self.optimizer not in ("dense", "selective"):
            raise InputError(f"pipeline.optimizer is {self.optimizer!r}; use dense or selective.")
        if not 0 < self.initial_subsample <= 1:
            raise InputError(
                f"pipeline.initial_subsample is {self.initial_subsample}; it is the share of SfM points to start "
                "from and must be above 0 and at most 1."
            )
