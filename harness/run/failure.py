"""Which rank failed first, where it was, and why: left by the ranks, read by the supervisor when all are gone.

A rank that only noticed that another is gone (its connection closed, its patience at an end) says so in a file of its
own, because it may be quicker than the rank that knows why. Where each rank is stands in a third file, because a rank
that is killed or hangs says nothing.
"""

from __future__ import annotations

import json
import os
import re
import socket
import traceback
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.run.spec import RunSpec
from odin.errors import InputError, OdinError, RunError

# What gloo and the store say of a peer or a server that is gone.
_ECHO = re.compile(
    r"closed by peer|reset by peer|[Bb]roken pipe|[Tt]imed? ?out|failed to recv|Connection was likely closed"
)
_MEMORY = re.compile(r"can't allocate memory|out of memory", re.IGNORECASE)
_LINE = 512  # bytes that each rank has to say where it is


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One rank's account. code: exit code of the error; echo: it only noticed that another rank is gone."""

    rank: int
    host: str
    where: str
    text: str
    code: int
    echo: bool

    def error(self, spec: RunSpec) -> InputError | RunError:
        """What the user is told."""
        if self.code == InputError.exit_code:
            return InputError(self.text)
        noticed = " (it noticed that another rank was gone, which left no reason)" if self.echo else ""
        return RunError(
            f"Rank {self.rank}{on_host(spec, self.host)} was the first to fail, {self.where}: {self.text}{noticed} All "
            "ranks were stopped."
        )


class Whereabouts:
    """Where each rank is, in words, in one file of the run's folder with a place for each.

    The places are filled before the run, so that a rank can still say something when the disk is full.
    """

    def __init__(self, spec: RunSpec) -> None:
        self._path, self._ranks = spec.folder / "whereabouts", spec.config.engine.ranks
        self._file: int | None = None

    def create(self) -> None:
        """Make the file; the supervisor does so before the ranks start. Raises OSError."""
        self._path.write_bytes(b" " * (_LINE * self._ranks))

    def say(self, rank: int, words: str) -> None:
        """This rank is there now. What the system refuses is not said."""
        with suppress(OSError):
            if self._file is None:
                self._file = os.open(self._path, os.O_WRONLY)
            os.pwrite(self._file, words.encode()[:_LINE].ljust(_LINE), _LINE * rank)

    def of(self, rank: int) -> str:
        """Where a rank was last; empty where it has said nothing."""
        with suppress(OSError):
            return self._path.read_bytes()[_LINE * rank : _LINE * (rank + 1)].decode(errors="replace").strip("\0 ")
        return ""

    def all(self) -> str:
        """Where all ranks were, for a message; empty where none has said anything."""
        said = [f"rank {rank} {words}" for rank in range(self._ranks) if (words := self.of(rank))]
        return f" Last seen: {'; '.join(said)}." if said else ""


def on_host(spec: RunSpec, host: str) -> str:
    """Where a rank was, if there is more than one place."""
    return f" on {host}" if spec.nodes > 1 and host else ""


def of_rank(error: BaseException, rank: int) -> None:
    """Note on an error of a thread which rank it was; the first note counts."""
    if rank_of(error) is None:
        error.odin_rank = rank  # type: ignore[attr-defined]


def rank_of(error: BaseException) -> int | None:
    """The rank that was noted."""
    return getattr(error, "odin_rank", None)


def leave(spec: RunSpec, rank: int, where: str, error: Exception) -> int:
    """Leave this rank's account, unless another one was first; the rank's exit code."""
    code = error.exit_code if isinstance(error, InputError | RunError) else RunError.exit_code
    echo = _ECHO.search(str(error)) is not None and not isinstance(error, InputError)
    made = Failure(
        rank=rank, host=socket.gethostname(), where=where, text=_text(spec, rank, error), code=code, echo=echo
    )
    try:
        # Exclusive creation is atomic on a shared folder too; the content is read when every rank is gone.
        with suppress(FileExistsError), _place(spec, echo=echo).open("x", encoding="utf-8") as file:
            json.dump(asdict(made), file)
    except OSError:  # e.g. a full disk, which may be the very reason
        Whereabouts(spec).say(rank, f"{where}: {made.text}")
    if not isinstance(error, OdinError):
        with suppress(OSError):
            traceback.print_exception(error)
    return code


def _text(spec: RunSpec, rank: int, error: Exception) -> str:
    if isinstance(error, InputError | RunError):
        return str(error)
    said = f"{type(error).__name__}: {' '.join(str(error).split())} (whole traceback in {spec.log(rank)})"
    if isinstance(error, MemoryError) or _MEMORY.search(str(error)):
        return f"It ran out of memory. Fewer ranks, smaller images (images_4) or fewer primitives take less. {said}"
    return said


def first(spec: RunSpec) -> Failure | None:
    """The account of the rank that failed first: one that knows why before one that noticed; None if none did."""
    for echo in (False, True):
        with suppress(OSError, ValueError, TypeError):
            return Failure(**json.loads(_place(spec, echo=echo).read_text(encoding="utf-8")))
    return None


def _place(spec: RunSpec, *, echo: bool) -> Path:
    return spec.folder / ("noticed.json" if echo else "failed.json")
