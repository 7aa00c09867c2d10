"""Which rank failed first, where it was, and why: left by the ranks, read by the supervisor when all are gone.

A rank that only noticed that another is gone (its connection closed) says so in a file of its own, because it may be
quicker than the rank that knows why.
"""

from __future__ import annotations

import json
import re
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.run.spec import RunSpec
from odin.errors import InputError, RunError

# What gloo and the store say of a peer or a server that is gone.
_ECHO = re.compile(
    r"closed by peer|reset by peer|[Bb]roken pipe|[Tt]imed out|failed to recv|Connection was likely closed"
)


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


def on_host(spec: RunSpec, host: str) -> str:
    """Where a rank was, if there is more than one place."""
    return f" on {host}" if spec.nodes > 1 and host else ""


def leave(spec: RunSpec, rank: int, where: str, error: Exception) -> None:
    """Leave this rank's account, unless another one was first."""
    code = error.exit_code if isinstance(error, InputError | RunError) else RunError.exit_code
    text = str(error)
    if not isinstance(error, InputError | RunError):
        text = f"{type(error).__name__}: {' '.join(text.split())} (whole traceback in {spec.log(rank)})"
    echo = _ECHO.search(str(error)) is not None and not isinstance(error, InputError)
    made = Failure(rank=rank, host=socket.gethostname(), where=where, text=text, code=code, echo=echo)
    # Exclusive creation is atomic on a shared folder too; the content is read when every rank is gone.
    with suppress(FileExistsError), _place(spec, echo=echo).open("x", encoding="utf-8") as file:
        json.dump(asdict(made), file)


def first(spec: RunSpec) -> Failure | None:
    """The account of the rank that failed first: one that knows why before one that noticed; None if none did."""
    for echo in (False, True):
        with suppress(OSError, ValueError, TypeError):
            return Failure(**json.loads(_place(spec, echo=echo).read_text(encoding="utf-8")))
    return None


def _place(spec: RunSpec, *, echo: bool) -> Path:
    return spec.folder / ("noticed.json" if echo else "failed.json")
