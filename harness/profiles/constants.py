"""What a profile file holds. Every constant has a unit and says where it comes from; an unknown key is an error."""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harness.measure.profile import FEATURES
from odin.phases import Phase

# A virtual run is never late: the phase exists on padded timelines only, where it is measured.
UNPRICED = frozenset({Phase.OVERRUN.value})
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Kind(StrEnum):
    """How a constant is known."""

    PUBLIC = "public"  # as a public page, paper or thread has it
    DERIVED = "derived"  # from such numbers, or from counted bytes, as the source says
    ASSUMED = "assumed"  # nothing public was found; the source gives the reason
    FITTED = "fitted"  # to an exposed share of the paper


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


def _check_source(source: str, kind: Kind) -> None:
    wanted = {Kind.DERIVED: "derived ", Kind.ASSUMED: "assumed", Kind.FITTED: "fitted "}.get(kind)
    if wanted and not source.startswith(wanted):
        raise ValueError(f"a source of kind {kind.value} starts with {wanted.strip()!r}: {source[:40]!r}")
    if kind is Kind.ASSUMED and "because" not in source:
        raise ValueError(f"an assumed constant says why (because …): {source!r}")


class Constant(_Strict):
    """One number: value, unit, how it is known, and from where."""

    value: Positive
    unit: Annotated[str, Field(min_length=1)]
    kind: Kind
    source: Annotated[str, Field(min_length=10)]

    @model_validator(mode="after")
    def _sourced(self) -> Self:
        _check_source(self.source, self.kind)
        return self


class PhasePrice(_Strict):
    """The price of a phase: traffic and seconds per unit of work, and launches.

    kernels: launched by one run of the phase
    bytes:   memory traffic per unit of a feature (`harness.measure.profile.FEATURES`)
    seconds: time per unit of a feature that traffic does not explain; "constant": per run of the phase
    """

    kernels: Annotated[int, Field(ge=0)]
    bytes: dict[str, Amount] = Field(default_factory=dict)
    seconds: dict[str, Amount] = Field(default_factory=dict)
    source: Annotated[str, Field(min_length=10)]

    @model_validator(mode="after")
    def _known(self) -> Self:
        for name in (*self.bytes, *self.seconds):
            if name not in FEATURES:
                raise ValueError(f"there is no feature {name!r}; features are {', '.join(FEATURES)}")
        if not self.source.startswith(("derived ", "assumed")):
            raise ValueError(f"the source of a price starts with derived or assumed: {self.source[:40]!r}")
        if "constant" in self.bytes:
            raise ValueError("bytes are per unit of work; a constant is given in seconds or kernels")
        if not (self.kernels or self.bytes or self.seconds):
            raise ValueError("the price is nothing at all, so the phase would be free")
        return self


class ComputeProfile(_Strict):
    """What one GPU takes for every phase."""

    name: str
    constants: dict[str, Constant]
    phases: dict[str, PhasePrice]

    @model_validator(mode="after")
    def _complete(self) -> Self:
        known = {phase.value for phase in Phase} - UNPRICED
        if unknown := sorted(self.phases.keys() - known):
            raise ValueError(f"there is no phase {unknown[0]!r}")
        if missing := sorted(known - self.phases.keys()):
            raise ValueError(f"no price for {', '.join(missing)}; an unpriced phase would be free")
        for name in ("memory_bandwidth", "streaming_efficiency", "launch"):
            if name not in self.constants:
                raise ValueError(f"the constant {name!r} is missing")
        return self


class Across(_Strict):
    """The network between nodes. beta: bytes/s of a whole node."""

    alpha: Constant
    beta: Constant


class ClusterProfile(_Strict):
    """The link of a cluster: latency of a message and bytes/s of a ring inside a node, and between nodes."""

    name: str
    per_node: Annotated[int, Field(ge=1)]
    nodes: Annotated[int, Field(ge=1)]
    alpha: Constant
    beta: Constant
    across: Across | None

    @model_validator(mode="after")
    def _connected(self) -> Self:
        if (self.nodes > 1) != (self.across is not None):
            raise ValueError("several nodes need a network between them (across), and one node has none")
        return self


class FittedScene(_Strict):
    """One scene of the fit. rows: of the initial model; exposed: its own share at the fitted beta; step, transfer:
    seconds, means."""

    scene: str
    rows: Annotated[int, Field(ge=1)]
    exposed: Amount
    step: Positive
    transfer: Amount


class Fit(_Strict):
    """What a fit was made of: it holds for the same compute, scale and number of ranks only.

    recorded:   the link whose pipeline's runs were recorded
    compute:    name@digest of the compute profile
    """

    recorded: str
    compute: str
    scale_rows: Positive
    scale_pixels: Positive
    overlap_slowdown: Positive
    ranks: Annotated[int, Field(ge=2)]
    views_per_unit: Annotated[int, Field(ge=1)]
    seed: int
    steps: Annotated[int, Field(ge=1)]
    scenes: Annotated[tuple[FittedScene, ...], Field(min_length=1)]


class LinkProfile(_Strict):
    """A link whose bandwidth is fitted so that `barrier` shows the exposed share of Fig. 1."""

    name: str
    pipeline: str
    exposed: Constant
    beta: Constant
    fit: Fit


def digest(profile: BaseModel) -> str:
    """12 hex digits over everything a profile holds."""
    return hashlib.sha256(profile.model_dump_json().encode()).hexdigest()[:12]
