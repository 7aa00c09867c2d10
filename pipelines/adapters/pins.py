"""Which commit of which fork the adapters are for (`pipelines/forks/pins.toml`), and where a checkout of it is.

Imports no torch.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from odin.errors import InputError

FOLDER = Path(__file__).resolve().parents[1] / "forks"
CHECKOUTS = "ODIN_FORKS"
"""Environment variable: a folder with checkouts named as the submodules are, looked into before the submodules."""
MARKER = "scene/gaussian_model.py"  # every fork has it; an empty submodule has nothing
UNKNOWN = "unknown"
HOST_ONLY = frozenset({"grendel"})
"""Pipelines whose forks run with device=cpu only: Grendel's adapter takes projected rows apart on the host."""
SOURCES = frozenset({".py", ".cu", ".cuh", ".cpp", ".h", ".hpp"})


@dataclass(frozen=True, kw_only=True)
class Pin:
    """One fork at its pin; see pins.toml.

    name: of the submodule's folder
    """

    name: str
    pipeline: str
    url: str
    commit: str
    licence: str
    extensions: tuple[str, ...]
    optimizers: tuple[str, ...]
    checked: str

    @property
    def submodule(self) -> Path:
        """The submodule's folder, relative to the repository."""
        return Path("pipelines/forks") / self.name

    @property
    def command(self) -> str:
        """What fetches it."""
        return f"git submodule update --init {self.submodule.as_posix()}"


@dataclass(frozen=True, kw_only=True)
class Checkout:
    """A checkout of a fork.

    commit: 40 hex digits, or "unknown" where it is no git repository of its own
    changed: files of it differ from the commit
    content: of its sources, 8 hex digits, where no commit says what they are; else empty
    """

    pin: Pin
    folder: Path
    commit: str
    changed: bool
    content: str = ""

    @property
    def pinned(self) -> bool:
        """It is what the adapter was written for."""
        return self.commit == self.pin.commit and not self.changed

    @property
    def label(self) -> str:
        """What records say of it: the commit, with "+changed" where files differ, and which contents these are."""
        return "-".join(filter(None, [self.commit + ("+changed" if self.changed else ""), self.content]))


@cache
def pins() -> Mapping[str, Pin]:
    """Pins by the name of their pipeline."""
    table = tomllib.loads((FOLDER / "pins.toml").read_text(encoding="utf-8"))
    read = [Pin(name=name, **_tuples(entry)) for name, entry in table.items()]
    return MappingProxyType({pin.pipeline: pin for pin in read})


def _tuples(entry: Mapping[str, object]) -> dict:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}


def folder_of(pin: Pin) -> Path | None:
    """Where the fork's files are: below $ODIN_FORKS or in the submodule; None where it is absent."""
    given = os.environ.get(CHECKOUTS)
    places = [Path(given).expanduser() / pin.name] if given else []
    return next((place for place in [*places, FOLDER / pin.name] if (place / MARKER).is_file()), None)


def find_checkout(pin: Pin) -> Checkout | None:
    """The fork's checkout, or None where it is absent."""
    folder = folder_of(pin)
    if folder is None:
        return None
    top = _git(folder, "rev-parse", "--show-toplevel")
    # A folder without a repository of its own lies in ours, whose commit says nothing about it.
    if not top or Path(top).resolve() != folder.resolve():
        return Checkout(pin=pin, folder=folder, commit=UNKNOWN, changed=False, content=_content(folder))
    changed = bool(_git(folder, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all"))
    commit = _git(folder, "rev-parse", "HEAD") or UNKNOWN
    content = _content(folder) if changed or commit == UNKNOWN else ""
    return Checkout(pin=pin, folder=folder, commit=commit, changed=changed, content=content)


def _content(folder: Path) -> str:
    """Of every source file: records of one's own edit must not pass for those of another."""
    found = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.suffix in SOURCES and path.is_file()):
        found.update(f"{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()[:8]


def require_checkout(pin: Pin) -> Checkout:
    """The fork's checkout. Raises InputError with the command that fetches it."""
    found = find_checkout(pin)
    if found is None:
        raise InputError(
            f"pipeline={pin.pipeline} source=fork trains {pin.url}, and neither the submodule {pin.submodule} nor "
            f"${CHECKOUTS} has it. Fetch it with `{pin.command}` in the repository, or set {CHECKOUTS} to a folder "
            f"with a checkout named {pin.name}; build its extensions as its README says. Its licence: {pin.licence}."
        )
    return found


def _git(folder: Path, *arguments: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, env=clean, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
