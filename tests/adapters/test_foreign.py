"""Nothing of a fork is in this repository: no licence header, and no long line that a checkout has too."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.adapters.pins import folder_of, pins

ROOT = Path(__file__).resolve().parents[2]
# Put together here, so that this file is none of the files that it looks for.
HEADERS = tuple(
    " ".join(words)
    for words in (
        ("GRAPHDECO", "research", "group"),
        ("Copyright", "(C)", "2023,", "Inria"),
        ("free", "for", "non-commercial,", "research", "and", "evaluation", "use"),
        ("SPDX-License-Identifier:", "CC-BY-NC"),
    )
)
LONG = 60  # characters: what two authors write alike is shorter
OURS = {".py", ".sh", ".toml", ".yaml", ".md", ".cu", ".cpp", ".h", ".patch", ".diff", ".txt"}
BINARY = {".so", ".pyd", ".whl", ".o", ".cu", ".cpp", ".patch", ".diff"}


def tracked() -> list[Path]:
    """Our files: what git tracks, without the submodules."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout, so nothing says which files are ours")
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def headers(text: str) -> list[str]:
    """Licence headers in a text, however its lines are broken."""
    flat = " ".join(text.replace("#", " ").split())
    return [header for header in HEADERS if header in flat]


def long_lines(text: str) -> set[str]:
    """Lines of a text without their indentation, those long enough to tell."""
    return {line.strip() for line in text.splitlines() if len(line.strip()) >= LONG}


def texts(paths: list[Path]) -> Iterator[tuple[Path, str]]:
    for path in paths:
        if path.suffix in OURS:
            yield path, path.read_text(encoding="utf-8", errors="replace")


def test_no_file_carries_a_forks_licence_header() -> None:
    found = {str(path.relative_to(ROOT)): headers(text) for path, text in texts(tracked())}
    assert {name: said for name, said in found.items() if said} == {}


def test_no_kernels_patches_or_binaries() -> None:
    assert [str(path.relative_to(ROOT)) for path in tracked() if path.suffix in BINARY] == []


@pytest.mark.parametrize("pipeline", sorted(pins()))
def test_no_long_line_is_a_forks(pipeline: str) -> None:
    folder = folder_of(pins()[pipeline])
    if folder is None:
        pytest.skip(f"the fork {pins()[pipeline].name} is absent (set ODIN_FORKS, or {pins()[pipeline].command})")
    theirs: set[str] = set()
    for path in folder.rglob("*.py"):
        theirs |= long_lines(path.read_text(encoding="utf-8", errors="replace"))
    assert theirs
    ours = {str(path.relative_to(ROOT)): long_lines(text) & theirs for path, text in texts(tracked())}
    assert {name: lines for name, lines in ours.items() if lines} == {}


def test_the_scans_see_what_they_look_for() -> None:
    assert headers("#\n# Copyright (C)\n# 2023, Inria\n#")
    assert not headers("Licence: Gaussian-Splatting License (Inria, MPII)")
    line = "value = some_function(with_arguments, that_make_it, long_enough_to_tell)"
    assert long_lines(f"    {line}\nshort") == {line}
