"""plan.json: a plan that can be looked at, kept, compared and read back (plain JSON, versioned).

Legend: S steps, W ranks, U views per unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.store.files import write_text
from odin.errors import InputError
from odin.plan import PLAN_VERSION, Blocking, Plan

FORMAT_VERSION: Literal[1] = 1

Count = Annotated[int, Field(ge=0, lt=2**31)]
Reason = Literal["STRUCTURAL", "MEMORY", "NO_GAIN", "COUPLING", "CHECKPOINT"]
Value = str | int | Annotated[float, Field(allow_inf_nan=False)]


class PlanDocument(BaseModel):
    """What plan.json holds. `windows[s]` lists the reasons for which the window after step s is blocking; none: it is
    a candidate. `views` are file names, which indices in `units` refer to; `digest` is that of the plan."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    format: Literal["odin-plan"]
    format_version: Literal[1]
    plan_version: Literal[1]
    digest: str
    scene: str
    manifest: str
    views: list[str]
    ranks: Count
    views_per_unit: Count
    units: list[list[list[Count]]]
    region: list[Annotated[int, Field(ge=-1, lt=2**31)]]
    mixed: list[bool]
    windows: list[list[Reason]]
    provenance: dict[str, Value]


@dataclass(frozen=True, kw_only=True)
class NamedPlan:
    """A plan with the capture it is for.

    scene, manifest: name and hash of the capture; views: file names of the training views, in order
    """

    plan: Plan
    scene: str
    manifest: str
    views: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.views) != self.plan.train_count:
            raise InputError(
                f"A plan over {self.plan.train_count} views comes with {len(self.views)} view names; give one for each."
            )


def to_json(named: NamedPlan) -> str:
    """The plan as one line of JSON. Raises InputError for a provenance that JSON cannot hold."""
    plan = named.plan
    try:
        document = PlanDocument(
            format="odin-plan",
            format_version=FORMAT_VERSION,
            plan_version=PLAN_VERSION,
            digest=plan.digest(),
            scene=named.scene,
            manifest=named.manifest,
            views=list(named.views),
            ranks=plan.ranks,
            views_per_unit=plan.views_per_unit,
            units=plan.units.tolist(),
            region=plan.region.tolist(),
            mixed=plan.mixed.tolist(),
            windows=[_names(flag) for flag in plan.blocking],
            provenance=plan.provenance,
        )
    except ValidationError as error:
        raise InputError(f"This plan cannot be written: {_where(error)}. Give it values that JSON can hold.") from error
    return document.model_dump_json() + "\n"


def _where(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(str(part) for part in first['loc']) or 'the file'}: {first['msg']}"


def _names(flag: int) -> list[Reason]:
    return [reason.name for reason in Blocking(int(flag))]  # type: ignore[misc]  # Reason lists the flags' names


def from_json(text: str, source: str = "plan.json") -> NamedPlan:
    """Read what `to_json` wrote. Raises InputError, one paragraph, for anything else."""
    try:
        document = PlanDocument.model_validate_json(text)
    except ValidationError as error:
        raise InputError(
            f"{source} is not a plan of format version {FORMAT_VERSION}: {_where(error)}. "
            "Write it again with `odin-bench plan`."
        ) from error
    plan = _plan(document, source)
    if plan.digest() != document.digest:
        raise InputError(
            f"{source} was changed after it was written: its digest is {document.digest}, its plan has "
            f"{plan.digest()}. Write it again with `odin-bench plan`."
        )
    return NamedPlan(plan=plan, scene=document.scene, manifest=document.manifest, views=tuple(document.views))


def _plan(document: PlanDocument, source: str) -> Plan:
    shape = (len(document.units), document.ranks, document.views_per_unit)
    ragged = any(len(step) != shape[1] or any(len(unit) != shape[2] for unit in step) for step in document.units)
    if ragged:
        raise InputError(
            f"{source}: not every step has {shape[1]} ranks with {shape[2]} views each. Write it again with "
            "`odin-bench plan`."
        )
    flags = [sum(int(Blocking[name]) for name in set(window)) for window in document.windows]
    return Plan(
        units=np.array(document.units, np.int32).reshape(shape),
        region=np.array(document.region, np.int32),
        mixed=np.array(document.mixed, np.bool_),
        blocking=np.array(flags, np.int32),
        train_count=len(document.views),
        provenance=dict(document.provenance),
    )


def write_plan(path: Path, named: NamedPlan) -> None:
    """Write plan.json, whole or not at all. Raises RunError."""
    write_text(path, to_json(named))


def read_plan(path: Path) -> NamedPlan:
    """Read a plan.json. Raises InputError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise InputError(f"{path} cannot be read ({error}). Write it with `odin-bench plan`.") from error
    return from_json(text, str(path))
