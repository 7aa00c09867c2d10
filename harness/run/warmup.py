"""The warm-up: 40 unpadded, unshaped steps from which phases are priced, padding and link are chosen (D§7); with
`ddp` among the arms, 10 more.

It runs the initial model of the capture for a few steps under each kind of waiting, with one structural event of each
kind, so that every phase of every arm occurs. Its models are thrown away.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from harness.measure.profile import Profile, barrier_compute, fit_profile, stretch_factor
from harness.run.execute import Executed, execute
from harness.run.workload import Workload
from odin.arms import Waits
from odin.arms import arm as arm_named
from odin.budget import Budget
from odin.comm.link import UNSHAPED, ClusterLink, Link, link_for_exposure
from odin.comm.transport import Transport
from odin.comm.virtual import VirtualTransport
from odin.errors import RunError
from odin.keeper import Entry, Keeper, NominalKeeper, Work
from odin.phases import Phase

# Arm → steps; 40 in all. The barrier section gives the compute of a step; the second one densifies; the third audits.
SECTIONS = {"barrier": 16, "quality": 14, "predicted:audit=4": 10}
# Phases that only some arms have are priced where a study asks for these arms.
GATED, DDP = "throughput:evidence=local", "ddp"
MORE_SECTIONS = {GATED: 10, DDP: 10}
DENSIFY_AFTER = 6
# Thrown away first: kernels that are compiled or loaded from the cache on first use would look like slow phases.
BURN_IN = {"barrier": 2, "quality": 4, "predicted:audit=4": 6, GATED: 4, DDP: 4}
_DENSIFYING = ("quality", "ddp")  # quality prices structural events, ddp wrapping anew

TransportFactory = Callable[[str, Link, int], Transport]


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What the warm-up fixed for all arms of a pair.

    stretch: padding factor s; link: before stretching; compute: nominal barrier step, seconds
    unit_seconds, view_seconds, colour_window, colour_seconds: see `odin.budget.Budget`, before stretching
    slowdown: of compute during a transfer, on the virtual clock (D§7, `overlap_slowdown`)
    """

    profile: Profile
    stretch: float
    link: Link
    compute: float
    unit_seconds: float = 0.0
    view_seconds: float = 0.0
    colour_window: float = 0.0
    colour_seconds: float = 0.0
    slowdown: float = 1.0

    def budget(self, ranks: int) -> Budget:
        """What fits on the link while a step computes; no limit is known on an unshaped link. Padding stretches link
        and phases alike, so it does not enter."""
        if not self.link.shaped or ranks < 2:
            return Budget()
        rate = self.link.all_reduce_rate(ranks)
        return Budget(bytes_per_second=rate, **self._work())

    def _work(self) -> dict[str, float]:
        names = ("unit_seconds", "view_seconds", "colour_window", "colour_seconds")
        return {name: getattr(self, name) for name in names}

    def keeper(self, transport: VirtualTransport) -> NominalKeeper:
        """The virtual clock of a rank."""
        return NominalKeeper(self.profile.price, transport.pace(self.slowdown))

    def to_json(self) -> str:
        """A readable record; an infinite bandwidth is null."""
        link = {**asdict(self.link), "beta": self.link.beta if self.link.shaped else None}
        numbers = {"stretch": self.stretch, "compute": self.compute}
        record = {**numbers, **self._work(), "slowdown": self.slowdown, "link": link}
        return json.dumps({**record, "profile": json.loads(self.profile.to_json())}, indent=1)

    @property
    def name(self) -> str:
        """Name of the profile with its digest, as records keep it; padding is a field of its own."""
        if not self.profile.coefficients:
            return self.profile.name
        return f"{self.profile.name}@{hashlib.sha256(self.profile.to_json().encode()).hexdigest()[:12]}"

    @classmethod
    def from_json(cls, text: str) -> Calibration:
        """Read a record written by `to_json`."""
        data = json.loads(text)
        link = data["link"]
        kind = ClusterLink if "per_node" in link else Link
        return cls(
            profile=Profile.from_json(json.dumps(data["profile"])),
            stretch=data["stretch"],
            compute=data["compute"],
            unit_seconds=data["unit_seconds"],
            view_seconds=data.get("view_seconds", 0.0),
            colour_window=data["colour_window"],
            colour_seconds=data.get("colour_seconds", 0.0),
            slowdown=data["slowdown"],
            link=kind(**link) if link["beta"] is not None else Link(name=link["name"]),
        )


def uncalibrated(workload: Workload) -> Calibration:
    """For cells that are neither padded nor shaped: nothing is priced and the link delays nothing."""
    profile = Profile(name="none", source="not fitted", coefficients={}, samples={}, residual={})
    return Calibration(profile=profile, stretch=1.0, link=Link(name=workload.config.link.name), compute=0.0)


def sections(workload: Workload) -> dict[str, int]:
    """Arm → steps of the warm-up of a study: what all studies have, and what its arms need besides."""
    waits = {arm_named(name).waits for name in workload.config.study.arms}
    wanted = dict(SECTIONS)
    if waits & {Waits.GATED, Waits.LITERAL}:
        wanted[GATED] = MORE_SECTIONS[GATED]
    if Waits.DDP in waits:
        wanted[DDP] = MORE_SECTIONS[DDP]
    return wanted


