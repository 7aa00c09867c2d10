"""What identifies a record: the cell's id, the code version, and the commit as provenance."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from odin.errors import InputError

SCHEMA_VERSION: Literal[2] = 2
ROOT = Path(__file__).resolve().parents[2]

# A number depends on these; tests, reports, records and docs may change without making one stale. Forks are
# identified by their own pin; the model of the protocol only checks.
SOURCES = (
    "odin",
    "pipelines",
    "harness/run",
    "harness/measure",
    "harness/scenes",
    "harness/profiles",
    "results/profiles",
)
SUFFIXES = frozenset({".py", ".json", ".yaml", ".csv"})
EXCLUDED = ("pipelines/forks", "odin/model")
WRITTEN = "results/laptop"  # by runs, in the clone itself
UNKNOWN_SHA = "unknown"
NONE = "none"  # of a fork's pin, a GPU, …: there is none


class GitState(NamedTuple):
    """The commit of the running tree and whether files differ from it."""

    sha: str
    dirty: bool


def canonical_json(value: Any) -> str:
    """One text per value: keys sorted, no spaces, ASCII. Raises InputError on what JSON cannot hold."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"A configuration holds a value that a record cannot: {error}.") from error


def cell_id(
    config: Mapping[str, Any],
    manifest: str,
    code_version: str,
    fork_pin: str,
    schema_version: int = SCHEMA_VERSION,
) -> str:
    """`<workload>-<code>`: a hash of what was asked for, then one of the code that answered.

    `config` is the part that a number depends on, with arm and repeat (`Cell.identity`).

    Records of one workload by different code share the first part, which is how a stale one is found.
    """
    code = hashlib.sha256(code_version.encode()).hexdigest()[:8]
    return f"{workload_id(config, manifest, fork_pin, schema_version)}-{code}"


def workload_id(config: Mapping[str, Any], manifest: str, fork_pin: str, schema_version: int = SCHEMA_VERSION) -> str:
    """16 hex digits over everything in a cell's id but the code version."""
    parts = {"config": config, "manifest": manifest, "fork_pin": fork_pin, "schema": schema_version}
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()[:16]


def code_version(root: Path = ROOT) -> str:
    """16 hex digits over the sources a number depends on. Raises InputError when there are none."""
    digest = hashlib.sha256()
    files = list(_source_files(root))
    if not files:
        raise InputError(f"No sources below {root}: a record cannot say which code it comes from.")
    for path in files:
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(root).as_posix()} {content}\n".encode())
    return digest.hexdigest()[:16]


def git_state(root: Path = ROOT) -> GitState:
    """Commit and dirty flag of a clone; ("unknown", True) where `root` is not one, or git is absent.

    What runs have written under results/laptop makes no tree dirty: the cells after the first would all be.
    """
    unknown = GitState(UNKNOWN_SHA, True)
    # A tree unpacked inside a clone of something else must not borrow that project's commit.
    if not _git(root, "ls-files", "odin"):
        return unknown
    sha = _git(root, "rev-parse", "HEAD")
    changes = _git(root, "status", "--porcelain", "--", ".", f":(exclude){WRITTEN}")
    return unknown if not sha or changes is None else GitState(sha, bool(changes))


def _source_files(root: Path) -> Iterator[Path]:
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*")):
            inside = path.relative_to(root)
            if any(inside.is_relative_to(name) for name in EXCLUDED) or "__pycache__" in inside.parts:
                continue
            if path.suffix in SUFFIXES and path.is_file():
                yield path


def _git(root: Path, *arguments: str) -> str | None:
    # Variables that a hook sets (GIT_DIR, …) would point git at another repository than `root`.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(root), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=clean, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
