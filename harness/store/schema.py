"""The typed result of a cell: measurement and provenance in one object, complete or not there at all."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, model_validator

from harness.measure.breakdown import Breakdown
from harness.measure.quality import Lpips, Quality
from harness.store.exchange import Exchange
from harness.store.identity import NONE, SCHEMA_VERSION, cell_id, workload_id
from harness.store.provenance import Provenance
from harness.store.record import Count, Positive, Record, Seconds, Share, Text


class Label(StrEnum):
    """What kind of evidence a number is (D§1). It stands beside the number wherever that is printed."""

    MEASURED = "measured"
    SHAPED = "shaped"  # an emulated link delays the collectives
    PADDED = "padded"  # and phases are padded to nominal times
    VIRTUAL = "virtual"  # real numerics, virtual clock
    DISTURBED = "disturbed"  # faults were injected on purpose: no measurement of anything but the harness


class Status(StrEnum):
    """How a cell ended. A cell without a record is running or pending."""

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


class Link(Record):
    """The emulated link. beta: bytes/s; alpha: latency of one message, s."""

    name: Text
    beta: Annotated[float, Field(gt=0)]
    alpha: Annotated[float, Field(ge=0)]


class Seeds(Record):
    """What draws are keyed by; a repeat changes only the jitter.

    run:    order, ties, initial points, split noise
    jitter: phase jitter of the profile
    """

    run: Count
    jitter: Count


class Windows(Record):
    """Edges between consecutive steps: conflict-free, partly waited for, and closed by reason.

    waited, delayed, written: mean share of the table's rows over opened windows that is waited for, read before it is
        published, and possibly written; None where no window opened
    raw, waw, war: mean share of rows in conflict (§4.3); None where scopes were not compared
    """

    clear: Count
    partial: Count
    rejected: dict[Text, Count]
    waited: Share | None = None
    delayed: Share | None = None
    written: Share | None = None
    raw: Share | None = None
    waw: Share | None = None
    war: Share | None = None

    @property
    def total(self) -> int:
        """All windows that were judged."""
        return self.clear + self.partial + sum(self.rejected.values())


class Audit(Record):
    """A step that was computed again at published values (D§6).

    error:   relative L2 error of its gradient, over all ranks
    by_kind: the same for each kind of parameter
    pixel:   largest change of a pixel's channel, 0…1
    """

    step: Count
    error: Annotated[float, Field(ge=0)]
    by_kind: dict[Text, Annotated[float, Field(ge=0)]]
    pixel: Annotated[float, Field(ge=0)]


class Primitives(Record):
    """Rows of the parameter table before the first and after the last step."""

    initial: Count
    final: Count


class Cell(Record):
    """What is known before a cell runs: one run of one arm.

    pair:     the id that all cells of one sequence share; also the name of their lock
    sequence: arms of all cells of the pair, in the order they run
    repeat:   index of this run among those of its arm in the sequence, from 0
    config:   the resolved configuration with arm and repeat, for the reader
    identity: the part of it that a number depends on, for the id: with arm, repeat and seeds, without paths
    manifest: of the scene, sha256
    """

    study: Text
    pair: Text
    sequence: tuple[Text, ...]
    arm: Text
    repeat: Count
    config: dict[str, JsonValue]
    identity: dict[str, JsonValue]
    scene: Text
    manifest: Text
    label: Label
    seeds: Seeds

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.identity.get("arm"), self.identity.get("repeat")) != (self.arm, self.repeat):
            raise ValueError("the identity lacks the cell's arm and repeat, so two cells would share an id")
        if not _is_part(self.identity, self.config):
            raise ValueError("the identity says something else than the configuration")
        if bool(self.identity.get("faults")) != (self.label is Label.DISTURBED):
            raise ValueError("a cell with injected faults is labelled disturbed, and no other is")
        if self.repeat >= self.sequence.count(self.arm):
            raise ValueError(f"run {self.repeat} of {self.arm} is not in the sequence {', '.join(self.sequence)}")
        return self


class Memory(Record):
    """What the ranks of a virtual cell took in their one process, bytes.

    tables:      replicas of the table: 1 where all ranks share it, else one for each
    table_bytes: parameters and moments of one replica after the last step, computed from its size
    slot_bytes:  one rank's gradient slots with their offsets after the last step, computed from their size
    peak_bytes:  most that the process held while the cell ran (resident set)
    rank_bytes:  (peak − what it held before) ÷ ranks
    """

    tables: Positive
    table_bytes: Count
    slot_bytes: Count
    peak_bytes: Count
    rank_bytes: Count


class Jitter(Record):
    """A virtual cell re-timed with phases that do not take exactly what they cost; nothing was trained for it.

    sigma:        relative standard deviation of every phase, assumed
    step_seconds: mean step of each re-timing, s; the k-th of two cells of a pair vary the same work alike
    """

    sigma: Annotated[float, Field(gt=0)]
    step_seconds: Annotated[tuple[Seconds, ...], Field(min_length=1)]


class Measurement(Record):
    """What a finished cell measured. S steps.

    plan_digest:            of the plan that ordered the views; equal for all arms that follow one plan
    images:                 trained, steps × global_batch
    profile:                name@digest of the price profile, or "none"
    link:                   None where no link is emulated
    padding_scale:          s, None where phases are not padded
    overrun_share:          steps with a point that came later than its nominal time ÷ steps
    payload_bytes_per_step: [S], bytes of gradient that one rank put into collectives
    final_digest:           sha256 over parameters, moments and counters after the last step
    structural_share:       structural steps ÷ steps
    quality_initial, quality_final: test views before and after training; SSIM is optional before
    step_times:             [S], s, `harness.measure.timeline.step_seconds`: they sum to the wall time
    losses:                 [S], mean over the views of the step
    audits:                 of reads that were not waited for, in step order
    retimed_from:           the cell that was trained, where this one trains the same bits and was only timed
    memory:                 of a virtual cell that was trained, where the system tells
    exchange:               of a cell whose primitives are sharded by owner
    jitter:                 of a virtual cell, where its timeline tells it
    """

    plan_digest: Text
    ranks: Positive
    global_batch: Positive
    images: Positive
    steps: Positive
    profile: Text
    link: Link | None
    padding_scale: Annotated[float, Field(gt=0)] | None
    overrun_share: Share
    payload_bytes_per_step: tuple[Count, ...]
    final_digest: Annotated[str, Field(min_length=16)]
    primitives: Primitives
    structural_share: Share
    quality_initial: Quality
    quality_final: Quality
    lpips: Lpips
    step_times: tuple[Seconds, ...]
    losses: tuple[float, ...]
    breakdown: Breakdown
    windows: Windows
    audits: tuple[Audit, ...]
    retimed_from: Text | None
    memory: Memory | None
    exchange: Exchange | None
    jitter: Jitter | None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name in ("payload_bytes_per_step", "step_times", "losses"):
            if len(getattr(self, name)) != self.steps:
                raise ValueError(f"{name} has {len(getattr(self, name))} entries for {self.steps} steps")
        if self.images != self.steps * self.global_batch:
            raise ValueError(f"{self.images} images are not {self.steps} steps of {self.global_batch}")
        if (self.breakdown.ranks, self.breakdown.steps) != (self.ranks, self.steps):
            raise ValueError("the breakdown is of another number of ranks or steps")
        if not math.isclose(math.fsum(self.step_times), self.breakdown.step * self.steps, rel_tol=1e-6):
            raise ValueError("the step times do not sum to the wall time of the breakdown")
        if self.windows.total > self.steps - 1:
            raise ValueError(f"{self.windows.total} windows between {self.steps} steps")
        if [v.view for v in self.quality_initial.views] != [v.view for v in self.quality_final.views]:
            raise ValueError("initial and final quality are of different views")
        if self.quality_initial.protocol != self.quality_final.protocol:
            raise ValueError("initial and final quality were measured by different protocols")
        return self


class Result(Record):
    """One cell's record. Build it with `Result.done`, `Result.failed` or `Result.skipped`.

    status:      done has a measurement and no reason; failed and skipped have a reason and no measurement
    """

    schema_version: Literal[2] = SCHEMA_VERSION
    cell_id: Text
    status: Status
    reason: Text | None
    cell: Cell
    measurement: Measurement | None
    provenance: Provenance

    @model_validator(mode="before")
    @classmethod
    def _of_earlier_code(cls, data: Any) -> Any:
        """Records in files from before a cell was re-timed say nothing of it."""
        if isinstance(data, dict) and isinstance(said := data.get("measurement"), dict):
            return data | {"measurement": {"jitter": None, **said}}
        return data

    @model_validator(mode="after")
    def _complete(self) -> Self:
        done = self.status is Status.DONE
        if done != (self.measurement is not None) or done != (self.reason is None):
            needed = "a measurement and no reason" if done else "a reason and no measurement"
            raise ValueError(f"status {self.status.value} needs {needed}")
        wanted = identity_of(self.cell, self.provenance)
        if self.cell_id != wanted:
            raise ValueError(f"the record's id {self.cell_id} does not follow from its content ({wanted})")
        if self.measurement is not None:
            _check_label(self.cell.label, self.measurement)
        return self

    @classmethod
    def done(cls, cell: Cell, measurement: Measurement, provenance: Provenance) -> Result:
        """A finished cell."""
        return cls._ended(Status.DONE, None, cell, measurement, provenance)

    @classmethod
    def failed(cls, cell: Cell, reason: str, provenance: Provenance) -> Result:
        """A cell that could not be finished; `reason` is one paragraph for the user."""
        return cls._ended(Status.FAILED, reason, cell, None, provenance)

    @classmethod
    def skipped(cls, cell: Cell, reason: str, provenance: Provenance) -> Result:
        """A cell that was left out on purpose."""
        return cls._ended(Status.SKIPPED, reason, cell, None, provenance)

    @classmethod
    def _ended(
        cls,
        status: Status,
        reason: str | None,
        cell: Cell,
        measurement: Measurement | None,
        provenance: Provenance,
    ) -> Result:
        return cls(
            cell_id=identity_of(cell, provenance),
            status=status,
            reason=reason,
            cell=cell,
            measurement=measurement,
            provenance=provenance,
        )


def identity_of(cell: Cell, provenance: Provenance) -> str:
    """The id of a cell's record, from its content alone."""
    return cell_id(cell.identity, cell.manifest, provenance.code_version, provenance.fork_pin, SCHEMA_VERSION)


def workload_of(cell: Cell, fork_pin: str = NONE) -> str:
    """The part of a record's id that no code version enters."""
    return workload_id(cell.identity, cell.manifest, fork_pin, SCHEMA_VERSION)


def _is_part(part: JsonValue, whole: JsonValue) -> bool:
    if not isinstance(part, dict) or not isinstance(whole, dict):
        return part == whole
    return all(key in whole and _is_part(value, whole[key]) for key, value in part.items())


def _check_label(label: Label, measurement: Measurement) -> None:
    link, scale = measurement.link, measurement.padding_scale
    linked, padded = link is not None, scale is not None
    wanted = {
        Label.MEASURED: not linked and not padded,
        Label.SHAPED: linked and not padded,
        Label.PADDED: padded,
        Label.VIRTUAL: True,
        Label.DISTURBED: True,
    }
    if not wanted[label]:
        raise ValueError(f"label {label.value} contradicts link {link} and padding scale {scale}")
