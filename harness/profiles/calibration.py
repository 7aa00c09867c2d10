"""What the virtual engine's clock needs, from committed files alone: no phase is timed on this machine (D§7).

Amounts of work come from a survey: some steps of `barrier` on two ranks from the initial model, rendered and counted,
priced by the profile. So two machines, or one machine twice, get the same calibration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from harness.config import Compute
from harness.measure.profile import Profile, barrier_compute
from harness.profiles.constants import LinkProfile, digest
from harness.profiles.load import cluster_profile, compute_profile, link_profile
from harness.profiles.price import Scale, priced
from harness.run.execute import execute
from harness.run.warmup import Calibration, solve_link, work_of_a_unit
from harness.run.workload import Workload
from odin.arms import arm
from odin.comm.link import UNSHAPED, ClusterLink, Link
from odin.comm.transport import Transport
from odin.errors import InputError
from odin.keeper import Entry, NominalKeeper

SURVEY_STEPS, SURVEY_RANKS = 8, 2

RunThreads = Callable[[int, Link, Callable[[Any], list[Entry]]], list[list[Entry]]]


def committed_calibration(workload: Workload, run_threads: RunThreads) -> Calibration:
    """Prices, link and budget of a cell whose profile is committed. `run_threads`: of `harness.run.virtual`."""
    profile = committed_prices(workload.config.compute)
    return calibrated(workload, profile, survey(workload, profile, run_threads))


def calibrated(workload: Workload, profile: Profile, surveyed: list[list[Entry]]) -> Calibration:
    """The same from a survey that was made before, of the same scene with any number of ranks."""
    config = workload.config
    compute = barrier_compute(profile, surveyed)
    return Calibration(
        profile=profile,
        stretch=1.0,
        link=committed_link(workload, compute),
        compute=compute,
        slowdown=config.compute.overlap_slowdown,
        **work_of_a_unit(profile, surveyed),
    )


def committed_prices(compute: Compute) -> Profile:
    """The prices of a configured GPU at the configured scale. Raises InputError."""
    return priced(compute_profile(compute.name), Scale(rows=compute.scale_rows, pixels=compute.scale_pixels))


def survey(workload: Workload, profile: Profile, run_threads: RunThreads) -> list[list[Entry]]:
    """Phases of some barrier steps of the initial model without events, per rank, with their work."""
    config = workload.config
    two = replace(config, engine=replace(config.engine, ranks=SURVEY_RANKS))
    few = Workload(config=two, capture=workload.capture)
    settings = replace(few.settings, densify_at=(), reset_at=(), sh_at=())
    plan = few.plan_for(arm("barrier"), settings, SURVEY_STEPS)

    def rank(transport: Transport) -> list[Entry]:
        recipe = few.with_settings(settings, SURVEY_STEPS)
        keeper = NominalKeeper(profile.price)
        return execute(few, arm("barrier"), transport, keeper, recipe=recipe, plan=plan).entries

    return run_threads(SURVEY_RANKS, UNSHAPED, rank)


def committed_link(workload: Workload, compute: float) -> Link:
    """The configured link with every byte standing for `scale_rows`. Raises InputError where it does not apply."""
    config = workload.config
    rows = config.compute.scale_rows
    if config.link.name == "cluster":
        return cluster_link(config.cluster.name, config.engine.ranks).carrying(rows)
    if config.link.committed:
        fitted = link_profile(config.link.name)
        require_same_basis(fitted, config.compute)
        return Link(name=fitted.name, beta=fitted.beta.value).carrying(rows)
    # Solved from prices and bytes of the scene at its own size: the scale is in the prices already.
    return solve_link(workload, compute)


def cluster_link(name: str, ranks: int) -> Link:
    """The link of a committed cluster for so many ranks. Raises InputError where they do not fit."""
    profile = cluster_profile(name)
    if ranks > profile.per_node * profile.nodes:
        raise InputError(
            f"engine.ranks={ranks} is refused: the cluster {name} has {profile.nodes} node(s) of {profile.per_node} "
            "GPUs. Choose a larger cluster, for example cluster=rtx4090-pcie4+erdma160, or fewer ranks."
        )
    alpha, beta, across = profile.alpha.value, profile.beta.value, profile.across
    if across is None:
        return Link(name=name, alpha=alpha, beta=beta)
    return ClusterLink(
        name=name,
        alpha=alpha,
        beta=beta,
        per_node=profile.per_node,
        across_alpha=across.alpha.value,
        across_beta=across.beta.value,
    )


def require_same_basis(fitted: LinkProfile, compute: Compute) -> None:
    """A fitted bandwidth means nothing with other prices. Raises InputError that says which ones it needs."""
    fit, prices = fitted.fit, compute_profile(compute.name)
    basis = f"{prices.name}@{digest(prices)}"
    if fit.compute != basis:
        raise InputError(
            f"The link {fitted.name} was fitted with {fit.compute}, but the prices are now {basis}. Fit it again: "
            "python -m harness.profiles.fit."
        )
    if (fit.scale_rows, fit.scale_pixels) != (compute.scale_rows, compute.scale_pixels):
        raise InputError(
            f"compute.scale_rows={compute.scale_rows:g}, scale_pixels={compute.scale_pixels:g} are refused: the link "
            f"{fitted.name} was fitted with {fit.scale_rows:g} and {fit.scale_pixels:g}. Leave them out, or choose "
            "link=cluster or link=exposed-295."
        )