def warm_up(workload: Workload, make_transport: TransportFactory) -> dict[str, Executed]:
    """Run every section on this rank; all ranks call this together."""
    wanted = sections(workload)
    for arm in wanted:
        _section(workload, arm, BURN_IN[arm], make_transport, densify_after=2)
    return {
        arm: _section(workload, arm, steps, make_transport, densify_after=DENSIFY_AFTER)
        for arm, steps in wanted.items()
    }


def _section(
    workload: Workload, arm: str, steps: int, make_transport: TransportFactory, *, densify_after: int
) -> Executed:
    at = (densify_after,) if arm in _DENSIFYING else ()
    reset, degree = tuple(n + 1 for n in at), tuple(n + 2 for n in at)
    settings = replace(workload.settings, densify_at=at, reset_at=reset, sh_at=degree)
    recipe = workload.with_settings(settings, steps)
    plan = workload.plan_for(arm_named(arm), settings, steps)
    transport = make_transport(f"warm-up {arm}", UNSHAPED, steps)
    try:
        return execute(workload, arm_named(arm), transport, Keeper(), recipe=recipe, plan=plan)
    finally:
        transport.close()


def calibrate(workload: Workload, per_rank: list[dict[str, tuple[list[Entry], list[int]]]]) -> Calibration:
    """Fit the profile over all ranks and sections, choose s, and solve the link for its exposed share.

    per_rank: for each rank, section → (entries, visible points)
    """
    steps = sum(sections(workload).values())
    source = f"least squares over a {steps}-step warm-up on {len(per_rank)} rank(s)"
    profile = fit_profile("host-cpu", source, _priced(per_rank))
    timelines = [pair for timeline in per_rank for pair in timeline.values()]
    compute = barrier_compute(profile, [timeline["barrier"][0] for timeline in per_rank])
    return Calibration(
        profile=profile,
        stretch=stretch_factor(profile, timelines),
        link=solve_link(workload, compute),
        compute=compute,
        **work_of_a_unit(profile, [timeline["barrier"][0] for timeline in per_rank]),
    )


def work_of_a_unit(profile: Profile, timelines: list[list[Entry]]) -> dict[str, float]:
    """What a Budget needs of a profile: nominal seconds of a unit per row that it projects, of a view whatever its
    rows, and of the projection backward in both parts. timelines: of a barrier section, per rank.

    Rows and bin entries grow with the table, which densification makes several times larger; pixels, the fragments that
    fill them and what a phase costs in itself do not.
    """
    phases = [e for entries in timelines for e in entries if e.kind == "phase" and e.category == "useful"]
    views = [e for e in phases if e.name == Phase.PROJECT.value]
    rows = max(sum(e.work.rows for e in views), 1)
    backward = [e for e in phases if e.name == Phase.PROJECTION_BACKWARD.value]

    def growing(entry: Entry) -> float:
        grows = Work(rows=entry.work.rows, entries=entry.work.entries)
        return profile.price(entry.name, grows) - profile.price(entry.name, Work())

    def parts(entries: list[Entry]) -> tuple[float, float]:
        grown, total = sum(map(growing, entries)), sum(profile.price(e.name, e.work) for e in entries)
        return grown / rows, (total - grown) / max(len(views), 1)

    (unit_seconds, view_seconds), (colour_window, colour_seconds) = parts(phases), parts(backward)
    return {
        "unit_seconds": unit_seconds,
        "view_seconds": view_seconds,
        "colour_window": colour_window,
        "colour_seconds": colour_seconds,
    }


def _priced(per_rank: list[dict[str, tuple[list[Entry], list[int]]]]) -> list[Entry]:
    """The entries to fit. Of sections that only some studies have only phases of their own, so that no price depends
    on which arms a study has."""
    shared = [e for timeline in per_rank for arm in SECTIONS for e in timeline[arm][0]]
    known = {e.name for e in shared}
    own = [e for timeline in per_rank for arm in timeline.keys() - SECTIONS.keys() for e in timeline[arm][0]]
    return shared + [e for e in own if e.name not in known]


def solve_link(workload: Workload, compute: float) -> Link:
    """The link of a configured exposed share (D§7); `compute`: nominal seconds of a barrier step."""
    wanted, ranks = workload.config.link, workload.config.engine.ranks
    if not wanted.shaped or ranks < 2:
        return Link(name=wanted.name)
    nbytes = workload.recipe().table.parameters.numel() * 4
    return link_for_exposure(wanted.name, wanted.exposed_share, compute, nbytes, ranks)


def save_section(path: Path, executed: Executed) -> None:
    """Write one rank's warm-up timeline for rank 0 to fit (plain JSON between our own ranks)."""
    rows = [{**asdict(e), "last_join": None} for e in executed.entries]
    path.write_text(json.dumps({"entries": rows, "points": executed.points}))


def load_section(path: Path) -> tuple[list[Entry], list[int]]:
    """Read a timeline written by `save_section`."""
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise RunError(f"The warm-up record {path} of another rank cannot be read: {error}.") from error
    entries = [Entry(**{**e, "last_join": float("nan"), "work": Work(**e["work"])}) for e in data["entries"]]
    return entries, data["points"]
