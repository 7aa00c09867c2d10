"""The training recipe's part of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from harness.config.checks import expect, expect_at_least, expect_one_of

# Keys that only one pipeline has; they are null for the others.
OWN_KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "3dgs": (),
        "taminggs": ("budget_mode", "primitive_budget", "score_views", "f_rest_every"),
        "dashgs": ("max_primitives",),
        "2dgs": ("lambda_normal", "lambda_dist", "depth_ratio"),
        "grendel": ("lr_scale", "redistribute_every", "redistribute_above", "balance"),
    }
)
SHARDED = frozenset({"grendel"})
_MAY_BE_NULL = frozenset({"max_primitives"})


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """The training recipe. Schedule constants count images (D§5); these are step floors and overrides.

    source:        `reference`, our own recipe, or `fork`, the published code (docs/forks.md)
    lambda_dssim:  weight of D-SSIM in the loss, beside 1 − lambda_dssim of L1
    lambda_normal, lambda_dist: weights of normal consistency and depth distortion (2dgs only)
    depth_ratio:   0: normals of the expected depth, 1: of the median depth (2dgs only)
    initial_subsample: share of the SfM points that the model starts from, drawn by the seed
    optimizer:     dense Adam, or selective: visible rows only, without bias correction (SparseGaussianAdam)
    perturb:       initial positions are multiplied by 1 + perturb (the perturbed-barrier control)
    *_floor_steps: fewest steps between two events of a kind, the same in all arms
    densify_every: densify every so many steps, instead of the schedule; None follows the schedule
    densify_at, reset_at, sh_at: n is the boundary after n steps; () is never, None follows the schedule
    budget_mode, primitive_budget: TamingGS ends with so many primitives: a `multiplier` of the initial number, or a
        `final_count`
    score_views:   TamingGS: views that are scored at each densification, 0 for all
    f_rest_every:  TamingGS: f_rest moves every so many steps; selective Adam moves it in each
    max_primitives: DashGS: primitives at full resolution; None lets the budget grow by itself
    lr_scale:      Grendel: `sqrt` scales the optimizer with the batch, `none` does not
    redistribute_every, redistribute_above: Grendel: at each so-many-th densification (0: never) rows move to other
        owners if the fullest owner has more than so many times the mean
    balance:       Grendel: ranks render whole `views`, or bands of equal cost, learnt from `state` or measured `time`
    """

    name: str = "3dgs"
    source: str = "reference"
    optimizer: str = "dense"
    densify: bool = True
    sh_degree: int = 3
    lambda_dssim: float = 0.2
    initial_subsample: float = 0.9
    perturb: float = 0.0
    densification_floor_steps: int = 25
    sh_floor_steps: int = 10
    reset_floor_steps: int = 300
    densify_every: int | None = None
    densify_at: tuple[int, ...] | None = None
    reset_at: tuple[int, ...] | None = None
    sh_at: tuple[int, ...] | None = None
    budget_mode: str | None = None
    primitive_budget: float | None = None
    score_views: int | None = None
    f_rest_every: int | None = None
    max_primitives: int | None = None
    lambda_normal: float | None = None
    lambda_dist: float | None = None
    depth_ratio: float | None = None
    lr_scale: str | None = None
    redistribute_every: int | None = None
    redistribute_above: float | None = None
    balance: str | None = None

    def __post_init__(self) -> None:
        expect_one_of(self.name, OWN_KEYS, key="pipeline.name")
        self._check_own_keys()
        expect_one_of(self.source, ("reference", "fork"), key="pipeline.source")
        expect_one_of(self.optimizer, ("dense", "selective"), key="pipeline.optimizer")
        expect_at_least(0, key="pipeline.sh_degree", value=self.sh_degree, most=3, advice="3DGS trains degree 3.")
        self._check_shares()
        self._check_events()
        self._check_surfels()
        self._check_shards()

    @property
    def sharded(self) -> bool:
        """Primitives are sharded by owner (mixed parallelism), not replicated."""
        return self.name in SHARDED

    def _check_own_keys(self) -> None:
        """Keys of another pipeline are null, and of this one not."""
        for name, keys in OWN_KEYS.items():
            for key in keys:
                value = getattr(self, key)
                if name != self.name:
                    expect(
                        value is None,
                        key=f"pipeline.{key}",
                        value=value,
                        expected=f"null with pipeline={self.name}",
                        advice=f"The key belongs to pipeline={name}.",
                    )
                elif key not in _MAY_BE_NULL:
                    expect(
                        value is not None,
                        key=f"pipeline.{key}",
                        value=value,
                        expected="a value",
                        advice=f"Choose the pipeline with pipeline={name}, which sets it.",
                    )
        self._check_amounts()

    def _check_amounts(self) -> None:
        if self.budget_mode is not None:
            expect_one_of(self.budget_mode, ("multiplier", "final_count"), key="pipeline.budget_mode")
        expect(
            self.primitive_budget is None or 0 < self.primitive_budget < 1e9,
            key="pipeline.primitive_budget",
            value=self.primitive_budget,
            expected="a number above 0 and below 1e9",
            advice="It is a factor on the initial primitives, or with budget_mode=final_count their number.",
        )
        least_of = {"score_views": 0, "f_rest_every": 1, "max_primitives": 1, "redistribute_every": 0}
        for key, least in least_of.items():
            amount = getattr(self, key)
            if amount is not None:
                expect_at_least(least, key=f"pipeline.{key}", value=amount, advice="See the file in harness/conf.")

    def _check_shares(self) -> None:
        expect(
            0 <= self.lambda_dssim <= 1,
            key="pipeline.lambda_dssim",
            value=self.lambda_dssim,
            expected="a number from 0 to 1",
            advice="It is the weight of D-SSIM beside L1; upstream uses 0.2.",
        )
        expect(
            0 < self.initial_subsample <= 1,
            key="pipeline.initial_subsample",
            value=self.initial_subsample,
            expected="a number above 0 and at most 1",
            advice="It is the share of SfM points to start from; 1 takes all of them.",
        )
        expect(
            abs(self.perturb) <= 0.5,
            key="pipeline.perturb",
            value=self.perturb,
            expected="a number from -0.5 to 0.5",
            advice="Positions are multiplied by 1 + perturb; the control uses 1e-6.",
        )

    def _check_events(self) -> None:
        for name in ("densification_floor_steps", "sh_floor_steps", "reset_floor_steps", "densify_every"):
            steps = getattr(self, name)
            if steps is not None:
                expect_at_least(1, key=f"pipeline.{name}", value=steps, advice="1 allows an event on every step.")
        for name in ("densify_at", "reset_at", "sh_at"):
            _check_event_steps(f"pipeline.{name}", getattr(self, name))
        densifies = self.densify_every is not None or bool(self.densify_at)
        expect(
            self.densify or not densifies,
            key="pipeline.densify",
            value=self.densify,
            expected="true where densify_every or densify_at is given",
            advice="Set densify=true or leave the two out.",
        )
        expect(
            self.densify_every is None or self.densify_at is None,
            key="pipeline.densify_every",
            value=self.densify_every,
            expected="null where densify_at is given",
            advice="Give one of densify_every and densify_at, not both.",
        )

    def _check_shards(self) -> None:
        if self.lr_scale is not None:
            expect_one_of(self.lr_scale, ("sqrt", "none"), key="pipeline.lr_scale")
        if self.balance is not None:
            expect_one_of(self.balance, ("views", "state", "time"), key="pipeline.balance")
        expect(
            not self.sharded or self.optimizer == "dense",
            key="pipeline.optimizer",
            value=self.optimizer,
            expected="dense with pipeline=grendel",
            advice="Owners of shards have dense Adam only, as upstream.",
        )
        expect(
            self.redistribute_above is None or self.redistribute_above >= 1,
            key="pipeline.redistribute_above",
            value=self.redistribute_above,
            expected="a number of 1 or more",
            advice="It is the fullest owner's rows ÷ mean over owners; Grendel has 1.1.",
        )

    def _check_surfels(self) -> None:
        for name in ("lambda_normal", "lambda_dist"):
            expect(
                (getattr(self, name) or 0.0) >= 0,
                key=f"pipeline.{name}",
                value=getattr(self, name),
                expected="a number of 0 or more",
                advice="It is the weight of a term of the loss; 0 leaves the term out.",
            )
        expect(
            0 <= (self.depth_ratio or 0.0) <= 1,
            key="pipeline.depth_ratio",
            value=self.depth_ratio,
            expected="a number from 0 to 1",
            advice="0 suits unbounded scenes, 1 bounded ones.",
        )


def _check_event_steps(key: str, steps: tuple[int, ...] | None) -> None:
    """Refuse step numbers that are not positive and ascending."""
    given = steps or ()
    expect(
        all(step >= 1 for step in given) and all(a < b for a, b in pairwise(given)),
        key=key,
        value=given,
        expected="ascending step numbers from 1, or null for the schedule",
        advice=f"For example {key}=[20,40].",
    )
