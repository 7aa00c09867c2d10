"""What a rank does, as far as the protocol is concerned; one class per kind of action.

Legend: an element is a (group, row) of the table; groups are geometry, colours, and visible marks (selective Adam).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

Rows = tuple[int, ...]
Element = tuple[int, int]

GEOMETRY, COLOURS, VISIBLE = 0, 1, 2
_GROUPS = ("geometry", "colours", "visible marks")


def column_name(group: int) -> str:
    """What a group of columns is called."""
    return _GROUPS[group]


@dataclass(frozen=True, kw_only=True)
class Action(ABC):
    """An action of one rank; `step` is the step that the rank is in."""

    step: int

    @abstractmethod
    def text(self) -> str:
        """What happens, for a reader of a trace."""


@dataclass(frozen=True, kw_only=True)
class Clear(Action):
    """A slot is zeroed and laid out anew."""

    slot: int

    def text(self) -> str:
        """See Action."""
        return f"clears slot {self.slot}"


@dataclass(frozen=True, kw_only=True)
class Read(Action):
    """A view reads groups lo…hi-1 of its rows. `missed`: rows that it touches although they are not among them."""

    view: int
    rows: Rows
    lo: int
    hi: int
    missed: Rows = ()

    def text(self) -> str:
        """See Action."""
        verb = "projects" if self.lo == 0 else "blends"
        return f"{verb} view {self.view}: reads {_columns(self.lo, self.hi)} of {_rows(self.rows)}"


@dataclass(frozen=True, kw_only=True)
class Write(Action):
    """A gradient is added to a slot. `sizes`: its size per row; 0 at rows of the scope that the view does not touch."""

    slot: int
    group: int
    rows: Rows
    sizes: tuple[float, ...]

    def text(self) -> str:
        """See Action."""
        return f"adds the gradient of {_columns(self.group, self.group + 1)} of {_rows(self.rows)} to slot {self.slot}"


@dataclass(frozen=True, kw_only=True)
class Launch(Action):
    """A collective is joined: elements of a slot in the order of its payload, or a message (slot None)."""

    number: int
    name: str
    size: int
    slot: int | None = None
    elements: tuple[Element, ...] = ()

    def text(self) -> str:
        """See Action."""
        what = f", {_elements(self.elements)} from slot {self.slot}" if self.slot is not None else ""
        return f"launches collective {self.number} ({self.name}{what})"


@dataclass(frozen=True, kw_only=True)
class Wait(Action):
    """Goes on once a collective is complete."""

    number: int
    name: str

    def text(self) -> str:
        """See Action."""
        return f"has waited for collective {self.number} ({self.name})"


@dataclass(frozen=True, kw_only=True)
class Apply(Action):
    """Groups lo…hi-1 of rows move by the t-th update, from a slot; a zero-gradient step has none."""

    kind: str
    t: int
    rows: Rows
    lo: int
    hi: int
    slot: int | None

    def text(self) -> str:
        """See Action."""
        of = f"{_columns(self.lo, self.hi)} of {_rows(self.rows)}"
        if self.kind == "zero":
            return f"takes the zero-gradient step of update {self.t} for {of}"
        verb = "corrects" if self.kind == "correct" else "updates"
        return f"{verb} {of}: update {self.t} from slot {self.slot}"


@dataclass(frozen=True, kw_only=True)
class Inspect(Action):
    """The gradient of rows is looked at in a slot."""

    slot: int
    rows: Rows

    def text(self) -> str:
        """See Action."""
        return f"looks at the gradient of {_rows(self.rows)} in slot {self.slot}"


@dataclass(frozen=True, kw_only=True)
class Publish(Action):
    """A step is declared published."""

    published: int

    def text(self) -> str:
        """See Action."""
        return f"declares step {self.published} published"


@dataclass(frozen=True, kw_only=True)
class Restructure(Action):
    """A structural event."""

    def text(self) -> str:
        """See Action."""
        return "changes the structure"


@dataclass(frozen=True, kw_only=True)
class Agree(Action):
    """Says how it has cut the step."""

    digest: int

    def text(self) -> str:
        """See Action."""
        return f"has cut its gradient, digest {self.digest:08x}"


@dataclass(frozen=True, kw_only=True)
class Refuse(Action):
    """The runtime itself stops: one of its own guards."""

    reason: str

    def text(self) -> str:
        """See Action."""
        return f"stops: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class Finish(Action):
    """The training is over."""

    def text(self) -> str:
        """See Action."""
        return "has finished"


def _columns(lo: int, hi: int) -> str:
    return " and ".join(_GROUPS[lo:hi])


def _rows(rows: Rows) -> str:
    return ("row " if len(rows) == 1 else "rows ") + " ".join(map(str, rows)) if rows else "no rows"


def _elements(elements: tuple[Element, ...]) -> str:
    groups = sorted({group for group, _ in elements})
    return "; ".join(f"{_GROUPS[g]} of {_rows(tuple(row for group, row in elements if group == g))}" for g in groups)
