"""The steps of data-parallel and mixed-parallel training on the phase task graph (§4.1.2, D§6 Program points).

A step is a front, which observes state, and a back, which publishes it. The front depends on the window before the
step, the back on the window after it, since overlap splits both: what conflicts waits, what does not goes on. A task
is a phase of a task unit, the grain at which SAS decides, but for one cut: a unit's last view stands apart from those
before it, as early rows and the first colours leave beside it. The runtime waits at the grain of views (D§6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odin.phases import Phase
from odin.planner.tasks import Task, TaskGraph

Place = tuple[int, str]
"""A task in the program of a step: steps back (0: the step itself, 1: the one before) and its name."""


@dataclass(frozen=True, kw_only=True)
class Half:
    """Front or back of a step in one state of the window beside it.

    tasks:   what the step does
    across:  only of a front: (task of the step before, task of this step that waits for it, where there is one)
    on_rank: program of a rank, in order; on_link: order on the link, the same on every rank
    opens:   only of a back: tasks of the rank that precede the front
    """

    tasks: tuple[Task, ...]
    across: tuple[tuple[str, str], ...] = ()
    on_rank: tuple[Place, ...] = ()
    on_link: tuple[Place, ...] = ()
    opens: tuple[Place, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Parallelism:
    """The step of a family of pipelines: halves by whether their window is a candidate."""

    name: str
    front: Mapping[bool, Half]
    back: Mapping[bool, Half]

    def step(self, *, before: bool, after: bool) -> TaskGraph:
        """The graph of one step, given whether the windows before and after it are candidates."""
        return TaskGraph(tasks=self.front[before].tasks + self.back[after].tasks)

    def rank_program(self, *, before: bool, after: bool) -> tuple[Place, ...]:
        """What a rank does in a step, in order, with what is left of the step before."""
        back = self.back[after]
        return (*back.opens, *self.front[before].on_rank, *back.on_rank)

    def link_program(self, *, before: bool, after: bool) -> tuple[Place, ...]:
        """What travels in a step, in order, with what is left of the step before."""
        return (*self.front[before].on_link, *self.back[after].on_link)


def _own(*names: str) -> tuple[Place, ...]:
    return tuple((0, name) for name in names)


def _late(*names: str) -> tuple[Place, ...]:
    return tuple((1, name) for name in names)


# Data parallel: every rank holds every row; gradients are all-reduced -------------------------------------------

_RENDER = (Phase.COLOUR, Phase.BLEND, Phase.LOSS, Phase.BLEND_BACKWARD)
_COMPUTE = (
    Task(name="project", phases=(Phase.PROJECT, Phase.BIN)),
    # Render and backward of every view but the last; the next three are the last view's.
    Task(name="leading views", after=("project",), phases=(*_RENDER, Phase.COLOUR_BACKWARD, Phase.PROJECTION_BACKWARD)),
    Task(name="render", after=("leading views",), phases=_RENDER),
    Task(name="colour backward", after=("render",), phases=(Phase.COLOUR_BACKWARD,)),
    # The colour's view direction hands its gradient on to the position.
    Task(name="geometry backward", after=("colour backward",), phases=(Phase.PROJECTION_BACKWARD,)),
)
_UPDATE, _ZERO = (Phase.UPDATE,), (Phase.ZERO_STEP,)
_SCOPES, _VALIDATE = (Phase.SCOPES,), (Phase.HAZARDS,)

DATA_PARALLEL = Parallelism(
    name="data parallel",
    front={
        False: Half(
            tasks=_COMPUTE,
            across=(("update", "project"), ("scopes", "validate")),
            on_rank=_own("project", "leading views", "render", "colour backward", "geometry backward"),
        ),
        True: Half(
            tasks=_COMPUTE,
            across=(
                ("scopes", "validate"),
                ("validate", "project"),
                ("zero step", "project"),
                ("update geometry", "project"),
                ("update colours", "leading views"),
                ("update rest", "zero step"),  # a row is updated in step order
                ("update rest", "update"),
                ("update rest", "scopes"),
            ),
            on_rank=(
                *_late("update geometry"),
                *_own("project"),
                *_late("update colours"),
                *_own("leading views", "render", "colour backward", "geometry backward"),
                *_late("update rest"),
            ),
        ),
    },
    back={
        False: Half(
            tasks=(
                Task(name="colours", after=("colour backward",), link=True),
                Task(name="geometry", after=("geometry backward",), link=True),
                Task(name="update", after=("colours", "geometry"), phases=_UPDATE),
                Task(name="scopes", after=("update",), phases=_SCOPES),  # afresh, where a candidate follows
            ),
            on_rank=_own("update", "scopes"),
            on_link=_own("colours", "geometry"),
        ),
        True: Half(
            tasks=(
                Task(name="validate", phases=_VALIDATE),  # compares scopes and cuts the slot, before gradients go in
                Task(name="early", after=("validate", "leading views"), link=True),  # the last view leaves them alone
                Task(name="leading colours", after=("validate", "colour backward"), link=True),
                Task(name="urgent geometry", after=("validate", "geometry backward"), link=True),
                Task(name="urgent colours", after=("validate", "geometry backward"), link=True),
                Task(name="rest", after=("validate", "geometry backward"), link=True),
                Task(name="zero step", after=("validate", "geometry backward"), phases=_ZERO),
                Task(name="scopes", after=("zero step",), phases=_SCOPES),  # of the step after the next
                Task(name="update geometry", after=("early", "urgent geometry"), phases=_UPDATE),
                Task(
                    name="update colours",
                    after=("early", "leading colours", "urgent colours"),
                    phases=_UPDATE,
                ),
                Task(name="update rest", after=("rest", "update geometry", "update colours"), phases=_UPDATE),
            ),
            opens=_own("validate"),
            on_rank=_own("zero step", "scopes"),
            on_link=_own("early", "leading colours", "urgent geometry", "urgent colours", "rest"),
        ),
    },
)

# Mixed parallel (Grendel): rows are sharded by owner, pixels by rank ---------------------------------------------

_PROJECT = (Phase.PROJECT, Phase.COLOUR)
_PIXELS = (Phase.BIN, Phase.BLEND, Phase.LOSS)
_OWNER_BACKWARD = (Phase.COLOUR_BACKWARD, Phase.PROJECTION_BACKWARD)


def _publication() -> tuple[Task, ...]:
    return (
        Task(name="publish", after=("backward",), link=True),
        Task(name="owner backward", after=("publish",), phases=_OWNER_BACKWARD),
        Task(name="update", after=("owner backward",), phases=_UPDATE),
    )


def _pixels(*observed: str) -> tuple[Task, ...]:
    return (
        Task(name="render", after=observed, phases=_PIXELS),
        Task(name="backward", after=("render",), phases=(Phase.BLEND_BACKWARD,)),
    )


MIXED_PARALLEL = Parallelism(
    name="mixed parallel",
    front={
        False: Half(
            tasks=(
                Task(name="project", phases=_PROJECT),
                Task(name="sizes", after=("project",), link=True),
                Task(name="observe", after=("sizes",), link=True),
                *_pixels("observe"),
            ),
            across=(("update", "project"), ("scopes", "validate")),
            on_rank=_own("project", "render", "backward"),
            on_link=_own("sizes", "observe"),
        ),
        True: Half(
            tasks=(
                Task(name="sizes", link=True),  # scopes give them before anything is projected
                Task(name="project clear", phases=_PROJECT),
                Task(name="observe clear", after=("sizes", "project clear"), link=True),
                Task(name="project conflict", phases=_PROJECT),
                Task(name="observe conflict", after=("sizes", "project conflict"), link=True),
                *_pixels("observe clear", "observe conflict"),
            ),
            across=(
                ("scopes", "validate"),
                ("validate", "project clear"),
                ("zero step", "sizes"),
                ("zero step", "project clear"),
                ("update", "project conflict"),
                ("update", "zero step"),
                ("update", "update"),
            ),
            on_rank=(
                *_own("project clear"),
                *_late("owner backward", "update"),
                *_own("project conflict", "render", "backward"),
            ),
            on_link=(*_own("sizes", "observe clear"), *_late("publish"), *_own("observe conflict")),
        ),
    },
    back={
        False: Half(
            tasks=(*_publication(), Task(name="scopes", after=("update",), phases=_SCOPES)),
            on_rank=_own("owner backward", "update", "scopes"),
            on_link=_own("publish"),
        ),
        True: Half(
            tasks=(
                Task(name="validate", phases=_VALIDATE),
                *_publication(),
                Task(name="zero step", after=("validate", "backward"), phases=_ZERO),
                Task(name="scopes", after=("zero step",), phases=_SCOPES),
            ),
            opens=_own("validate"),
            on_rank=_own("zero step", "scopes"),
        ),
    },
)
